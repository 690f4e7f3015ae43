"""Elements written and added by tensors of indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from .indexing import needs
from .movement import cut, permute
from .operands import axis_of, broadcast, cast, is_float, is_value, reshape, scalar_like
from .table import rule

_NOTHING = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}  # what changes no other
_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


# **************** whole slices of an axis ****************


def _by_rows(e: Any, x: Any, dim: int, index: Any, source: Any, reduction: str) -> Any:
    """x with slices ``source`` joined to those at ``index`` of an axis."""
    needs(e, "scatter_nd", x)
    if not x.shape:
        made = _by_rows(e, reshape(e, x, (1,)), 0, index, reshape(e, source, (1,)), reduction)
        return reshape(e, made, ())
    axis = axis_of(dim, len(x.shape))
    order = (axis, *(i for i in range(len(x.shape)) if i != axis))
    at = reshape(e, cast(e, index, e.integers), (math.prod(index.shape), 1))
    rows = permute(e, source, order) if source.shape else broadcast(e, source, (at.shape[0],))
    made = e.op("scatter_nd", permute(e, x, order), at, rows, reduction=reduction)
    return permute(e, made, tuple(order.index(i) for i in range(len(order))))


@rule("index_copy", indices=(2,))
def index_copy(e: Any, x: Any, dim: int, index: Any, source: Any) -> Any:
    return _by_rows(e, x, dim, index, source, "none")


@rule("index_add", indices=(2,))
def index_add(e: Any, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    if x.dtype == "bool":
        raise Unsupported("bools are not added")
    source = source if alpha == 1 else e.op("multiply", source, scalar_like(e, alpha, source))
    return _by_rows(e, x, dim, index, source, "add")


@rule("index_fill", indices=(2,))
def index_fill(e: Any, x: Any, dim: int, index: Any, value: Any) -> Any:
    shape = list(x.shape)
    if shape:
        shape[axis_of(dim, len(shape))] = math.prod(index.shape)
    value = cast(e, value, x.dtype) if is_value(value) else scalar_like(e, value, x)
    return _by_rows(e, x, dim, index, broadcast(e, value, shape), "none")


@rule("index_reduce", indices=(2,))
def index_reduce(
    e: Any, x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    def joined(base: Any, values: Any, reduction: str) -> Any:
        return _by_rows(e, base, dim, index, values, reduction)

    return _reduced(e, x, source, reduce, include_self, joined)


# **************** single elements ****************


@rule("scatter_reduce", indices=(2,))
def scatter_reduce(
    e: Any, x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    needs(e, "scatter_elements", x)
    if not x.shape:
        one = [reshape(e, v, (1,)) for v in (x, index, source)]
        made = scatter_reduce(e, one[0], 0, one[1], one[2], reduce, include_self=include_self)
        return reshape(e, made, ())
    for axis, size in enumerate(index.shape):
        source = cut(e, source, axis, 0, size)
    axis = axis_of(dim, len(x.shape))

    def joined(base: Any, values: Any, reduction: str) -> Any:
        return e.op("scatter_elements", base, index, values, axis=axis, reduction=reduction)

    return _reduced(e, x, source, reduce, include_self, joined)


def _reduced(e: Any, x: Any, source: Any, reduce: str, include_self: bool, joined: Any) -> Any:
    """``joined`` (base, values, reduction) with what torch calls a reduction; without ``include_self``
    elements that are written begin anew."""
    reduction = "add" if reduce == "mean" else _REDUCTIONS[reduce]
    if not is_float(x) and not (include_self and reduction in ("add", "max", "min")):
        raise Unsupported("this reduction of integers is the host's")
    base = x
    if not include_self:
        base = joined(x, e.filled(tuple(source.shape), _NOTHING[reduction], x.dtype), "none")
    made = joined(base, source, reduction)
    if reduce != "mean":
        return made
    if not is_float(x):
        raise Unsupported("means of integers are the host's")
    ones = e.filled(tuple(source.shape), 1, x.dtype)
    start = e.filled(tuple(x.shape), 1 if include_self else 0, x.dtype)
    count = e.op("maximum", joined(start, ones, "add"), scalar_like(e, 1, x))
    return e.op("divide", made, count)


@rule("take", indices=(1,))
def take(e: Any, x: Any, index: Any) -> Any:
    return e.op("take", reshape(e, x, (math.prod(x.shape),)), index, axis=0)


@rule("put", indices=(1,))
def put(e: Any, x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    needs(e, "scatter_elements", x)
    count = math.prod(index.shape)
    if math.prod(source.shape) != count:
        raise Unsupported("other than one value an index")
    flat = [reshape(e, v, (math.prod(v.shape),)) for v in (x, cast(e, index, e.integers), source)]
    reduction = "add" if accumulate else "none"
    return reshape(e, e.op("scatter_elements", *flat, axis=0, reduction=reduction), x.shape)


@rule("max_unpool2d", indices=(1,))
def max_unpool2d(e: Any, x: Any, index: Any, size: Any) -> Any:
    return _unpooled(e, x, index, tuple(size))


@rule("max_unpool3d", indices=(1,))
def max_unpool3d(e: Any, x: Any, index: Any, size: Any, *how: Any) -> Any:
    return _unpooled(e, x, index, tuple(size))


def _unpooled(e: Any, x: Any, index: Any, size: tuple[int, ...]) -> Any:
    """Maxima back where they were in their plane, zeros elsewhere."""
    needs(e, "scatter_elements", x)
    lead = x.shape[: len(x.shape) - len(size)]
    rows, plane = math.prod(lead), math.prod(size)
    flat = [reshape(e, v, (rows, math.prod(v.shape) // rows)) for v in (index, x)]
    base = e.filled((rows, plane), 0, x.dtype)
    made = e.op("scatter_elements", base, *flat, axis=1, reduction="none")
    return reshape(e, made, (*lead, *size))


@rule("masked_scatter")
def masked_scatter(e: Any, x: Any, mask: Any, source: Any) -> Any:
    """The n-th place of the mask gets the n-th element."""
    shape = tuple(np.broadcast_shapes(x.shape, mask.shape))
    mask, count = broadcast(e, mask, shape), math.prod(shape)
    flat = cast(e, reshape(e, mask, (count,)), "int32")
    at = e.op("subtract", e.op("cumsum", flat, axis=0), e.scalar(1, "int32"))
    at = e.op("maximum", at, e.scalar(0, "int32"))
    at = e.op("minimum", at, e.scalar(math.prod(source.shape) - 1, "int32"))
    picked = e.op("take", reshape(e, source, (math.prod(source.shape),)), at, axis=0)
    return e.op("where", mask, reshape(e, picked, shape), broadcast(e, x, shape))
