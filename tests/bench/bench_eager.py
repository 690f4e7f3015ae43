"""What an eager op costs to enqueue, and a gather against single reads, as JSON lines.

    python tests/bench/bench_eager.py [--rounds 15]

"enqueue": us a call of add on float32[16], until Python goes on; the queue is drained outside of the clock;
"enqueue cpu" is the processor time of the calling thread alone, which a busy machine disturbs less. "chain":
with the wait for all of it, an op. numpy, and torch where it is installed, do the same in turn in the same
run. "gather": us for 100 tensors of float32[16] by one gather, and by 100 reads, on each device. Medians, and
the least.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

import graph_runtime as gr
from graph_runtime import eager

BATCH = 400  # ops between two waits: the queue takes more before it holds back


Add = Callable[[object, object], object]
Drain = Callable[[object], object]


def enqueue(add: Add, x: object, drain: Drain, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds a call, until Python goes on."""
    start = clock()
    for _ in range(BATCH):
        last = add(x, x)
    took = clock() - start
    drain(last)
    return took / BATCH


def enqueue_cpu(add: Add, x: object, drain: Drain) -> float:
    return enqueue(add, x, drain, time.thread_time)


def chain(add: Add, x: object, drain: Drain) -> float:
    """Seconds an op, until all are done."""
    start, y = time.perf_counter(), x
    for _ in range(BATCH):
        y = add(y, x)
    drain(y)
    return (time.perf_counter() - start) / BATCH


def contenders() -> dict[str, tuple[Add, object, Drain]]:
    """name -> (add, a value of 16 ones, how to wait)."""
    ones = np.ones(16, np.float32)
    found = {"numpy": (np.add, ones, lambda y: y)}
    for device in ("cpu:0", "tt:0"):
        found[f"eager {device}"] = (eager.add, eager.array(ones, device), lambda y: y.wait())
        found[f"operator {device}"] = (lambda a, b: a + b, eager.array(ones, device), lambda y: y.wait())
    try:
        import torch

        found["torch"] = (torch.add, torch.ones(16), lambda y: y)
    except ImportError:
        pass
    return found


def report(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """{"median_us": {name: us}, "least_us": ...}"""
    return {
        what: {name: round(choose(taken) * 1e6, 3) for name, taken in times.items()}
        for what, choose in (("median_us", statistics.median), ("least_us", min))
    }


def ops(rounds: int) -> None:
    table = contenders()
    for bench, measure in (("enqueue", enqueue), ("enqueue cpu", enqueue_cpu), ("chain", chain)):
        times: dict[str, list[float]] = {name: [] for name in table}
        for turn in range(rounds + 2):
            for name, (add, x, drain) in table.items():
                took = measure(add, x, drain)
                if turn >= 2:
                    times[name].append(took)
        print(json.dumps({"bench": bench, "op": "add float32[16]", **report(times)}), flush=True)


def gathers(rounds: int) -> None:
    for device in ("cpu:0", "tt:0"):
        tensors = [eager.array(np.full(16, i, np.float32), device) for i in range(100)]
        times: dict[str, list[float]] = {"gather": [], "reads": []}
        for _ in range(rounds):
            for name, read in (("gather", gr.gather), ("reads", lambda found: [t.numpy() for t in found])):
                start = time.perf_counter()
                arrays = read(tensors)
                times[name].append(time.perf_counter() - start)
                assert [a[0] for a in arrays] == list(range(100))
        row = report(times)
        ratio = row["median_us"]["reads"] / row["median_us"]["gather"]
        print(
            json.dumps(
                {
                    "bench": "gather of 100 float32[16]",
                    "device": device,
                    **row,
                    "reads_over_gather": round(ratio, 2),
                }
            ),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    ops(rounds)
    gathers(rounds)


if __name__ == "__main__":
    main()
