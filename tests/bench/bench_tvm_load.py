"""What loading a model of TVM's takes here and in TVM, as JSON lines: time, and memory of the process.

    python tests/bench/bench_tvm_load.py net.so ... [--peer PYTHON] [--rounds 7]

net.so: single-file libraries that TVM exported. Each side is a process of its own that opens the library,
makes an executor with its parameters set and runs it once. load: load_module; create: lib["default"](cpu);
first: the first run. cpu: the processor's time of load and create. memory: resident bytes after that, less
those after the imports alone; anon of it is what no file backs. Medians of the rounds, sides in turns; least:
of load and create. --peer: a Python that has TVM, which gets PYTHONPATH; without it ours is measured alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

CHILD = """
import json, sys, time
import numpy as np
NAMES
def resident():
    said = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return [int(said[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon")]
before = resident()
marks, cpu = [time.perf_counter()], time.process_time()
lib = tvm.runtime.load_module(sys.argv[1])
marks.append(time.perf_counter())
module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
marks.append(time.perf_counter())
cpu = time.process_time() - cpu
module.run()
marks.append(time.perf_counter())
after = resident()
took = [b - a for a, b in zip(marks, marks[1:])]
print(json.dumps(took + [cpu] + [b - a for a, b in zip(before, after)] + after[:1]))
"""
IMPORTS = {
    "ours": "import graph_runtime.compat.tvm as tvm\n"
    "from graph_runtime.compat.tvm.contrib import graph_executor",
    "tvm": "import tvm\nfrom tvm.contrib import graph_executor",
}
KEYS = ("load_ms", "create_ms", "first_ms", "cpu_ms", "memory_mb", "anon_mb", "process_mb")


def measured(python: str, side: str, path: Path) -> list[float]:
    """One process's numbers, in the order of KEYS."""
    environment = (
        {**os.environ} if side == "tvm" else {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    )
    command = [python, "-c", CHILD.replace("NAMES", IMPORTS[side]), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    numbers = json.loads(done.stdout.splitlines()[-1])
    return [1e3 * one for one in numbers[:4]] + [one / 1e6 for one in numbers[4:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="+", type=Path)
    parser.add_argument("--peer", help="a Python that has TVM")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    sides = {"ours": sys.executable} | ({"tvm": options.peer} if options.peer else {})
    for path in options.libraries:
        found: dict[str, list[list[float]]] = {side: [] for side in sides}
        for turn in range(options.rounds):
            for side, python in list(sides.items())[:: 1 if turn % 2 else -1]:
                found[side].append(measured(python, side, path))
        line = {"bench": "tvm load", "library": str(path), "file_mb": round(path.stat().st_size / 1e6, 2)}
        for side, rows in found.items():
            columns = dict(zip(KEYS, zip(*rows, strict=True), strict=True))
            line[side] = {key: round(statistics.median(values), 2) for key, values in columns.items()}
            line[side]["least_ms"] = round(min(row[0] + row[1] for row in rows), 2)
        if "tvm" in found:
            line["ratio_of_least"] = round(line["ours"]["least_ms"] / line["tvm"]["least_ms"], 3)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
