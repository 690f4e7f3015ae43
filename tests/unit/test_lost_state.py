"""State that outputs are written into, after a run failed: unchanged and said to be, or undefined, and
then no run computes with it."""
from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.errors import HandleError, InputError, KernelError

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


def test_a_donated_handle_says_that_the_run_it_was_given_to_failed(device):
    module = _step(device)
    caches = [gr.array(_old()).to(device, layout=module.get_input("cache").layout) for _ in range(2)]
    runs = [module.run_async(cache=cache, at=np.array([[at]], np.int32))
            for cache, at in zip(caches, (ROWS, 3), strict=True)]
    with pytest.raises(KernelError, match="out of range"):
        runs[0].wait()
    runs[1].wait()
    with pytest.raises(HandleError, match=r"donated as input 'cache'.*, to a run that failed "
                                          r"\(node 'write'.* out of range.*\): its contents are lost"):
        caches[0].numpy()
    assert "its contents are lost" in repr(caches[0])
    with pytest.raises(HandleError) as told:
        caches[1].numpy()
    assert "failed" not in str(told.value)
