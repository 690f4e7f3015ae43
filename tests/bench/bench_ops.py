"""What each op's kernels cost, as JSON lines: every row of the ops' case table beside its numpy reference.

    python tests/bench/bench_ops.py [--device tt:0] [--format bf16] [--op 'conv*'] [--compiled] [--repeat 7]

us: median of run(), from Python; numpy_us: the reference's; ratio: us over numpy_us. gflops and
gbytes are a second's, from the op's own flops and bytes. --compiled measures kernels with constant shapes.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import graph_runtime as gr
from graph_runtime.base.errors import GraphRuntimeError
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import Case, Op, all_ops
from graph_runtime.ir.ops.inputs import draw, expected


def seconds(call: Callable[[], object], repeat: int) -> float:
    """Median seconds of a call, in batches of about 2 ms."""
    start = time.perf_counter()
    call()
    number = max(1, int(2e-3 / max(time.perf_counter() - start, 1e-7)))
    took = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(number):
            call()
        took.append((time.perf_counter() - start) / number)
    return statistics.median(took)


def graph_of(op: Op, case: Case) -> gr.GraphBuilder:
    """A graph of this one call."""
    builder = gr.GraphBuilder()
    inputs = [builder.input(f"x{i}", shape, dtype) for i, (dtype, shape) in enumerate(case.inputs)]
    builder.output(builder.op(op.name, *inputs, **case.attrs))
    return builder


def module_of(builder: gr.GraphBuilder, options: argparse.Namespace, folder: Path) -> gr.GraphModule:
    formats = {options.device.split(":")[0]: options.format} if options.format else None
    place = {"*": options.device}
    devices = [options.device]
    if not options.compiled:
        return gr.create(builder, None, devices, place=place, formats=formats)
    from graph_runtime.codegen.build import build_bundle

    return gr.load(build_bundle(builder, devices, folder / "op.bundle", place=place, formats=formats))


def measured(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, object]]:
    for op in all_ops().values():
        if not fnmatch.fnmatch(op.name, options.op):
            continue
        for case in op.cases:
            row = {"op": op.name, "case": case.name, "device": options.device}
            try:
                module = module_of(graph_of(op, case), options, folder)
            except GraphRuntimeError as error:
                yield {**row, "skipped": str(error)[:120]}
                continue
            arrays = draw(case)
            module.set_input(**{f"x{i}": array for i, array in enumerate(arrays)})
            yield {**row, **figures(op, case, arrays, module, options.repeat)}


def figures(
    op: Op, case: Case, arrays: list[np.ndarray], module: gr.GraphModule, repeat: int
) -> dict[str, float]:
    took = seconds(module.run, repeat)
    with np.errstate(all="ignore"):
        reference = seconds(lambda: expected(op, case, arrays), repeat)
    types = [TensorType(dtype, shape) for dtype, shape in case.inputs]
    attrs = op.decode(case.attrs)
    outputs = op.infer(types, attrs)
    figures = {
        "us": took * 1e6,
        "numpy_us": reference * 1e6,
        "ratio": took / reference,
        "gflops": op.flops(types, outputs, attrs) / took / 1e9,
        "gbytes": op.bytes_moved(types, outputs) / took / 1e9,
    }
    return {name: round(value, 3) for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--format", default="", help="physical format of floats on the device, as bf16")
    parser.add_argument("--op", default="*", help="a glob over op names")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for row in measured(options, Path(folder)):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
