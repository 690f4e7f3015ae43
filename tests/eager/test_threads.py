"""Handles, selections, constants, fallbacks and sessions from many threads and tasks at once."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import eager
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.base.machine.shards import Shard
from graph_runtime.binding import core
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.queues.buffer import Buffer
from graph_runtime.run.single import launch
from graph_runtime.run.tensors.lineage import settle_all
from graph_runtime.run.tensors.tensor import Tensor

THREADS = 6
DRAM = Layout("dram", "tile", "f32")
SHARDED = Layout("l1", "tile", "f32", Shard("height", ((0, 0), (1, 0)), (32, 64)))


def together(work) -> list:
    """work(i) in THREADS threads that begin at once; the results, or the first exception."""
    gate = threading.Barrier(THREADS)

    def begin(i: int):
        gate.wait()
        return work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_shared_handles(device, rng):
    """All threads read the same tensors, select the same new ops, and get their own right results."""
    array = rng.integers(-8, 8, (9, 40)).astype(np.float32)
    x = eager.array(array, device)

    def work(i: int) -> np.ndarray:
        y = x
        for step in range(25):
            y = eager.maximum(y + i, x) - step
            if step % 5 == 0:
                y = eager.clip(y[::-1], -50, 50)
        return y.numpy()

    def wanted(i: int) -> np.ndarray:
        y = array
        for step in range(25):
            y = np.maximum(y + i, array) - step
            if step % 5 == 0:
                y = np.clip(y[::-1], -50, 50)
        return y

    for i, got in enumerate(together(work)):
        np.testing.assert_array_equal(got, wanted(i))
    assert eager.fallbacks() == []


@pytest.fixture
def hasty():
    """Threads change often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_reading_a_handle_that_others_write(device):
    """A reader sees the old values or the new ones, whole: never memory that was given to others."""
    x = eager.array(np.zeros((40, 40), np.float32), device)
    writing, torn = True, []

    def write() -> None:
        nonlocal x, writing
        for _ in range(2500):
            x += 1.0
        writing = False

    def read(i: int) -> None:
        while writing:
            got = (lambda: [x.numpy()], lambda: gr.gather([x, x]), lambda: [(x + x).numpy()])[i % 3]()
            torn.extend(a for a in got if (a != a[0, 0]).any() or a[0, 0] != int(a[0, 0]))

    assert together(lambda i: write() if i == 0 else read(i)) == [None] * THREADS
    assert torn == []
    assert x.numpy()[0, 0] == 2500


def test_memory_that_is_older_than_the_layout_is_not_used_with_it(monkeypatch):
    """A call is selected where the tensor is in DRAM. Then another thread leads it to L1, the call reads that
    address, and it goes back to DRAM before the call looks whether it is where the call was selected for."""
    x = eager.array(np.ones((64, 64), np.float32), "tt:0").to(layout=DRAM)
    at, back, spec = x.spec, x.to(layout=SHARDED).to(layout=DRAM), Tensor.spec
    x.settle(x.to(layout=SHARDED))

    def moved(self):
        if self is x:
            x.settle(back)
        return spec.fget(self)

    monkeypatch.setattr(Tensor, "spec", property(moved))
    with pytest.raises(launch.Moved):
        launch._buffer_at(at, x)
    assert launch._buffer_at(at, x) is back.buffer


@pytest.mark.usefixtures("hasty")
def test_ops_on_a_tensor_that_others_evict(rng):
    """An op reads its input where it was or where it is, by the layout that it has there."""
    array = rng.integers(-8, 8, (64, 64)).astype(np.float32)
    x, other = (eager.array(array, "tt:0").to(layout=layout) for layout in (SHARDED, DRAM))
    moving, wrong = True, []

    def move() -> None:
        nonlocal moving
        try:
            for n in range(1500):
                x.settle(x.to(layout=(DRAM, SHARDED)[n % 2]))  # as evictions do, and back
        finally:
            moving = False

    def read(i: int) -> None:
        ops = (
            lambda: x + other,
            lambda: eager.add(x, x),
            lambda: x.to("cpu:0") * 2.0,
            lambda: x.reshape(-1) * 2,
            lambda: -x.to(layout="row_major") * -2.0,
        )
        while moving:
            got = ops[i - 1]().numpy().reshape(array.shape)
            if (got != 2 * array).any():
                wrong.append(i)

    assert together(lambda i: move() if i == 0 else read(i)) == [None] * THREADS
    assert sorted(set(wrong)) == []
    assert eager.fallbacks() == []
    assert (x.numpy() == array).all()


