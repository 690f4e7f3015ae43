"""Session: runs, failures, threads, memory, Ctrl-C, zero copy."""

from __future__ import annotations

import gc
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.machine.devices import parse
from graph_runtime.binding import core
from graph_runtime.binding.programs import program
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.queues.blocks import let_go
from graph_runtime.run.queues.limbo import sweep
from graph_runtime.run.sessions import bind

F32 = np.float32


# **************** the C structs ****************
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("gr_arg", program.ARG),
        ("gr_call", program.CALL),
        ("gr_instr", program.INSTR),
        ("gr_copy_envs", bind.COPY_ENVS),
        ("gr_packed_call", bind.PACKED_CALL),
    ],
)
def test_records_equal_the_c_structs(name, dtype):
    assert core.ffi.sizeof(name) == dtype.itemsize
    fields = dict(core.ffi.typeof(name).fields)
    assert list(fields) == list(dtype.names)
    for field in dtype.names:
        assert (fields[field].offset, core.ffi.sizeof(fields[field].type)) == (
            dtype.fields[field][1],
            dtype.fields[field][0].itemsize,
        )


# **************** arguments ****************
def packed_chain(document, func, count, shape=(4,)):
    entry = document.input("x", shape)
    for _ in range(count):
        entry = document.call(func, entry, shape=shape)
    return document.json(entry)


def test_packed_functions_see_the_headers_that_tvm_makes(document, packed_library):
    x = document.input("x", (2, 3))
    mod = gr.create(document.json(document.call("probe", x)), packed_library)
    mod.run(x=np.zeros((2, 3), F32))
    assert mod.get_output(0).numpy()[:3].tolist() == [2, 2, 1]


def test_flatten_data_is_local_to_its_node(document, packed_library):
    """TVM 0.14 lets the flattened shape leak to every other user of the entry."""
    x = document.input("x", (2, 3))
    flat, plain = document.call("probe", x, flatten=True), document.call("probe", x)
    mod = gr.create(document.json(flat, plain), packed_library)
    mod.run(x=np.zeros((2, 3), F32))
    assert mod.get_output(0).numpy()[:3].tolist() == [1, 6, 1]
    assert mod.get_output(1).numpy()[:3].tolist() == [2, 2, 1]
    assert mod.get_input("x").shape == (2, 3)


# **************** failures ****************
def test_a_failing_kernel_names_its_node_and_the_session_runs_again(document, packed_library):
    x = document.input("x")
    ok = document.call("myadd", x)
    bad = document.call("fail_if_negative", ok, name="the_gate")
    mod = gr.create(document.json(document.call("myadd", bad)), packed_library)
    for _ in range(2):
        with pytest.raises(gr.KernelError, match="the_gate") as caught:
            mod.run(x=np.full(4, -5, F32))
        error = caught.value
        assert (error.node, error.op, error.device) == ("the_gate", "fail_if_negative", "cpu:0")
        mod.run(x=np.full(4, 5, F32))
        assert mod.get_output(0).numpy()[0] == 7


def test_a_second_thread_in_a_session_is_refused(document, packed_library):
    mod = gr.create(packed_chain(document, "slow", 30), packed_library)
    mod.set_input("x", np.zeros(4, F32))

    def run_when_free():
        while True:
            try:
                return mod.run()
            except gr.SessionBusyError:  # the other thread is just setting the input
                time.sleep(0.001)

    runner = threading.Thread(target=run_when_free)
    runner.start()

    def set_inputs():
        while runner.is_alive():
            mod.set_input("x", np.zeros(4, F32))
            time.sleep(0.005)

    with pytest.raises(gr.SessionBusyError, match="another thread"):
        set_inputs()
    with pytest.raises(gr.SessionBusyError):
        mod.run()
    runner.join()
    mod.run(x=np.zeros(4, F32))
    assert mod.get_output(0).numpy()[0] == 30


