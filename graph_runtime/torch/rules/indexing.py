"""Elements read and written at positions that tensors of indices give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.value import where
from ..counters import Unsupported
from .movement import cut, permute
from .operands import axis_of, broadcast, is_value, joined, reshape
from .table import rule


@rule("embedding", indices=(1,))
def embedding(weight: Any, indices: Any, *how: Any, **more: Any) -> Any:
    return weight.op("take", indices, axis=0)


@rule("index_select", indices=(2,))
def index_select(x: Any, dim: int, index: Any) -> Any:
    if not x.shape:
        axis_of(dim, 0)
        return x
    return x.op("take", reshape(index, (math.prod(index.shape),)), axis=axis_of(dim, len(x.shape)))


@rule("gather", indices=(2,))
def gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    if not x.shape:
        axis_of(dim, 0)
        return broadcast(x, index.shape)
    if not index.shape:
        return reshape(gather(x, dim, reshape(index, (1,))), ())
    return x.op("take_along_axis", index, axis=axis_of(dim, len(x.shape)))


def needs(e: Any, op: str, x: Any) -> None:
    """Raise Unsupported if an op that an eager operation needs at its end has no kernel, before the ops that
    precede it run. A graph can use another device for that op."""
    if not e.graph and not e.has(op, x):
        raise Unsupported(f"the device has no kernel for op {op}")


# **************** indices of several axes, and masks ****************


@rule("index", "_unsafe_index", indices=(1,))
def index(e: Any, x: Any, indices: Any) -> Any:
    axes = [at for at, i in enumerate(indices) if i is not None]
    given = [indices[at] for at in axes]
    if any(i.dtype == "bool" for i in given):
        raise Unsupported("how many elements a mask picks depends on values")
    if len(given) == 1:
        return x.op("take", given[0], axis=axes[0])
    order, at = _in_front(x, axes), _together(e, given)
    picked = permute(x, order).op("gather_nd", at)
    return _back(picked, axes, len(at.shape) - 1)


@rule("index_put", "_index_put_impl", "_unsafe_index_put", indices=(1,))
def index_put(
    e: Any, x: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    axes = [at for at, i in enumerate(indices) if i is not None]
    given = [indices[at] for at in axes]
    if any(i.dtype == "bool" for i in given):
        return _masked_put(x, given, values, accumulate)
    needs(e, "scatter_nd", x)
    order, at = _in_front(x, axes), _together(e, given)
    rest = [x.shape[axis] for axis in order[len(axes) :]]
    lead, many = at.shape[:-1], len(at.shape) - 1
    values = values.cast(x.dtype) if is_value(values) else x.scalar(values)
    if _stays(axes):  # the dimensions of the indices stand in the place of the axes
        shape = (*rest[: axes[0]], *lead, *rest[axes[0] :])
        first = [*range(axes[0], axes[0] + many)]
        values = permute(
            broadcast(values, shape), (*first, *(i for i in range(len(shape)) if i not in first))
        )
    else:
        values = broadcast(values, (*lead, *rest))
    reduction = "add" if accumulate else "none"
    made = permute(x, order).op("scatter_nd", at, values, reduction=reduction)
    return permute(made, tuple(order.index(i) for i in range(len(order))))


def _in_front(x: Any, axes: Sequence[int]) -> list[int]:
    """The dimensions of x in an order that begins with ``axes``."""
    return [*axes, *(i for i in range(len(x.shape)) if i not in axes)]


def _stays(axes: Sequence[int]) -> bool:
    """Whether axes are side by side."""
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


def _together(e: Any, given: Sequence[Any]) -> Any:
    """Tensors of indices, one an axis, as one tensor [..., axes]."""
    ndim = max(len(i.shape) for i in given)
    shapes = [(1,) * (ndim - len(i.shape)) + tuple(i.shape) for i in given]
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True)) if ndim else ()
    columns = [reshape(broadcast(i.cast(e.integers), shape), (*shape, 1)) for i in given]
    return joined(columns, ndim)


def _back(picked: Any, axes: Sequence[int], many: int) -> Any:
    """[indices, rest]: if the axes are side by side, the ``many`` dimensions of the indices are moved to the
    place of the axes; otherwise they stay in front."""
    first = axes[0]
    if not _stays(axes) or not first:
        return picked
    rest = range(many, len(picked.shape))
    return permute(picked, (*rest[:first], *range(many), *rest[first:]))


def _masked_put(x: Any, masks: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """x[mask] = number. Raises Unsupported for several masks or values, and for ``accumulate``."""
    (mask, *more), one = masks, not is_value(values) or math.prod(values.shape) == 1
    if more or not one or accumulate or tuple(mask.shape) != tuple(x.shape[: len(mask.shape)]):
        raise Unsupported("the source of each masked element depends on values")
    mask = broadcast(reshape(mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape)))), x.shape)
    if is_value(values):
        values = reshape(values.cast(x.dtype), ())
    return where(mask, values, x)


# **************** along one axis ****************


@rule("scatter", indices=(2,))
def scatter(e: Any, x: Any, dim: int, index: Any, source: Any, *, reduce: str = "") -> Any:
    return _scattered(e, x, dim, index, source, {"": "none", "add": "add", "multiply": "mul"}[reduce])


rule("scatter_add", indices=(2,))(
    lambda e, x, dim, index, source: _scattered(e, x, dim, index, source, "add")
)


def _scattered(e: Any, x: Any, dim: int, index: Any, source: Any, reduction: str) -> Any:
    needs(e, "scatter_elements", x)
    if not x.shape:
        one = [reshape(v, (1,)) if is_value(v) else v for v in (x, index, source)]
        return reshape(_scattered(e, one[0], 0, one[1], one[2], reduction), ())
    if is_value(source):
        for axis, size in enumerate(index.shape):
            source = cut(source, axis, 0, size)
    else:
        source = e.filled(tuple(index.shape), source, x.dtype)
    axis = axis_of(dim, len(x.shape))
    return x.op("scatter_elements", index, source, axis=axis, reduction=reduction)


# **************** largest elements, sorting ****************


@rule("topk", wide=(1,))
def topk(e: Any, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    needs(e, "topk", x)
    if not x.shape:
        axis_of(dim, 0)
        return x, e.array(np.zeros((), np.int32), "int32")
    if x.dtype == "bool":
        raise Unsupported("the host sorts bools")
    axis = axis_of(dim, len(x.shape))
    return x.op("topk", k=k, axis=axis, largest=largest, sorted=True, dtype="int32")


@rule("sort", wide=(1,))
def sort(e: Any, x: Any, *how: Any, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
    if len(how) == 3:  # the overload whose first of three arguments is ``stable``
        how = how[1:]
    dim, descending = how + (dim, descending)[len(how) :]
    return topk(e, x, x.shape[dim] if x.shape else 1, dim, descending)
