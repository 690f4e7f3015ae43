"""Elements replaced or combined at positions that tensors of indices give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.value import where
from ..counters import Unsupported
from .indexing import needs
from .movement import cut, permute
from .operands import axis_of, broadcast, is_float, is_value, reshape
from .table import rule

_NOTHING = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}  # neutral operand of each op
_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


# **************** whole slices of an axis ****************


def _by_rows(e: Any, x: Any, dim: int, index: Any, source: Any, reduction: str) -> Any:
    """x after a scatter along an axis: each slice of ``source`` is combined with the slice of x at its
    ``index``."""
    needs(e, "scatter_nd", x)
    if not x.shape:
        made = _by_rows(e, reshape(x, (1,)), 0, index, reshape(source, (1,)), reduction)
        return reshape(made, ())
    axis = axis_of(dim, len(x.shape))
    order = (axis, *(i for i in range(len(x.shape)) if i != axis))
    at = reshape(index.cast(e.integers), (math.prod(index.shape), 1))
    rows = permute(source, order) if source.shape else broadcast(source, (at.shape[0],))
    made = permute(x, order).op("scatter_nd", at, rows, reduction=reduction)
    return permute(made, tuple(order.index(i) for i in range(len(order))))


rule("index_copy", indices=(2,))(lambda e, x, dim, index, source: _by_rows(e, x, dim, index, source, "none"))


@rule("index_add", indices=(2,))
def index_add(e: Any, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    if x.dtype == "bool":
        raise Unsupported("bools are not added")
    source = source if alpha == 1 else source * alpha
    return _by_rows(e, x, dim, index, source, "add")


@rule("index_fill", indices=(2,))
def index_fill(e: Any, x: Any, dim: int, index: Any, value: Any) -> Any:
    shape = list(x.shape)
    if shape:
        shape[axis_of(dim, len(shape))] = math.prod(index.shape)
    value = value.cast(x.dtype) if is_value(value) else x.scalar(value)
    return _by_rows(e, x, dim, index, broadcast(value, shape), "none")


@rule("index_reduce", indices=(2,))
def index_reduce(
    e: Any, x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    return _reduced(
        e, x, source, reduce, include_self, lambda *what: _by_rows(e, what[0], dim, index, *what[1:])
    )


# **************** single elements ****************


@rule("scatter_reduce", indices=(2,))
def scatter_reduce(
    e: Any, x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    needs(e, "scatter_elements", x)
    if not x.shape:
        one = [reshape(v, (1,)) for v in (x, index, source)]
        made = scatter_reduce(e, one[0], 0, one[1], one[2], reduce, include_self=include_self)
        return reshape(made, ())
    for axis, size in enumerate(index.shape):
        source = cut(source, axis, 0, size)
    axis = axis_of(dim, len(x.shape))

    def joined(base: Any, values: Any, reduction: str) -> Any:
        return base.op("scatter_elements", index, values, axis=axis, reduction=reduction)

    return _reduced(e, x, source, reduce, include_self, joined)


def _reduced(e: Any, x: Any, source: Any, reduce: str, include_self: bool, joined: Any) -> Any:
    """The result of torch's ``reduce``, by a function ``joined(base, values, reduction)`` that scatters.
    Without ``include_self`` the old values of written elements do not count."""
    reduction = "add" if reduce == "mean" else _REDUCTIONS[reduce]
    if not is_float(x) and not (include_self and reduction in ("add", "max", "min")):
        raise Unsupported("this reduction of integers runs on the host")
    base = x
    if not include_self:
        base = joined(x, e.filled(tuple(source.shape), _NOTHING[reduction], x.dtype), "none")
    made = joined(base, source, reduction)
    if reduce != "mean":
        return made
    if not is_float(x):
        raise Unsupported("means of integers run on the host")
    ones = e.filled(tuple(source.shape), 1, x.dtype)
    start = e.filled(tuple(x.shape), 1 if include_self else 0, x.dtype)
    return made / joined(start, ones, "add").maximum(1)


@rule("take", indices=(1,))
def take(x: Any, index: Any) -> Any:
    return reshape(x, (math.prod(x.shape),)).op("take", index, axis=0)


@rule("put", indices=(1,))
def put(e: Any, x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    needs(e, "scatter_elements", x)
    count = math.prod(index.shape)
    if math.prod(source.shape) != count:
        raise Unsupported("the numbers of values and of indices differ")
    base, at, values = (reshape(v, (math.prod(v.shape),)) for v in (x, index.cast(e.integers), source))
    made = base.op("scatter_elements", at, values, axis=0, reduction="add" if accumulate else "none")
    return reshape(made, x.shape)


@rule("max_unpool2d", "max_unpool3d", indices=(1,))
def max_unpool(e: Any, x: Any, index: Any, size: Any, *how: Any) -> Any:
    """Planes of zeros, with the maxima x at their positions ``index``."""
    needs(e, "scatter_elements", x)
    lead = x.shape[: len(x.shape) - len(size)]
    rows, plane = math.prod(lead), math.prod(size)
    flat = [reshape(v, (rows, math.prod(v.shape) // rows)) for v in (index, x)]
    base = e.filled((rows, plane), 0, x.dtype)
    made = base.op("scatter_elements", *flat, axis=1, reduction="none")
    return reshape(made, (*lead, *size))


@rule("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """x with the n-th true position of the mask set to the n-th element of the source."""
    shape = tuple(np.broadcast_shapes(x.shape, mask.shape))
    mask, count = broadcast(mask, shape), math.prod(shape)
    flat = reshape(mask, (count,)).cast("int32")
    at = (flat.op("cumsum", axis=0) - 1).maximum(0).minimum(math.prod(source.shape) - 1)
    picked = reshape(source, (math.prod(source.shape),)).op("take", at, axis=0)
    return where(mask, reshape(picked, shape), broadcast(x, shape))