def test_a_session_stays_its_threads_while_an_input_is_set(document, packed_library):
    session = gr.create(packed_chain(document, "myadd", 2), packed_library).session
    session.set_input(0, np.zeros(4, F32))
    calls = session.run, lambda: session.set_input(0, np.ones(4, F32)), lambda: session.reset_input(0)
    errors = []

    def other():
        for call in calls:
            try:
                call()
            except gr.SessionBusyError as error:
                errors.append(error)

    with session._guard():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        session.run()  # the holder itself may
    assert len(errors) == 3
    other()
    assert len(errors) == 3


def test_many_sessions_run_in_many_threads(document, packed_library):
    text = packed_chain(document, "myadd", 50)
    library = gr.load_library(packed_library)
    wrong = []

    def work(seed):
        mod = gr.create(text, library)
        for i in range(20):
            mod.run(x=np.full(4, seed * 100 + i, F32))
            if mod.get_output(0).numpy()[0] != seed * 100 + i + 50:
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


_INTERRUPTED = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)     # a shell's background jobs ignore it
import numpy as np
import graph_runtime as gr
mod = gr.create(open(sys.argv[1]).read(), sys.argv[2])
mod.set_input("x", np.zeros(4, np.float32))
print("ready", flush=True)
start = time.monotonic()
try:
    mod.run()
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 20, flush=True)
small = gr.create(open(sys.argv[3]).read(), sys.argv[2])
small.run(x=np.ones(4, np.float32))
print(small.get_output(0).numpy()[0], flush=True)
try:
    mod.run()
except KeyboardInterrupt:
    print("again", flush=True)
