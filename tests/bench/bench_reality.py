"""How well times of placements are predicted: one model over cpu:0 + cpu:1, a core each. Prints JSON lines.

    python tests/bench/bench_reality.py FILE|branches|narrow [--plans N] [--seconds S] [--hold] [--dump F]

Predicted are makespans, with the machine's constants, measured before on one thread (tests/tools/fit_cpu.py);
measured is a run through both devices' queues, whose threads are pinned to a core each. Rounds, each plan a
burst in each; of a burst the least counts, of the rounds the lower decile, for what disturbs only adds.
A line a plan, then one for the model: the rank correlation (Spearman), how far the plan that is predicted
best is from the best measured, and `noise`, the rank correlation of the even rounds with the odd ones:
no prediction can be expected to do better.

The plans are a sample of the space by its predicted times, and without a look at what is measured: the
answers of the policies first, then from a pool of 600 random placements those that spread the predicted times
as evenly as they can, from the best to the worst. A placement of the pool is a policy's answer or
everything on cpu:0, with 1 to 100 % of its nodes elsewhere, or the schedule cut into 1 to nodes / 2 runs that
alternate.

--seconds: how long is measured (30), beside 10 to 35 for all the rest; a first run also compiles kernels.
--hold: on a machine that others use too: where our threads are idle a loop of lower priority keeps the cores,
so that no other process runs beside them. Cores then never sleep, so that hand-offs are cheaper, measured and
predicted ones. Needs the right to real-time priorities.
--dump: placements, rounds, and begin and end of each step, for work on the prediction.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from graph_runtime.codegen.build import cached_library

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base import config
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.options import Options
from graph_runtime.binding.packing import pack
from graph_runtime.costs import CostModel, Machine
from graph_runtime.ir.model import Model
from graph_runtime.ir.value import Value
from graph_runtime.plan import Placement, plan
from graph_runtime.plan.placing import PlacementProblem, decide, evaluate, make_problem
from graph_runtime.plan.pricing import Pricing
from graph_runtime.run.factory import adopt_params
from graph_runtime.run.sessions.zero_copy import ALIGNMENT
from graph_runtime.views.measured import queued_run

PAIR = ("cpu:0", "cpu:1")
_POLICIES = ("single", "greedy", "mincut", "heft")
_POOL = 600
_LOOPS, _OURS = 1, 2  # real-time priorities
_QUANTILE = 0.1  # of the rounds
_BURST_NS = 60_000_000  # a turn of a plan: its first run finds the caches as another plan left them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="an ONNX file, or one of the graphs made here: branches, narrow")
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--dump", type=Path)
    options = parser.parse_args()
    made = {
        "branches": lambda: branches((256, 384, 512), 3, 128, 3),
        "narrow": lambda: branches((64, 64), 4, 32, 4),
    }
    source = made.get(options.model, lambda: Path(options.model))()
    with config.config(NUM_THREADS=1), Held(options.hold) as held:
        machine = measured_machine()
        for row in reality(Path(options.model).stem, source, machine, held, options):
            print(json.dumps(row), flush=True)


def branches(widths: tuple[int, ...], depth: int, rows: int, blocks: int) -> Model:
    """``blocks`` blocks, each of as many chains of products as there are widths, summed at the end."""
    rng, b = np.random.default_rng(0), gr.GraphBuilder()

    def weight(name: str, *shape: int) -> Value:
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
    """This machine's constants for one thread, each device's threads on their core."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
    import fit_cpu

    fit_cpu.handoffs()
    pin_queues()
    return Machine(**fit_cpu.measure(), basis="fitted")


# **************** which plans ****************


def sample(problem: PlacementProblem, count: int) -> list[tuple[str, np.ndarray]]:
    """(its maker, int32 [nodes]) of distinct placements: the policies', then a spread of the pool."""
    calls = problem.graph.func_id >= 0
    answers = [(name, decide(problem, name)) for name in _POLICIES]
    known: dict[bytes, tuple[str, np.ndarray]] = {}
    for name, did in (*answers, *pool(problem, answers)):
        known.setdefault(did[calls].tobytes(), (name, did))
    found = list(known.values())
    first = len({did[calls].tobytes() for _, did in answers})
    ns = evaluate(problem, np.stack([did for _, did in found])).astype(float)
    chosen = list(range(min(first, count)))
    while len(chosen) < min(count, len(found)):  # the one that is furthest from all that are chosen
        gap = np.abs(ns[:, None] - ns[chosen]).min(1)
        gap[chosen] = -1
        chosen.append(int(np.argmax(gap)))
    return [found[at] for at in chosen]


