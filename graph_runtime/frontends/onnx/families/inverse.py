"""Inverse and Det of square matrices, by elimination with the greatest pivot of each column."""

from __future__ import annotations

import numpy as np

from ....base import dtypes
from ..context import Context, Results, converter
from ..tape import TapeValue
from .contrib.ops import CONTRIB
from .shapes import joined

_MOST_ROWS = 64  # each is a dozen nodes


def _matrices(ctx: Context) -> tuple[TapeValue, int]:
    """([matrices, n, n], n) of input 0; floats of 16 bits as float32."""
    x = ctx.input(0)
    n = x.shape[-1] if x.rank >= 2 else 0
    if x.rank < 2 or x.shape[-2] != n:
        ctx.fail(f"{x.type} is no square matrix")
    if not 1 <= n <= _MOST_ROWS:
        ctx.fail(f"matrices of {n} rows: 1 to {_MOST_ROWS} are supported")
    wide = x if dtypes.to_numpy(x.dtype).itemsize >= 4 else ctx.cast(x, "float32")
    return ctx.reshape(wide, (x.type.size // (n * n), n, n)), n


def _pivoted(ctx: Context, rows: TapeValue, k: int, n: int) -> tuple[TapeValue, TapeValue]:
    """(rows with the greatest of column k's rest in row k, bool [matrices, 1, 1] whether that moved)."""
    size = ctx.op("abs", ctx.slice(ctx.slice(rows, 2, k, k + 1), 1, k, n))
    best = ctx.op("argmax", size, axis=1, keepdims=True, select_last_index=False)
    best = ctx.op("add", ctx.cast(best, "int64"), ctx.const(np.int64(k)))
    own, at = ctx.const(np.int64(k)), ctx.const(np.arange(n, dtype=np.int64)[None, :, None])
    order = ctx.op("where", ctx.op("equal", at, best), own, at)
    order = ctx.op("where", ctx.op("equal", at, own), best, order)
    order = ctx.expand(order, rows.shape)
    return ctx.op("take_along_axis", rows, order, axis=1), ctx.op("not_equal", best, own)


def _eliminated(ctx: Context, rows: TapeValue, k: int, n: int) -> tuple[TapeValue, TapeValue]:
    """(rows whose column k is that of the unit matrix, the pivot [matrices, 1, 1])."""
    row = ctx.slice(rows, 1, k, k + 1)
    pivot = ctx.slice(row, 2, k, k + 1)
    row = ctx.op("divide", row, pivot)
    unit = ctx.const((np.arange(n) == k)[:, None], rows.dtype)
    column = ctx.op("subtract", ctx.slice(rows, 2, k, k + 1), unit)
    return ctx.op("subtract", rows, ctx.op("multiply", column, row)), pivot


@converter("Inverse", domain=CONTRIB, limits=f"of up to {_MOST_ROWS} rows")
def _inverse(ctx: Context) -> Results:
    x = ctx.input(0)
    rows, n = _matrices(ctx)
    unit = ctx.expand(ctx.const(np.eye(n)[None], rows.dtype), rows.shape)
    rows = joined(ctx, [rows, unit], 2)
    for k in range(n):
        rows, _ = _pivoted(ctx, rows, k, n)
        rows, _ = _eliminated(ctx, rows, k, n)
    return ctx.cast(ctx.reshape(ctx.slice(rows, 2, n, 2 * n), x.shape), x.dtype)


@converter("Det", limits=f"of up to {_MOST_ROWS} rows")
def _det(ctx: Context) -> Results:
    x = ctx.input(0)
    rows, n = _matrices(ctx)
    made, zero = ctx.full((rows.shape[0], 1, 1), 1, rows.dtype), ctx.scalar(0, rows)
    singular = ctx.const(False)
    for k in range(n):
        rows, moved = _pivoted(ctx, rows, k, n)
        rows, pivot = _eliminated(ctx, rows, k, n)
        singular = ctx.op("logical_or", ctx.op("equal", pivot, zero), singular)
        sign = ctx.op("where", moved, ctx.scalar(-1, made), ctx.scalar(1, made))
        made = ctx.op("multiply", made, ctx.op("multiply", sign, pivot))
    made = ctx.op("where", singular, zero, made)  # what was divided by 0 is not looked at
    return ctx.cast(ctx.reshape(made, x.shape[:-2]), x.dtype)
