"""What happens when the device cannot: the host does the op, says why, and the next op is right."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import eager
from graph_runtime.base.errors import DeviceMemoryError, KernelError, UnsupportedOpError
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.base.machine.shards import Shard
from graph_runtime.binding import core
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.queues.limbo import sweep
from graph_runtime.run.single import call
from graph_runtime.run.single.apply import ready_call
from graph_runtime.run.single.launch import Moved
from graph_runtime.run.tensors import transfers
from graph_runtime.run.tensors.lineage import settle_all

DRAM = Layout("dram", "tile", "f32")
SHARDED = Layout("l1", "tile", "f32", Shard("height", ((1, 0), (1, 0)), (32, 32)))


@pytest.fixture
def x() -> np.ndarray:
    return np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def only_fallback() -> eager.Fallback:
    (found,) = eager.fallbacks()
    return found


def test_no_kernel(device, x):
    a = eager.array(x, device)
    for _ in range(3):
        got = np.arctan2(a, 2.0)
    assert str(got.device) == device
    np.testing.assert_array_equal(got.numpy(), np.arctan2(x, 2.0))
    assert only_fallback() == eager.Fallback(
        "arctan2", device, ("float32[3, 4]",), "no device has a kernel for arctan2", 3
    )
    assert str(only_fallback()) == (
        f"arctan2(float32[3, 4]) of {device} on the host, 3 times: no device has a kernel for arctan2"
    )
    eager.fallbacks(clear=True)
    assert eager.fallbacks() == []


def test_strict_refuses_what_the_host_would_do(x):
    a = eager.array(x)
    with eager.strict():
        where = r"arctan2\(float32\[3, 4\]\) on cpu:0: no device has a kernel"
        with pytest.raises(UnsupportedOpError, match=where):
            np.arctan2(a, 2.0)
        with eager.strict(False):
            np.arctan2(a, 2.0)
        np.testing.assert_array_equal((a + a).numpy(), x + x)
    np.arctan2(a, 2.0)
    assert only_fallback().count == 2


def test_a_run_error_is_repaired_by_the_host(x, sabotage):
    a = eager.array(x)
    sabotage("exp", "fails")
    np.testing.assert_allclose(eager.exp(a).numpy(), np.exp(x), rtol=1e-6)
    assert "on purpose" in only_fallback().reason
    assert only_fallback().op == "exp"
    with eager.strict(), pytest.raises(KernelError, match="on purpose"):
        eager.exp(a).numpy()
    sabotage("exp", None)
    eager.fallbacks(clear=True)
    np.testing.assert_allclose(eager.exp(a).numpy(), np.exp(x), rtol=1e-6)
    assert eager.fallbacks() == []


def test_a_run_error_in_the_middle_of_a_chain(x, sabotage):
    """What was enqueued behind the op that fails is right, too."""
    a = eager.array(x)
    sabotage("exp", "fails")
    y = a + 1
    for _ in range(4):
        y = eager.exp(y * 0.5) - a
    wanted = x + 1
    for _ in range(4):
        wanted = np.exp(wanted * np.float32(0.5)) - x
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5)
    assert only_fallback().count == 4


def test_a_run_error_is_repaired_where_the_inputs_are_now(x, sabotage):
    """They were evicted meanwhile: what is made again reads them in their new place."""
    sabotage("exp", "fails")
    a = eager.array(x, "tt:0").to(layout=SHARDED)
    made = eager.exp(a) + a, eager.exp(a).reshape(-1)
    a.settle(a.to(layout=DRAM))
    np.testing.assert_allclose(made[0].numpy(), np.exp(x) + x, rtol=1e-5)
    np.testing.assert_allclose(made[1].numpy(), np.exp(x).reshape(-1), rtol=1e-5)
    assert {found.op for found in eager.fallbacks()} == {"exp"}


def test_what_is_copied_onto_a_result_is_not_made_by_its_op_again(x, sabotage):
    """The copy fails with its source, so it is made again from that."""
    a = eager.array(x, "tt:0")
    sabotage("exp", "fails")
    target, failed = eager.tanh(a), eager.exp(a)
    transfers.copy_into(target, failed)
    np.testing.assert_allclose(target.numpy(), np.exp(x), rtol=1e-5)


def test_a_result_that_is_overwritten_was_read_before(x, sabotage):
    """What is made of it again is made of the values that it had."""
    a = eager.array(x, "tt:0") + 1
    sabotage("exp", "fails")
    made = eager.exp(a)
    transfers.copy_into(a, eager.array(np.zeros_like(x), "tt:0"))
    np.testing.assert_allclose(made.numpy(), np.exp(x + 1), rtol=1e-5)
    assert (a.numpy() == 0).all()


def test_a_result_that_a_run_writes_was_read_before(x, sabotage):
    builder = gr.GraphBuilder(device="tt:0")
    given = builder.input("x", x.shape)
    builder.output(builder.op("add", given, given, name="double"))
    module = gr.create(builder.build(), None, "tt:0")
    a = (eager.array(x, "tt:0") + 1).to(layout=module.get_output(0).layout)
    sabotage("exp", "fails")
    made = eager.exp(a)
    module.run_async(x=x, out=[a]).wait()
    np.testing.assert_allclose(made.numpy(), np.exp(x + 1), rtol=1e-5)
    np.testing.assert_array_equal(a.numpy(), 2 * x)


@pytest.mark.parametrize("name", ["push", "gather"])
def test_what_is_written_while_it_is_made_again_stays(x, sabotage, monkeypatch, name):
    """By another thread: here before the host has the values, or before they are on the device."""
    sabotage("exp", "fails")
    made = eager.exp(eager.array(x, "tt:0"))
    inner = getattr(call, name)

    def late(*args):
        found = inner(*args)
        made.copy_from(2 * x)
        return found

    monkeypatch.setattr(call, name, late)
    made.wait()
    np.testing.assert_array_equal(made.numpy(), 2 * x)


def test_a_call_is_not_launched_for_tensors_that_moved(x):
    a, b = (eager.array(x, "tt:0").to(layout=SHARDED) for _ in range(2))
    call = ready_call("add", (), (a, b))
    a.settle(a.to(layout=DRAM))
    for launch in (lambda: call.launcher.launch_pair(a, b), lambda: call.launcher.launch((a, b))):
        with pytest.raises(Moved):
            launch()
    np.testing.assert_array_equal((a + b).numpy(), x + x)


def test_verify_finds_a_wrong_kernel_and_keeps_it_out(x, sabotage):
    a = eager.array(x)
    sabotage("exp", "sevens")
    assert (eager.exp(a).numpy() == 7).all()  # the kernel was not verified
    eager.verify("first")
    for _ in range(2):
        np.testing.assert_allclose(eager.exp(a).numpy(), np.exp(x), rtol=1e-6)
    assert only_fallback().count == 2
    assert only_fallback().reason.startswith("wrong result: nmse ")
    with eager.strict(), pytest.raises(UnsupportedOpError, match="wrong result"):
        eager.exp(a)
    sabotage("exp", None)
    eager.fallbacks(clear=True)
    np.testing.assert_allclose(eager.exp(a).numpy(), np.exp(x), rtol=1e-6)
    assert eager.fallbacks() == []


def test_verify_finds_a_wrong_kernel_that_was_quick_already(x, sabotage):
    a = eager.array(x)
    sabotage("add", "sevens")
    assert ((a + a).numpy() == 7).all()
    assert ((a + a).numpy() == 7).all()
    eager.verify("first")
    np.testing.assert_array_equal((a + a).numpy(), x + x)


def test_verify_accepts_every_kernel(device, rng):
    """Cancellation is no mistake of a kernel."""
    eager.verify("first")
    with eager.strict():
        x = rng.standard_normal((70, 33)).astype(np.float32)
        a = eager.array(x, device)
        np.testing.assert_allclose((a @ a.T).numpy(), x @ x.T, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(a.sum().numpy(), x.sum(dtype=float), rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(a.reshape(33, 70).T[1:, ::2].numpy(), x.reshape(33, 70).T[1:, ::2])
        assert abs((a - a.mean()).sum().numpy()) < 0.01
        eager.softmax(a)


def test_verify_takes_its_modes_only():
    with pytest.raises(gr.InputError, match="did you mean 'first'"):
        eager.verify("frist")


@pytest.fixture
def hog():
    """hog(free): takes all of tt:0's DRAM but ``free`` bytes a bank, until the test ends."""
    handle, taken = open_device(devices.parse("tt:0")), []

    def take(free: int) -> None:
        settle_all()
        gc.collect()  # what other tests left in cycles would come back meanwhile
        sweep()
        while core.lib.gr_reclaim(handle.pointer, 0, 1_000_000_000):  # idle buffers would serve
            pass
        while True:
            largest = handle.stats(0).largest_free
            if handle.stats(0).free <= free or largest <= free:
                return
            taken.append(handle.alloc(0, largest - free, "hog"))

    yield take
    for addr in taken:
        handle.free(0, addr)


