"""What a server and its replicas send each other: shared memory, clocks, and batches to replicas that
end, leave, or are silent. No Ray."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cluster.batch_rows import stack
from graph_runtime.cluster.batcher import Batcher, RowBatch
from graph_runtime.cluster.clocks import ClockOffset
from graph_runtime.cluster.dispatcher import Dispatcher
from graph_runtime.cluster.ports import OPEN, Port, Served
from graph_runtime.cluster.replica import Replica
from graph_runtime.cluster.runner import Reply
from graph_runtime.cluster.transport import limits
from graph_runtime.cluster.transport.connections import connect
from graph_runtime.cluster.transport.listening import Door
from graph_runtime.cluster.transport.messages import write_message
from graph_runtime.cluster.transport.shared_memory import SharedMemory

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from certificates import make_certificates

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
    assert (memory.taken, memory.offset_of(array)) == (4096, 16 + 8)
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
        "import numpy as np; from graph_runtime.cluster.transport.shared_memory import AttachedMemory as A\n"
        f"a = A({memory.file}).array(np.dtype(np.int32), (2, 2), {offset})\n"
        "print(a.tolist(), a.flags.writeable)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, pass_fds=[memory.file])
    assert done.stdout.strip() == "[[0, 1], [2, 3]] False", done.stderr


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


def dispatched(test, memory=None, runners=2, tls=None):
    """Run ``test(batcher, workers, replicas)`` with replicas of one model. ``tls``: they come by TCP, as from
    another machine."""

    async def go():
        dispatcher = Dispatcher(memory, host="127.0.0.1" if tls else None, tls=tls)
        await dispatcher.open()
        workers = dispatcher.workers("m")
        door = dispatcher.door
        if tls:
            door = Door({**door.address, "machine": "another"}, door.key)
        replicas = [Replica(Doubling(), door, "m", tls) for _ in range(runners)]
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
def test_each_request_gets_its_own_answer(shared):
    memory = SharedMemory(1 << 20) if shared else None

    def inputs(n: int, start: int) -> dict[str, np.ndarray]:
        x = rows(n, start)["x"]
        if memory is None:
            return {"x": x}
        view = memory.take(x.nbytes)
        view[:] = x.tobytes()
        return {"x": np.frombuffer(view, x.dtype).reshape(x.shape)}

    async def test(batcher, workers, replicas):
        assert all((remote.connection.memory is not None) == shared for remote in workers.remotes)
        asked = [(n, 100 * n) for n in (*range(1, 20), 4, 8)]
        found = await asyncio.gather(*(batcher.submit(str(s), inputs(n, s), soon()) for n, s in asked))
        for (n, start), y in zip(asked, found, strict=True):
            np.testing.assert_array_equal(y["y"], 2 * rows(n, start)["x"])
        assert all(replica._runner.seen for replica in replicas)
        for replica in replicas:
            replica._runner.seen.clear()

    dispatched(test, memory)
    gc.collect()
    assert memory is None or memory.taken == 0


def test_replicas_on_other_machines_come_by_tls(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")

    async def test(batcher, workers, replicas):
        assert not any(remote.connection.near or remote.connection.memory for remote in workers.remotes)
        asked = [np.full((8, 20_000), at) for at in range(30)]  # more than sockets hold, both ways at once
        calls = (batcher.submit(str(at), {"x": x}, soon()) for at, x in enumerate(asked))
        found = await asyncio.gather(*calls)
        for x, y in zip(asked, found, strict=True):
            np.testing.assert_array_equal(y["y"], 2 * x)

    dispatched(test, SharedMemory.where_possible(1 << 20), tls=make_certificates(tmp_path))


def test_errors_of_a_run_reach_their_request():
    async def test(batcher, workers, replicas):
        with pytest.raises(gr.KernelError, match="an index is -1"):
            await batcher.submit("a", {"x": np.array([[-1, 0]])}, soon())
        with pytest.raises(gr.GraphRuntimeError, match="replica failed: ZeroDivisionError"):
            await batcher.submit("b", {"x": np.array([[99, 0]])}, soon())
        return await batcher.submit("c", rows(1), soon())

    assert dispatched(test)["y"].tolist() == [[0, 2]]


def test_a_replica_that_ends_loses_nothing_and_one_that_comes_back_is_used():
    async def test(batcher, workers, replicas):
        replicas[0]._runner.gate.clear()
        replicas[1]._runner.gate.clear()
        asked = [asyncio.ensure_future(batcher.submit(str(i), rows(8, i), soon())) for i in range(6)]
        await asyncio.sleep(0.1)
        assert batcher.running == 4
        workers.remotes[0].connection.end("killed")
        replicas[1]._runner.gate.set()
        replicas[0]._runner.gate.set()
        for at, found in enumerate(await asyncio.gather(*asked)):
            np.testing.assert_array_equal(found["y"], 2 * rows(8, at)["x"])
        assert batcher.metrics.replays.values["lost"] == 2
        while workers.count < 2:  # it connects again
            await asyncio.sleep(0.02)

    dispatched(test)


def test_a_replica_that_is_silent_gets_nothing_until_it_speaks(monkeypatch):
    monkeypatch.setattr(limits, "QUIET", 0.3)
    monkeypatch.setattr(limits, "PING", 0.05)

    async def test(batcher, workers, replicas):
        paused = replicas[0]._connection._order
        paused.acquire()  # it says nothing, as one that is stopped
        await asyncio.sleep(0.1)
        found = await asyncio.gather(*(batcher.submit(str(i), rows(8, i), soon()) for i in range(6)))
        for at, one in enumerate(found):
            np.testing.assert_array_equal(one["y"], 2 * rows(8, at)["x"])
        assert (workers.count, workers.places) == (1, 2)
        paused.release()
        while workers.count < 2:
            await asyncio.sleep(0.02)

    dispatched(test)


def test_requests_wait_while_there_is_no_replica_and_are_refused_at_their_deadline():
    async def test(batcher, workers, replicas):
        for remote in workers.remotes[:]:
            remote.connection.end("killed")
        await asyncio.sleep(0)
        early = asyncio.ensure_future(batcher.submit("a", rows(1), soon(0.05)))
        late = asyncio.ensure_future(batcher.submit("b", rows(1), soon()))
        with pytest.raises(gr.RequestError) as error:
            await early
        assert error.value.status == 504
        return await late

    assert dispatched(test)["y"].tolist() == [[0, 2]]


def test_a_replica_that_leaves_answers_what_it_has():
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

    assert dispatched(test, runners=1)["y"].tolist() == [[0, 2]]


def test_replicas_hear_of_the_load(monkeypatch):
    monkeypatch.setattr(limits, "PING", 0.02)

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

    dispatched(test, runners=1)


HELLO = {"type": "hello", "name": "m", "node": "n", "pid": 1, "served": SERVED}


def test_a_stranger_gets_no_batch(monkeypatch):
    """One that proves nothing, has another key, or has the key and is no replica."""
    monkeypatch.setattr(limits, "HELLO", 0.2)

    async def test(batcher, workers, replicas):
        door = replicas[0]._door
        for text in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(64), 9 * write_message(HELLO)):
            reader, writer = await asyncio.open_unix_connection(door.address["path"])
            writer.write(text)
            with contextlib.suppress(ConnectionError):
                assert len(await asyncio.wait_for(reader.read(), 5)) == 32  # what it is asked for
            writer.close()
        with pytest.raises((gr.ClusterError, OSError, EOFError)):
            await asyncio.to_thread(connect, door.address, bytes(32))
        for more in ({"name": "n"}, {"name": 3}, {"served": None}, {"served": {}}, {"name": []}):
            connection = await asyncio.to_thread(connect, door.address, door.key)
            connection.send({**HELLO, **more})
            assert await asyncio.to_thread(connection.receive, 5) is None
            connection.close()
        return len(workers.remotes)

    assert dispatched(test, runners=1) == 1