"""


def test_ctrl_c_stops_a_long_run_and_the_session_runs_again(new_document, packed_library, tmp_path):
    (tmp_path / "long.json").write_text(packed_chain(new_document(), "slow", 3000))
    (tmp_path / "short.json").write_text(packed_chain(new_document(), "slow", 1))
    files = tmp_path / "long.json", packed_library, tmp_path / "short.json"
    command = [sys.executable, "-c", _INTERRUPTED, *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted True\n"
            assert child.stdout.readline() == "2.0\n"
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "again\n"
            assert child.wait(10) == 0
        finally:
            child.kill()


# **************** memory ****************
def allocations() -> int:
    return open_device(gr.cpu(0)).stats(0).allocations


def accumulator(device):
    """acc += x, in place."""
    builder = gr.GraphBuilder()
    x, acc = builder.input("x", (8,)), builder.input("acc", (8,))
    new = builder.op("add", x, acc, name="new")
    builder.output(new)
    builder.alias(new, acc)
    mod = gr.create(builder, None, device)
    mod.set_input("acc", np.zeros(8, F32))
    return mod


def refused(mod):
    with suppress(gr.InputError):
        mod.run(x=np.zeros(3))


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
@pytest.mark.parametrize(
    "use",
    [
        lambda mod: mod.run(x=np.ones(8, F32)),
        lambda mod: mod.run_async(x=np.ones(8, F32)).wait(),
        lambda mod: [mod.run_async(x=np.ones(8, F32)), mod.run(x=np.ones(8, F32))],
        lambda mod: [refused(mod), mod.get_output(0).numpy()],
    ],
    ids=["run", "run_async", "both", "refused"],
)
def test_a_dropped_session_needs_no_collection_to_give_its_memory_back(use, device, settle):
    """It is in no cycle: its memory would be out of reach until Python looks for cycles."""
    settle(device)
    handle = open_device(parse(device))

    def allocated():
        let_go(handle)
        sweep()
        return handle.stats(0).allocations

    before = allocated()
    gc.disable()
    try:
        use(accumulator(device))
        deadline = time.monotonic() + 5
        while allocated() != before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert allocated() == before
    finally:
        gc.enable()


def test_memory_is_given_back_with_the_last_tensor(document, packed_library):
    gc.collect()
    before = allocations()
    mod = gr.create(packed_chain(document, "myadd", 3), packed_library)
    assert allocations() == before + 1
    mod.run(x=np.ones(4, F32))
    output = mod.get_output(0)
    view = np.from_dlpack(output)
    del mod
    gc.collect()
    assert output.numpy().tolist() == [4, 4, 4, 4]
    del output
    gc.collect()
    assert allocations() == before + 1
    assert view.tolist() == [4, 4, 4, 4]
    del view
    gc.collect()
    assert allocations() == before


# **************** tensors ****************
def test_tensor_is_a_live_view(document, packed_library):
    mod = gr.create(packed_chain(document, "myadd", 1), packed_library)
    mod.run(x=np.zeros(4, F32))
    output = mod.get_output(0)
    copy, live = output.numpy(), np.from_dlpack(output)
    mod.run(x=np.ones(4, F32))
    assert copy.tolist() == [1] * 4
    assert live.tolist() == output.numpy().tolist() == np.asarray(output).tolist() == [2] * 4
    assert (output.shape, output.dtype, str(output.device), output.nbytes, len(output)) == (
        (4,),
        "float32",
        "cpu:0",
        16,
        4,
    )
    assert output.__dlpack_device__() == (1, 0)
    assert "float32[4]" in repr(output)
    with pytest.raises(TypeError, match=r"pickle tensor\.numpy"):
        pickle.dumps(output)


def test_tensor_on_tt_has_no_host_view(document):
    x = document.input("x", (33, 5))
    mod = gr.create(document.json(x), None, ["tt:0"])
    values = np.arange(165, dtype=F32).reshape(33, 5)
    mod.run(x=values)
    tensor = mod.get_output(0)
    assert str(tensor.device) == "tt:0"
    np.testing.assert_array_equal(tensor.numpy(), values)
    np.testing.assert_array_equal(np.asarray(tensor), values)
    assert tensor.__dlpack_device__() == (12, 0)
    with pytest.raises(BufferError, match="numpy"):
        np.from_dlpack(tensor)
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__(copy=False)
    with pytest.raises(gr.InputError, match="lives on tt:0"):
        mod.set_input_zero_copy("x", gr.aligned_empty((33, 5)))


# **************** zero copy ****************
@pytest.fixture
def adder(document, packed_library):
    """z = x + y."""
    x, y = document.input("x"), document.input("y")
    return gr.create(document.json(document.call("elemwise_add", x, y)), packed_library)


def aligned(values) -> np.ndarray:
    array = gr.aligned_empty(np.shape(values))
    array[...] = values
    return array


def test_graph_module_zero_copy(adder):
    x, y, z = aligned([1, 2, 3, 4]), aligned([10] * 4), aligned([0] * 4)
    adder.set_input_zero_copy("x", x)
    adder.set_input_zero_copy(y=y)
    adder.set_output_zero_copy(0, z)
    adder.run()
    assert z.tolist() == [11, 12, 13, 14]
    x[:] = 0
    adder.run()
    assert z.tolist() == adder.get_output(0).numpy().tolist() == [10] * 4
    other = aligned([5] * 4)
    adder.set_input_zero_copy("x", other)
    adder.run()
    assert z.tolist() == [15] * 4


def test_zero_copy_keeps_the_array_alive(adder):
    adder.set_input_zero_copy("x", aligned([7] * 4))
    gc.collect()
    junk = [aligned([99] * 4) for _ in range(50)]
    adder.run(y=np.zeros(4, F32))
    assert adder.get_output(0).numpy().tolist() == [7] * 4
    assert len(junk) == 50


def test_set_input_does_not_write_into_a_bound_array(adder):
    mine = aligned([1] * 4)
    adder.set_input_zero_copy("x", mine)
    adder.set_input("x", np.full(4, 50, F32))
    adder.run(y=np.zeros(4, F32))
    assert mine.tolist() == [1] * 4
    assert adder.get_output(0).numpy().tolist() == [50] * 4


def test_reset_zero_copy(adder):
    adder.run(x=np.full(4, 3, F32), y=np.zeros(4, F32))
    x, z = aligned([8] * 4), aligned([0] * 4)
    adder.set_input_zero_copy("x", x)
    adder.set_output_zero_copy("elemwise_add_2:0", z)
    adder.run()
    assert z.tolist() == [8] * 4
    adder.reset_zero_copy("x")
    adder.reset_zero_copy("elemwise_add_2")
    adder.run()
    assert z.tolist() == [8] * 4
    assert adder.get_output(0).numpy().tolist() == [3] * 4
    adder.set_input_zero_copy("x", x)
    adder.reset_zero_copy()
    adder.run()
    assert adder.get_output(0).numpy().tolist() == [3] * 4
    with pytest.raises(gr.InputError, match="'z'"):
        adder.reset_zero_copy("z")


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(4, np.int32), "int32"),
        (np.zeros(4, ">f4"), "order"),
        (np.zeros(5, F32), "shape"),
        (gr.aligned_empty(8)[::2], "contiguous"),
        (gr.aligned_empty(5)[1:], "64"),
        ([1.0, 2.0, 3.0, 4.0], "DLPack"),
    ],
)
def test_zero_copy_refuses_what_does_not_fit(adder, array, text):
    with pytest.raises(gr.InputError, match=text):
        adder.set_input_zero_copy("x", array)
    with pytest.raises(gr.InputError, match=text):
        adder.set_output_zero_copy(0, array)


def test_zero_copy_refuses_read_only_and_overlapping_arrays(adder):
    block = gr.aligned_empty(32)
    adder.set_input_zero_copy("x", block[:4])
    with pytest.raises(gr.InputError, match="overlaps another"):
        adder.set_output_zero_copy(0, block[:4])
    with pytest.raises(gr.InputError, match="overlaps the session's own"):
        adder.set_input_zero_copy("x", adder.get_output(0))
    adder.set_input_zero_copy("y", block[:4])  # two inputs may be one array
    adder.set_output_zero_copy(0, block[16:20])
    with pytest.raises(gr.InputError, match="overlaps another"):
        adder.set_input_zero_copy("y", block[16:20])
    frozen = aligned([0] * 4)
    frozen.flags.writeable = False
    with pytest.raises(gr.InputError, match="read-only"):
        adder.set_output_zero_copy(0, frozen)
    with pytest.raises(gr.InputError, match="'q'"):
        adder.set_input_zero_copy(q=block[:4])
    block[:4] = 2
    adder.run()
    assert block[16:20].tolist() == [4] * 4


def test_repeated_heads_can_each_be_bound(document, packed_library):
    x = document.input("x")
    y = document.call("myadd", x)
    mod = gr.create(document.json(y, y, x), packed_library)
    first, second, third = (aligned([0] * 4) for _ in range(3))
    mod.set_output_zero_copy(0, first)
    mod.set_output_zero_copy(1, second)
    mod.set_output_zero_copy(2, third)
    mod.run(x=np.full(4, 4, F32))
    assert (first.tolist(), second.tolist(), third.tolist()) == ([5] * 4, [5] * 4, [4] * 4)
    mod.session.reset_output(0)
    mod.run(x=np.full(4, 6, F32))
    assert (first.tolist(), second.tolist(), third.tolist()) == ([5] * 4, [7] * 4, [6] * 4)
    assert mod.get_output(0).numpy().tolist() == [7] * 4


def test_reset_zero_copy_gives_other_devices_the_values_of_before_too():
    b = gr.GraphBuilder()
    x = b.input("x", (32, 32))
    b.output(b.op("relu", x, device="cpu:0"), b.op("relu", x, device="tt:0"))
    mod = gr.create(b, None, ["cpu:0", "tt:0"])
    mod.run(x=np.ones((32, 32), F32))
    bound = aligned(np.full((32, 32), 5, F32))
    mod.set_input_zero_copy("x", bound)
    mod.run()
    assert [mod.get_output(i).numpy()[0, 0] for i in range(2)] == [5, 5]
    mod.reset_zero_copy("x")
    mod.run()
    assert [mod.get_output(i).numpy()[0, 0] for i in range(2)] == [1, 1]