def pool(
    problem: PlacementProblem, answers: list[tuple[str, np.ndarray]]
) -> Iterator[tuple[str, np.ndarray]]:
    rng, nodes = np.random.default_rng(1), problem.num_nodes
    for _ in range(_POOL):
        if rng.random() < 0.5:
            count = int(2 ** rng.uniform(0, np.log2(nodes / 2)))
            cuts = np.sort(rng.integers(0, nodes, count))
            did, name = np.searchsorted(cuts, np.arange(nodes)) % 2, f"{count + 1} runs"
        else:
            name, base = answers[int(rng.integers(len(answers)))]
            share = 100 ** -rng.random()
            did, name = np.where(rng.random(nodes) < share, 1 - base, base), f"{name}, {share:.0%} elsewhere"
        yield name, np.where(problem.allowed[np.arange(nodes), did], did, 1 - did).astype(np.int32)


# **************** measuring ****************

# ends with its parent: a loop of real-time priority that stays behind would starve the machine
_LOOP = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


class Held:
    """While open, a process on each core that only runs where ours do not, but before all others."""

    def __init__(self, wanted: bool):
        self.cores = sorted(os.sched_getaffinity(0)) if wanted else []
        self.loops: list[subprocess.Popen] = []

    def __enter__(self) -> Held:
        for core in self.cores:
            loop = subprocess.Popen([sys.executable, "-c", _LOOP])
            os.sched_setaffinity(loop.pid, {core})
            os.sched_setscheduler(loop.pid, os.SCHED_RR, os.sched_param(_LOOPS))
            self.loops.append(loop)
        return self

    def __exit__(self, *_: object) -> None:
        for loop in self.loops:
            loop.kill()
            loop.wait()

    def rest(self, seconds: float) -> None:
        """Lets others run: the system stops a process that takes all of a core for a second, in the midst of
        a run."""
        for signal_ in (signal.SIGSTOP, signal.SIGCONT):
            for loop in self.loops:
                loop.send_signal(signal_)
            if signal_ == signal.SIGSTOP and self.loops:
                time.sleep(seconds)


def reality(
    name: str, source: object, machine: Machine, held: Held, options: argparse.Namespace
) -> Iterator[dict]:
    """A line a plan, then one for the model."""
    prepared = prepare(source, ["cpu:0"])
    graph, listed = prepared.model.graph, parse_list(PAIR)
    problem = make_problem(graph, listed, Pricing(Options(costs=CostModel(machine), objective="makespan")))
    made = sample(problem, options.plans)
    predicted = evaluate(problem, np.stack([did for _, did in made]))
    built, constants = cached_library([prepared.plan]), shared(prepared.model)
    modules = []
    for policy, did in made:
        placed = Placement(
            graph, listed, by_reader(problem, did), np.zeros(len(did), np.int32), (policy,), problem=problem
        )
        planned = plan(graph, listed, placed=placed, reuse="safe", packer=pack)
        modules.append(opened(planned, built, prepared.model, constants))
    pin_queues()
    rounds = measure(modules, options.seconds, held)
    took = np.quantile(rounds, _QUANTILE, 0)
    for (policy, did), ns, real in zip(made, predicted.tolist(), took.tolist(), strict=True):
        yield {
            "bench": "plan",
            "model": name,
            "policy": policy,
            "predicted_ms": round(ns / 1e6, 4),
            "measured_ms": round(real / 1e6, 4),
            "on_second": int((did == 1).sum()),
        }
    even, odd = (np.quantile(half, _QUANTILE, 0) for half in (rounds[::2], rounds[1::2]))
    yield {
        "bench": "reality",
        "model": name,
        "plans": len(made),
        "nodes": graph.num_nodes,
        "rounds": len(rounds),
        "held": options.hold,
        "spearman": round(spearman(predicted, took), 3),
        "noise": round(spearman(even, odd), 3),
        "chosen_over_best": round(float(took[np.argmin(predicted)] / took.min()), 3),
        "predicted_over_measured": round(float(np.median(predicted / took)), 3),
        "spread_measured": round(float(took.max() / took.min()), 3),
        "spread_predicted": round(float(predicted.max() / predicted.min()), 3),
    }
    if options.dump:
        dump(options.dump, modules, made, rounds, machine)


