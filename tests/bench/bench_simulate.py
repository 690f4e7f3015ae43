"""How fast a plan is simulated, as JSON lines: graph, nodes, events, seconds (the best of --repeat),
lanes_seconds (of them, cutting the plan into queues), trace_seconds.

    python tests/bench/bench_simulate.py [--nodes 10000] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import chains
import numpy as np

import graph_runtime as gr
from graph_runtime.plan import plan
from graph_runtime.plan.queues.lanes import lanes
from graph_runtime.plan.types import Plan
from graph_runtime.testing.graphs import random_graph
from graph_runtime.views.trace import trace_json


def best(call: Callable[[], object], repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def plans(nodes: int) -> dict[str, Plan]:
    """A chain-like graph on one board, and a random one over three devices with copies between them."""
    chain = gr.load_graph(chains.graph_json("diamond", nodes))
    devices = ["cpu:0", "tt:0", "tt:1"]
    mixed = random_graph(np.random.default_rng(0), devices, nodes=nodes)
    return {"diamond": plan(chain, ["cpu:0", "tt:0"], place={"*": "tt:0"}), "mixed": plan(mixed, devices)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    for name, planned in plans(args.nodes).items():
        timeline = gr.simulate(planned)
        print(
            json.dumps(
                {
                    "graph": name,
                    "nodes": planned.graph.num_nodes,
                    "events": len(timeline),
                    "seconds": round(best(lambda p=planned: gr.simulate(p), args.repeat), 4),
                    "lanes_seconds": round(best(lambda p=planned: lanes(p), args.repeat), 4),
                    "trace_seconds": round(best(lambda t=timeline: trace_json(t), args.repeat), 4),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
