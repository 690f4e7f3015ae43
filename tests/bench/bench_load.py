"""What loading costs, as JSON lines: us a node by stage, from graph.json's bytes to a session that can run.

    python tests/bench/bench_load.py [--sizes 1000,10000,100000] [--repeat 7]

parse: JSON alone. document: JSON, the columns of nodes, the schema. graph: functions, columns, checks. plan:
passes and checker. lower: flat arrays. bind: memory and addresses. create: all in, as a user calls it.
Medians, and the least, which a busy machine disturbs less; the garbage collector is paused, as create does.

cold: time of the processor that a fresh interpreter takes for the digits of examples/, from its first import
to the values of the output. It has the import of numpy in it, which is shown alone, too. With bytecode, as
pip leaves a wheel; then without that of this package, as in a checkout under PYTHONDONTWRITEBYTECODE.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
from chains import graph_json

import graph_runtime as gr
from graph_runtime.base.progress import gc_paused
from graph_runtime.ir.documents.columns import read_checked
from graph_runtime.ir.documents.loader import graph_from_document
from graph_runtime.plan import plan
from graph_runtime.run import kernels
from graph_runtime.run.sessions.session import Session

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def stages(text: bytes) -> dict[str, float]:
    """Seconds of each stage, once."""
    marks = {}
    with gc_paused():
        start = time.perf_counter()
        orjson.loads(text)
        marks["parse"] = time.perf_counter() - start
        start = time.perf_counter()
        document, nodes = read_checked(text)
        marks["document"] = time.perf_counter() - start
        start = time.perf_counter()
        graph = graph_from_document(document, nodes)
        marks["graph"] = time.perf_counter() - start
        start = time.perf_counter()
        planned = plan(graph, ["cpu:0"])
        marks["plan"] = time.perf_counter() - start
        start = time.perf_counter()
        kernels.lowered(planned)
        marks["lower"] = time.perf_counter() - start
        start = time.perf_counter()
        Session(planned)
        marks["bind"] = time.perf_counter() - start - marks["lower"]  # a Session lowers, too
    start = time.perf_counter()
    gr.create(text)
    marks["create"] = time.perf_counter() - start
    gc.collect()
    return marks


COLD = f"""
import time
start = time.process_time()
import numpy as np
floor = time.process_time()
import graph_runtime as gr
module = gr.create({str(DIGITS / "graph.json")!r}, params={str(DIGITS / "params.bin")!r})
module.run(image=np.zeros((60, 1, 8, 8), np.float32))
module.get_output(0).numpy()
print(floor - start, time.process_time() - start)
"""


def cold(repeat: int, bytecode: Path, write: bool) -> dict[str, dict[str, float]]:
    """Milliseconds of COLD in fresh interpreters: "numpy", its import alone, and "all", which has it in it.
    ``bytecode``: the folder that has the bytecode of modules, to which it is added if ``write``."""
    environment = {
        **os.environ,
        "PYTHONPYCACHEPREFIX": str(bytecode),
        "PYTHONDONTWRITEBYTECODE": "" if write else "1",
    }
    found = []
    for _ in range(repeat + 1):
        done = subprocess.run(
            [sys.executable, "-c", COLD], capture_output=True, text=True, check=True, env=environment
        )
        found.append([1e3 * float(word) for word in done.stdout.split()])
    columns = dict(zip(("numpy", "all"), zip(*found[1:], strict=True), strict=True))  # the first is not warm
    return {
        what: {name: round(choose(column), 1) for name, column in columns.items()}
        for what, choose in (("median", statistics.median), ("least", min))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = cold(options.repeat, Path(folder), write=True)
        print(json.dumps({"bench": "cold", "bytecode": True, "cpu_ms": found}), flush=True)
        shutil.rmtree(Path(folder, *Path(gr.__file__).parent.parts[1:]))
        found = cold(options.repeat, Path(folder), write=False)
        print(json.dumps({"bench": "cold", "bytecode": False, "cpu_ms": found}), flush=True)
    for count in map(int, options.sizes.split(",")):
        text = graph_json("chain", count).encode()
        rounds = [stages(text) for _ in range(options.repeat + 1)][1:]
        scale = 1e6 / count
        found = {
            what: {stage: round(choose(r[stage] for r in rounds) * scale, 3) for stage in rounds[0]}
            for what, choose in (("median", statistics.median), ("least", min))
        }
        print(json.dumps({"bench": "load", "nodes": count, "us_per_node": found}), flush=True)


if __name__ == "__main__":
    main()