def test_a_tensor_made_here_is_read_there():
    made: list[gr.Tensor] = []
    ready = threading.Condition()

    def work(i: int) -> float:
        if i == 0:
            for n in range(THREADS - 1):
                with ready:
                    made.append(eager.full(1000, n) * 2 + 1)
                    ready.notify_all()
            return -1.0
        with ready:
            assert ready.wait_for(lambda: len(made) >= i, timeout=60)
        return float(made[i - 1].sum())

    assert together(work) == [-1.0, *(1000.0 * (2 * n + 1) for n in range(THREADS - 1))]


def test_fallbacks_are_counted_once_each(device):
    x = eager.array(np.linspace(0, 1, 8, dtype=np.float32), device)
    together(lambda i: [np.spacing(x) for _ in range(20)])
    (fallback,) = eager.fallbacks()
    assert fallback.count == 20 * THREADS


def test_strict_is_the_threads_own():
    x = eager.ones(4)

    def work(i: int) -> str:
        if i % 2:
            np.spacing(x)
            return "host"
        with eager.strict(), pytest.raises(gr.UnsupportedOpError):
            np.spacing(x)
        return "strict"

    assert together(work) == ["strict", "host"] * (THREADS // 2)


def test_run_errors_in_many_threads(sabotage):
    x = eager.array(np.linspace(-1, 1, 16, dtype=np.float32))
    sabotage("exp", "fails")

    def work(i: int) -> np.ndarray:
        y = x * (i / 8)
        for _ in range(3):
            y = eager.exp(y) - y
        return y.numpy()

    for i, got in enumerate(together(work)):
        y = np.linspace(-1, 1, 16, dtype=np.float32) * np.float32(i / 8)
        for _ in range(3):
            y = np.exp(y) - y
        np.testing.assert_allclose(got, y, rtol=1e-4)


def test_sessions_beside_eager(new_document):
    """Each thread runs a session of its own, and feeds it from eager tensors and to them."""
    document = new_document()
    a = document.input("a", (16,))
    text = document.json(document.call("relu", a, op="relu", shape=(16,)))

    def work(i: int) -> np.ndarray:
        module = gr.create(text, None, "cpu:0")
        x = eager.full(16, i - 2, dtype="float32")
        for _ in range(20):
            module.set_input("a", x - 1)
            module.run()
            x = module.get_output(0) + x
        return x.numpy()

    for i, got in enumerate(together(work)):
        x = i - 2
        for _ in range(20):
            x = max(x - 1, 0) + x
        np.testing.assert_array_equal(got, np.full(16, x, np.float32))


def test_many_tasks(device):
    """await gives way: tasks wait side by side in one thread."""

    async def work(i: int) -> float:
        y = eager.full(64, i, device, "float32")
        for _ in range(5):
            y = await (y + 1)
        return float(y.sum())

    async def main() -> list[float]:
        return await asyncio.gather(*(work(i) for i in range(20)))

    assert asyncio.run(main()) == [64.0 * (i + 5) for i in range(20)]


def handles() -> int:
    """Tensors and Buffers that are alive when nothing is queued."""
    settle_all()
    gc.collect()
    # type() and not isinstance(): that reads __class__ of other people's objects, and some of torch's warn
    return sum(issubclass(type(found), (gr.Tensor, Buffer)) for found in gc.get_objects())


def held(device: str) -> int:
    """Bytes a bank of the device's main memory that are in use; freed buffers wait to be used again."""
    handle = open_device(devices.parse(device))
    return handle.stats(0).allocated - core.lib.gr_buffers_idle(handle.pointer, 0)


def test_nothing_is_kept(device):
    """Device memory and Python objects after many ops are those of before."""
    x = eager.ones((32, 32), device)

    def work(count: int) -> None:
        y = x
        for _ in range(count):
            y = eager.maximum(y * 0.5, x)
            y = y[:, ::-1].T + 1.0
        y.numpy()

    work(60)
    objects, before = handles(), held(device)
    work(300)
    assert handles() <= objects
    assert held(device) <= before


@pytest.mark.slow
def test_a_million_ops_leak_nothing():
    x = eager.ones(16)
    y = x
    for _ in range(50_000):
        y = y + x
    y.wait()
    gc.collect()
    before, pages = held("cpu:0"), resident()
    for _ in range(1_000_000):
        y = y + x
    y.wait()
    gc.collect()
    assert held("cpu:0") <= before
    assert resident() - pages < 4 << 20, "bytes of the process"
    np.testing.assert_array_equal(y.numpy(), np.full(16, 1_050_001, np.float32))


def resident() -> int:
    """Bytes of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
