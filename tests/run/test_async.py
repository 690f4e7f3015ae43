"""Runs in queues: handles, failures, cancelling, memory, and what else goes on in the process meanwhile."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime.base.errors import InputError
from graph_runtime.binding import core
from graph_runtime.ir.graph import TensorType
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.queues.buffer import with_room
from graph_runtime.run.queues.limbo import sweep
from graph_runtime.run.tensors.arrays import array, empty
from graph_runtime.testing.graphs import GraphMaker

F32 = np.float32


def chain(document, func: str, count: int, device: list[int] | None = None, **columns) -> str:
    entry = document.input("x")
    for _ in range(count):
        entry = document.call(func, entry)
    if device is not None:
        columns = {"device_index": [1] * (count + 1), "device_id": device, **columns}
    return document.json(entry, **columns)


@pytest.fixture
def slow(new_document, packed_library):
    """Three steps of 10 ms, each adds one."""
    return gr.create(chain(new_document(), "slow", 3), packed_library)


@pytest.fixture
def gate(new_document, packed_library):
    """x + 1, where x >= 0."""
    document = new_document()
    x = document.input("x")
    bad = document.call("fail_if_negative", x, name="the_gate")
    return gr.create(document.json(document.call("myadd", bad)), packed_library)


def full(value: float) -> np.ndarray:
    return np.full(4, value, F32)


def first(run) -> float:
    return float(run.outputs[0].numpy()[0])


# **************** handles ****************


def test_a_run_returns_before_it_is_over_and_its_array_may_be_changed(slow):
    x = full(1)
    run = slow.run_async(x=x)
    assert not run.done()
    assert not run.outputs[0].ready
    assert run.outputs[0].shape == (4,)
    x[:] = 50
    assert first(run) == 4  # reading waits
    assert run.wait() is run
    assert run.done()
    assert run.exception() is None


def test_outputs_are_not_overwritten_while_a_handle_lives(slow):
    runs = [slow.run_async(x=full(i)) for i in range(5)]
    slow.run(x=full(100))
    assert [first(run) for run in runs] == [3, 4, 5, 6, 7]
    assert slow.get_output(0).numpy()[0] == 103


def test_inputs_that_a_run_is_not_given_are_the_sessions(slow):
    slow.set_input("x", full(7))
    before = slow.run_async()
    slow.set_input("x", full(9))  # waits for its readers
    assert (first(before), first(slow.run_async())) == (10, 12)


def test_a_tensor_is_read_where_it_is_and_an_output_feeds_a_run(slow):
    t = array(full(1))
    first_run = slow.run_async(x=t)
    chained = slow.run_async(x=first_run.outputs[0])
    del first_run
    assert first(chained) == 7
    assert t.numpy()[0] == 1


def test_views_of_a_session_are_copied_at_submit(slow):
    slow.run(x=full(0))
    run = slow.run_async(x=slow.get_output(0))
    slow.run(x=full(10))
    assert first(run) == 6


def test_await_leaves_the_loop_free(slow):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.002)

        ticker = asyncio.create_task(tick())
        runs = [slow.run_async(x=full(i)) for i in range(3)]
        done = await asyncio.gather(*runs)
        values = [first(run) for run in done]
        ticker.cancel()
        return values, ticks

    values, ticks = asyncio.run(main())
    assert values == [3, 4, 5]
    assert ticks > 3


def test_a_handle_that_goes_while_it_is_awaited_raises_there_and_others_are_woken(sabotage, faulty_library):
    sabotage("relu", "gated_copy")
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (4,))))
    gated, gate = gr.create(builder, None, "cpu:0"), ctypes.c_int32.in_dll(faulty_library, "gate")

    async def main():
        gate.value = 0  # no run ends before its handle goes
        try:
            lost, kept = (gated.run_async(x=full(i)).outputs[0] for i in (1, 2))

            async def wait_for(tensor):
                await tensor

            tasks = [asyncio.ensure_future(wait_for(tensor)) for tensor in (lost, kept)]
            await asyncio.sleep(0)
            lost.give_up("was donated")
            with pytest.raises(gr.GraphRuntimeError, match="donated"):
                await asyncio.wait_for(tasks[0], 20)
        finally:
            gate.value = 1
        await asyncio.wait_for(tasks[1], 20)
        await asyncio.wait_for(gated.run_async(x=full(3)), 20)

    asyncio.run(main())


def test_timeout_says_so_and_the_run_goes_on(slow):
    run = slow.run_async(x=full(0))
    with pytest.raises(gr.WaitTimeoutError, match="goes on") as caught:
        run.wait(timeout=0.001)
    assert isinstance(caught.value, TimeoutError)
    assert first(run) == 3


@pytest.mark.parametrize("timeout", ["x", -1, -0.001, float("nan"), 1j, [1]])
def test_what_is_no_timeout(slow, timeout):
    """Told whether there is anything to wait for or not."""
    run = slow.run_async(x=full(0))
    made, constant = run.outputs[0], array(full(0))
    waits = (
        run.wait,
        run.exception,
        made.wait,
        made.buffer.wait,
        lambda t: gr.wait_all([made, run], t),
        lambda t: gr.wait_all([], t),
        slow.get_output(0).wait,
        constant.wait,
    )
    for _ in range(2):
        for wait in waits:
            with pytest.raises(InputError, match=r"timeout must be .*seconds.* None"):
                wait(timeout)
        run.wait()


@pytest.mark.parametrize("timeout", [None, 30, 30.5, F32(30), float("inf"), 1e300])
def test_what_is_a_timeout(slow, timeout):
    run = slow.run_async(x=full(0))
    gr.wait_all([run.outputs[0].wait(timeout), run.wait(timeout)], timeout)
    assert first(run) == 3


def test_no_more_than_max_in_flight(new_document, packed_library):
    slow = gr.create(chain(new_document(), "slow", 3), packed_library, max_in_flight=2)
    begin = time.monotonic()
    runs = [slow.run_async(x=full(i)) for i in range(4)]
    assert runs[1].done()
    assert time.monotonic() - begin > 0.05
    assert [first(run) for run in runs] == [3, 4, 5, 6]


def test_load_takes_max_in_flight(tmp_path):
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (4,))))
    path = build_bundle({"main": builder}, "cpu:0", tmp_path / "relu.bundle", compile=False)
    assert gr.load(path).session.max_in_flight == 8
    assert gr.load(path, max_in_flight=3).session.max_in_flight == 3
    for wrong in (0, -1, True, 2.0, "8"):
        with pytest.raises(gr.InputError, match="max_in_flight must be a number of runs from 1"):
            gr.load(path, max_in_flight=wrong)


def test_a_session_takes_inputs_by_name(gate):
    assert first(gate.session.submit({"x": full(2)}).wait()) == 3
    with pytest.raises(gr.InputError, match=r"has no input 'xx' \(did you mean 'x'\?\)"):
        gate.session.submit({"xx": full(2)})
    with pytest.raises(gr.InputError, match="given twice, by name and by number"):
        gate.session.submit({"x": full(2), 0: full(2)})


# **************** failures ****************


def test_the_third_of_five_runs_fails_and_the_others_do_not(gate):
    runs = [gate.run_async(x=full(-1 if i == 2 else i)) for i in range(5)]
    for i, run in enumerate(runs):
        if i == 2:
            with pytest.raises(gr.KernelError, match="the_gate") as caught:
                run.wait()
            assert (caught.value.node, caught.value.op) == ("the_gate", "fail_if_negative")
            assert caught.value.device == "cpu:0"
            with pytest.raises(gr.KernelError, match="the_gate"):
                run.outputs[0].numpy()
        else:
            assert first(run.wait()) == i + 1
    assert first(gate.run_async(x=full(5))) == 6


def test_what_reads_a_failed_output_fails_with_the_first_cause(gate, slow):
    failed = gate.run_async(x=full(-1))
    reader = slow.run_async(x=failed.outputs[0])
    third = slow.run_async(x=reader.outputs[0])
    assert third.exception().node == reader.exception().node == "the_gate"
    assert failed.exception() is not None
    assert first(slow.run_async(x=full(1))) == 4


def test_a_failed_buffer_that_is_written_again_is_good(gate):
    out = empty((4,))
    failed = gate.session.submit({0: full(-1)}, out=[out])
    assert failed.exception() is not None
    assert gate.session.submit({0: full(1)}, out=[out]).wait().outputs[0] is out
    assert out.numpy()[0] == 2


def test_a_dropped_run_that_failed_warns(gate, slow):
    run = gate.run_async(x=full(-1))
    while not run.done():
        time.sleep(0.001)
    with pytest.warns(RuntimeWarning, match="the_gate"):
        run = None
    in_flight = gate.run_async(x=slow.run_async(x=full(-10)).outputs[0])
    del in_flight
    gate.run_async(x=full(0)).wait()  # queued behind it
    with pytest.warns(RuntimeWarning, match="the_gate"):
        sweep()
    asked = gate.run_async(x=full(-1))
    asked.exception()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del asked


def test_cancel_leaves_out_what_has_not_begun(slow):
    blocker = slow.run_async(x=full(0))
    run = slow.run_async(x=blocker.outputs[0])
    reader = slow.run_async(x=run.outputs[0])
    assert run.cancel()
    with pytest.raises(gr.RunCancelledError, match="cancelled"):
        run.wait()
    assert isinstance(reader.exception(), gr.RunCancelledError)
    assert first(blocker) == 3
    assert not blocker.cancel()
    assert first(slow.run_async(x=full(1))) == 4


def test_ctrl_c_while_waiting_leaves_everything_as_it_is(ctrl_c_after, document, packed_library):
    mod = gr.create(chain(document, "slow", 60), packed_library)
    run = mod.run_async(x=full(0))
    begin = time.monotonic()
    with ctrl_c_after(0.1):
        run.wait()
    assert time.monotonic() - begin < 0.4
    assert first(run) == 60
    assert first(mod.run_async(x=full(1))) == 61


def test_ctrl_c_in_a_run_of_queues_leaves_the_session_usable(ctrl_c_after, document, packed_library):
    mod = gr.create(chain(document, "slow", 30), packed_library, queues="threads")
    with ctrl_c_after(0.05):
        mod.run(x=full(0))
    mod.set_output_zero_copy(0, out := gr.aligned_empty(4))  # waits for what goes on
    mod.run(x=full(5))
    assert out[0] == 35


# **************** out=, aliases, donation ****************


def test_out_is_written_and_checked(slow, gate):
    out = empty((4,))
    assert slow.session.submit({0: full(1)}, out={0: out}).outputs[0] is out
    assert out.numpy()[0] == 4
    x = array(full(1))
    for wrong, text in (
        (empty((5,)), "out.0. is float32"),
        (x, "input"),
        (full(0), "memory of its own"),
        (empty((4,), device="tt:0"), "on tt:0"),
    ):
        with pytest.raises(gr.InputError, match=text):
            slow.session.submit({0: x}, out=[wrong])
    with pytest.raises(gr.InputError, match="no output 1"):
        slow.session.submit({0: x}, out={1: out})
    gone = empty((4,))
    gone.buffer.free()
    with pytest.raises(gr.GraphRuntimeError):
        slow.session.submit({0: x}, out=[gone])


def test_one_value_that_is_two_outputs_has_one_out(document, packed_library):
    y = document.call("slow", document.input("x"))
    mod = gr.create(document.json(y, y), packed_library)
    out = empty((4,))
    run = mod.session.submit({0: full(1)}, out=[out])
    assert [o.numpy()[0] for o in run.outputs] == [2, 2]
    with pytest.raises(gr.InputError, match="same value"):
        mod.session.submit({0: full(1)}, out=[out, empty((4,))])


def test_host_memory_that_is_not_aligned_is_copied(slow):
    from graph_runtime.run.tensors.arrays import borrow

    raw = np.zeros(64, F32)
    begin = 1 if raw.ctypes.data % 64 == 0 else 0
    borrowed = borrow(raw[begin : begin + 4])
    assert first(slow.run_async(x=borrowed)) == 3


def test_an_output_that_is_an_input_is_handed_out_as_a_copy(document, packed_library):
    x = document.input("x")
    mod = gr.create(document.json(x, document.call("slow", x)), packed_library)
    mod.set_input("x", full(1))
    run = mod.run_async()
    mod.set_input("x", full(5))
    assert run.outputs[0].numpy()[0] == 1
    assert run.outputs[1].numpy()[0] == 2


@pytest.fixture
def counter():
    """state = state + x, in place, on tt."""
    maker, type_ = GraphMaker(), TensorType("float32", (32, 32))
    state, x = maker.input(type_), maker.input(type_)
    graph = maker.graph([maker.op("add", [state, x])], aliases=((0, 0),))
    return gr.create(replace(graph, names=("state", "x", "sum")), None, ["tt:0"])


def test_an_output_written_into_an_input_is_the_next_runs_state(counter):
    one = np.ones((32, 32), F32)
    counter.set_input("state", np.zeros((32, 32), F32))
    counter.set_input("x", one)
    runs = [counter.run_async() for _ in range(5)]
    assert runs[-1].outputs[0].numpy()[0, 0] == 5
    counter.run()  # inline runs wait for queued ones
    assert counter.get_output(0).numpy()[0, 0] == 6


def test_the_sessions_own_state_cannot_be_freed_by_who_was_shown_it(counter):
    counter.set_input("state", np.zeros((32, 32), F32))
    counter.set_input("x", np.ones((32, 32), F32))
    (shown,) = counter.run_async().outputs
    with pytest.raises(InputError, match="memory of a session"):
        shown.deallocate(force=True)
    assert counter.run_async().outputs[0].numpy()[0, 0] == 2


def test_the_tensor_that_is_written_into_is_donated(counter):
    state = array(np.zeros((32, 32), F32), "tt:0").to("tt:0", layout="tile")
    run = counter.run_async(state=state, x=np.ones((32, 32), F32))
    assert run.outputs[0].numpy()[0, 0] == 1
    with pytest.raises(gr.GraphRuntimeError, match="donated"):
        state.numpy()
    with pytest.raises(gr.GraphRuntimeError, match="donated"):
        counter.run_async(state=state, x=np.ones((32, 32), F32))


def test_a_donated_input_cannot_be_used_again(slow):
    x = array(full(1))
    run = slow.session.submit({0: x}, donate=[0])
    assert first(run) == 4
    with pytest.raises(gr.GraphRuntimeError, match="donated"):
        slow.run_async(x=x)


def test_a_tensor_that_is_written_into_cannot_be_another_input_too(counter):
    state = array(np.zeros((32, 32), F32), "tt:0").to("tt:0", layout="tile")
    with pytest.raises(gr.InputError, match="another input"):
        counter.run_async(state=state, x=state)


# **************** wrong calls ****************


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"inputs": 5}, "inputs is a mapping .* got int"),
        ({"inputs": [1]}, "inputs is a mapping .* got list"),
        ({"out": 7}, "out is a list of tensors.* got int"),
        ({"donate": 0}, "donate is a list .* got int"),
    ],
)
def test_things_of_another_kind_are_input_errors(slow, given, said):
    with pytest.raises(InputError, match=said):
        slow.session.submit(**given)
    assert first(slow.run_async(x=full(1))) == 4


def test_wrong_inputs_queue_nothing(slow):
    for wrong in (np.zeros(5, F32), array(np.zeros((2, 2), F32)), "text"):
        with pytest.raises(gr.InputError):
            slow.run_async(x=wrong)
    with pytest.raises(gr.InputError, match="Could not find"):
        slow.run_async(y=full(0))
    with pytest.raises(gr.InputError, match="no input 3"):
        slow.session.submit({3: full(0)})
    gone = array(full(0))
    gone.buffer.free()
    with pytest.raises(gr.GraphRuntimeError):
        slow.run_async(x=gone)


def test_bound_inputs_are_read_where_they_are_and_bound_outputs_are_refused(slow):
    x = gr.aligned_empty(4)
    x[:] = 2
    slow.set_input_zero_copy("x", x)
    assert first(slow.run_async()) == 5
    x[:] = 3
    assert first(slow.run_async()) == 6
    slow.set_output_zero_copy(0, gr.aligned_empty(4))
    with pytest.raises(gr.InputError, match="bound"):
        slow.run_async()
    slow.reset_zero_copy()
    assert first(slow.run_async(x=full(1))) == 4


# **************** threads, memory, lifetimes ****************


def test_many_threads_in_one_session(slow):
    errors, slow.session.max_in_flight = [], 4

    def work(base):
        try:
            for i in range(5):
                assert first(slow.run_async(x=full(base + i))) == base + i + 3
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_threads_that_submit_beside_threads_that_wait_for_all(document, packed_library):
    """A thread that waits for a run keeps it when all others let go (the address sanitizer sees the rest)."""
    mod = gr.create(chain(document, "myadd", 1), packed_library)
    mod.session.max_in_flight = 2
    mod.run_async(x=full(0)).wait()
    begin, errors = threading.Barrier(4), []

    def work(base):
        begin.wait()
        try:
            for i in range(300):
                run = mod.run_async(x=full(base + i))
                if base:
                    mod.session._submitter.in_flight.drain()
                if i % 10 == 0:
                    assert first(run) == base + i + 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_a_session_dropped_while_running(document, packed_library):
    mod = gr.create(chain(document, "slow", 10), packed_library)
    run = mod.run_async(x=full(0))
    outputs = run.outputs
    del mod, run
    gc.collect()
    assert outputs[0].numpy()[0] == 10


def test_memory_is_used_again_and_given_back(slow):
    def allocated():
        gc.collect()
        sweep()
        handle = open_device(gr.cpu(0))
        return handle.stats(0).allocated - core.lib.gr_buffers_idle(handle.pointer, 0)

    slow.run_async(x=full(0)).wait()
    before = allocated()
    for i in range(50):
        slow.run_async(x=full(i)).wait()
    assert allocated() <= before  # what earlier tests left may have gone meanwhile


def test_where_memory_is_short_submit_waits_for_runs_that_end(settle):
    settle("tt:0")
    maker = GraphMaker()
    x = maker.input(TensorType("float32", (1024, 1024)))
    graph = maker.graph([maker.op("relu", [maker.op("tanh", [x])])])
    mod = gr.create(replace(graph, names=("x", "tanh", "relu")), None, ["tt:0"])
    mod.session.max_in_flight = 1000
    handle = open_device(gr.tt(0))
    memory = handle.stats(0)
    hog = [handle.alloc(0, memory.largest_free - (3 << 20), "the hog")]
    try:
        value = np.zeros((1024, 1024), F32)
        mod.set_input("x", value)
        for _ in range(12):
            run = mod.run_async()
        assert run.outputs[0].numpy()[5, 5] == 0
        runs = []
        with pytest.raises(gr.DeviceMemoryError, match="the hog"):
            runs.extend(mod.run_async() for _ in range(40))
        assert runs[0].outputs[0].numpy()[0, 0] == 0
        runs.clear()
        del run
        assert mod.run_async().outputs[0].numpy()[0, 0] == 0
    finally:
        for addr in hog:
            handle.free(0, addr)


def test_memory_that_came_back_after_it_was_refused_is_taken(settle):
    """Work may end between the refusal and the look at what is queued, which then finds nothing."""
    settle("tt:0")
    handle = open_device(gr.tt(0))
    hog = handle.alloc(0, handle.stats(0).largest_free, "the hog")
    extent = handle.stats(0).largest_free + 4096

    def attempt():
        return core.lib.gr_buffer_alloc(handle.pointer, 0, extent, b"late", 0)

    refused, places = attempt(), [(handle.pointer, 0)]
    assert not refused
    with pytest.raises(gr.DeviceMemoryError, match="the hog"):
        with_room(attempt, places, "tt:0")
    assert not attempt()
    handle.free(0, hog)
    core.lib.gr_buffer_release(with_room(attempt, places, "tt:0"))


# The allocators of gcc's sanitizers do not hold their locks over fork: where another thread was allocating, a
# child waits without end (seen in 1 of 14 and 1 of 28 runs of asan: SizeClassAllocator64::GetFromAllocator).
forks = pytest.mark.skipif(
    os.environ.get("GR_BUILD") in ("asan", "tsan"),
    reason="sanitizers' allocators do not outlive fork beside threads",
)


def script(text: str, *args: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-P", "-c", textwrap.dedent(text), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


_CHAIN = """
import os, sys, threading, time, numpy as np, graph_runtime as gr
mod = gr.create(open(sys.argv[1]).read(), sys.argv[2])
x = np.zeros(4, "f4")
"""


@pytest.fixture
def files(document, packed_library, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(chain(document, "slow", 30))
    return str(path), packed_library


def test_the_interpreter_ends_while_runs_are_queued(files):
    begin = time.monotonic()
    done = script(_CHAIN + "runs = [mod.run_async(x=x) for _ in range(8)]; print('queued')", *files)
    assert (done.returncode, done.stdout, done.stderr) == (0, "queued\n", "")
    assert time.monotonic() - begin < 20


def test_a_daemon_thread_submits_while_the_interpreter_ends(files):
    """The thread catches what it is told. If the traceback were printed, CPython might abort: up to 3.13 a
    daemon thread that the end of the interpreter cuts off in a write to stderr keeps the lock of that file.
    """
    done = script(
        "import atexit, threading\ntold, said = threading.Event(), []\n"
        # registered first, so it is called last: submitting has ended by then
        + "atexit.register(lambda: print(told.wait(30) and said[0]))"
        + _CHAIN
        + """
