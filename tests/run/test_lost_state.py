"""State that outputs are written into, after a run failed: unchanged and said to be, or undefined, and
then no run computes with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import HandleError, InputError, KernelError
from graph_runtime.base.machine.devices import parse
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.queues.limbo import sweep
from graph_runtime.run.queues.template import Template
from graph_runtime.run.sessions.in_place import InPlace

ROWS, COLS = 100, 64


@pytest.fixture(params=["cpu:0", "tt:0"])
def device(request):
    return request.param


def _step(device: str, after: str = "", **options):
    """A decoder's step: cache[at] = row; with "take" it reads a row of the new cache, too."""
    b = gr.GraphBuilder(device=device)
    cache, at = b.input("cache", (ROWS, COLS)), b.input("at", (1, 1), "int32")
    new = b.op("scatter_nd", cache, at, b.input("row", (1, COLS)), name="write")
    b.output(new)
    if after == "take":
        b.output(b.op("take", new, b.input("look", (1,), "int32"), name="read", axis=0))
    b.alias(new, cache)
    module = gr.create(b.build(), None, [device], **options)
    module.set_input("row", np.full((1, COLS), 5, np.float32))
    return module


def _old() -> np.ndarray:
    return np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)


def test_a_position_out_of_range_leaves_the_cache(device):
    module, old = _step(device), _old()
    module.set_input("cache", old)
    module.set_input("at", np.array([[ROWS]], np.int32))
    with pytest.raises(KernelError, match=r"'write'.* out of range.*; input 'cache' is unchanged$"):
        module.run()
    np.testing.assert_array_equal(module.get_input("cache").numpy(), old)
    module.run(at=np.array([[3]], np.int32))
    old[3] = 5
    np.testing.assert_array_equal(module.get_output(0).numpy(), old)


def test_a_failure_behind_the_write_says_that_the_cache_is_undefined(device):
    module, old = _step(device, "take"), _old()
    module.set_input("cache", old)
    module.set_input("at", np.array([[3]], np.int32))
    with pytest.raises(KernelError, match=r"'read'.*; the contents of input 'cache' are undefined"):
        module.run(look=np.array([ROWS], np.int32))
    good = np.array([3], np.int32)
    for run in (lambda: module.run(look=good), lambda: module.run_async(look=good)):
        with pytest.raises(InputError, match="'cache'"):
            run()
    with pytest.raises(InputError, match="'cache': undefined since a run failed that had begun to write it"):
        module.run(look=good)
    module.run(cache=old, look=good)
    assert (module.get_output(1).numpy() == 5).all()


def test_a_handle_from_before_sets_the_cache_again(device):
    module = _step(device, "take")
    cache = module.get_input("cache")
    cache.copy_from(_old())
    module.set_input("at", np.array([[3]], np.int32))
    with pytest.raises(KernelError, match="undefined"):
        module.run(look=np.array([ROWS], np.int32))
    cache.copy_from(_old())
    module.run(look=np.array([4], np.int32))
    np.testing.assert_array_equal(module.get_output(1).numpy(), _old()[4:5])


def test_a_kernel_that_may_have_written_leaves_it_undefined(sabotage):
    """It says nothing of a refusal."""
    sabotage("scatter_nd", "fails")
    module = _step("cpu:0")
    module.set_input("cache", _old())
    module.set_input("at", np.array([[3]], np.int32))
    with pytest.raises(KernelError, match="on purpose; the contents of input 'cache' are undefined"):
        module.run()
    with pytest.raises(InputError, match="'cache'"):
        module.run()


def test_where_unset_inputs_are_allowed_runs_go_on(device):
    module = _step(device, "take", unset_inputs="allow")
    module.set_input("cache", _old())
    module.set_input("at", np.array([[3]], np.int32))
    with pytest.raises(KernelError, match="undefined"):
        module.run(look=np.array([ROWS], np.int32))
    module.run(look=np.array([3], np.int32))
    assert (module.get_output(1).numpy() == 5).all()


# **************** queued runs ****************


def _at(position: int) -> np.ndarray:
    return np.array([[position]], np.int32)


def _given(module, device: str) -> gr.Tensor:
    """A cache with the old values, where the module wants it."""
    return gr.array(_old()).to(device, layout=module.get_input("cache").layout)