def by_reader(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """``did`` with each input on the device of the node that reads it first: constants lie there, so that
    sessions share their arrays."""
    graph = problem.graph
    reader = np.arange(graph.num_nodes)
    slot = np.repeat(reader, np.diff(graph.in_ptr))
    made_by = graph.entry_nid[graph.in_eid]
    reader[made_by[::-1]] = slot[::-1]  # the first is written last
    return np.where(graph.func_id < 0, did[reader], did)


def shared(model: Model) -> dict[str, np.ndarray]:
    """The model's constants, read once, where sessions may adopt them."""
    found = {}
    for name, constant in model.constants.items():
        value = constant.read()
        room = np.empty(value.nbytes + ALIGNMENT, np.uint8)
        begin = -room.ctypes.data % ALIGNMENT
        found[name] = room[begin : begin + value.nbytes].view(value.dtype).reshape(value.shape)
        found[name][...] = value
    return found


def opened(
    planned: gr.Plan, library: Path | None, model: Model, constants: dict[str, np.ndarray]
) -> gr.GraphModule:
    """A session whose inputs are set, and that ran once."""
    module = gr.create(planned, library, threads=1, queues="threads")
    adopt_params(module, constants)
    rng = np.random.default_rng(0)
    for name in model.input_names:
        info = module.get_input(name)
        value = rng.standard_normal(info.shape) if "float" in str(info.dtype) else np.zeros(info.shape)
        module.set_input(name, value.astype(info.numpy().dtype))
    module.run()
    return module


def pin_queues() -> None:
    """Queues of cpu:N get core N, the thread that asks for runs all; and where the system lets us they go
    before all other processes, which would else look like slow plans: more so those that keep to one core."""
    cores = sorted(os.sched_getaffinity(0))
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(_OURS))
        name = (thread / "comm").read_text().strip()
        if name.startswith("gr-cpu:"):
            at = int(name.removeprefix("gr-cpu:").split("-")[0])
            os.sched_setaffinity(int(thread.name), {cores[at % len(cores)]})


def measure(modules: list[gr.GraphModule], seconds: float, held: Held) -> np.ndarray:
    """ns, int64 [rounds, modules]: the least of each turn."""
    until, rounds = time.perf_counter() + seconds, []
    while time.perf_counter() < until or len(rounds) < 4:
        rounds.append([burst(module, held) for module in modules])
    return np.array(rounds)


def burst(module: gr.GraphModule, held: Held) -> int:
    found: list[int] = []
    while sum(found) < _BURST_NS:
        start = time.perf_counter_ns()
        module.run()
        found.append(time.perf_counter_ns() - start)
    held.rest(0.1e-9 * sum(found))
    return min(found)


def dump(
    path: Path,
    modules: list[gr.GraphModule],
    made: list[tuple[str, np.ndarray]],
    rounds: np.ndarray,
    machine: Machine,
) -> None:
    """Of each plan p also `steps_p` int64 [runs, steps, 2], begin and end of its steps, and their nodes."""
    columns = {
        "did": np.stack([did for _, did in made]),
        "rounds": rounds,
        "policies": np.array([name for name, _ in made]),
        "machine": np.array(repr(machine)),
    }
    for at, module in enumerate(modules):
        module.run()
        lines = [queued_run(module.session) for _ in range(3)]
        columns[f"steps_{at}"] = np.array([np.stack([t.start, t.end], 1) for t in lines])
        columns[f"names_{at}"] = np.array([module.session.plan.graph.names[n] for n in lines[0].nid])
        columns[f"queue_{at}"] = lines[0].queue
    np.savez_compressed(path, **columns)


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation; equal values share their mean rank."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, of, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[of]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


if __name__ == "__main__":
    main()
