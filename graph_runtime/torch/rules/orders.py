"""Order statistics: counts, searches in sorted values, medians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.value import where
from ..counters import Unsupported
from .movement import cut
from .operands import axis_of, is_float, is_value, pair, reshape
from .table import rule

_MOST = 2**22  # maximum number of comparisons at once


@rule("isin")
def isin(
    e: Any, elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    a, b = pair(e, elements, test_elements, stored=False)
    if math.prod(a.shape) * math.prod(b.shape) > _MOST:
        raise Unsupported("so many comparisons run on the host")
    rows, columns = reshape(a, (*a.shape, 1)), reshape(b, (math.prod(b.shape),))
    found = rows.equal(columns).any(axes=(len(a.shape),), keepdims=False)
    return ~found if invert else found


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
    """The number of elements of ``order`` below each value; NaN counts as greater than all numbers."""
    if out_int32 or sorter is not None:
        raise Unsupported("int32 results, and orders by a sorter, run on the host")
    values = values if is_value(values) else order.scalar(values)
    order, values = pair(e, order, values, stored=False)
    if math.prod(values.shape) * order.shape[-1] > _MOST:
        raise Unsupported("so many comparisons run on the host")
    if len(order.shape) > 1:
        order = reshape(order, (*order.shape[:-1], 1, order.shape[-1]))
    relation = "greater" if right or side == "right" else "greater_equal"
    above = order.op(relation, reshape(values, (*values.shape, 1)))
    return (~above).cast("int32").sum(axes=(len(values.shape),), keepdims=False)


rule("bucketize", wide=(0,))(lambda e, values, order, **how: searchsorted(e, order, values, **how))


@rule("kthvalue", wide=(1,))
def kthvalue(e: Any, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.shape:
        axis_of(dim, 0)
        return x, e.array(np.zeros((), np.int32), "int32")
    axis = axis_of(dim, len(x.shape))
    found = x.op("topk", k=k, axis=axis, largest=False, sorted=True, dtype="int32")
    shape = [n for i, n in enumerate(x.shape) if i != axis or keepdim]
    if keepdim:
        shape[axis] = 1
    return tuple(reshape(cut(v, axis, k - 1, k), shape) for v in found)


@rule("median", wide=(1,))
def median(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The median; of an even number of elements, the lower of the two in the middle. It is NaN if an element
    is NaN."""
    if dim is None:
        flat = reshape(x, (math.prod(x.shape),))
        return _with_nan(flat, kthvalue(e, flat, (flat.shape[0] + 1) // 2, 0)[0], 0, False)
    if not x.shape:
        return kthvalue(e, x, 1, dim)
    axis = axis_of(dim, len(x.shape))
    made, at = kthvalue(e, x, (x.shape[axis] + 1) // 2, axis, keepdim)
    if is_float(x):
        first = x.isnan().cast("int32").op("argmax", axis=axis, keepdims=keepdim, dtype="int32")
        some = x.isnan().any(axes=(axis,), keepdims=keepdim)
        at = where(some, first, at)
    return _with_nan(x, made, axis, keepdim), at


@rule("nanmedian", wide=(1,))
def nanmedian(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN."""
    if dim is None:
        return nanmedian(e, reshape(x, (math.prod(x.shape),)), 0)[0]
    if not is_float(x) or not x.shape:
        return median(e, x, dim, keepdim)
    axis = axis_of(dim, len(x.shape))
    nan = x.isnan()
    order = where(nan, math.inf, x)
    values, places = order.op("topk", k=x.shape[axis], axis=axis, largest=False, sorted=True, dtype="int32")
    numbers = (~nan).cast("int32").sum(axes=(axis,))
    last = (numbers - 1).maximum(0)
    middle = last >> 1
    made, at = (v.op("take_along_axis", middle, axis=axis) for v in (values, places))
    made = where(numbers.equal(0), math.nan, made)
    shape = made.shape if keepdim else tuple(n for i, n in enumerate(made.shape) if i != axis)
    return reshape(made, shape), reshape(at, shape)


def _with_nan(x: Any, made: Any, axis: int, keepdim: bool) -> Any:
    if not is_float(x):
        return made
    some = x.isnan().any(axes=(axis,), keepdims=keepdim)
    return where(some, math.nan, made)
