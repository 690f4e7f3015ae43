"""Read the held-out digits on the cpu, on a simulated tt device in bf16, and on both at once, from files.

    python examples/digits/run.py

Reads graph.json and params.bin from this folder. Writes into out/ a planned graph.json for each of the three
ways, and kernels.so with all kernels that these call. Exits with 1 if one way reads fewer than 97 % of the
digits right, or if tt reads over 0.5 percentage points fewer than cpu.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from dataset import HERE, held_out

import graph_runtime as gr

OUT = HERE / "out"
LEAST, MOST_LOST = 0.97, 0.005

# {name: how graph.json is planned}. The first device of a list runs the nodes that no pin places elsewhere.
ARRANGEMENTS: dict[str, dict[str, Any]] = {
    "cpu": dict(devices=["cpu:0"]),
    "tt": dict(devices=["tt:0"], formats={"tt": "bf16"}),
    "mixed": dict(
        devices=["cpu:0", "tt:0"], formats={"tt": "bf16"}, place={"conv2d": "tt:0", "dense": "tt:0"}
    ),
}


def make_plans() -> dict[str, gr.Plan]:
    """Plan graph.json in the three ways, and write each plan as a graph.json with its columns."""
    graph = gr.load_graph(HERE / "graph.json")
    plans = {name: gr.prepare(graph, **how).plan for name, how in ARRANGEMENTS.items()}
    OUT.mkdir(exist_ok=True)
    for name, planned in plans.items():
        (OUT / f"{name}.json").write_bytes(gr.graph_to_json(gr.record(planned)))
    return plans


def compile_kernels(plans: dict[str, gr.Plan]) -> Path:
    """Compile the kernels that the plans call into one module library."""

    def progress(what: str, done: int, total: int) -> None:
        if sys.stdout.isatty() or done == total:
            print(f"\rcompiling: {done} of {total}", end="" if done < total else "\n", flush=True)

    return gr.build_library(list(plans.values()), OUT / "kernels.so", tell=progress)


def classify(name: str, library: Path, images: np.ndarray) -> np.ndarray:
    """The digits read from images [N, 1, 8, 8] by a planned file, a batch at a time."""
    devices = ARRANGEMENTS[name]["devices"]
    module = gr.create(OUT / f"{name}.json", library, devices, params=HERE / "params.bin")
    shapes, _ = module.get_input_info()
    batch = shapes["image"][0]
    digits = []
    for start in range(0, len(images), batch):
        module.run(image=images[start : start + batch])
        digits.append(module.get_output(0).numpy().argmax(axis=1))
    return np.concatenate(digits)


def main() -> int:
    plans = make_plans()
    library = compile_kernels(plans)
    images, labels = held_out()
    accuracy = {}
    for name, planned in plans.items():
        begin = time.perf_counter()
        accuracy[name] = float((classify(name, library, images) == labels).mean())
        seconds = time.perf_counter() - begin
        devices = " + ".join(map(str, planned.devices))
        print(f"{name:5}  {devices:12}  {accuracy[name]:.2%} of {len(labels)} right, {seconds:.2f} s")
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(f"\nThe plan of mixed:\n\n{gr.plan_text(plans['mixed'], width)}")
    print(f"It ran from {OUT / 'mixed.json'} and {library.name}; `graph-runtime inspect` shows either.")
    low = [name for name, share in accuracy.items() if share < LEAST]
    lost = accuracy["cpu"] - accuracy["tt"]
    if low:
        print(f"below {LEAST:.0%}: {', '.join(low)}", file=sys.stderr)
    if lost > MOST_LOST:
        print(f"tt loses {lost:.2%} against cpu, more than {MOST_LOST:.1%}", file=sys.stderr)
    return 1 if low or lost > MOST_LOST else 0


if __name__ == "__main__":
    sys.exit(main())