def _fails(run, text: str) -> None:
    with pytest.raises(KernelError, match=text):
        run.wait()


def _changed(*positions: int) -> np.ndarray:
    expected = _old()
    expected[list(positions)] = 5
    return expected


def test_a_donated_cache_comes_back_from_a_run_that_wrote_nothing(device):
    module = _step(device)
    cache, other = _given(module, device), _given(module, device)
    runs = [module.run_async(cache=given, at=_at(at)) for given, at in ((cache, ROWS), (other, 3))]
    _fails(runs[0], r"'write'.* out of range.*; input 'cache' is unchanged$")
    assert "unchanged" in str(runs[0].exception())
    assert cache.is_allocated
    np.testing.assert_array_equal(cache.numpy(), _old())
    for _ in range(2):
        with pytest.raises(KernelError, match=r"'write'.* out of range"):
            runs[0].outputs[0].numpy()
    assert not runs[0].outputs[0].is_allocated
    runs[1].wait()
    with pytest.raises(HandleError) as told:
        other.numpy()
    assert "failed" not in str(told.value)
    again = module.run_async(cache=cache, at=_at(3)).wait().outputs[0]
    np.testing.assert_array_equal(again.numpy(), _changed(3))
    with pytest.raises(HandleError, match="donated"):
        cache.numpy()


def test_a_donated_cache_comes_back_when_nobody_kept_the_run(device):
    module = _step(device)
    cache = _given(module, device)
    with pytest.raises(KernelError):
        module.run_async(cache=cache, at=_at(ROWS)).wait()
    np.testing.assert_array_equal(cache.numpy(), _old())


def test_a_donated_cache_comes_back_from_runs_that_were_queued_behind_one_that_failed(device):
    module = _step(device)
    cache = _given(module, device)
    bad = module.run_async(cache=cache, at=_at(ROWS))
    behind = module.run_async(cache=bad.outputs[0], at=_at(3))
    last = module.run_async(cache=behind.outputs[0], at=_at(4))
    _fails(last, "'write'.* out of range")
    assert "unchanged" not in str(last.exception())
    np.testing.assert_array_equal(cache.numpy(), _old())
    for lost in (bad.outputs[0], behind.outputs[0]):
        with pytest.raises(HandleError, match="its contents are lost"):
            lost.numpy()
    with pytest.raises(KernelError):
        last.outputs[0].numpy()
    _fails(bad, "input 'cache' is unchanged$")
    behind.exception()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("own", [True, False], ids=["same thread", "another thread"])
def test_a_look_while_a_run_is_queued_gives_nothing_back_and_takes_nothing(device, when, own, monkeypatch):
    """The look of the limbo's sweep, which any thread makes at any time, and of one that wants values."""
    module, submit, values, templates = _step(device), Template.submit, [], []
    cache, given = _given(module, device), gr.array(_at(3)).to(device, layout=module.get_input("at").layout)
    monkeypatch.setattr(Template, "submit", lambda *args: templates.append(args[0]) or submit(*args))
    bad = module.run_async(cache=cache, at=_at(ROWS))
    bad.exception()
    reader = Thread(target=lambda: values.append(cache.numpy()))

    def look() -> None:
        if own:
            sweep()
            assert not cache.is_allocated
        else:
            reader.start()
            with ThreadPoolExecutor(1) as pool:
                assert not pool.submit(lambda: cache.is_allocated).result()

    def looked_at(template, slots):
        if template is templates[-1] and when == "before":
            look()
        raw = submit(template, slots)
        if template is templates[-1] and when == "after":
            look()
        return raw

    monkeypatch.setattr(Template, "submit", looked_at)
    behind = module.run_async(cache=bad.outputs[0], at=given)
    monkeypatch.undo()
    _fails(behind, "'write'.* out of range")
    if not own:
        reader.join()
        np.testing.assert_array_equal(values[0], _old())
    np.testing.assert_array_equal(cache.numpy(), _old())


