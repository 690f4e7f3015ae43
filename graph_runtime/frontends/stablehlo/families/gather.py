"""gather and dynamic_slice: index arithmetic, and one take of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter

__all__ = ["Indexed", "clamped", "index_columns", "index_dtype", "starts_of", "wide"]

_INT32 = 2**31 - 1
_NARROW = ("int8", "int16", "uint8", "uint16")


def wide(ctx: HloContext, x: TapeValue) -> TapeValue:
    """Indices in a signed dtype that has all of them: int32 where that is one, for tt computes in it."""
    return x if x.dtype == "int32" else ctx.cast(x, "int32" if x.type.dtype in _NARROW else "int64")


def clamped(ctx: HloContext, x: TapeValue, most: int) -> TapeValue:
    """Indices, at least 0 and at most ``most``, in int32 where that is enough."""
    x = wide(ctx, x)
    made = ctx.op(
        "minimum",
        ctx.op("maximum", x, ctx.scalar(0, x)),
        ctx.scalar(most if x.dtype == "int64" else min(most, _INT32), x),
    )
    return ctx.cast(made, index_dtype(most))


def index_dtype(rows: int) -> str:
    """The dtype of so many rows' numbers."""
    return "int32" if rows <= _INT32 else "int64"


def index_columns(ctx: HloContext, indices: TapeValue, axis: int) -> tuple[list[TapeValue], tuple[int, ...]]:
    """The components of index vectors, each of the shape of the batch, which comes second."""
    if not 0 <= axis <= indices.rank:
        ctx.fail(f"index_vector_dim {axis} of {indices.type}")
    if axis == indices.rank:
        return [indices], indices.shape
    batch = (*indices.shape[:axis], *indices.shape[axis + 1 :])
    count = indices.shape[axis]
    return [ctx.reshape(ctx.slice(indices, axis, i, i + 1), batch) for i in range(count)], batch


@dataclass(frozen=True)
class Indexed:
    """How windows of an operand are addressed. ``front``: dimensions that indices or parts of windows are
    along, ``back``: those that are whole; ``window``: sizes of a window along ``front``; ``strides``: of the
    rows that ``front`` makes."""

    shape: tuple[int, ...]
    front: list[int]
    back: list[int]
    sizes: list[int]

    @property
    def rows(self) -> int:
        return math.prod(self.shape[d] for d in self.front)

    def stride(self, dim: int) -> int:
        """Rows between neighbours along a dimension of ``front``."""
        at = self.front.index(dim)
        return math.prod(self.shape[d] for d in self.front[at + 1 :])

    def offsets(self) -> np.ndarray:
        """Rows of a window's elements, those along ``front``, from its first."""
        found = np.zeros([self.sizes[d] for d in self.front], np.int64)
        for at, dim in enumerate(self.front):
            steps = np.arange(self.sizes[dim]) * self.stride(dim)
            found += steps.reshape([-1 if i == at else 1 for i in range(len(self.front))])
        return found

    def as_rows(self, ctx: HloContext, x: TapeValue) -> TapeValue:
        """The operand as [rows, ...back]."""
        moved = ctx.transpose(x, [*self.front, *self.back])
        return ctx.reshape(moved, (self.rows, *(self.shape[d] for d in self.back)))


def starts_of(
    ctx: HloContext,
    how: Indexed,
    columns: Sequence[TapeValue],
    batch: tuple[int, ...],
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
) -> TapeValue:
    """The row at which each window begins, in the shape of the batch. ``index_map``: the dimension that each
    column is along; ``batching``: (dimension of the operand, dimension of the batch) that go together."""
    total, dtype = None, index_dtype(how.rows)
    for dim, each in zip(index_map, columns, strict=True):
        if dim not in how.front:
            continue
        stride, column = how.stride(dim), ctx.cast(each, dtype)
        own = column if stride == 1 else ctx.op("multiply", column, ctx.scalar(stride, column))
        total = own if total is None else ctx.op("add", total, own)
    fixed = np.zeros(batch, np.int64)
    for dim, at in batching:
        steps = np.arange(batch[at]) * how.stride(dim)
        fixed = fixed + steps.reshape([-1 if i == at else 1 for i in range(len(batch))])
    if total is None:
        return ctx.const(fixed, dtype)
    return ctx.op("add", total, ctx.const(fixed, dtype)) if batching else total