def work():
    while not said:
        try:
            mod.run_async(x=x).wait()
        except gr.GraphRuntimeError as error:
            if "cancelled" not in str(error):  # what is queued at the end is
                said.append(error)
    told.set()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
print("over")
""",
        *files,
    )
    over = "over\nthe interpreter is ending: nothing can be queued any more\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, over, "")


@forks
def test_fork_refuses_queues_clearly_and_inline_runs_work(files):
    done = script(
        _CHAIN
        + """
run = mod.run_async(x=x)
pid = os.fork()
if not pid:
    try:
        mod.run_async(x=x)
    except gr.GraphRuntimeError as error:
        assert "stayed in the parent" in str(error), error
    try:
        run.wait()
    except gr.GraphRuntimeError as error:
        assert "stayed in the parent" in str(error), error
    mod.run(x=x)
    assert mod.get_output(0).numpy()[0] == 30
    from graph_runtime.run.tensors.arrays import array
    assert array(x).numpy()[0] == 0
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert run.outputs[0].numpy()[0] == 30
print("fine")
""",
        *files,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@forks
def test_fork_while_other_threads_hold_locks(files):
    """A thread that held a lock of ours is not in the child to let go of it."""
    done = script(
        _CHAIN
        + """
import asyncio
from graph_runtime.base.locks import _locks

