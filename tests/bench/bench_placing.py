"""How good placements are, and how well their times are predicted. Prints JSON lines.

    python tests/bench/bench_placing.py random [--graphs N]
    python tests/bench/bench_placing.py reality [FILE.onnx ...] [--plans N] [--seconds S]

random: mean and largest gap to brute force, and to the best single device, of each policy and objective on
random graphs of up to 12 nodes (two devices) or 8 (three).
reality: graphs with parallel branches and the given models over cpu:0 + cpu:1, a core each: of several
placements the predicted makespan and the least measured time of a run through both devices' queues; the rank
correlation, and how far the placement that is predicted best is from the best measured. The machine's
constants are measured first, on one thread (tests/tools/fit_cpu.py).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import graph_runtime as gr
import graph_runtime.builder
import graph_runtime.config
from codegen.build import cached_library
from graph_runtime.costs import Machine
from graph_runtime.devices import parse_list
from graph_runtime.factory import adopt_params
from graph_runtime.model import Model
from graph_runtime.plan import Placement, plan
from graph_runtime.plan.placing import OBJECTIVES, POLICIES, PlacementProblem, decide, evaluate, make_problem
from graph_runtime.plan.placing.search import singles
from graph_runtime.prepare import prepare
from graph_runtime.sessions.zero_copy import ALIGNMENT
from graph_runtime.testing.placing import random_problem

PAIR = ("cpu:0", "cpu:1")
_ROUNDS = 5     # each plan in turn: a machine is slower now than then
_BURST = 4      # runs on end; a pause after them has a busy machine's scheduler let us run at once again


# **************** random graphs ****************

def gaps(graphs: int) -> Iterator[dict]:
    for devices, most in ((("cpu:0", "tt:0"), 12), (("cpu:0", "cpu:1", "tt:0"), 8)):
        for objective in OBJECTIVES:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in POLICIES}
            for seed in range(graphs):
                rng = np.random.default_rng(seed)
                problem = replace(random_problem(rng, devices, nodes=int(rng.integers(4, most + 1))),
                                  objective=objective)
                options = [np.flatnonzero(row) for row in problem.allowed]
                best = evaluate(problem, np.array(list(itertools.product(*options)), np.int16)).min()
                single = evaluate(problem, singles(problem)).min()
                for name, rows in found.items():
                    ns = evaluate(problem, decide(problem, name)[None])[0]
                    rows.append((ns / max(best, 1) - 1, ns / max(single, 1) - 1))
            for name, rows in found.items():
                gap, against = np.array(rows).T
                yield {"bench": "random", "devices": len(devices), "objective": objective, "policy": name,
                       "graphs": graphs, "mean_gap_percent": round(100 * float(gap.mean()), 3),
                       "worst_gap_percent": round(100 * float(gap.max()), 1),
                       "worst_against_single_percent": round(100 * float(against.max()), 1)}


# **************** reality ****************

def branches(widths: tuple[int, ...], depth: int, rows: int, blocks: int) -> Model:
    """``blocks`` blocks, each of as many chains of products as there are widths, summed at the end."""
    rng, b = np.random.default_rng(0), gr.GraphBuilder()

    def weight(name: str, *shape: int) -> gr.builder.Value:
        return b.param(name, (rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))

    x = b.input("x", (rows, 256))
    for block in range(blocks):
        ends = []
        for at, width in enumerate(widths):
            h, name = x, f"b{block}_{at}"
            for layer in range(depth):
                last = layer == depth - 1
                h = b.op("matmul", h, weight(f"{name}_{layer}", h.shape[1], 256 if last else width))
                h = h if last else b.op("gelu" if at % 2 else "relu", h)
            ends.append(h)
        total = ends[0]
        for end in ends[1:]:
            total = b.op("add", total, end)
        x = b.op("layer_norm", total, weight(f"g{block}", 256), weight(f"o{block}", 256))
    b.output(x)
    return Model.from_builder(b)


def measured_machine() -> Machine:
    """This machine's constants for one thread."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
    import fit_cpu

    return Machine(**fit_cpu.measure(), basis="fitted")


def candidates(problem: PlacementProblem, count: int) -> list[tuple[str, np.ndarray]]:
    """Distinct placements: policies' answers, those with a part of the nodes on the other device, and the
    schedule in runs that alternate."""
    rng, nodes = np.random.default_rng(1), problem.num_nodes
    calls = problem.graph.func_id >= 0
    reader = _first_readers(problem)
    answers = [(name, decide(problem, name)) for name in ("single", "mincut", "heft", "greedy")]
    found = {did[calls].tobytes(): (name, did) for name, did in answers}
    for _ in range(50 * count):
        name, base = answers[int(rng.integers(len(answers)))]
        if rng.random() < 0.4:
            cuts = np.sort(rng.integers(0, nodes, int(rng.integers(1, 40))))
            did, name = np.searchsorted(cuts, np.arange(nodes)) % 2, f"{len(cuts)} runs"
        else:
            share = float(rng.choice([0.03, 0.1, 0.3, 0.5]))
            did, name = np.where(rng.random(nodes) < share, 1 - base, base), f"{name}, {share:.0%} elsewhere"
        did = np.where(problem.allowed[np.arange(nodes), did], did, 1 - did).astype(np.int32)
        found.setdefault(did[calls].tobytes(), (name, did))
        if len(found) == count:
            break
    return [(name, np.where(calls, did, did[reader])) for name, did in found.values()]


