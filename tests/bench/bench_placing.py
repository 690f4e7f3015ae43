"""How good placements are. Prints JSON lines.

    python tests/bench/bench_placing.py [--graphs N]

Mean and largest gap to brute force, and to the best single device, of each policy and objective on random
graphs of up to 12 nodes (two devices) or 8 (three). How well their times are predicted: bench_reality.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from graph_runtime.plan.placing import OBJECTIVES, PLACEMENT_POLICIES, decide, evaluate
from graph_runtime.plan.placing.search import singles
from graph_runtime.testing.placing import random_problem


def gaps(graphs: int) -> Iterator[dict]:
    for devices, most in ((("cpu:0", "tt:0"), 12), (("cpu:0", "cpu:1", "tt:0"), 8)):
        for objective in OBJECTIVES:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in PLACEMENT_POLICIES}
            for seed in range(graphs):
                rng = np.random.default_rng(seed)
                problem = replace(
                    random_problem(rng, devices, nodes=int(rng.integers(4, most + 1))), objective=objective
                )
                options = [np.flatnonzero(row) for row in problem.allowed]
                best = evaluate(problem, np.array(list(itertools.product(*options)), np.int16)).min()
                single = evaluate(problem, singles(problem)).min()
                for name, rows in found.items():
                    ns = evaluate(problem, decide(problem, name)[None])[0]
                    rows.append((ns / max(best, 1) - 1, ns / max(single, 1) - 1))
            for name, rows in found.items():
                gap, against = np.array(rows).T
                yield {
                    "bench": "random",
                    "devices": len(devices),
                    "objective": objective,
                    "policy": name,
                    "graphs": graphs,
                    "mean_gap_percent": round(100 * float(gap.mean()), 3),
                    "worst_gap_percent": round(100 * float(gap.max()), 1),
                    "worst_against_single_percent": round(100 * float(against.max()), 1),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=100)
    for row in gaps(parser.parse_args().graphs):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
