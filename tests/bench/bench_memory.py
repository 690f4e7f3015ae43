"""How small plans of memory get, as JSON lines.

    python tests/bench/bench_memory.py --minimalloc DIR [--solutions OUT]
    python tests/bench/bench_memory.py --models DIR [--device cpu:0 ...] [--reuse safe]

--minimalloc: one line a file NAME.CAPACITY.csv (id,lower,upper,size; half open): peak, bound (most bytes live
at once), capacity, seconds, status ("optimal": peak is the bound; "fits": in the capacity; "over"), and what
TVM's rule makes of it. Each packing is checked here, without code of the packer, and written to OUT as the
input with a column `offset`.

--models: one line an ONNX file, after all rewrites, without constants and inputs, which lie apart: peak and
bound of each way to reuse memory, TVM's rule for the same graph, and what onnxruntime's arena asks for in a
second run, where it is installed and FILE.npz has inputs (in_NAME). Exits with 1 where a file is over its
capacity or a peak above 1.02 of its bound."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np

from graph_runtime.artifacts.prepare import prepare
from graph_runtime.binding.packing import pack, pack_thoroughly
from graph_runtime.plan.columns import find_values, most_live
from graph_runtime.plan.storage.memory import peaks
from graph_runtime.plan.storage.offsets import Groups, pack_offsets
from graph_runtime.plan.types import Supplies

NODES, LESS_NODES = 20_000_000, 100_000  # placements to fit the capacity, and to get below it
SECONDS, WORST = 4.5, 1.02


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minimalloc", type=Path)
    parser.add_argument("--solutions", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--device", action="append")
    parser.add_argument("--reuse", default="serial")
    args = parser.parse_args()
    good = True
    for path in sorted(args.minimalloc.glob("*.csv")) if args.minimalloc else ():
        good &= solve_file(path, args.solutions)
    for path in sorted(args.models.glob("*.onnx")) if args.models else ():
        good &= measure(path, args.device or ["cpu:0"], args.reuse)
    sys.exit(not good)


def say(**row) -> None:
    print(json.dumps(row), flush=True)


# **************** packings ****************


def solve_file(path: Path, solutions: Path | None) -> bool:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lower, upper, size = (
        np.array([int(row[key]) for row in rows], np.int64) for key in ("lower", "upper", "size")
    )
    capacity = int(path.stem.rsplit(".", 1)[1])
    start = time.perf_counter()
    offset = solve(lower, upper, size, capacity)
    seconds = time.perf_counter() - start
    peak, bound = int((offset + size).max()), most_live(lower, upper, size)
    if solutions:
        solutions.mkdir(parents=True, exist_ok=True)
        write_solution(solutions / path.name, rows, offset)
        verify(path, solutions / path.name, peak)
    status = "optimal" if peak == bound else "fits" if peak <= capacity else "over"
    say(
        file=path.name,
        buffers=len(rows),
        peak=peak,
        bound=bound,
        capacity=capacity,
        ratio=round(peak / bound, 4),
        seconds=round(seconds, 3),
        status=status,
        tvm=round(tvm_rule(lower, upper, size) / bound, 3),
    )
    return peak <= capacity


def solve(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, capacity: int) -> np.ndarray:
    """The capacity first, then the bound, where that is less: offsets int64 [buffers]."""
    bound = most_live(lower, upper, size)
    groups = Groups.of_times(lower, upper)
    _, best = pack(groups, size, capacity, max_nodes=NODES, seconds=SECONDS, threads=2)
    if best is None:
        return pack_offsets(lower, upper, size, pack).offset
    if (best + size).max() > bound:
        _, least = pack(groups, size, bound, max_nodes=LESS_NODES, seconds=0.5, threads=2)
        best = best if least is None else least
    return best


def write_solution(path: Path, rows: list[dict[str, str]], offset: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "offset"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "offset": at} for row, at in zip(rows, offset.tolist(), strict=True))


def verify(given: Path, solved: Path, peak: int) -> None:
    """Reads both files again: the same buffers, offsets from 0 to the peak, and at every time at which
    something begins, what lives lies one after another. Exits with what is wrong."""
    with given.open(newline="") as a, solved.open(newline="") as b:
        wanted, got = list(csv.DictReader(a)), list(csv.DictReader(b))
    if [{k: v for k, v in row.items() if k != "offset"} for row in got] != wanted:
        sys.exit(f"{solved}: the buffers are not those of {given}")
    spans = [
        (int(r["lower"]), int(r["upper"]), int(r["offset"]), int(r["offset"]) + int(r["size"]), r["id"])
        for r in got
    ]
    if min(s[2] for s in spans) < 0 or max(s[3] for s in spans) != peak:
        sys.exit(f"{solved}: offsets go beyond 0 to {peak}")
    for now in {s[0] for s in spans}:
        alive = sorted(s[2:] for s in spans if s[0] <= now < s[1])
        for before, after in pairwise(alive):
            if before[1] > after[0]:
                sys.exit(f"{solved}: buffers {before[2]} and {after[2]} share bytes at time {now}")


def tvm_rule(lower: Iterable[int], upper: Iterable[int], size: Iterable[int]) -> int:
    """What TVM's GraphPlanMemory takes: blocks used in turn; of the free ones at most 16 times as large as
    needed the smallest that is large enough, else the largest of at least a 16th, which grows."""
    rows = sorted(zip(map(int, lower), map(int, upper), map(int, size), strict=True), key=lambda r: r[0])
    blocks: list[int] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for begin, end, need in rows:
        free += [b for until, b in busy if until <= begin]
        busy = [(until, b) for until, b in busy if until > begin]
        larger = [b for b in free if need <= blocks[b] <= 16 * need]
        smaller = [b for b in free if need / 16 <= blocks[b] < need]
        if larger or smaller:
            block = min(larger, key=blocks.__getitem__) if larger else max(smaller, key=blocks.__getitem__)
            free.remove(block)
            blocks[block] = max(blocks[block], need)
        else:
            block = len(blocks)
            blocks.append(need)
        busy.append((end, block))
    return sum(blocks)


# **************** models ****************


def measure(path: Path, devices: list[str], reuse: str) -> bool:
    start = time.perf_counter()
    plan = prepare(path, devices, packer=pack_thoroughly, reuse=reuse, objective="makespan").plan
    seconds = time.perf_counter() - start
    values = find_values(plan.graph, plan.at_input)
    heads = values.firsts
    fixed = heads[values.born[heads] < 0]
    good = True
    for (did, memory), peak in sorted(plan.peak.items()):
        lies = (plan.storage.did[plan.sid] == did) & (plan.storage.memory[plan.sid] == memory)
        apart = padded(plan, fixed[lies[fixed]], did, memory)
        mine = heads[lies[heads] & (values.born[heads] >= 0)]
        nbytes = plan.storage.extent[plan.sid[mine]] if len(mine) else np.zeros(0, np.int64)
        own = np.array([plan.graph.entry_type(int(e)).nbytes for e in mine], np.int64)
        bound = plan.lower_bound[did, memory] - apart
        ratio = (peak - apart) / max(bound, 1)
        good &= ratio <= WORST
        say(
            model=path.stem,
            device=str(plan.devices[did]),
            nodes=plan.graph.num_nodes,
            peak=peak - apart,
            bound=bound,
            ratio=round(ratio, 4),
            status=plan.status[did, memory],
            **{
                mode: found.get((did, memory), 0) - apart
                for mode, found in peaks(plan, Supplies(packer=pack)).items()
            },
            tvm=tvm_rule(values.born[mine], values.last[mine] + 1, np.minimum(own, nbytes)),
            ort=ort_pattern(path) if len(plan.peak) == 1 else None,
            seconds=round(seconds, 2),
        )
    return good


def padded(plan, entries: np.ndarray, did: int, memory: int) -> int:
    align = plan.devices[did].descriptor.memories[memory].alignment
    extent = plan.storage.extent[np.unique(plan.sid[entries])]
    return int((-(-extent // align) * align).sum())


ORT = """
import sys
import numpy as np
import onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level = 1
options.intra_op_num_threads = 1
ort.set_default_logger_severity(1)
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
with np.load(sys.argv[2]) as file:
    feed = {key[3:]: file[key] for key in file.files if key.startswith("in_")}
shrink = ort.RunOptions()
shrink.log_severity_level = 1
shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
for number in range(2):
    print("RUN", number, file=sys.stderr, flush=True)
    session.run(None, feed, shrink if number == 0 else None)
"""


def ort_pattern(path: Path) -> int | None:
    """Bytes of the one block that onnxruntime takes for the values of a second run, from its log; its outputs
    and its kernels' scratch come on top. None where it is not installed or there are no inputs."""
    inputs = path.with_suffix(".npz")
    if not inputs.exists():
        return None
    ran = subprocess.run(
        [sys.executable, "-c", ORT, os.fspath(path), os.fspath(inputs)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    runs = re.split(r"^RUN \d\n", ran.stderr, flags=re.M)
    asked = re.findall(r"Extending BFCArena for Cpu.*?\(requested\) num_bytes: (\d+)", runs[-1])
    return int(asked[0]) if ran.returncode == 0 and asked else None


if __name__ == "__main__":
    main()