def _numbers(ctx: HloContext) -> dict[str, list[int]]:
    fields = ctx.fields("dimension_numbers")
    names = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
             "start_index_map")  # fmt: skip
    found = {name: ctx.field_ints(fields, name) for name in names}
    found["index_vector_dim"] = [int(fields.get("index_vector_dim", 0))]
    return found


@converter("gather")
def _gather(ctx: HloContext) -> Results:
    x, indices = ctx.input(0), ctx.input(1)
    numbers, sizes = _numbers(ctx), ctx.ints("slice_sizes")
    axis = numbers["index_vector_dim"][0]
    if len(sizes) != x.rank or any(not 0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)):
        ctx.fail(f"slice_sizes {sizes} of {x.type}")
    columns, batch = index_columns(ctx, indices, axis)
    index_map = ctx.dims(numbers["start_index_map"], x.rank, "start_index_map")
    dropped = [*numbers["collapsed_slice_dims"], *numbers["operand_batching_dims"]]
    ctx.dims(dropped, x.rank, "collapsed_slice_dims and operand_batching_dims")
    if len(index_map) != len(columns) or any(sizes[d] > 1 for d in dropped):
        ctx.fail(f"{len(columns)} indices of {len(index_map)} dimensions, slice_sizes {sizes}")
    own = [d for d in range(x.rank) if sizes[d] < x.shape[d] or d in dropped]
    how = Indexed(x.shape, own, [d for d in range(x.rank) if d not in own], sizes)
    columns = [clamped(ctx, c, x.shape[d] - sizes[d]) for c, d in zip(columns, index_map, strict=True)]
    pairs = _batching(numbers["operand_batching_dims"], numbers["start_indices_batching_dims"], axis)
    rows = starts_of(ctx, how, columns, batch, index_map, pairs)
    offsets = how.offsets()
    rows = ctx.reshape(rows, (*batch, *([1] * offsets.ndim)))
    if offsets.size != 1:
        rows = ctx.op("add", rows, ctx.const(offsets, rows.dtype))
    made = ctx.op("take", how.as_rows(ctx, x), rows, axis=0)
    return _arranged(ctx, made, how, dropped, batch, numbers["offset_dims"])


def _batching(operand: Sequence[int], indices: Sequence[int], axis: int) -> list[tuple[int, int]]:
    return [(d, i - (i > axis)) for d, i in zip(operand, indices, strict=True)]


def _arranged(
    ctx: HloContext,
    made: TapeValue,
    how: Indexed,
    dropped: list[int],
    batch: tuple[int, ...],
    offset: list[int],
) -> TapeValue:
    """[batch, front, back] as the result: window dimensions in the operand's order at ``offset``."""
    kept = [d for d in range(len(how.shape)) if d not in dropped]
    rank = len(batch) + len(kept)
    if len(offset) != len(kept):
        ctx.fail(f"offset_dims {offset} of a window of {len(kept)} dimensions")
    ctx.dims(offset, rank, "offset_dims")
    order = [*how.front, *how.back]
    where = {d: len(batch) + order.index(d) for d in kept}
    front = iter(range(len(batch)))
    inner = dict(zip(sorted(offset), kept, strict=True))
    perm = [where[inner[at]] if at in inner else next(front) for at in range(rank)]
    gone = [len(batch) + order.index(d) for d in dropped]
    made = ctx.transpose(made, [*perm, *gone])
    return ctx.reshape(made, made.shape[:rank])


@converter("dynamic_slice")
def _dynamic_slice(ctx: HloContext) -> Results:
    x, starts = ctx.input(0), ctx.inputs[1:]
    sizes = ctx.ints("sizes", "slice_sizes")
    if not len(sizes) == len(starts) == x.rank or any(s > n for s, n in zip(sizes, x.shape, strict=True)):
        ctx.fail(f"sizes {sizes} and {len(starts)} starts of {x.type}")
    known, waiting = [], []
    for axis, (start, size, n) in enumerate(zip(starts, sizes, x.shape, strict=True)):
        if size == n:
            continue
        values = start.known()
        if values is None:
            waiting.append(axis)
        else:
            known.append((axis, min(max(int(values.reshape(-1)[0]), 0), n - size), size))
    for axis, at, size in known:
        x = ctx.slice(x, axis, at, at + size)
    for axis in waiting:
        place = ctx.reshape(clamped(ctx, starts[axis], x.shape[axis] - sizes[axis]), (1,))
        if sizes[axis] != 1:
            place = ctx.op("add", place, ctx.const(np.arange(sizes[axis]), place.dtype))
        x = ctx.op("take", x, place, axis=axis)
    return x
