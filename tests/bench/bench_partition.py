"""How evenly the host's kernels cut their work for 1 to 64 threads, on this machine, as JSON lines.

    python tests/bench/bench_partition.py [--models resnet50,bert] [--threads 1-64] [--repeats 3]

Nothing runs in parallel: each kernel gets an environment that says it has n threads, cuts its work as it
does for them, and its pieces run one after the other, each timed by this thread's processor clock (the
least of ``repeats``). Then the pool's own rule is played over these times: a stretch of the pieces for each
thread, and a thread that is done takes pieces of the others. What n cores do to each other (memory
bandwidth, clocks, caches that two share) is not in it.

A line of a node has its kernel, its shapes, how often the model has it, for each number of threads the
``pieces``, and ``balance``: the time of all pieces over threads x the time until the last is done, 1 if
none waits. ``overhead``: the time of all pieces over that for one thread. A line of a model has the
``speedup`` that this makes by Amdahl's sum, with WAKE_US for each job that is given to other threads.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections import Counter
from collections.abc import Sequence

import models_images as images
import models_text as text
import numpy as np
from machine import machine

from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.binding.programs.program import Kernel, generic_kernel
from graph_runtime.ir.graph import Func, TensorType
from graph_runtime.run.device_handles import open_device

ffi = core.ffi
MODELS = {
    "resnet50": lambda: images.resnet50(1),
    "bert": lambda: text.bert(1, tokens=128, layers=1, width=768, heads=12),
}
WAKE_US = (
    2.0  # of a job for several threads: a worker that spins sees it in 0.1 us, and the last is waited for
)
Node = tuple[Func, tuple[TensorType, ...], tuple[TensorType, ...]]


def nodes(model: str) -> Counter[Node]:
    """The calls of a model's kernels as they are run on a host, with how often they occur."""
    graph = json.loads(model)
    shapes = graph["attrs"]["shape"][1]
    params = {
        node["name"]: np.full(shapes[graph["node_row_ptr"][i]], 0.01, np.float32)
        for i, node in enumerate(graph["nodes"])
        if node["op"] == "null" and node["name"] != "image"
    }
    planned = prepare(model, ["cpu:0"], params=params, fuse=True).plan.graph

    def types(eids: Sequence[int]) -> tuple[TensorType, ...]:
        return tuple(planned.types[planned.type_id[e]] for e in eids)

    found: Counter[Node] = Counter()
    known: dict[str, Node] = {}
    for nid, index in enumerate(planned.func_id):
        if index < 0 or planned.funcs[index].name.startswith("__"):
            continue
        func = planned.funcs[index]
        node = (
            func,
            types(planned.in_eid[planned.in_ptr[nid] : planned.in_ptr[nid + 1]]),
            types(range(planned.row_ptr[nid], planned.row_ptr[nid + 1])),
        )
        found[known.setdefault(repr((func.op, sorted(func.attrs.items()), *node[1:])), node)] += 1
    return found


