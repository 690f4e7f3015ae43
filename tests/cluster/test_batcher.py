"""The queue of a model: rows put together and apart, deadlines, refusals, lost and silent workers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest
from fixed_pool import FixedPool

import graph_runtime as gr
from graph_runtime.cluster.batch_rows import choose_rows, stack
from graph_runtime.cluster.batcher import MOST_LOSSES, Batcher, Limits, Patience, RowBatch
from graph_runtime.cluster.metrics import ServingMetrics
from graph_runtime.cluster.ports import OPEN, Port, Served

ROWS = Served((Port("x", "int64", (OPEN, 2)),), (Port("y", "int64", (OPEN, 2)),), (1, 4, 8), ())
ALONE = Served((Port("x", "int64", (3,)),), (Port("y", "int64", (3,)),), (), (((3,),),), "because")


class Worker:
    """Doubles its inputs; ``seen``: its batches."""

    def __init__(self, seconds: float = 0.0):
        self.seen: list[RowBatch] = []
        self.seconds = seconds

    async def run(self, batch: RowBatch):
        self.seen.append(batch)
        await asyncio.sleep(self.seconds)
        x = stack(batch.requests, batch.size)["x"] if batch.size else batch.requests[0]["x"]
        return {"y": 2 * x[: batch.filled or None]}


def rows(n: int, start: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.arange(start, start + 2 * n).reshape(n, 2)}


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


@pytest.mark.parametrize(
    ("waiting", "size"), [(1, 1), (2, 1), (3, 4), (4, 4), (5, 4), (6, 4), (7, 8), (8, 8), (9, 8), (100, 8)]
)
def test_the_program_that_wastes_least_is_chosen(waiting, size):
    assert choose_rows(waiting, (1, 4, 8)) == size


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        ((1.0, 1.1, 1.2), [1, 4, 4, 4, 8, 8]),  # a device: a run takes as long with one row as with eight
        ((1.0, 4.0, 8.0), [1, 1, 1, 4, 4, 8]),  # a core: rows cost the same anywhere, so none is filled up
        ((1.0, 5.0, 11.0), [1, 1, 1, 1, 1, 1]),
    ],
)
def test_what_runs_take_decides(seconds, sizes):
    assert [choose_rows(n, (1, 4, 8), seconds) for n in (1, 2, 3, 4, 6, 8)] == sizes


def test_a_request_is_not_cut_for_a_smaller_program():
    worker = Worker()
    served = replace(ROWS, seconds=(1.0, 5.0, 11.0))

    async def go():
        batcher = Batcher(served, FixedPool(worker.run, 1))
        await asyncio.gather(*(batcher.submit(str(n), rows(n), soon()) for n in (3, 5, 1)))

    asyncio.run(go())
    assert [(batch.size, batch.filled) for batch in worker.seen] == [(4, 3), (8, 6)]


def test_answers_are_each_requests_own_in_any_mix():
    worker, rng = Worker(0.001), np.random.default_rng(0)

    async def go():
        batcher = Batcher(ROWS, FixedPool(worker.run, 2))
        asked = [rows(int(n), start=100 * i) for i, n in enumerate(rng.integers(1, 20, 60))]
        found = await asyncio.gather(*(batcher.submit(str(i), x, soon()) for i, x in enumerate(asked)))
        return asked, found

    asked, found = asyncio.run(go())
    for x, y in zip(asked, found, strict=True):
        np.testing.assert_array_equal(y["y"], 2 * x["x"])
    assert all(batch.filled <= batch.size <= 8 for batch in worker.seen)
    assert len(worker.seen) < 120  # rows ran together


def test_requests_gather_while_workers_are_busy_and_run_at_once_when_they_are_not():
    worker = Worker(0.02)

    async def go():
        batcher = Batcher(ROWS, FixedPool(worker.run, 1))
        await asyncio.gather(*(batcher.submit(str(i), rows(1, i), soon()) for i in range(9)))

    asyncio.run(go())
    assert [batch.filled for batch in worker.seen] == [1, 8]


def test_a_delay_lets_requests_wait_for_others():
    worker = Worker()

    async def go():
        batcher = Batcher(ROWS, FixedPool(worker.run, 4), Limits(delay=0.05))

        async def later(i: int):
            await asyncio.sleep(0.002 * i)
            await batcher.submit(str(i), rows(1, i), soon())

        await asyncio.gather(*map(later, range(4)))

    asyncio.run(go())
    assert [batch.filled for batch in worker.seen] == [4]


def test_a_model_whose_rows_mix_runs_each_request_alone():
    worker = Worker()

    async def go():
        batcher = Batcher(ALONE, FixedPool(worker.run, 2))
        x = {"x": np.arange(3)}
        found = await asyncio.gather(*(batcher.submit("a", x, soon()) for _ in range(3)))
        with pytest.raises(gr.RequestError, match="no program for shapes") as error:
            await batcher.submit("b", {"x": np.arange(4)}, soon())
        return found, error.value.status

    found, status = asyncio.run(go())
    assert [y["y"].tolist() for y in found] == [[0, 2, 4]] * 3
    assert status == 400
    assert [batch.size for batch in worker.seen] == [0, 0, 0]


def test_inputs_of_unequal_rows_and_of_none():
    two = Served((*ROWS.inputs, Port("w", "int64", (OPEN,))), ROWS.outputs, (1, 4), ())

    async def go():
        batcher = Batcher(two, FixedPool(Worker().run, 2))
        for inputs in ({**rows(2), "w": np.arange(3)}, {**rows(0), "w": np.arange(0)}):
            with pytest.raises(gr.RequestError, match="same number"):
                await batcher.submit("a", inputs, soon())

    asyncio.run(go())


def test_a_request_of_more_rows_than_the_queue_has_places_is_refused_at_once():
    async def go():
        batcher = Batcher(ROWS, FixedPool(Worker().run, 2), Limits(queued=4))
        assert len((await batcher.submit("a", rows(32), soon()))["y"]) == 32
        with pytest.raises(gr.RequestError, match="at most 32 are accepted") as error:
            await batcher.submit("b", rows(33), soon())
        return error.value.status

    assert asyncio.run(go()) == 413


def test_the_queue_is_bounded_and_the_deadline_kept():
    worker = Worker(0.2)

    async def go():
        batcher = Batcher(ROWS, FixedPool(worker.run, 1), Limits(queued=2))
        first = asyncio.ensure_future(batcher.submit("0", rows(1), soon()))
        await asyncio.sleep(0)
        late = [asyncio.ensure_future(batcher.submit(str(i), rows(1), soon(0.03))) for i in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(gr.RequestError) as full:
            await batcher.submit("3", rows(1), soon())
        begin = time.monotonic()
        found = await asyncio.gather(*late, return_exceptions=True)
        took = time.monotonic() - begin
        assert batcher.queued == 0  # those that gave up wait no more
        await batcher.submit("4", rows(1), soon())
        return full.value, found, took, await first

    full, late, took, first = asyncio.run(go())
    assert (full.status, full.retry_after) == (429, 1)
    assert [error.status for error in late] == [504, 504]
    assert took < 0.15
    assert first["y"].tolist() == [[0, 2]]
    assert [batch.ids for batch in worker.seen] == [("0",), ("4",)]


def lost(batch: RowBatch) -> gr.WorkerLost:
    return gr.WorkerLost("a worker was lost", worker="w", cause="killed", requests=batch.ids)


def test_a_lost_worker_is_replaced_and_nothing_is_lost():
    worker, metrics = Worker(), ServingMetrics("m", "1")
    rng = np.random.default_rng(1)

    async def run(batch: RowBatch):
        await asyncio.sleep(0.001)
        if rng.random() < 0.3:
            raise lost(batch)
        return await worker.run(batch)

    async def go():
        batcher = Batcher(ROWS, FixedPool(run, 3), metrics=metrics)
        asked = [rows(1 + i % 5, 10 * i) for i in range(80)]
        found = await asyncio.gather(*(batcher.submit(str(i), x, soon()) for i, x in enumerate(asked)))
        for x, y in zip(asked, found, strict=True):
            np.testing.assert_array_equal(y["y"], 2 * x["x"])

    asyncio.run(go())
    assert metrics.replays.values["lost"] > 5


def test_a_request_that_ends_its_workers_fails_alone():
    worker, deaths = Worker(), []

    async def run(batch: RowBatch):
        await asyncio.sleep(0.001)
        if "bad" in batch.ids:
            deaths.append(batch.ids)
            raise lost(batch)
        return await worker.run(batch)

    async def go():
        batcher = Batcher(ROWS, FixedPool(run, 1))
        names = ["a", "b", "bad", "c", "d"]
        found = await asyncio.gather(
            *(batcher.submit(name, rows(1), soon()) for name in names), return_exceptions=True
        )
        return dict(zip(names, found, strict=True))

    found = asyncio.run(go())
    error = found.pop("bad")
    assert isinstance(error, gr.WorkerLost)
    assert (error.worker, error.cause, error.requests) == ("w", "killed", ("bad",))
    assert all(isinstance(one, dict) for one in found.values())
    assert len(deaths) == MOST_LOSSES
    assert all(len(ids) == 1 for ids in deaths[2:])


def test_a_silent_worker_is_not_waited_for():
    worker, calls = Worker(), []

    async def run(batch: RowBatch):
        calls.append(batch)
        if len(calls) == 1:
            await asyncio.sleep(60)
        return await worker.run(batch)

    async def go():
        batcher = Batcher(ROWS, FixedPool(run, 1), patience=Patience(0.01, 0.02))
        return await batcher.submit("a", rows(1), soon(5))

    begin = time.monotonic()
    assert asyncio.run(go())["y"].tolist() == [[0, 2]]
    assert time.monotonic() - begin < 4
    assert len(calls) == 2


def test_values_that_a_kernel_refuses_are_the_fault_of_one_request():
    worker = Worker(0.005)

    async def run(batch: RowBatch):
        if any((one["x"] < 0).any() for one in batch.requests):
            await asyncio.sleep(0.001)
            raise gr.KernelError("an index is -1")
        return await worker.run(batch)

    async def go():
        batcher = Batcher(ROWS, FixedPool(run, 1))
        asked = [rows(1), rows(1), {"x": np.array([[-1, 0]])}, rows(1)]
        return await asyncio.gather(
            *(batcher.submit(str(i), x, soon()) for i, x in enumerate(asked)), return_exceptions=True
        )

    found = asyncio.run(go())
    assert isinstance(found[2], gr.KernelError)
    assert [one["y"].tolist() for at, one in enumerate(found) if at != 2] == [[[0, 2]]] * 3


def test_closing_answers_what_is_there_and_refuses_what_comes():
    worker = Worker(0.02)

    async def go():
        batcher = Batcher(ROWS, FixedPool(worker.run, 1))
        there = [asyncio.ensure_future(batcher.submit(str(i), rows(1), soon())) for i in range(4)]
        await asyncio.sleep(0)
        await batcher.close(5)
        with pytest.raises(gr.RequestError) as error:
            await batcher.submit("late", rows(1), soon())
        return await asyncio.gather(*there), error.value.status

    found, status = asyncio.run(go())
    assert len(found) == 4
    assert status == 503


def test_closing_ends_though_a_worker_does_not():
    async def run(batch: RowBatch):
        await asyncio.sleep(60)

    async def go():
        batcher = Batcher(ROWS, FixedPool(run, 1))
        there = [asyncio.ensure_future(batcher.submit(str(i), rows(1), soon(50))) for i in range(2)]
        await asyncio.sleep(0)
        await batcher.close(0.05)
        return await asyncio.gather(*there, return_exceptions=True)

    begin = time.monotonic()
    assert [error.status for error in asyncio.run(go())] == [503, 503]
    assert time.monotonic() - begin < 5
