"""The comparison of Baechi (Jeon et al., SoCC 2020): placements of its algorithms beside one device and an
expert's cut, where memory is enough and where it is short. Prints JSON lines.

    python tests/bench/bench_baechi.py [--models inception,vit,translator] [--devices 4]

Published, on four GPUs with Inception-v3, GNMT and a Transformer: m-ETF and m-SCT are at most 6.2 per cent
above the experts' step times where memory is short, one GPU then runs out of memory, and m-TOPO is far
behind. Here: networks of the corpus of these kinds, four equal chips, forward passes; the expert is the best
contiguous cut into layers. "short": each chip has room for 40 per cent of what one would need.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from graph_runtime.base.errors import CapacityError, PlanError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.options import Options
from graph_runtime.plan.placing import PlacementProblem, decide, evaluate, make_problem
from graph_runtime.plan.placing.pipeline import contiguous
from graph_runtime.plan.placing.schedule import NO_ROOM
from graph_runtime.plan.pricing import Pricing
from graph_runtime.study import BASELINES, workload

SHORT = 0.4
POLICIES = ("m-topo", "m-etf", "m-sct")


def problem_of(name: str, devices: int) -> PlacementProblem:
    one = workload(name)
    listed = parse_list([f"tt:{i}=p150" for i in range(devices)])
    return make_problem(one.graph, listed, Pricing(Options(objective="makespan"), one.inputs))


def short_of(problem: PlacementProblem) -> PlacementProblem:
    """The same with little memory."""
    room = problem.room
    whole = room.resident.sum(0) + room.most_live.max(0)
    available = (whole * SHORT).astype(np.int64)
    idle = (problem.cost.min(0) >= 1 << 49)[room.device]
    available[idle] = room.available[idle]
    return replace(problem, room=replace(room, available=available))


def measured(problem: PlacementProblem, did: np.ndarray) -> int | None:
    """ns, None: it does not fit."""
    ns = int(evaluate(problem, did.astype(np.int16)[None])[0])
    return ns if ns < NO_ROOM else None


def rows(models: list[str], devices: int) -> Iterator[dict]:
    for name in models:
        enough = problem_of(name, devices)
        for memory, problem in (("enough", enough), ("short", short_of(enough))):
            first = np.where(problem.graph.func_id < 0, problem.pin, problem.running[0])
            found: dict[str, tuple[int | None, float]] = {"single": (measured(problem, first), 0.0)}
            begin = time.perf_counter()
            cuts = [
                measured(problem, cut)
                for cut in (*contiguous(replace(problem, objective="throughput")), first)
            ]
            found["expert"] = min((ns for ns in cuts if ns), default=None), time.perf_counter() - begin
            for policy in (*POLICIES, "mincut", "heft"):
                begin = time.perf_counter()
                try:
                    did = decide(problem, BASELINES.get(policy, policy))
                    found[policy] = measured(problem, did), time.perf_counter() - begin
                except (CapacityError, PlanError) as error:
                    found[policy] = None, time.perf_counter() - begin
                    print(f"# {name} {memory} {policy}: {str(error)[:100]}", flush=True)
            expert = found["expert"][0]
            for policy, (ns, seconds) in found.items():
                yield {
                    "bench": "baechi",
                    "model": name,
                    "memory": memory,
                    "policy": policy,
                    "ms": None if ns is None else round(ns / 1e6, 3),
                    "over_expert_percent": None
                    if None in (ns, expert)
                    else round(100 * (ns / expert - 1), 1),
                    "seconds": round(seconds, 2),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description="Baechi's comparison. Prints JSON lines.")
    parser.add_argument("--models", default="inception,vit,translator")
    parser.add_argument("--devices", type=int, default=4)
    args = parser.parse_args()
    for row in rows(args.models.split(","), args.devices):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
