"""What a process waits for its first result, as JSON lines: wall time from its start to its end.

    python tests/bench/bench_start.py [--nodes 20] [--rounds 15]

The graph is a chain of adds. library: graph.json and a shared library of TVM's packed functions. bundle: a
bundle with compiled kernels. command: `graph-runtime run` of that. onnxruntime: the same graph as an ONNX
file in ONNX Runtime, where it is installed. numpy: the import that the others have in them. Each round
starts every one of them once, in an order of its own; the first round, which writes bytecode (pip does so
when it installs; where the environment forbids it, it is written nevertheless, into a folder of its own) and
fills the page cache, is left out. A ratio is the median over the rounds of a pair's quotients.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from chains import WIDTH, adds, graph_json
from machine import machine

import graph_runtime as gr

# add16 in TVM's packed ABI
LIBRARY = r"""
#include <stdint.h>
typedef struct { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t *shape, *strides; uint64_t byte_offset; } tensor;
typedef union { int64_t i; double f; tensor *t; } value;

int32_t add16(value *args, int *codes, int count, value *result, int *result_code, void *resource)
{
  const float *a = args[0].t->data, *b = args[1].t->data;
  float *out = args[2].t->data;
  for (int i = 0; i < WIDTH; i++)
    out[i] = a[i] + b[i];
  return 0;
}
"""
FEEDS = f"a=np.ones({WIDTH}, np.float32), b=np.ones({WIDTH}, np.float32)"
OURS = "import numpy as np, graph_runtime as gr; m = gr.{}; m.run({}); print(m.get_output(0).numpy().sum())"
THEIRS = (
    "import numpy as np, onnxruntime as ort; s = ort.InferenceSession('chain.onnx', "
    f"providers=['CPUExecutionProvider']); print(s.run(None, dict({FEEDS}))[0].sum())"
)
COMMAND = """
from graph_runtime import cli
try:
    cli.main("run chain.bundle --input a=ones.npy --input b=ones.npy --output out.npz --json".split())
finally:
    import numpy as np
    print(*(values.sum() for values in np.load("out.npz").values()))
"""
PROGRAMS = {
    "numpy": f"import numpy as np; print(np.ones({WIDTH}, np.float32).sum() * (1 + {{nodes}}))",
    "library": OURS.format("create('graph.json', 'library.so', 'cpu:0')", FEEDS),
    "bundle": OURS.format("load('chain.bundle')", FEEDS),
    "command": COMMAND,
    "onnxruntime": THEIRS,
}


def prepare(folder: Path, nodes: int) -> list[str]:
    """Write what the programs read. Returns the names of those that can run here."""
    text = graph_json("chain", nodes)
    (folder / "graph.json").write_text(text)
    (folder / "library.c").write_text(LIBRARY.replace("WIDTH", str(WIDTH)))
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "library.c", "-o", "library.so"], cwd=folder, check=True
    )
    gr.trust(folder / "library.so")
    gr.build_bundle(text, "cpu:0", folder / "chain.bundle")
    np.save(folder / "ones.npy", np.ones(WIDTH, np.float32))
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        return [name for name in PROGRAMS if name != "onnxruntime"]
    import onnx
    from onnx import helper

    rows = adds("chain", nodes)
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Add", [left, right], [out]) for out, left, right in rows],
        "chain",
        [helper.make_tensor_value_info(name, kind, (WIDTH,)) for name in "ab"],
        [helper.make_tensor_value_info(rows[-1][0], kind, (WIDTH,))],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        folder / "chain.onnx",
    )
    return list(PROGRAMS)


def started(code: str, folder: Path) -> tuple[float, float, str]:
    """(wall seconds, processor seconds, what it printed) of a fresh interpreter."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, start = os.times(), time.perf_counter()
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, env=environment
    ).stdout
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(json.dumps({"bench": "start", **machine("graph-runtime", "numpy", "onnxruntime")}), flush=True)
    walls: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = prepare(folder, options.nodes)
        used: dict[str, list[float]] = {program: [] for program in names}
        for number in range(options.rounds + 1):
            order = random.Random(number).sample(names, len(names))
            answers = {}
            for program in order:
                wall, processor, said = started(PROGRAMS[program].format(nodes=options.nodes), folder)
                answers[program] = said.split()[-1]
                if number:
                    walls.setdefault(program, []).append(wall)
                    used[program].append(processor)
            if len({float(said) for said in answers.values()}) != 1:
                raise SystemExit(f"they disagree: {answers}")
    for program in names:
        line = {
            "program": program,
            "nodes": options.nodes,
            "wall_s": {"median": statistics.median(walls[program]), "least": min(walls[program])},
            "cpu_s": {"median": statistics.median(used[program]), "least": min(used[program])},
        }
        for part in ("wall_s", "cpu_s"):
            line[part] = {key: round(value, 3) for key, value in line[part].items()}
        if "onnxruntime" in names:
            pairs = zip(walls[program], walls["onnxruntime"], strict=True)
            line["of_onnxruntime"] = round(statistics.median(a / b for a, b in pairs), 2)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