def _first_readers(problem: PlacementProblem) -> np.ndarray:
    """int64 [nodes]: the node that reads an input first, itself for all others: constants lie there, so that
    sessions share their arrays."""
    graph = problem.graph
    reader = np.arange(graph.num_nodes)
    slot = np.repeat(np.arange(graph.num_nodes), np.diff(graph.in_ptr))
    made_by = graph.entry_nid[graph.in_eid]
    reader[made_by[::-1]] = slot[::-1]                 # the first is written last
    return np.where(graph.func_id < 0, reader, np.arange(graph.num_nodes))


def reality(name: str, source: object, machine: Machine, count: int, seconds: float) -> Iterator[dict]:
    """A line a placement, then one for the model."""
    prepared = prepare(source, ["cpu:0"])
    graph, listed = prepared.model.graph, parse_list(PAIR)
    problem = make_problem(graph, listed, host=machine, objective="makespan")
    made = candidates(problem, count)
    predicted = evaluate(problem, np.stack([did for _, did in made]))
    built, constants = cached_library([prepared.plan]), shared(prepared.model)
    modules = []
    for policy, did in made:
        placed = Placement(graph, listed, did, np.zeros(len(did), np.int32), (policy,), problem=problem)
        planned = plan(graph, listed, placement=placed, reuse="safe", reorder=False)
        modules.append(opened(planned, built, prepared.model, constants))
    took = [float("inf")] * len(made)
    for _ in range(_ROUNDS):
        took = [min(ns, least_ns(module, seconds / _ROUNDS))
                for ns, module in zip(took, modules, strict=True)]
    for (policy, did), ns, real in zip(made, predicted.tolist(), took, strict=True):
        yield {"bench": "plan", "model": name, "policy": policy, "predicted_ms": round(ns / 1e6, 4),
               "measured_ms": round(real / 1e6, 4), "on_second": int((did == 1).sum())}
    chosen = took[int(np.argmin(predicted))]
    yield {"bench": "reality", "model": name, "plans": len(made), "nodes": graph.num_nodes,
           "spearman": round(spearman(predicted, np.array(took)), 3),
           "chosen_over_best": round(chosen / min(took), 3),
           "predicted_over_measured": round(float(np.median(predicted / np.array(took))), 3)}


def shared(model: Model) -> dict[str, np.ndarray]:
    """The model's constants, read once, where sessions may adopt them."""
    found = {}
    for name, constant in model.constants.items():
        value = constant.read()
        room = np.empty(value.nbytes + ALIGNMENT, np.uint8)
        begin = -room.ctypes.data % ALIGNMENT
        found[name] = room[begin:begin + value.nbytes].view(value.dtype).reshape(value.shape)
        found[name][...] = value
    return found


def opened(planned: gr.Plan, library: Path | None, model: Model,
           constants: dict[str, np.ndarray]) -> gr.GraphModule:
    """A session whose inputs are set."""
    module = gr.create(planned, library, threads=1, queues="threads")
    adopt_params(module, constants)
    rng = np.random.default_rng(0)
    for name in model.input_names:
        info = module.get_input(name)
        value = rng.standard_normal(info.shape) if "float" in str(info.dtype) else np.zeros(info.shape)
        module.set_input(name, value.astype(info.numpy().dtype))
    return module


def least_ns(module: gr.GraphModule, seconds: float) -> float:
    found: list[int] = []
    while not found or sum(found) < seconds * 1e9:
        for _ in range(_BURST):
            start = time.perf_counter_ns()
            module.run()
            found.append(time.perf_counter_ns() - start)
        time.sleep(2e-9 * sum(found[-_BURST:]))
    return min(found)


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation; equal values share their mean rank."""
    def ranks(values: np.ndarray) -> np.ndarray:
        _, of, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[of]
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("random", "reality"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    if options.what == "random":
        for row in gaps(options.graphs):
            print(json.dumps(row), flush=True)
        return
    with gr.config.config(NUM_THREADS=1):
        machine = measured_machine()
        print(json.dumps({"bench": "machine", "product_gflops": machine.product_gflops,
                          "simple_gflops": machine.simple_gflops, "gb_per_s": machine.gb_per_s}), flush=True)
        sources: list[tuple[str, object]] = [
            ("branches", branches((256, 384, 512), 3, 128, 3)), ("narrow", branches((64, 64), 4, 32, 4))]
        for name, source in [*sources, *((file.stem, file) for file in options.files)]:
            for row in reality(name, source, machine, options.plans, options.seconds):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
