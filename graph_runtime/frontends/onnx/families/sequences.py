"""Sequences and optionals; the lengths of sequences are known while a model is converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import Context, Results, converter
from ..tape import TapeSequence, TapeValue


def _sequence(ctx: Context) -> tuple[TapeValue, ...]:
    found: Any = ctx.input(0)
    if not isinstance(found, TapeSequence):
        ctx.fail(f"input 0 must be a sequence, but it is {found.type}")
    return found.values


def _at(ctx: Context, index: int, count: int, what: str = "position") -> int:
    """A position in a sequence, counted from the front. ``index``: index of the input with the position,
    which may count from the end. ``count``: length of the sequence."""
    at = int(ctx.single(index))
    if not -count <= at < count:
        ctx.fail(f"{what} {at} is out of range for a sequence of {count}")
    return at % count


converter("SequenceConstruct")(lambda ctx: TapeSequence(tuple(map(ctx.input, range(len(ctx.inputs))))))
converter("SequenceLength")(lambda ctx: ctx.const(np.array(len(_sequence(ctx)), np.int64)))


@converter("SequenceEmpty")
def _empty(ctx: Context) -> Results:
    ctx.ignore("dtype")
    return TapeSequence(())


@converter("SequenceAt")
def _sequence_at(ctx: Context) -> Results:
    values = _sequence(ctx)
    return values[_at(ctx, 1, len(values))]


@converter("SequenceErase")
def _erase(ctx: Context) -> Results:
    values = _sequence(ctx)
    at = _at(ctx, 1, len(values)) if ctx.has(1) else len(values) - 1
    return TapeSequence(values[:at] + values[at + 1 :])


@converter("SequenceInsert")
def _insert(ctx: Context) -> Results:
    values = _sequence(ctx)
    at = _at(ctx, 2, len(values) + 1) if ctx.has(2) and int(ctx.single(2)) >= 0 else None
    if at is None:
        given = int(ctx.single(2)) if ctx.has(2) else len(values)
        if given < -len(values):
            ctx.fail(f"position {given} is out of range for a sequence of {len(values)}")
        at = given + len(values) if given < 0 else given
    return TapeSequence((*values[:at], ctx.input(1), *values[at:]))


@converter("ConcatFromSequence")
def _concat(ctx: Context) -> Results:
    values, axis, new = _sequence(ctx), ctx.attr("axis"), ctx.attr("new_axis", 0)
    if not values:
        ctx.fail("the sequence is empty")
    if new:
        return ctx.stack(list(values), ctx.axis(axis, values[0].rank + 1))
    axis = ctx.axis(axis, values[0].rank)
    return values[0] if len(values) == 1 else ctx.op("concatenate", *values, axis=axis)


@converter("SplitToSequence")
def _split(ctx: Context) -> Results:
    x = ctx.input(0)
    axis, keep = ctx.axis(ctx.attr("axis", 0), x.rank), ctx.attr("keepdims", 1)
    sizes, n = ctx.value(1, None), x.shape[axis]
    if sizes is None:
        parts = [1] * n
    elif sizes.ndim == 0:
        if sizes <= 0:
            ctx.fail(f"the size of parts is {int(sizes)}, but must be positive")
        parts = [min(int(sizes), n - at) for at in range(0, n, int(sizes))]
    else:
        parts = [int(size) for size in sizes]
    if sum(parts) != n or min(parts, default=0) < 0:
        ctx.fail(f"parts of sizes {parts} do not fill axis {axis}, which has {n} elements")
    found, at = [], 0
    for size in parts:
        part = ctx.slice(x, axis, at, at + size)
        if sizes is None and not keep:
            part = ctx.reshape(part, x.shape[:axis] + x.shape[axis + 1 :])
        found.append(part)
        at += size
    return TapeSequence(tuple(found))


@converter("Optional")
def _optional(ctx: Context) -> Results:
    ctx.ignore("type")
    return ctx.input(0) if ctx.has(0) else TapeSequence((), absent=True)


@converter("OptionalHasElement")
def _has_element(ctx: Context) -> Results:
    value: Any = ctx.optional(0)
    absent = value is None or (isinstance(value, TapeSequence) and value.absent)
    return ctx.const(np.array(not absent))


@converter("OptionalGetElement")
def _get_element(ctx: Context) -> Results:
    value: Any = ctx.input(0)
    if isinstance(value, TapeSequence) and value.absent:
        ctx.fail("the optional has no value")
    return value
