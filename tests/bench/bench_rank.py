"""How well predicted times of place order placements as simulate does: rank correlation over random ones.

    python tests/bench/bench_rank.py [--placements 500] [--objective makespan] [--streamed]

A JSON line a model and device list: placements, rank (Spearman), worst (largest relative difference). For
throughput the simulated time is that from run to run once the pipeline is full. ``--streamed``: every weight
stays on the host, and each run copies it.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable

import numpy as np

from graph_runtime import GraphBuilder
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.ir.graph import Graph
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.plan.placing import evaluate
from graph_runtime.plan.types import Plan
from graph_runtime.simulation.simulation import simulate

_NUMBERS = itertools.count()  # names of weights
# what runs on queues does not wait for storage
_REUSE = {"serial": "serial", "makespan": "safe", "throughput": "safe"}
_RUNS = 24  # that are simulated for the time from run to run
LISTS = (("cpu:0", "tt:0=n150"), ("tt:0=n150", "tt:1=p150"), ("cpu:0", "tt:0=n150", "tt:1=p150"))
CABLED = (
    (("cpu:0", "tt:0", "tt:1"), "n300"),
    (tuple(f"tt:{i}" for i in range(8)), "t3000"),
    (("cpu:0", *(f"tt:{i}" for i in range(12))), "galaxy"),
)


def _stack(b: GraphBuilder, x, widths, op="relu"):
    for width in widths:
        x = b.op(op, b.op("matmul", x, b.param(f"w{next(_NUMBERS)}", (x.type.shape[-1], width))))
    return x


def _network(make: Callable) -> Graph:
    b = GraphBuilder()
    b.output(make(b, b.input("x", (512, 512))))
    return b.build()


def _branches(b, x, count, depth):
    ends = [_stack(b, x, [256] * depth, "tanh") for _ in range(count)]
    return b.op("concatenate", *ends, axis=1)


def _residual(b, x, blocks):
    for _ in range(blocks):
        x = b.op("add", x, _stack(b, x, (1024, 512)))
    return x


def _attention(b, x):
    q, k, v = (_stack(b, x, [512], "tanh") for _ in range(3))
    return b.op("add", x, b.op("matmul", b.op("softmax", b.op("matmul", q, b.op("transpose", k))), v))


def _two_inputs(b, x):
    return b.op("add", _stack(b, x, (512, 512)), _stack(b, b.input("y", (512, 512)), (512, 512)))


MODELS: dict[str, Callable] = {
    "mlp": lambda b, x: _stack(b, x, (2048, 2048, 512)),
    "thin": lambda b, x: _stack(b, x, (64, 64, 64, 64)),
    "branches": lambda b, x: _branches(b, x, 3, 2),
    "wide": lambda b, x: _branches(b, x, 6, 1),
    "residual": lambda b, x: _residual(b, x, 3),
    "attention": _attention,
    "two inputs": _two_inputs,
    "elementwise": lambda b, x: b.op("softmax", b.op("add", b.op("exp", x), b.op("tanh", b.op("relu", x)))),
}


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, of equal values their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[inverse]


def simulated(planned: Plan, objective: str) -> float:
    """ns of a plan in an objective, by simulation."""
    if objective == "throughput":
        timeline = simulate(planned, runs=_RUNS, in_flight=_RUNS)
        ends = np.maximum.accumulate(timeline.run_ends)
        return (ends[-1] - ends[_RUNS // 2 - 1]) / (_RUNS - _RUNS // 2)
    timeline = simulate(planned)
    return timeline.latency_ns if objective == "makespan" else int(timeline.duration.sum())


def measure(
    model: str,
    devices: tuple[str, ...],
    count: int,
    objective: str = "makespan",
    seed: int = 0,
    topology: str | None = None,
    streamed: bool = False,
) -> dict:
    """Predicted and simulated times of ``count`` random placements."""
    graph, rng = _network(MODELS[model]), np.random.default_rng(seed)
    listed, inputs = parse_list(devices), [n for n in ("x", "y") if n in graph.input_names]
    stream = ["w*"] if streamed and any(name[0] == "w" for name in graph.input_names) else []
    said, seen = [], []
    for _ in range(count):
        weights = rng.dirichlet(np.ones(len(devices)))

        def drawn(problem, weights=weights):
            chances = np.where(problem.allowed, np.resize(weights, problem.num_devices), 0)
            chances = np.where(chances.any(1)[:, None], chances, problem.allowed)
            return (rng.random((problem.num_nodes, 1)) * chances.sum(1)[:, None] >= chances.cumsum(1)).sum(1)

        placed = place(
            graph,
            listed,
            placement=drawn,
            inputs=inputs,
            objective=objective,
            topology=topology,
            stream=stream,
        )
        rows = np.where(graph.func_id < 0, placed.problem.pin, placed.did)
        said.append(int(evaluate(placed.problem, rows[None])[0]))
        seen.append(simulated(plan(graph, listed, placed=placed, reuse=_REUSE[objective]), objective))
    a, b = np.array(said), np.array(seen)
    equal = (a == a[0]).all() or (b == b[0]).all()
    rank = 1.0 if equal and (a == b).all() else float(np.corrcoef(ranks(a), ranks(b))[0, 1])
    worst = float(np.abs(a / b - 1).max())
    facts = {"model": model, "devices": devices, "topology": topology, "objective": objective}
    return {**facts, "streamed": bool(stream), "placements": count, "rank": round(rank, 4), "worst": worst}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--placements", type=int, default=500)
    parser.add_argument("--objective", default="makespan", choices=tuple(_REUSE))
    parser.add_argument("--streamed", action="store_true")
    words = parser.parse_args()
    for devices, topology in (*((devices, None) for devices in LISTS), *CABLED):
        if words.streamed and not devices[0].startswith("cpu"):
            continue  # none keeps the weights
        for model in MODELS:
            row = measure(
                model, devices, words.placements, words.objective, topology=topology, streamed=words.streamed
            )
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