def test_a_run_over_what_was_given_back_meanwhile_says_what_failed(device, monkeypatch):
    """The output of a failed run is given to another, while its memory goes back to the donor."""
    module = _step(device)
    cache = _given(module, device)
    bad = module.run_async(cache=cache, at=_at(ROWS))
    bad.exception()
    announced = InPlace.announced

    def late(in_place, *args):
        assert cache.is_allocated  # the look gives it back
        return announced(in_place, *args)

    monkeypatch.setattr(InPlace, "announced", late)
    with pytest.raises(KernelError, match=r"'write'.* out of range"):
        module.run_async(cache=bad.outputs[0], at=_at(3))
    np.testing.assert_array_equal(cache.numpy(), _old())


def test_state_of_the_session_that_comes_back_while_a_run_is_placed_is_used(device, monkeypatch):
    module = _step(device)
    module.set_input("cache", _old())
    module.run_async(at=_at(ROWS)).exception()
    announced, settle = InPlace.announced, InPlace.settle

    def late(in_place, *args):
        settle(in_place)  # as another thread's submission
        return announced(in_place, *args)

    monkeypatch.setattr(InPlace, "settle", lambda in_place: None)
    monkeypatch.setattr(InPlace, "announced", late)
    run = module.run_async(at=_at(3)).wait()
    np.testing.assert_array_equal(run.outputs[0].numpy(), _changed(3))


def test_only_the_last_good_one_of_a_chain_comes_back(device):
    module = _step(device)
    cache = _given(module, device)
    good = module.run_async(cache=cache, at=_at(1))
    middle = good.outputs[0]
    bad = module.run_async(cache=middle, at=_at(ROWS))
    bad.exception()
    with pytest.raises(HandleError, match="donated") as told:
        cache.numpy()
    assert "failed" not in str(told.value)
    np.testing.assert_array_equal(middle.numpy(), _changed(1))


def test_a_cancelled_run_gives_back_what_it_did_not_touch(device):
    module = _step(device)
    cache = _given(module, device)
    run = module.run_async(cache=cache, at=_at(3))
    if run.cancel() and run.exception() is not None:
        np.testing.assert_array_equal(cache.numpy(), _old())
    else:
        np.testing.assert_array_equal(run.outputs[0].numpy(), _changed(3))


def test_a_failure_behind_the_write_leaves_the_cache_to_the_output(device):
    module = _step(device, "take")
    cache = _given(module, device)
    run = module.run_async(cache=cache, at=_at(3), look=np.array([ROWS], np.int32))
    _fails(run, "'read'.*out of range")
    assert "unchanged" not in str(run.exception())
    with pytest.raises(
        HandleError,
        match=r"donated as input 'cache'.*, to a run that failed "
        r"\(node 'read'.* out of range.*\): its contents are lost",
    ):
        cache.numpy()
    assert "its contents are lost" in repr(cache)
    np.testing.assert_array_equal(run.outputs[0].numpy(), _changed(3))


def test_a_donated_cache_that_a_kernel_may_have_written_is_lost(sabotage):
    sabotage("scatter_nd", "fails")
    module = _step("cpu:0")
    cache = _given(module, "cpu:0")
    run = module.run_async(cache=cache, at=_at(3))
    _fails(run, "on purpose; the contents of input 'cache' are lost")
    with pytest.raises(HandleError, match="its contents are lost"):
        cache.numpy()
    with pytest.raises(KernelError, match="on purpose"):
        run.outputs[0].numpy()


def test_a_cache_that_was_copied_to_where_the_module_wants_it_comes_back_whatever_was_written(sabotage):
    module = _step("tt:0", "take")
    cache = gr.array(_old())
    run = module.run_async(cache=cache, at=_at(3), look=np.array([ROWS], np.int32))
    _fails(run, "'read'.*out of range")
    np.testing.assert_array_equal(cache.numpy(), _old())


def test_other_handles_on_a_donated_cache_read_it_again_and_outputs_do_not(device):
    module = _step(device)
    cache = _given(module, device)
    alias, run = cache.alias(), module.run_async(cache=cache, at=_at(ROWS))
    also = run.outputs[0].alias()
    run.exception()
    np.testing.assert_array_equal(alias.numpy(), _old())
    np.testing.assert_array_equal(cache.numpy(), _old())
    with pytest.raises(KernelError):
        also.numpy()


