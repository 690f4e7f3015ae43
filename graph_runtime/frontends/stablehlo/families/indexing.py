"""Ops that read or write by index (gather, dynamic_slice, scatter, dynamic_update_slice), by index arithmetic
and one take or scatter of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ....ir.value import where
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from .reduce import combine

_INT32 = 2**31 - 1
_NARROW = ("int8", "int16", "uint8", "uint16")


def wide(x: TapeValue) -> TapeValue:
    """Indices in a signed dtype that holds all values of the given dtype. It is int32 if possible, because tt
    computes in int32; else int64."""
    return x if x.dtype == "int32" else x.cast("int32" if x.type.dtype in _NARROW else "int64")


def clamped(x: TapeValue, most: int) -> TapeValue:
    """Indices clamped to 0 .. ``most``, in int32 if that suffices."""
    x = wide(x)
    made = x.maximum(0).minimum(most if x.dtype == "int64" else min(most, _INT32))
    return made.cast(index_dtype(most))


def index_dtype(rows: int) -> str:
    """dtype of indices that address ``rows`` rows."""
    return "int32" if rows <= _INT32 else "int64"


def index_columns(ctx: HloContext, indices: TapeValue, axis: int) -> tuple[list[TapeValue], tuple[int, ...]]:
    """(components of the index vectors, shape of the batch). Each component is a tensor in the shape of the
    batch."""
    if not 0 <= axis <= indices.rank:
        ctx.fail(f"index_vector_dim {axis} does not fit {indices.type}")
    if axis == indices.rank:
        return [indices], indices.shape
    batch = (*indices.shape[:axis], *indices.shape[axis + 1 :])
    count = indices.shape[axis]
    return [ctx.reshape(ctx.slice(indices, axis, i, i + 1), batch) for i in range(count)], batch


@dataclass(frozen=True)
class Indexed:
    """Addresses of windows in an operand, which is seen as rows. ``shape``: shape of the operand. ``front``:
    dimensions that are indexed, or that a window covers only in part. ``back``: dimensions that a window
    covers as a whole; together they make up a row. ``sizes``: size of a window along each dimension."""

    shape: tuple[int, ...]
    front: list[int]
    back: list[int]
    sizes: list[int]

    @property
    def rows(self) -> int:
        return math.prod(self.shape[d] for d in self.front)

    def stride(self, dim: int) -> int:
        """Number of rows between neighbours along a dimension of ``front``."""
        at = self.front.index(dim)
        return math.prod(self.shape[d] for d in self.front[at + 1 :])

    def offsets(self) -> np.ndarray:
        """Distances of a window's elements from its first element along ``front``, in rows."""
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
    """The first row of each window, in the shape of the batch. ``index_map``: the operand's dimension that
    each column indexes; ``batching``: pairs (dimension of the operand, corresponding dimension of the batch).
    """
    total, dtype = None, index_dtype(how.rows)
    for dim, each in zip(index_map, columns, strict=True):
        if dim not in how.front:
            continue
        stride, column = how.stride(dim), each.cast(dtype)
        own = column if stride == 1 else column * stride
        total = own if total is None else total + own
    fixed = np.zeros(batch, np.int64)
    for dim, at in batching:
        steps = np.arange(batch[at]) * how.stride(dim)
        fixed = fixed + steps.reshape([-1 if i == at else 1 for i in range(len(batch))])
    if total is None:
        return ctx.const(fixed, dtype)
    return total + ctx.const(fixed, dtype) if batching else total


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
        ctx.fail(f"slice_sizes {sizes} do not fit {x.type}")
    columns, batch = index_columns(ctx, indices, axis)
    index_map = ctx.dims(numbers["start_index_map"], x.rank, "start_index_map")
    dropped = [*numbers["collapsed_slice_dims"], *numbers["operand_batching_dims"]]
    ctx.dims(dropped, x.rank, "collapsed_slice_dims and operand_batching_dims")
    if len(index_map) != len(columns) or any(sizes[d] > 1 for d in dropped):
        ctx.fail(f"{len(columns)} indices do not fit {len(index_map)} dimensions and slice_sizes {sizes}")
    own = [d for d in range(x.rank) if sizes[d] < x.shape[d] or d in dropped]
    how = Indexed(x.shape, own, [d for d in range(x.rank) if d not in own], sizes)
    columns = [clamped(c, x.shape[d] - sizes[d]) for c, d in zip(columns, index_map, strict=True)]
    theirs = numbers["start_indices_batching_dims"]
    pairs = [(d, i - (i > axis)) for d, i in zip(numbers["operand_batching_dims"], theirs, strict=True)]
    rows = starts_of(ctx, how, columns, batch, index_map, pairs)
    offsets = how.offsets()
    rows = ctx.reshape(rows, (*batch, *([1] * offsets.ndim)))
    if offsets.size != 1:
        rows = rows + ctx.const(offsets, rows.dtype)
    made = ctx.op("take", how.as_rows(ctx, x), rows, axis=0)
    return _arranged(ctx, made, how, dropped, batch, numbers["offset_dims"])


