"""What the cores of a tt board do for a node: by its op's own trait, else by the kind of work that it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..ir.graph import Func, TensorType
from ..ir.ops import registry
from ..ir.ops.steps import Step
from ..ir.ops.work import Pass, Work, tiles_of

__all__ = ["vector_op", "work_of"]


def work_of(func: Func, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
    """The work of a node, that of its epilogue last. Of a function that only a library knows, or an op
    registered from outside: its tensors pass through the cores once, ``known`` False."""
    op = registry.get(func.op or "")
    own = None if op is None else _own(op, inputs, outputs, func.attrs)
    if op is None or own is None:
        return Work(passes=tuple(Pass("nop", tiles_of(t.shape)) for t in outputs), known=False)
    return replace(own, passes=own.passes + _steps(func.attrs.get(op.program, ()), outputs[0]))


def _own(
    op: registry.Op,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    attrs: registry.Attrs,
) -> Work | None:
    if op.work is not None:
        return op.work(inputs, outputs, attrs)
    made, read = tiles_of(outputs[0].shape), tiles_of(inputs[0].shape) if inputs else 0
    if op.kind == "elementwise":
        return Work(passes=(Pass(vector_op(op.name), made),))
    if op.kind == "movement":
        return Work(passes=(Pass("nop", made),))
    if op.kind == "reduction":
        return Work(passes=(Pass("reduce", read), Pass("multiply", made)))
    if op.kind == "windows":
        # a tile of taps by channels is reduced for each output pixel
        n, c, *pixels = outputs[0].shape
        return Work(passes=(Pass("reduce", n * math.prod(pixels) * math.ceil(c / 32)),))
    return None


def vector_op(op: str) -> str:
    """The op of costs.op_cycles whose pace an elementwise op goes at; "nop" where it names none."""
    entry = registry.get(op)
    return "nop" if entry is None else entry.pace.get("tt", "nop")


def _steps(program: Sequence[Step], out: TensorType) -> tuple[Pass, ...]:
    """The passes of a program (ir/ops/steps.py): what each step's op alone makes of the whole output."""
    found: tuple[Pass, ...] = ()
    for name, reads, _ in program:
        own = _own(registry.require(name), (out,) * len(reads), (out,), {})
        found += (Pass("nop", tiles_of(out.shape)),) if own is None else own.passes
    return found
