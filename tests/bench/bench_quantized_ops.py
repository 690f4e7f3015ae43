"""Where the time of a quantized model goes, here and in ONNX Runtime, and what costs predict: JSON lines.

    python tests/bench/bench_quantized_ops.py MODEL.onnx ... [--rounds 20] [--fit]

Beside NAME.onnx lies NAME.npz with arrays in_<input> (make_quantized.py). One thread, pinned to the first
core. A line has the microseconds of each kind of node, each node alone and the least of so many runs:
``ours``, ``predicted`` by graph_runtime.costs with the packaged constants, or with ``--fit`` those that
fit_cpu.py of tests/tools measures first in this run; ``onnxruntime`` has its own profile's. Names of kinds
are those of each runtime. Sums of nodes are no latencies: bench_peers.py has these.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

Kinds = dict[str, float]


def _inputs(model: Path) -> dict[str, np.ndarray]:
    with np.load(model.with_suffix(".npz")) as file:
        return {key.removeprefix("in_"): file[key] for key in file.files if key.startswith("in_")}


def ours(model: Path, rounds: int, host: Any) -> tuple[Kinds, Kinds]:
    """(measured, predicted) microseconds of each kind of node."""
    import graph_runtime as gr
    from graph_runtime import costs
    from graph_runtime.base.machine.layout import Layout
    from graph_runtime.views.measured import stepped_run

    module = gr.create(str(model), devices=["cpu:0"], threads=1, compile=False)
    module.run(**_inputs(model))
    session, graph = module.session, module.session.plan.graph
    runs = [stepped_run(session, lambda *_: None) for _ in range(rounds)]
    least = np.min([run.duration for run in runs], axis=0)
    memory, took, said = costs.weights_from_memory(graph, host), defaultdict(float), defaultdict(float)
    for nid, ns in zip(runs[0].nid.tolist(), least.tolist(), strict=True):
        node = graph.node(nid)
        if node.func is None:
            continue
        kind = node.func.op + (" depthwise" if node.func.attrs.get("group", 1) > 1 else "")
        places = [Layout("host", "row_major", "f32")] * (len(node.input_types) + len(node.output_types))
        device = session.plan.devices[0]
        cost = costs.node_cost(graph, nid, device, places, host=host, from_memory=memory)
        took[kind] += ns / 1e3
        said[kind] += cost.cycles / 1e3
    return took, said


def onnxruntime_profile(model: Path, rounds: int) -> Kinds:
    """Microseconds of each kind of node by ONNX Runtime's profile."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = f"{folder}/p"
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        for _ in range(rounds):
            session.run(None, _inputs(model))
        events = json.loads(Path(session.end_profiling()).read_text())
    least: dict[str, tuple[float, str]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("kernel_time"):
            name, found = event["name"], (event["dur"], event["args"]["op_name"])
            least[name] = min(found, least.get(name, found))
    kinds: Kinds = defaultdict(float)
    for us, kind in least.values():
        kinds[kind] += us
    return kinds


def fitted() -> Any:
    """This machine's constants, of one thread."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    import fit_cpu

    from graph_runtime import costs

    return costs.Machine(**fit_cpu.measure(), basis="fitted")


def _shown(kinds: Kinds) -> dict[str, float]:
    return {kind: round(us, 1) for kind, us in sorted(kinds.items(), key=lambda item: -item[1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    os.environ["GR_NUM_THREADS"] = "1"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    host = fitted() if args.fit else None
    for model in args.models:
        took, said = ours(model, args.rounds, host)
        theirs = onnxruntime_profile(model, args.rounds)
        total = {
            name: round(sum(kinds.values()), 1)
            for name, kinds in (("ours", took), ("predicted", said), ("onnxruntime", theirs))
        }
        line = {
            "file": model.stem,
            **{f"{name}_us": us for name, us in total.items()},
            "predicted_to_measured": round(total["predicted"] / total["ours"], 3),
            "ours": _shown(took),
            "predicted": _shown(said),
            "onnxruntime": _shown(theirs),
            **machine(),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
