"""What loading costs, as JSON lines: us a node by stage, from graph.json's bytes to a session that can run.

    python tests/bench/bench_load.py [--sizes 1000,10000,100000] [--repeat 7]

parse: JSON alone. document: JSON, the columns of nodes, the schema. graph: functions, columns, checks. plan:
passes and checker. lower: flat arrays. bind: memory and addresses. create: all in, as a user calls it.
Medians, and the least, which a busy machine disturbs less; the garbage collector is paused, as create does.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from functools import partial

import orjson
from chains import graph_json

import graph_runtime as gr
from graph_runtime.base.garbage import gc_paused
from graph_runtime.ir.documents.loader import graph_from_document
from graph_runtime.ir.documents.nodes import read_checked
from graph_runtime.plan import plan
from graph_runtime.run import library
from graph_runtime.run.programs.lower import lower
from graph_runtime.run.sessions.session import Session


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
        lower(planned, partial(library.resolve, libraries=()))
        marks["lower"] = time.perf_counter() - start
        start = time.perf_counter()
        Session(planned)
        marks["bind"] = time.perf_counter() - start - marks["lower"]  # a Session lowers, too
    start = time.perf_counter()
    gr.create(text)
    marks["create"] = time.perf_counter() - start
    gc.collect()
    return marks


def import_seconds(code: str, repeat: int) -> float:
    """Median seconds of a statement in a fresh interpreter, whose own start does not count."""
    script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", script]
    return statistics.median(
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(repeat)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    for name, code in (
        ("import graph_runtime", "import graph_runtime"),
        ("import all that create() needs", "import graph_runtime as gr; gr.create"),
        ("import numpy", "import numpy"),
    ):
        milliseconds = round(1e3 * import_seconds(code, options.repeat), 1)
        print(json.dumps({"bench": name, "ms": milliseconds}), flush=True)
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
