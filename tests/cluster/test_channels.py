"""What a server and its replicas send each other: shared memory, clocks, and batches to replicas that
end, leave, or are silent. No Ray."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cluster import dispatcher as dispatching
from graph_runtime.cluster.batch_rows import stack
from graph_runtime.cluster.batcher import Batcher, RowBatch
from graph_runtime.cluster.clocks import ClockOffset
from graph_runtime.cluster.dispatcher import Dispatcher
from graph_runtime.cluster.doors import Door
from graph_runtime.cluster.messages import write_message
from graph_runtime.cluster.ports import OPEN, Port, Served
from graph_runtime.cluster.replica import Replica
from graph_runtime.cluster.runner import Reply
from graph_runtime.cluster.shared_memory import AttachedMemory, SharedMemory

SERVED = Served((Port("x", "int64", (OPEN, 2)),), (Port("y", "int64", (OPEN, 2)),), (1, 4, 8), ())
linux = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory without a file is Linux's")


# **************** shared memory ****************


@linux
def test_regions_do_not_overlap_and_all_come_back():
    memory, rng, held = SharedMemory(1 << 20), random.Random(0), []
    whole = memory.taken
    for step in range(2000):
        if held and rng.random() < 0.5:
            view, value = held.pop(rng.randrange(len(held)))
            assert set(bytes(view)) <= {value}
        elif (view := memory.take(rng.choice((1, 100, 5000, 70_000, 300_000)))) is not None:
            view[:] = bytes([step % 256]) * len(view)
            held.append((view, step % 256))
    del view
    assert memory.taken == sum(-(-len(v) // 4096) * 4096 for v, _ in held) > 0
    held.clear()
    assert memory.taken == whole == 0
    assert memory.take((1 << 20) - 4096) is not None
    assert memory.take(2 << 20) is None


@linux
def test_a_region_is_taken_while_any_array_of_it_lives():
    memory = SharedMemory(1 << 20)
    array = np.frombuffer(memory.take(64)[16:48], np.float32)[2:].reshape(2, 3)
    assert (memory.taken, memory.offset_of(array)) == (4096, 4096 + 16 + 8)
    assert memory.offset_of(array.T) is None
    assert memory.offset_of(np.zeros(3)) is None
    del array
    assert memory.taken == 0


@linux
def test_another_process_reads_it_and_cannot_write():
    memory = SharedMemory(1 << 20)
    view = memory.take(16)
    view[:] = np.arange(4, dtype=np.int32).tobytes()
    offset = memory.offset_of(np.frombuffer(view, np.uint8))
    program = (
        "import sys, numpy as np; from graph_runtime.cluster.shared_memory import AttachedMemory as A\n"
        f"a = A.by_name({memory.name!r}, {memory.size}).array(np.dtype(np.int32), (2, 2), {offset})\n"
        "print(a.tolist(), a.flags.writeable)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[[0, 1], [2, 3]] False", done.stderr
    path, cookie = memory.name
    with pytest.raises(gr.ClusterError, match="another process"):
        AttachedMemory.by_name((path, "00" + cookie[2:]), memory.size)
    with pytest.raises(gr.ClusterError, match="cannot be shared"):
        AttachedMemory.by_name((path + "9", cookie), memory.size)


# **************** clocks ****************


def test_an_offset_is_known_to_half_of_the_shortest_exchange():
    rng, clock, ahead = random.Random(0), ClockOffset(), 7_000_000_000
    assert clock.error is None
    for at in range(50):
        sent, there, back = at * 1000, rng.randrange(10, 500), rng.randrange(10, 500)
        clock.add(sent, sent + there + ahead, sent + there + back)
        assert abs(clock.offset - ahead) <= clock.error
    assert clock.error < 150
    assert abs(clock.to_here(ahead + 5) - 5) <= clock.error
    with pytest.raises(ValueError, match="question"):
        clock.add(5, 0, 4)


# **************** batches ****************


class Doubling:
    """A runner; ``gate`` holds its runs back."""

    served = SERVED

    def __init__(self):
        self.gate, self.seen = threading.Event(), []
        self.gate.set()

    def run(self, batch: RowBatch) -> Reply:
        self.seen.append(batch)
        assert self.gate.wait(20)
        x = stack(batch.requests, batch.size)["x"][: batch.filled]
        if (x < 0).any():
            return Reply({}, "an index is -1", True)
        if (x == 99).any():
            raise ZeroDivisionError("a mistake")
        return Reply({"y": 2 * x}, "", False, 0.001)


def rows(n: int, start: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.arange(start, start + 2 * n).reshape(n, 2)}


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def dispatched(tmp_path, test, memory=None, host="", runners=2):
    """Run ``test(batcher, workers, replicas)`` with replicas of one model."""

    async def go():
        dispatcher = Dispatcher(Door.new(tmp_path, host), memory)
        await dispatcher.open()
        workers = dispatcher.workers("m")
        replicas = [Replica(Doubling(), dispatcher.door, "m") for _ in range(runners)]
        try:
            while len(workers.remotes) < runners:
                await asyncio.sleep(0.01)
            return await test(Batcher(SERVED, workers), workers, replicas)
        finally:
            for replica in replicas:
                replica.end()
            await dispatcher.close()

    return asyncio.run(asyncio.wait_for(go(), 60))


@pytest.mark.parametrize("shared", [False, pytest.param(True, marks=linux)])
def test_each_request_gets_its_own_answer(tmp_path, shared):
    memory = SharedMemory(1 << 20) if shared else None

    def inputs(n: int, start: int) -> dict[str, np.ndarray]:
        x = rows(n, start)["x"]
        if memory is None:
            return {"x": x}
        view = memory.take(x.nbytes)
        view[:] = x.tobytes()
        return {"x": np.frombuffer(view, x.dtype).reshape(x.shape)}

    async def test(batcher, workers, replicas):
        assert all(remote.shares == shared for remote in workers.remotes)
        asked = [(n, 100 * n) for n in (*range(1, 20), 4, 8)]
        found = await asyncio.gather(*(batcher.submit(str(s), inputs(n, s), soon()) for n, s in asked))
        for (n, start), y in zip(asked, found, strict=True):
            np.testing.assert_array_equal(y["y"], 2 * rows(n, start)["x"])
        assert all(replica._runner.seen for replica in replicas)
        for replica in replicas:
            replica._runner.seen.clear()

    dispatched(tmp_path, test, memory)
    gc.collect()
    assert memory is None or memory.taken == 0


def test_errors_of_a_run_reach_their_request(tmp_path):
    async def test(batcher, workers, replicas):
        with pytest.raises(gr.KernelError, match="an index is -1"):
            await batcher.submit("a", {"x": np.array([[-1, 0]])}, soon())
        with pytest.raises(gr.GraphRuntimeError, match="replica failed: ZeroDivisionError"):
            await batcher.submit("b", {"x": np.array([[99, 0]])}, soon())
        return await batcher.submit("c", rows(1), soon())

    assert dispatched(tmp_path, test)["y"].tolist() == [[0, 2]]


def test_a_replica_that_ends_loses_nothing_and_one_that_comes_back_is_used(tmp_path):
    async def test(batcher, workers, replicas):
        replicas[0]._runner.gate.clear()
        replicas[1]._runner.gate.clear()
        asked = [asyncio.ensure_future(batcher.submit(str(i), rows(8, i), soon())) for i in range(6)]
        await asyncio.sleep(0.1)
        assert batcher.running == 4
        workers.remotes[0].channel.abort("killed")
        replicas[1]._runner.gate.set()
        replicas[0]._runner.gate.set()
        for at, found in enumerate(await asyncio.gather(*asked)):
            np.testing.assert_array_equal(found["y"], 2 * rows(8, at)["x"])
        assert batcher.metrics.replays.values["lost"] == 2
        while workers.count < 2:  # it connects again
            await asyncio.sleep(0.02)

    dispatched(tmp_path, test)


def test_a_replica_that_is_silent_gets_nothing_until_it_speaks(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatching, "SILENT", 0.3)
    monkeypatch.setattr(dispatching, "_PING", 0.05)

    async def test(batcher, workers, replicas):
        paused = threading.Event()
        replicas[0]._loop.call_soon_threadsafe(paused.wait)  # as SIGSTOP does
        await asyncio.sleep(0.1)
        found = await asyncio.gather(*(batcher.submit(str(i), rows(8, i), soon()) for i in range(6)))
        for at, one in enumerate(found):
            np.testing.assert_array_equal(one["y"], 2 * rows(8, at)["x"])
        assert (workers.count, workers.places) == (1, 2)
        paused.set()
        while workers.count < 2:
            await asyncio.sleep(0.02)

    dispatched(tmp_path, test)


def test_requests_wait_while_there_is_no_replica_and_are_refused_at_their_deadline(tmp_path):
    async def test(batcher, workers, replicas):
        for remote in workers.remotes[:]:
            remote.channel.abort("killed")
        await asyncio.sleep(0)
        early = asyncio.ensure_future(batcher.submit("a", rows(1), soon(0.05)))
        late = asyncio.ensure_future(batcher.submit("b", rows(1), soon()))
        with pytest.raises(gr.RequestError) as error:
            await early
        assert error.value.status == 504
        return await late

    assert dispatched(tmp_path, test)["y"].tolist() == [[0, 2]]


def test_a_replica_that_leaves_answers_what_it_has(tmp_path):
    async def test(batcher, workers, replicas):
        replicas[0]._runner.gate.clear()
        asked = asyncio.ensure_future(batcher.submit("a", rows(1), soon()))
        await asyncio.sleep(0.05)
        leaving = asyncio.ensure_future(asyncio.to_thread(replicas[0].leave, 10))
        await asyncio.sleep(0.2)
        assert (workers.count, leaving.done(), asked.done()) == (0, False, False)
        replicas[0]._runner.gate.set()
        await leaving
        return await asked

    assert dispatched(tmp_path, test, runners=1)["y"].tolist() == [[0, 2]]


def test_replicas_hear_of_the_load(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatching, "_PING", 0.02)

    async def test(batcher, workers, replicas):
        replicas[0]._runner.gate.clear()
        asked = [asyncio.ensure_future(batcher.submit(str(i), rows(8), soon())) for i in range(7)]
        while replicas[0].load != 7:
            await asyncio.sleep(0.01)
        replicas[0]._runner.gate.set()
        await asyncio.gather(*asked)
        while replicas[0].load:
            await asyncio.sleep(0.01)
        assert workers.remotes[0].clock.error < 1e8

    dispatched(tmp_path, test, runners=1)


def test_a_stranger_gets_no_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatching, "_HELLO", 0.2)
    hello = {"type": "hello", "name": "m", "node": "n", "pid": 1, "served": SERVED.as_json()}

    async def test(batcher, workers, replicas):
        path = replicas[0]._door.path
        for text in (b"", b"GET / HTTP/1.1\r\n\r\n", *(write_message({**hello, **own}) for own in STRANGE)):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(text)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
        return len(workers.remotes)

    assert dispatched(tmp_path, test, runners=1) == 1


STRANGE = ({}, {"token": "x"}, {"token": 3}, {"token": None, "name": "n"})
