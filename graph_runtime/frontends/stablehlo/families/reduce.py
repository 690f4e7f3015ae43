"""reduce: a registry reduction if the body is equivalent to one; else the elements are joined in halves by
the body itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base import dtypes
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from ..syntax import OpRegion

_KNOWN = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_OF_BOOL = {"add": "any", "or": "any", "maximum": "any", "and": "all", "minimum": "all", "multiply": "all"}


def is_neutral(body: str, value: TapeValue) -> bool:
    """Whether joining any element with this value by the body leaves the element unchanged."""
    array = value.known()
    if array is None or array.size != 1:
        return False
    x, kind = array.reshape(-1)[0], array.dtype.kind
    if kind == "b":
        return bool(x) == (_OF_BOOL.get(body) == "all")
    if body in ("add", "or", "xor"):
        return bool(x == 0)
    if body == "multiply":
        return bool(x == 1)
    if body in ("maximum", "minimum"):
        low = body == "maximum"
        if kind not in "iu":
            return bool(float(x) == (-np.inf if low else np.inf))
        limits = np.iinfo(array.dtype)
        return bool(x == (limits.min if low else limits.max))
    return body == "and" and bool(x == (-1 if kind == "i" else np.iinfo(array.dtype).max))


def combine(
    ctx: HloContext, region: OpRegion, a: Sequence[TapeValue], b: Sequence[TapeValue]
) -> list[TapeValue]:
    """Results of a reduction's body, applied elementwise to two sets of values."""
    shape = np.broadcast_shapes(a[0].shape, b[0].shape)
    made = ctx.run(region, [*(ctx.expand(v, shape) for v in a), *(ctx.expand(v, shape) for v in b)])
    return [ctx.expand(value, shape) for value in made]


@converter("reduce")
def _reduce(ctx: HloContext) -> Results:
    count = len(ctx.inputs) // 2
    if not count or len(ctx.inputs) != 2 * count:
        ctx.fail(f"{len(ctx.inputs)} operands do not come in pairs")
    values, starts = ctx.inputs[:count], ctx.inputs[count:]
    x, region = values[0], ctx.region(0)
    if any(v.shape != x.shape for v in values) or any(s.shape for s in starts):
        ctx.fail("its operands have different shapes, or a start is not a scalar")
    dims = sorted(ctx.dims(ctx.ints("dimensions"), x.rank, "dimensions"))
    kept = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    if not math.prod(x.shape[d] for d in dims):
        return [ctx.expand(s, kept) for s in starts]
    if count == 1 and (made := _by_table(ctx, region, x, starts[0], dims)) is not None:
        return made
    if count == 2 and len(dims) == 1 and (found := _arg(ctx, region, values, starts, dims[0])) is not None:
        return found
    return _by_halves(ctx, region, values, starts, dims)


def _by_table(
    ctx: HloContext, region: OpRegion, x: TapeValue, start: TapeValue, dims: list[int]
) -> TapeValue | None:
    body = ctx.body_op(region)
    op = (_OF_BOOL if x.dtype == "bool" else _KNOWN).get(body)
    if op is None:
        return None
    made = ctx.op(op, x, axes=dims, keepdims=False) if dims else x
    return made if is_neutral(body, start) else combine(ctx, region, [made], [start])[0]


def _by_halves(
    ctx: HloContext,
    region: OpRegion,
    values: Sequence[TapeValue],
    starts: Sequence[TapeValue],
    dims: list[int],
) -> list[TapeValue]:
    """Results by repeatedly joining the first half of the elements with the second, until one is left."""
    x = values[0]
    kept = [d for d in range(x.rank) if d not in dims]
    shape = tuple(x.shape[d] for d in kept)
    size = math.prod(x.shape[d] for d in dims)
    rows = [ctx.reshape(ctx.transpose(v, [*kept, *dims]), (*shape, size)) for v in values]
    axis = len(shape)
    while size > 1:
        half = size // 2
        joined = combine(
            ctx,
            region,
            [ctx.slice(row, axis, 0, half) for row in rows],
            [ctx.slice(row, axis, half, 2 * half) for row in rows],
        )
        if size % 2:
            rest = [ctx.slice(row, axis, size - 1, size) for row in rows]
            joined = [ctx.op("concatenate", j, r, axis=axis) for j, r in zip(joined, rest, strict=True)]
        rows, size = joined, half + size % 2
    return combine(ctx, region, list(starts), [ctx.reshape(row, shape) for row in rows])


# ---------------------------------------------------------------- where the greatest is


def _arg(
    ctx: HloContext, region: OpRegion, values: Sequence[TapeValue], starts: Sequence[TapeValue], axis: int
) -> list[TapeValue] | None:
    """(greatest or least elements, their positions). None if the body does not compute these, or if the
    second operand does not count along the axis."""
    x, places = values
    thin = ctx.thin(places)
    own = tuple(n if d == axis else 1 for d, n in enumerate(places.shape))
    if thin.shape != own or places.dtype not in ("int32", "int64") or x.dtype == "bool":
        return None
    counted = thin.known()
    if counted is None or not np.array_equal(counted.reshape(-1), np.arange(x.shape[axis])):
        return None
    for op, body in (("max", "maximum"), ("min", "minimum")):
        lowest = starts[0].known()
        ends = is_neutral(body, starts[0]) and lowest is not None
        if ends and _finds(ctx, region, x.dtype, places.dtype, op == "max"):
            at = ctx.op(f"arg{op}", x, axis=axis, keepdims=False, dtype=places.dtype)
            return [ctx.op(op, x, axes=[axis], keepdims=False), at]
    return None


def _finds(ctx: HloContext, region: OpRegion, dtype: str, places: str, largest: bool) -> bool:
    """Whether a body selects the better of two elements, and the first of equal elements; NaN beats all
    numbers. The body is tested on a few values."""
    samples = [1.0, 2.0, 3.0] if dtype not in dtypes.FLOATS else [1.0, -2.0, 3.0, float("nan")]
    rows = [
        (a, i, b, j)
        for (a, i), (b, j) in itertools.permutations(itertools.product(samples, (0, 1)), 2)
        if i != j
    ]
    if dtype.startswith("uint"):
        rows = [row for row in rows if min(row[0], row[2]) >= 0]
    columns = [np.array(c) for c in zip(*rows, strict=True)]
    given = [ctx.const(c, t) for c, t in zip(columns, (dtype, places, dtype, places), strict=True)]
    found = [value.known() for value in ctx.run(region, given)]
    if len(found) != 2 or found[0] is None or found[1] is None:
        return False
    wanted = np.array([_better(row, largest) for row in rows], float)
    return bool(np.array_equal(np.asarray(found[1], float), wanted))


def _better(row: tuple[Any, ...], largest: bool) -> int:
    a, i, b, j = row
    if a != a or b != b:
        return min((k for v, k in ((a, i), (b, j)) if v != v))
    if a == b:
        return min(i, j)
    return i if (a > b) == largest else j
