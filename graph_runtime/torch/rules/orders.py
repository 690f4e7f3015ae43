"""Elements by their order: counted, found, the ones in the middle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from .movement import cut
from .operands import axis_of, cast, is_float, is_value, pair, reshape, scalar_like
from .table import rule

_MOST = 2**22  # elements that are compared at once


@rule("isin")
def isin(
    e: Any, elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    a, b = pair(e, elements, test_elements, stored=False)
    if math.prod(a.shape) * math.prod(b.shape) > _MOST:
        raise Unsupported("so many comparisons are the host's")
    rows, columns = reshape(e, a, (*a.shape, 1)), reshape(e, b, (math.prod(b.shape),))
    found = e.op("any", e.op("equal", rows, columns), axes=(len(a.shape),), keepdims=False)
    return e.op("logical_not", found) if invert else found


@rule("searchsorted", wide=(0,))
def searchsorted(
    e: Any,
    order: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many are below: what is no number is above all."""
    if out_int32 or sorter is not None:
        raise Unsupported("int32 results, and orders by a sorter, are the host's")
    values = values if is_value(values) else scalar_like(e, values, order)
    order, values = pair(e, order, values, stored=False)
    if math.prod(values.shape) * order.shape[-1] > _MOST:
        raise Unsupported("so many comparisons are the host's")
    if len(order.shape) > 1:
        order = reshape(e, order, (*order.shape[:-1], 1, order.shape[-1]))
    relation = "greater" if right or side == "right" else "greater_equal"
    above = e.op(relation, order, reshape(e, values, (*values.shape, 1)))
    below = cast(e, e.op("logical_not", above), "int32")
    return e.op("sum", below, axes=(len(values.shape),), keepdims=False)


@rule("bucketize", wide=(0,))
def bucketize(e: Any, values: Any, order: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(e, order, values, out_int32=out_int32, right=right)


@rule("kthvalue", wide=(1,))
def kthvalue(e: Any, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.shape:
        axis_of(dim, 0)
        return x, e.array(np.zeros((), np.int32), "int32")
    axis = axis_of(dim, len(x.shape))
    found = e.op("topk", x, k=k, axis=axis, largest=False, sorted=True, dtype="int32")
    shape = [n for i, n in enumerate(x.shape) if i != axis or keepdim]
    if keepdim:
        shape[axis] = 1
    return tuple(reshape(e, cut(e, v, axis, k - 1, k), shape) for v in found)


@rule("median", wide=(1,))
def median(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower of two in the middle; what is no number is a median, too."""
    if dim is None:
        flat = reshape(e, x, (math.prod(x.shape),))
        return _with_nan(e, flat, kthvalue(e, flat, (flat.shape[0] + 1) // 2, 0)[0], 0, False)
    if not x.shape:
        return kthvalue(e, x, 1, dim)
    axis = axis_of(dim, len(x.shape))
    made, at = kthvalue(e, x, (x.shape[axis] + 1) // 2, axis, keepdim)
    if is_float(x):
        first = e.op("argmax", cast(e, e.op("isnan", x), "int32"), axis=axis, keepdims=keepdim, dtype="int32")
        some = e.op("any", e.op("isnan", x), axes=(axis,), keepdims=keepdim)
        at = e.op("where", some, first, at)
    return _with_nan(e, x, made, axis, keepdim), at


@rule("nanmedian", wide=(1,))
def nanmedian(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Of what is a number: sorted, that comes first."""
    if dim is None:
        return nanmedian(e, reshape(e, x, (math.prod(x.shape),)), 0)[0]
    if not is_float(x) or not x.shape:
        return median(e, x, dim, keepdim)
    axis = axis_of(dim, len(x.shape))
    nan = e.op("isnan", x)
    order = e.op("where", nan, scalar_like(e, math.inf, x), x)
    values, places = e.op(
        "topk", order, k=x.shape[axis], axis=axis, largest=False, sorted=True, dtype="int32"
    )
    numbers = e.op("sum", cast(e, e.op("logical_not", nan), "int32"), axes=(axis,), keepdims=True)
    last = e.op("maximum", e.op("subtract", numbers, e.scalar(1, "int32")), e.scalar(0, "int32"))
    middle = e.op("shift_right", last, e.scalar(1, "int32"))
    made, at = (e.op("take_along_axis", v, middle, axis=axis) for v in (values, places))
    made = e.op("where", e.op("equal", numbers, e.scalar(0, "int32")), scalar_like(e, math.nan, x), made)
    shape = made.shape if keepdim else tuple(n for i, n in enumerate(made.shape) if i != axis)
    return reshape(e, made, shape), reshape(e, at, shape)


def _with_nan(e: Any, x: Any, made: Any, axis: int, keepdim: bool) -> Any:
    if not is_float(x):
        return made
    some = e.op("any", e.op("isnan", x), axes=(axis,), keepdims=keepdim)
    return e.op("where", some, scalar_like(e, math.nan, x), made)
