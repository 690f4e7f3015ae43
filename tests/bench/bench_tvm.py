"""What running TVM's libraries costs, as JSON lines, beside a bare C driver that calls the same functions.

    python tests/bench/bench_tvm.py [--rounds 41] [--seconds 0.01]

run      mlp, hetero_cpu_cpu (operators of tests/compat/operators.c) and a chain of 1,000 tiny functions: a
         run from Python over one of the driver's, both called through cffi, in pairs; the median of the
         ratios, bound 1.03, and the ratio of the least, which a busy machine disturbs less. A second driver
         run instead of ours shows what the machine's noise makes of 1.
launch   an empty parallel loop on two threads, back to back: ns a launch, bound 1000 of hand-off.
sessions one and two at a time on two cores, weights shared: runs a second, bound 1.8.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import cffi
import numpy as np

import graph_runtime as gr
from graph_runtime.binding import core
from graph_runtime.ir.documents.params import save_params

TESTS = Path(__file__).resolve().parents[1]
DRIVER = r"""
#include <stdint.h>
#include <string.h>
typedef int (*packed)(void *, int *, int, void *, int *, void *);
void drive(int64_t n, void **fns, void **values, int32_t **codes, int32_t *nargs) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t ret;
    int32_t ret_code = 4;
    if (!fns[i]) {                                   /* a copy: destination, source, bytes */
      memcpy(values[i], codes[i], (size_t)nargs[i]);
      continue;
    }
    if (((packed)fns[i])(values[i], codes[i], nargs[i], &ret, &ret_code, 0)) return;
  }
}
"""


def compile_c(source: Path, out: Path, *flags: str) -> Path:
    subprocess.run(["cc", "-O2", "-fPIC", "-shared", *flags, source, "-o", out, "-lm"], check=True)
    return out


def bare_driver(module: gr.GraphModule, folder: Path) -> Callable[[], object]:
    """The module's functions in order, called by C with the module's own arguments."""
    (folder / "driver.c").write_text(DRIVER)
    ffi = cffi.FFI()
    ffi.cdef("void drive(int64_t, void **, void **, int32_t **, int32_t *);")
    lib = ffi.dlopen(str(compile_c(folder / "driver.c", folder / "driver.so")))
    session, program = module.session, module.session.program
    packed = iter(session.bound._calls)
    rows = []
    for i in range(program.main):
        if program.kernels[program.kid[i]].packed:
            call = next(packed)
            rows.append(tuple(int(call[name]) for name in ("fn", "values", "codes", "nargs")))
        else:
            source, target = (int(eid) for eid in program.eid[program.arg_ptr[i] : program.arg_ptr[i + 1]])
            nbytes = session.graph.entry_type(source).nbytes
            rows.append((0, session.home(target)[0], session.home(source)[0], nbytes))
    count = program.main
    columns = [
        np.array(column, kind)
        for column, kind in zip(zip(*rows, strict=True), ("u8", "u8", "u8", "i4"), strict=True)
    ]
    pointers = [
        ffi.cast(kind, c.ctypes.data)
        for kind, c in zip(("void **", "void **", "int32_t **", "int32_t *"), columns, strict=True)
    ]

    def run() -> object:
        lib.drive(count, *pointers)
        return columns

    return run


def chain(count: int) -> str:
    """x -> myadd -> myadd ..., float32[16] each."""
    attrs = {"func_name": "myadd", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}
    nodes = [{"op": "null", "name": "x", "inputs": []}]
    nodes += [{"op": "tvm_op", "name": f"n{i}", "attrs": attrs, "inputs": [[i, 0, 0]]} for i in range(count)]
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[count, 0, 0]],
            "node_row_ptr": list(range(count + 2)),
            "attrs": {
                "dltype": ["list_str", ["float32"] * (count + 1)],
                "shape": ["list_shape", [[16]] * (count + 1)],
                "storage_id": ["list_int", [0, *(1 + i % 2 for i in range(count))]],
            },
        }
    )


def timed(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def race(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int, seconds: float
) -> dict[str, float]:
    """Median us of each, and the median of ours / theirs over pairs that take turns in being first."""
    calls = max(1, int(seconds / max(timed(theirs, 3), 1e-7)))
    a, b = [], []
    for turn in range(rounds):
        for run, times in ((ours, a), (theirs, b))[:: 1 if turn % 2 else -1]:
            times.append(timed(run, calls))
    return {
        "us": round(1e6 * statistics.median(a), 3),
        "driver_us": round(1e6 * statistics.median(b), 3),
        "ratio": round(statistics.median(x / y for x, y in zip(a, b, strict=True)), 4),
        "least_ratio": round(min(a) / min(b), 4),
    }


def modules(library: Path) -> dict[str, gr.GraphModule]:
    golden = TESTS / "golden" / "tvm"
    found = {
        name: gr.create(golden / name / "graph.json", library, params=golden / name / "params.bin", threads=1)
        for name in ("mlp", "hetero_cpu_cpu")
    }
    return found | {"chain of 1000": gr.create(chain(1000), library)}


def launches(library: Path, count: int) -> float:
    """ns of an empty parallel loop on two threads, the call of its function taken off."""
    core.pool_set_threads(2)
    module, plain = (
        gr.create(chain(count).replace("myadd", name), library) for name in ("empty_loop", "no_loop")
    )
    best = [min(timed(m.run, 5) for _ in range(20)) for m in (module, plain)]
    return 1e9 * (best[0] - best[1]) / count


def throughput(sessions: list[gr.GraphModule], seconds: float) -> float:
    """Runs a second of all sessions, each in a thread of its own."""
    counts, stop = [0] * len(sessions), time.perf_counter() + seconds

    def work(i: int) -> None:
        while time.perf_counter() < stop:
            for _ in range(20):
                sessions[i].run()
            counts[i] += 20

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def two_sessions(library: Path) -> dict[str, float]:
    """mlp on one thread and on two, parameters shared; in turns."""
    core.pool_set_threads(2)
    golden = TESTS / "golden" / "tvm" / "mlp"
    first = gr.create(golden / "graph.json", library, params=golden / "params.bin")
    second = gr.create(golden / "graph.json", library)
    second.share_params(first, save_params(gr.read_params(golden / "params.bin")))
    pairs = [(throughput([first], 0.3), throughput([first, second], 0.3)) for _ in range(7)]
    return {
        "one": round(statistics.median(a for a, _ in pairs)),
        "two": round(statistics.median(b for _, b in pairs)),
        "ratio": round(statistics.median(b / a for a, b in pairs), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=0.01, help="of one side of a pair")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = compile_c(TESTS / "compat" / "operators.c", folder / "lib.so", "-DLLVM")
        for case, module in modules(library).items():
            module.run()
            driver = bare_driver(module, folder)
            found = race(module.run, driver, options.rounds, options.seconds)
            noise = race(driver, driver, options.rounds, options.seconds)["ratio"]
            print(
                json.dumps({"bench": "tvm run", "case": case, **found, "driver_over_driver": noise}),
                flush=True,
            )
        print(
            json.dumps({"bench": "tvm launch", "threads": 2, "ns": round(launches(library, 200), 1)}),
            flush=True,
        )
        print(json.dumps({"bench": "tvm sessions", **two_sessions(library)}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
