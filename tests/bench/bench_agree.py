"""How far models' results are from stored ones, as JSON lines.

    python tests/bench/bench_agree.py --models DIR [--names mlp,resnet50,...] [--on cpu,tt,mixed]

DIR has NAME.onnx beside NAME.npz, whose arrays in_<input> and out_<output> another framework made. cpu:
float32 on cpu:0. tt: bfloat16 on tt:0, a host for what it has no kernel for. mixed: placed by mincut. Of each
output the greatest difference relative to the greatest value, and the correlation; the aims are 1e-4 on cpu,
0.99 on tt.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from graph_runtime.codegen.build import cached_library

from graph_runtime.artifacts.prepare import prepare
from graph_runtime.run.factory import create, set_constants
from graph_runtime.run.library import load_library

WHERE = {
    "cpu": (["cpu:0"], {}),
    "tt": (["tt:0", "cpu:0"], {"formats": {"tt": "bf16"}, "placement": "single", "fallback": "host"}),
    "mixed": (["cpu:0", "tt:0"], {"formats": {"tt": "bf16"}, "placement": "mincut"}),
}


def outputs(
    model: Path,
    inputs: dict[str, np.ndarray],
    where: str,
) -> tuple[dict[str, np.ndarray], float, dict[str, int]]:
    """(outputs by name, seconds of the second run, nodes on each device)."""
    devices, options = WHERE[where]
    prepared = prepare(model, devices, **options)
    built = cached_library([prepared.plan])
    module = create(prepared.plan, [load_library(built)] if built else None)
    set_constants(module, prepared.model.constants)
    module.run(**inputs)
    start = time.perf_counter()
    module.run()
    seconds = time.perf_counter() - start
    plan = prepared.plan
    calls = plan.did[plan.graph.func_id >= 0]
    placed = {str(device): int((calls == did).sum()) for did, device in enumerate(plan.devices)}
    names = prepared.model.output_names
    return {name: module.get_output(i).numpy() for i, name in enumerate(names)}, seconds, placed


def distance(got: np.ndarray, want: np.ndarray) -> tuple[float, float]:
    """(greatest difference relative to the greatest wanted value, correlation)."""
    got, want = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
    scale = np.abs(want).max() or 1.0
    return float(np.abs(got - want).max() / scale), float(np.corrcoef(got, want)[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--names", default="mlp,mobilenetv2,resnet50,bert,gpt2step")
    parser.add_argument("--on", default="cpu,tt,mixed")
    options = parser.parse_args()
    for name in options.names.split(","):
        with np.load(options.models / f"{name}.npz") as stored:
            arrays = {key: stored[key] for key in stored.files}
        given = {key[3:]: value for key, value in arrays.items() if key.startswith("in_")}
        for where in options.on.split(","):
            made, seconds, placed = outputs(options.models / f"{name}.onnx", given, where)
            rows = [distance(made[key[4:]], value) for key, value in arrays.items() if key.startswith("out_")]
            print(
                json.dumps(
                    {
                        "bench": "agree",
                        "model": name,
                        "on": where,
                        "nodes": placed,
                        "relative": max(r for r, _ in rows),
                        "correlation": min(c for _, c in rows),
                        "run_ms": round(seconds * 1e3, 2),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
