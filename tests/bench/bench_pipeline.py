"""Pipelines over many devices: what placements for throughput reach. Prints JSON lines.

    python tests/bench/bench_pipeline.py [--devices 4,8,16,32] [--policies heft,mincut] [--graphs chain,...]

The chips are those of a Galaxy. Each row has the time from run to run, the bound that no placement goes
below, their ratio, that time of the best contiguous cut into equal shares, and the seconds of CPU that
the policy took.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

import numpy as np

import graph_runtime as gr
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.options import Options
from graph_runtime.ir.graph import Graph
from graph_runtime.plan.placing import decide, evaluate, make_problem
from graph_runtime.plan.placing.bounds import lower_bound
from graph_runtime.plan.pricing import Pricing


def chain(length: int = 64) -> Graph:
    """``length`` products, each with a relu behind it."""
    b = gr.GraphBuilder()
    x = b.input("x", (512, 1024))
    for i in range(length):
        x = b.op("relu", b.op("matmul", x, b.param(f"w{i}", (1024, 1024))))
    b.output(x)
    return b.build()


def resnet(blocks: int = 32) -> Graph:
    """``blocks`` of two products and a shortcut around them."""
    b = gr.GraphBuilder()
    x = b.input("x", (512, 1024))
    for i in range(blocks):
        y = b.op("relu", b.op("matmul", x, b.param(f"u{i}", (1024, 1024))))
        y = b.op("matmul", y, b.param(f"v{i}", (1024, 1024)))
        x = b.op("relu", b.op("add", x, y))
    b.output(x)
    return b.build()


def uneven(stages: int = 6) -> Graph:
    """Stages of four blocks with a shortcut, every other one twice as wide as the one before, so that
    equal numbers of nodes are unequal work."""
    b = gr.GraphBuilder()
    rows, width = 4096, 256
    x = b.input("x", (rows, width))
    for stage in range(stages):
        for block in range(4):
            name = f"{stage}_{block}"
            y = b.op("relu", b.op("matmul", x, b.param(f"u{name}", (width, 2 * width))))
            y = b.op("matmul", y, b.param(f"v{name}", (2 * width, width)))
            x = b.op("relu", b.op("add", x, y))
        if stage % 2:
            x = b.op("matmul", x, b.param(f"w{stage}", (width, 2 * width)))
            width *= 2
    b.output(x)
    return b.build()


GRAPHS = {"chain": chain, "resnet": resnet, "uneven": uneven}


def rows(graphs: list[str], counts: list[int], policies: list[str]) -> Iterator[dict]:
    for name in graphs:
        graph = GRAPHS[name]()
        for count in counts:
            devices = parse_list([f"tt:{i}" for i in range(count)])
            problem = make_problem(
                graph, devices, Pricing(Options(objective="throughput", topology="galaxy"))
            )
            calls = np.flatnonzero(graph.func_id >= 0)
            even = np.zeros(graph.num_nodes, np.int16)
            even[calls] = np.arange(len(calls)) * count // len(calls)
            bound = lower_bound(problem)
            for policy in policies:
                begin = time.process_time()
                did = decide(problem, policy)
                seconds = time.process_time() - begin
                ns = int(evaluate(problem, did[None])[0])
                yield {
                    "bench": "pipeline",
                    "graph": name,
                    "devices": count,
                    "policy": policy,
                    "ms": round(ns / 1e6, 3),
                    "bound_ms": round(bound / 1e6, 3),
                    "ratio": round(ns / bound, 3),
                    "even_cut_ms": round(int(evaluate(problem, even[None])[0]) / 1e6, 3),
                    "seconds": round(seconds, 2),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="4,8,16,32")
    parser.add_argument("--policies", default="greedy,heft,mincut")
    parser.add_argument("--graphs", default="chain,resnet,uneven")
    words = parser.parse_args()
    counts = [int(count) for count in words.devices.split(",")]
    for row in rows(words.graphs.split(","), counts, words.policies.split(",")):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