class Call:
    """A kernel's call on arrays of its own, by environments of any number of threads."""

    def __init__(self, kernel: Kernel, inputs: Sequence[TensorType], outputs: Sequence[TensorType]):
        rng = np.random.default_rng(0)
        self.arrays = [_array(t, rng) for t in (*inputs, *outputs)]
        self.args = ffi.new("gr_arg[]", len(self.arrays))
        self.own = [core.host_arg(a) for a in self.arrays]
        for i, arg in enumerate(self.own):
            self.args[i] = arg.pointer[0]
        self.words = ffi.new("int64_t[]", list(kernel.words))
        self.scratch = np.zeros(kernel.scratch + 64, np.uint8)
        self.function = ffi.cast("gr_kernel_fn", kernel.fn)
        self.env = ffi.new("gr_env *", open_device(devices.cpu()).env[0])
        self.jobs: list[list[float]] = []
        self.env.parallel_for = self._callback = ffi.callback(
            "int32_t (*)(const gr_env *, int64_t, gr_task, void *)", self._parallel_for
        )

    def _parallel_for(self, env, n: int, task, ctx) -> int:
        """Run all pieces here; seconds of each."""
        seconds = []
        for i in range(n):
            before = time.thread_time_ns()
            status = task(ctx, i)
            seconds.append((time.thread_time_ns() - before) / 1e9)
            if status:
                return status
        self.jobs.append(seconds)
        return 0

    def pieces(self, threads: int, repeats: int) -> list[list[float]]:
        """Seconds of the pieces of each job, the least of ``repeats``. What runs outside of them is a job of
        one piece."""
        self.env.num_cores = threads
        call = ffi.new(
            "gr_call *",
            {
                "abi": core.lib.gr_abi_version(),
                "nargs": len(self.arrays),
                "args": self.args,
                "attrs": self.words,
                "scratch": ffi.cast("void *", -(-self.scratch.ctypes.data // 64) * 64),
                "env": self.env,
            },
        )
        least: list[list[float]] = []
        for _ in range(repeats):
            self.jobs, before = [], time.thread_time_ns()
            core.check(self.function(call))
            whole = (time.thread_time_ns() - before) / 1e9
            jobs = [*self.jobs, [max(0.0, whole - sum(map(sum, self.jobs)))]] if not self.jobs else self.jobs
            least = [
                [min(x) for x in zip(a, b, strict=True)] for a, b in zip(least or jobs, jobs, strict=True)
            ]
        return least


def _array(t: TensorType, rng: np.random.Generator) -> np.ndarray:
    if t.dtype.startswith(("int", "uint", "bool")):
        return np.zeros(t.shape, t.dtype)
    return rng.standard_normal(t.shape, np.float32).astype(t.dtype)


def finish(seconds: Sequence[float], threads: int) -> float:
    """When the last piece of a job is done: native/core/workers.c's rule. Stretches of equal numbers of
    pieces, the first ones with one more; a thread that is done goes on with the next stretches in turn."""
    n = len(seconds)
    parts = min(n, threads)
    first = [n // parts * p + min(p, n % parts) for p in range(parts + 1)]
    ahead = first[:-1]
    free, end = [(0.0, t, 0) for t in range(parts)], 0.0
    while free:
        now, thread, turn = heapq.heappop(free)
        while turn < parts and ahead[(thread + turn) % parts] == first[(thread + turn) % parts + 1]:
            turn += 1
        if turn == parts:
            continue
        at = (thread + turn) % parts
        now += seconds[ahead[at]]
        ahead[at] += 1
        end = max(end, now)
        heapq.heappush(free, (now, thread, turn))
    return end


def measured(node: Node, counts: Sequence[int], repeats: int) -> dict[str, list[float]]:
    """For each number of threads: pieces, balance, overhead, and the milliseconds until all is done."""
    kernel = generic_kernel(node[0], "cpu", *node[1:])
    call = Call(kernel, *node[1:])
    call.pieces(1, 1)  # memory is touched, caches are warm
    alone = sum(map(sum, call.pieces(1, repeats)))
    line: dict[str, list[float]] = {"pieces": [], "balance": [], "overhead": [], "ms": []}
    for threads in counts:
        jobs = call.pieces(threads, repeats)
        total, wall = sum(map(sum, jobs)), sum(finish(job, threads) for job in jobs)
        wakes = sum(WAKE_US / 1e6 for job in jobs if min(len(job), threads) > 1)
        line["pieces"].append(max(map(len, jobs)))
        line["balance"].append(round(total / (threads * wall), 3))
        line["overhead"].append(round(total / alone, 3))
        line["ms"].append((wall + wakes) * 1e3)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", default="1-64", help="as 1,2,4 or 1-64")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    counts: list[int] = []
    for part in arguments.threads.split(","):
        first, _, last = part.partition("-")
        counts += range(int(first), int(last or first) + 1)
    print(json.dumps({"machine": machine("numpy"), "threads": counts}), flush=True)
    for name in arguments.models.split(","):
        ms = np.zeros(len(counts))
        one = 0.0
        for node, times in nodes(MODELS[name]()).items():
            line = measured(node, counts, arguments.repeats)
            own = np.array(line.pop("ms"))
            ms += times * own
            one += times * measured(node, [1], arguments.repeats)["ms"][0]
            shapes = [" x ".join(map(str, t.shape)) for t in (*node[1], *node[2])]
            print(
                json.dumps({"model": name, "op": node[0].op, "times": times, "shapes": shapes, **line}),
                flush=True,
            )
        print(json.dumps({"model": name, "speedup": [round(one / x, 2) for x in ms]}), flush=True)


if __name__ == "__main__":
    main()