async def waiting():
    await run

run = mod.run_async(x=x)
held = list(_locks)
for lock in held:
    lock.acquire()
pid = os.fork()
if not pid:
    for use in (lambda: mod.run_async(x=x), lambda: asyncio.run(asyncio.wait_for(waiting(), 20))):
        try:
            use()
        except gr.GraphRuntimeError as error:
            assert "stayed in the parent" in str(error), error
    gr.stats()
    sys.exit(7)
for _ in range(200):
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise SystemExit("the child hangs")
assert os.waitstatus_to_exitcode(status) == 7
for lock in held:
    lock.release()
assert run.outputs[0].numpy()[0] == 30
print("fine")
""",
        *files,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_a_child_forked_before_the_first_run_has_queues_of_its_own(files):
    done = script(
        _CHAIN
        + """
pid = os.fork()
assert mod.run_async(x=x).outputs[0].numpy()[0] == 30
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    print("fine")
""",
        *files,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


# **************** live views of a session ****************


def test_a_live_view_waits_for_runs_that_write_or_read_there(counter, slow):
    view = counter.get_input("state")
    counter.set_input("state", np.zeros((32, 32), F32))
    counter.set_input("x", np.ones((32, 32), F32))
    for _ in range(20):
        counter.run_async()
    assert view.numpy()[0, 0] == 20
    x = slow.get_input("x")
    x.copy_from(full(1))
    run = slow.run_async()
    x.copy_from(full(100))  # the run has read it by then
    assert first(run) == 4