def test_out_of_memory(hog):
    """Where not even the result has room, that is the error; what has room is right."""
    a = eager.array(np.ones((512, 1024), np.float32), "tt:0")
    hog(64 * 1024)
    with pytest.raises(DeviceMemoryError, match="hog"):
        a + a
    small = a[:2, :32]
    np.testing.assert_array_equal((small + small).numpy(), np.full((2, 32), 2))


def test_out_of_memory_of_an_intermediate(hog):
    """The sum fits, what it is the sum of does not: the host has room for that."""
    a = eager.array(np.full((512, 1024), 2, np.float32), "tt:0")
    hog(64 * 1024)
    assert eager.var(a).numpy() == 0
    assert "out of device memory" in only_fallback().reason


def test_one_gather_for_all_inputs(x, monkeypatch):
    batches = []

    def fetch(tensors):
        batches.append(len(tensors))
        return real(tensors)

    real = transfers.fetch
    monkeypatch.setattr(transfers, "fetch", fetch)
    tensors = [eager.array(x + i, "tt:0") for i in range(5)]
    with gr.stats() as stats:
        got = eager.vstack([*tensors, tensors[0]])
        assert batches == [5]
    np.testing.assert_array_equal(got.numpy(), np.vstack([x, x + 1, x + 2, x + 3, x + 4, x]))
    assert (stats.count("fallback", "tt:0"), stats.count("d2h"), stats.count("h2d")) == (1, 5, 1)
    assert stats.bytes("h2d") == 6 * x.nbytes


def test_what_no_device_holds_comes_back_as_numpys(x):
    a = eager.array(x)
    got = np.add(a, 1j)
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, x + 1j)
    assert only_fallback().device == "host"
