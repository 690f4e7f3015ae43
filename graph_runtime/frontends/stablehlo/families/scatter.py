"""scatter and dynamic_update_slice: index arithmetic, and one scatter of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from .gather import Indexed, clamped, index_columns, index_dtype, starts_of, wide
from .reduce import combine

_REDUCTIONS = {"second": "none", "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
_OF_BOOL = {"second": "none", "or": "max", "and": "min", "add": "max", "maximum": "max", "minimum": "min",
            "multiply": "min"}  # fmt: skip


@converter("scatter")
def _scatter(ctx: HloContext) -> Results:
    if len(ctx.inputs) != 3:
        ctx.fail(f"of {len(ctx.inputs) // 2} operands at once")
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
            ctx.fail(f"a window of {sizes} in {x.type}")
    own = [d for d in range(x.rank) if d in index_map or d in dropped or sizes[d] < x.shape[d]]
    how = Indexed(x.shape, own, [d for d in range(x.rank) if d not in own], sizes)
    pairs = [(d, i - (i > axis)) for d, i in zip(batching, theirs, strict=True)]
    columns = [wide(ctx, column) for column in columns]
    rows = starts_of(ctx, how, columns, batch, index_map, pairs)
    inside = _inside(ctx, how, columns, index_map)
    return _scattered(ctx, x, updates, how, rows, inside, windows, kept, batch)


def _inside(
    ctx: HloContext, how: Indexed, columns: Sequence[TapeValue], index_map: Sequence[int]
) -> TapeValue | None:
    """Whether each window is inside of the operand; None: all are, as far as is known now."""
    found = None
    for column, dim in zip(columns, index_map, strict=True):
        most = how.shape[dim] - how.sizes[dim]
        values = column.known()
        if values is not None and bool(np.all((values >= 0) & (values <= most))):
            continue
        own = ctx.op("equal", ctx.cast(clamped(ctx, column, most), column.dtype), column)
        found = own if found is None else ctx.op("logical_and", found, own)
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
    """The operand as rows, with updates written at ``rows``; what is outside goes to a row behind the last,
    which is cut off again."""
    where = dict(zip(kept, sorted(windows), strict=True))
    front = [d for d in range(updates.rank) if d not in windows]
    order = [*front, *(where[d] for d in how.front if d in where), *(where[d] for d in how.back)]
    back = [how.shape[d] for d in how.back]
    offsets = how.offsets()
    count = math.prod(batch) * offsets.size
    values = ctx.reshape(ctx.transpose(updates, order), (count, *back))
    if inside is not None:
        rows = ctx.op("where", inside, rows, ctx.scalar(how.rows, rows))
    rows = ctx.reshape(rows, (*batch, 1))
    flat_offsets = ctx.const(offsets.reshape(-1), rows.dtype)
    if offsets.size > 1 and inside is not None:
        moved = ctx.op("add", rows, flat_offsets)
        rows = ctx.op("where", ctx.reshape(inside, (*batch, 1)), moved, rows)
    elif offsets.size > 1:
        rows = ctx.op("add", rows, flat_offsets)
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
    """Rows of the table, joined with values as the op's region says."""
    region = ctx.region(0)
    body = ctx.body_op(region)
    if not math.prod(values.shape) or not math.prod(table.shape):
        return table
    if table.dtype == "bool" and body in _OF_BOOL:
        how = _OF_BOOL[body]
        if how == "none":
            return ctx.op("scatter_nd", table, rows, values)
        made = ctx.op("scatter_nd", ctx.cast(table, "int32"), rows, ctx.cast(values, "int32"), reduction=how)
        return ctx.cast(made, "bool")
    if body in _REDUCTIONS:
        return ctx.op("scatter_nd", table, rows, values, reduction=_REDUCTIONS[body])
    if not ctx.attr("unique_indices", default=False):
        ctx.fail("its region is none of set, add, multiply, maximum, minimum, and its indices may be equal")
    old = ctx.op("take", table, ctx.reshape(rows, rows.shape[:1]), axis=0)
    return ctx.op("scatter_nd", table, rows, combine(ctx, region, [old], [values])[0])


@converter("dynamic_update_slice")
def _dynamic_update_slice(ctx: HloContext) -> Results:
    x, update, starts = ctx.input(0), ctx.input(1), ctx.inputs[2:]
    if update.rank != x.rank or len(starts) != x.rank:
        ctx.fail(f"{update.type} and {len(starts)} starts of {x.type}")
    if any(u > n for u, n in zip(update.shape, x.shape, strict=True)):
        ctx.fail(f"an update of {update.type} in {x.type}")
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
    """An update that a run places: elements written along the dimensions between the first and the last that
    move, which are one for that."""
    first, last = moving[0], moving[-1]
    span = list(range(first, last + 1))
    strides = {d: math.prod(x.shape[d + 1 : last + 1]) for d in span}
    total, dtype = None, index_dtype(math.prod(x.shape[d] for d in span))
    for d in moving:
        at = ctx.cast(clamped(ctx, starts[d], x.shape[d] - update.shape[d]), dtype)
        own = at if strides[d] == 1 else ctx.op("multiply", at, ctx.scalar(strides[d], at))
        total = own if total is None else ctx.op("add", total, own)
    assert total is not None
    offsets = np.zeros([update.shape[d] for d in span], np.int64)
    for i, d in enumerate(span):
        offsets += (np.arange(update.shape[d]) * strides[d]).reshape(
            [-1 if j == i else 1 for j in range(len(span))]
        )
    rows = ctx.op("add", ctx.const(offsets.reshape(-1), dtype), total)
    if not first:
        return _rows_updated(ctx, x, update, rows, last)
    joined = math.prod(x.shape[d] for d in span)
    flat = ctx.reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))
    new = ctx.reshape(update, (*update.shape[:first], offsets.size, *update.shape[last + 1 :]))
    rows = ctx.reshape(rows, [offsets.size if d == first else 1 for d in range(new.rank)])
    made = ctx.op("scatter_elements", flat, ctx.expand(rows, new.shape), new, axis=first)
    return ctx.reshape(made, x.shape)


def _rows_updated(ctx: HloContext, x: TapeValue, update: TapeValue, rows: TapeValue, last: int) -> TapeValue:
    """The same where the first dimension moves: whole rows are written."""
    back = x.shape[last + 1 :]
    flat = ctx.reshape(x, (math.prod(x.shape[: last + 1]), *back))
    count = rows.shape[0]
    new = ctx.reshape(update, (count, *back))
    return ctx.reshape(ctx.op("scatter_nd", flat, ctx.reshape(rows, (count, 1)), new), x.shape)