def test_what_was_written_since_is_not_taken_for_the_old_values(device):
    module = _step(device)
    cache = _given(module, device)
    run = module.run_async(cache=cache, at=_at(ROWS))
    run.exception()
    run.outputs[0].copy_from(_old() + 1)
    with pytest.raises(HandleError, match="its contents are lost"):
        cache.numpy()
    np.testing.assert_array_equal(run.outputs[0].numpy(), _old() + 1)


def test_a_donated_handle_keeps_no_memory_when_its_run_went_well(settle):
    module = _step("tt:0")
    settle("tt:0")
    handle = open_device(parse("tt:0"))
    module.run_async(cache=_given(module, "tt:0"), at=_at(2)).wait()
    settle("tt:0")
    before = handle.stats(0).allocated
    cache = _given(module, "tt:0")
    with_it = handle.stats(0).allocated
    module.run_async(cache=cache, at=_at(3)).wait()
    settle("tt:0")
    assert with_it > before
    assert handle.stats(0).allocated == before
    assert not cache.is_allocated


def test_threads_that_ask_at_once_all_read_the_old_values(device):
    module = _step(device)
    for _ in range(20):
        cache = _given(module, device)
        module.run_async(cache=cache, at=_at(ROWS)).exception()
        with ThreadPoolExecutor(4) as pool:
            for asked in [pool.submit(cache.numpy) for _ in range(4)]:
                np.testing.assert_array_equal(asked.result(), _old())


# **************** the session's own state ****************


def test_queued_runs_leave_the_sessions_cache_as_inline_ones_do(device):
    module = _step(device)
    module.set_input("cache", _old())
    run = module.run_async(at=_at(ROWS))
    _fails(run, "'write'.* out of range.*; input 'cache' is unchanged$")
    np.testing.assert_array_equal(module.get_input("cache").numpy(), _old())
    with pytest.raises(KernelError, match="out of range"):
        run.outputs[0].numpy()
    np.testing.assert_array_equal(module.run_async(at=_at(3)).outputs[0].numpy(), _changed(3))
    module.run_async(at=_at(ROWS)).exception()
    module.run(at=_at(4))
    np.testing.assert_array_equal(module.get_output(0).numpy(), _changed(3, 4))


def test_a_run_behind_one_that_failed_fails_and_the_next_goes_on(device):
    module = _step(device)
    module.set_input("cache", _old())
    runs = [module.run_async(at=_at(at)) for at in (1, ROWS, 2)]
    runs[0].wait()
    _fails(runs[1], "unchanged")
    written = [1, 3]
    if runs[2].exception() is None:  # it was queued after the other had failed
        written.append(2)
    np.testing.assert_array_equal(module.run_async(at=_at(3)).outputs[0].numpy(), _changed(*written))


def test_a_queued_run_that_overwrote_the_sessions_cache_makes_it_undefined(device):
    module = _step(device, "take")
    module.set_input("cache", _old())
    module.set_input("at", _at(3))
    bad, good = (np.array([look], np.int32) for look in (ROWS, 3))
    _fails(module.run_async(look=bad), "'read'.*; the contents of input 'cache' are undefined")
    for run in (module.run_async, module.run):
        with pytest.raises(InputError, match="'cache': undefined since a run failed that had begun to write"):
            run(look=good)
    module.run(cache=_old(), look=good)
    assert (module.get_output(1).numpy() == 5).all()


def test_threads_queues_say_it_too(device):
    module = _step(device, queues="threads")
    module.set_input("cache", _old())
    module.set_input("at", _at(ROWS))
    with pytest.raises(KernelError, match=r"input 'cache' is unchanged$"):
        module.run()
    module.run(at=_at(3))
    np.testing.assert_array_equal(module.get_output(0).numpy(), _changed(3))


def test_an_array_that_the_cache_is_bound_to_is_read_again_after_a_failure():
    module = _step("cpu:0")
    array = gr.aligned_empty((ROWS, COLS), "float32")
    module.set_input_zero_copy("cache", array)
    array[:] = _old()
    module.run_async(at=_at(ROWS)).exception()
    module.run_async(at=_at(3)).wait()
    np.testing.assert_array_equal(array, _changed(3))