def _arranged(
    ctx: HloContext,
    made: TapeValue,
    how: Indexed,
    dropped: list[int],
    batch: tuple[int, ...],
    offset: list[int],
) -> TapeValue:
    """The result of a gather. ``made``: the windows, [batch, front, back]; their dimensions move to the
    positions ``offset``, in the operand's order, and the dimensions ``dropped`` are removed."""
    kept = [d for d in range(len(how.shape)) if d not in dropped]
    rank = len(batch) + len(kept)
    if len(offset) != len(kept):
        ctx.fail(f"offset_dims {offset} do not fit a window of {len(kept)} dimensions")
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
        ctx.fail(f"sizes {sizes} and {len(starts)} starts do not fit {x.type}")
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
        place = ctx.reshape(clamped(starts[axis], x.shape[axis] - sizes[axis]), (1,))
        if sizes[axis] != 1:
            place = place + ctx.const(np.arange(sizes[axis]), place.dtype)
        x = ctx.op("take", x, place, axis=axis)
    return x


# ---------------------------------------------------------------- scatter

_REDUCTIONS = {"second": "none", "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
_OF_BOOL = {"second": "none", "or": "max", "and": "min", "add": "max", "maximum": "max", "minimum": "min",
            "multiply": "min"}  # fmt: skip


@converter("scatter")
def _scatter(ctx: HloContext) -> Results:
    if len(ctx.inputs) != 3:
        ctx.fail(f"a scatter of {len(ctx.inputs) // 2} operands at once is not supported")
    x, indices, updates = ctx.inputs
    fields = ctx.fields("scatter_dimension_numbers")
    windows = ctx.field_ints(fields, "update_window_dims")
    inserted = ctx.field_ints(fields, "inserted_window_dims")
    batching = ctx.field_ints(fields, "input_batching_dims")
    theirs = ctx.field_ints(fields, "scatter_indices_batching_dims")
    index_map = ctx.dims(ctx.field_ints(fields, "scatter_dims_to_operand_dims"), x.rank, "dimensions")
    axis = int(fields.get("index_vector_dim", 0))
    columns, batch = index_columns(ctx, indices, axis)
    dropped = ctx.dims([*inserted, *batching], x.rank, "inserted and batching dimensions")
    kept = [d for d in range(x.rank) if d not in dropped]
    if len(index_map) != len(columns) or len(windows) != len(kept) or len(batching) != len(theirs):
        ctx.fail("its dimension numbers do not fit its operands")
    ctx.dims(windows, updates.rank, "update_window_dims")
    sizes = [1] * x.rank
    for at, dim in zip(sorted(windows), kept, strict=True):
        sizes[dim] = updates.shape[at]
        if sizes[dim] > x.shape[dim]:
            ctx.fail(f"a window of {sizes} does not fit {x.type}")
    own = [d for d in range(x.rank) if d in index_map or d in dropped or sizes[d] < x.shape[d]]
    how = Indexed(x.shape, own, [d for d in range(x.rank) if d not in own], sizes)
    pairs = [(d, i - (i > axis)) for d, i in zip(batching, theirs, strict=True)]
    columns = [wide(column) for column in columns]
    rows = starts_of(ctx, how, columns, batch, index_map, pairs)
    inside = _inside(how, columns, index_map)
    return _scattered(ctx, x, updates, how, rows, inside, windows, kept, batch)


def _inside(how: Indexed, columns: Sequence[TapeValue], index_map: Sequence[int]) -> TapeValue | None:
    """Mask of the windows that lie inside the operand; None if all windows are known to lie inside."""
    found = None
    for column, dim in zip(columns, index_map, strict=True):
        most = how.shape[dim] - how.sizes[dim]
        values = column.known()
        if values is not None and bool(np.all((values >= 0) & (values <= most))):
            continue
        own = clamped(column, most).cast(column.dtype).equal(column)
        found = own if found is None else found & own
    return found


def _scattered(
    ctx: HloContext,
    x: TapeValue,
    updates: TapeValue,
    how: Indexed,
    rows: TapeValue,
    inside: TapeValue | None,
    windows: Sequence[int],
    kept: Sequence[int],
    batch: tuple[int, ...],
) -> TapeValue:
    """The operand with updates at ``rows``. ``inside``: mask of the windows that lie inside; all others go to
    an additional last row, which is removed afterwards."""
    at = dict(zip(kept, sorted(windows), strict=True))
    front = [d for d in range(updates.rank) if d not in windows]
    order = [*front, *(at[d] for d in how.front if d in at), *(at[d] for d in how.back)]
    back = [how.shape[d] for d in how.back]
    offsets = how.offsets()
    count = math.prod(batch) * offsets.size
    values = ctx.reshape(ctx.transpose(updates, order), (count, *back))
    if inside is not None:
        rows = where(inside, rows, how.rows)
    rows = ctx.reshape(rows, (*batch, 1))
    flat_offsets = ctx.const(offsets.reshape(-1), rows.dtype)
    if offsets.size > 1 and inside is not None:
        moved = rows + flat_offsets
        rows = where(ctx.reshape(inside, (*batch, 1)), moved, rows)
    elif offsets.size > 1:
        rows = rows + flat_offsets
    table = how.as_rows(ctx, x)
    if inside is not None:
        spare = ctx.full((1, *back), 0, x.dtype)
        table = ctx.op("concatenate", table, spare, axis=0)
    made = _joined(ctx, table, ctx.reshape(rows, (count, 1)), values)
    if inside is not None:
        made = ctx.slice(made, 0, 0, how.rows)
    apart = ctx.reshape(made, [how.shape[d] for d in (*how.front, *how.back)])
    order = [*how.front, *how.back]
    return ctx.transpose(apart, [order.index(d) for d in range(x.rank)])


def _joined(ctx: HloContext, table: TapeValue, rows: TapeValue, values: TapeValue) -> TapeValue:
    """The table after ``values`` are combined with its rows at the indices ``rows``, as the op's region
    defines."""
    region = ctx.region(0)
    body = ctx.body_op(region)
    if not math.prod(values.shape) or not math.prod(table.shape):
        return table
    if table.dtype == "bool" and body in _OF_BOOL:
        how = _OF_BOOL[body]
        if how == "none":
            return ctx.op("scatter_nd", table, rows, values)
        made = ctx.op("scatter_nd", table.cast("int32"), rows, values.cast("int32"), reduction=how)
        return made.cast("bool")
    if body in _REDUCTIONS:
        return ctx.op("scatter_nd", table, rows, values, reduction=_REDUCTIONS[body])
    if not ctx.attr("unique_indices", default=False):
        ctx.fail("its region is not set, add, multiply, maximum or minimum, and indices may be equal")
    old = ctx.op("take", table, ctx.reshape(rows, rows.shape[:1]), axis=0)
    return ctx.op("scatter_nd", table, rows, combine(ctx, region, [old], [values])[0])


@converter("dynamic_update_slice")
def _dynamic_update_slice(ctx: HloContext) -> Results:
    x, update, starts = ctx.input(0), ctx.input(1), ctx.inputs[2:]
    if update.rank != x.rank or len(starts) != x.rank:
        ctx.fail(f"{update.type} and {len(starts)} starts do not fit {x.type}")
    if any(u > n for u, n in zip(update.shape, x.shape, strict=True)):
        ctx.fail(f"an update of {update.type} does not fit {x.type}")
    if not math.prod(update.shape):
        return x
    moving = [d for d in range(x.rank) if update.shape[d] != x.shape[d]]
    if not moving:
        return update
    known = [starts[d].known() for d in moving]
    if all(v is not None for v in known):
        at = [
            min(max(int(v.reshape(-1)[0]), 0), x.shape[d] - update.shape[d])
            for d, v in zip(moving, known, strict=True)
            if v is not None
        ]
        return ctx.op("slice_update", x, update, starts=at, axes=moving)
    return _updated(ctx, x, update, starts, moving)


def _updated(
    ctx: HloContext, x: TapeValue, update: TapeValue, starts: Sequence[TapeValue], moving: Sequence[int]
) -> TapeValue:
    """x with an update at a position that a run finds. ``moving``: dimensions along which the position is
    unknown. The dimensions from the first to the last of these are merged into one dimension, along which the
    elements are written."""
    first, last = moving[0], moving[-1]
    span = list(range(first, last + 1))
    strides = {d: math.prod(x.shape[d + 1 : last + 1]) for d in span}
    dtype = index_dtype(math.prod(x.shape[d] for d in span))

    def row(d: int) -> TapeValue:
        at = clamped(starts[d], x.shape[d] - update.shape[d]).cast(dtype)
        return at if strides[d] == 1 else at * strides[d]

    total = reduce(add, map(row, moving))
    offsets = np.zeros([update.shape[d] for d in span], np.int64)
    for i, d in enumerate(span):
        offsets += (np.arange(update.shape[d]) * strides[d]).reshape(
            [-1 if j == i else 1 for j in range(len(span))]
        )
    rows = ctx.const(offsets.reshape(-1), dtype) + total
    if not first:
        return _rows_updated(ctx, x, update, rows, last)
    joined = math.prod(x.shape[d] for d in span)
    flat = ctx.reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))
    new = ctx.reshape(update, (*update.shape[:first], offsets.size, *update.shape[last + 1 :]))
    rows = ctx.reshape(rows, [offsets.size if d == first else 1 for d in range(new.rank)])
    made = ctx.op("scatter_elements", flat, ctx.expand(rows, new.shape), new, axis=first)
    return ctx.reshape(made, x.shape)


def _rows_updated(ctx: HloContext, x: TapeValue, update: TapeValue, rows: TapeValue, last: int) -> TapeValue:
    """The same result as _updated, if the first dimension is among the moving ones: then whole rows are
    written."""
    back = x.shape[last + 1 :]
    flat = ctx.reshape(x, (math.prod(x.shape[: last + 1]), *back))
    count = rows.shape[0]
    new = ctx.reshape(update, (count, *back))
    return ctx.reshape(ctx.op("scatter_nd", flat, ctx.reshape(rows, (count, 1)), new), x.shape)
