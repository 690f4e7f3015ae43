"""Elements picked and written by tensors of indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..counters import Unsupported
from .movement import cut, permute
from .operands import axis_of, broadcast, cast, is_value, reshape, scalar_like
from .table import rule


@rule("embedding", indices=(1,))
def embedding(
    e: Any,
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    return e.op("take", weight, indices, axis=0)


@rule("index_select", indices=(2,))
def index_select(e: Any, x: Any, dim: int, index: Any) -> Any:
    if not x.shape:
        axis_of(dim, 0)
        return x
    return e.op("take", x, reshape(e, index, (math.prod(index.shape),)), axis=axis_of(dim, len(x.shape)))


@rule("gather", indices=(2,))
def gather(e: Any, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    if not x.shape:
        axis_of(dim, 0)
        return broadcast(e, x, index.shape)
    if not index.shape:
        return reshape(e, gather(e, x, dim, reshape(e, index, (1,))), ())
    return e.op("take_along_axis", x, index, axis=axis_of(dim, len(x.shape)))


def needs(e: Any, op: str, x: Any) -> None:
    """Refuse at once what an eager operation would refuse at its last op; in a graph that goes elsewhere.
    Raises Unsupported."""
    if not e.graph and not e.has(op, x):
        raise Unsupported(f"op {op} has no kernel there")


# **************** indices of several axes, and masks ****************


@rule("index", "_unsafe_index", indices=(1,))
def index(e: Any, x: Any, indices: Any) -> Any:
    axes = [at for at, i in enumerate(indices) if i is not None]
    given = [indices[at] for at in axes]
    if any(i.dtype == "bool" for i in given):
        raise Unsupported("how many elements a mask picks depends on values")
    if len(given) == 1:
        return e.op("take", x, given[0], axis=axes[0])
    order, at = _in_front(x, axes), _together(e, given)
    picked = e.op("gather_nd", permute(e, x, order), at)
    return _back(e, picked, axes, len(at.shape) - 1)


@rule("index_put", "_index_put_impl", "_unsafe_index_put", indices=(1,))
def index_put(
    e: Any, x: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    axes = [at for at, i in enumerate(indices) if i is not None]
    given = [indices[at] for at in axes]
    if any(i.dtype == "bool" for i in given):
        return _masked_put(e, x, given, values, accumulate)
    needs(e, "scatter_nd", x)
    order, at = _in_front(x, axes), _together(e, given)
    rest = [x.shape[axis] for axis in order[len(axes) :]]
    lead, many = at.shape[:-1], len(at.shape) - 1
    values = cast(e, values, x.dtype) if is_value(values) else scalar_like(e, values, x)
    if _stays(axes):  # dimensions of the indices stand where the axes did
        shape = (*rest[: axes[0]], *lead, *rest[axes[0] :])
        first = [*range(axes[0], axes[0] + many)]
        values = permute(
            e, broadcast(e, values, shape), (*first, *(i for i in range(len(shape)) if i not in first))
        )
    else:
        values = broadcast(e, values, (*lead, *rest))
    reduction = "add" if accumulate else "none"
    made = e.op("scatter_nd", permute(e, x, order), at, values, reduction=reduction)
    return permute(e, made, tuple(order.index(i) for i in range(len(order))))


def _in_front(x: Any, axes: Sequence[int]) -> list[int]:
    """The dimensions of x, those of ``axes`` first."""
    return [*axes, *(i for i in range(len(x.shape)) if i not in axes)]


def _stays(axes: Sequence[int]) -> bool:
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


def _together(e: Any, given: Sequence[Any]) -> Any:
    """Indices of several axes as [..., axes]."""
    ndim = max(len(i.shape) for i in given)
    shapes = [(1,) * (ndim - len(i.shape)) + tuple(i.shape) for i in given]
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True)) if ndim else ()
    columns = [reshape(e, broadcast(e, cast(e, i, e.integers), shape), (*shape, 1)) for i in given]
    return columns[0] if len(columns) == 1 else e.op("concatenate", *columns, axis=ndim)


def _back(e: Any, picked: Any, axes: Sequence[int], many: int) -> Any:
    """[indices, rest] with the ``many`` dimensions of the indices where the axes were, if these were side
    by side: else they stay in front."""
    first = axes[0]
    if not _stays(axes) or not first:
        return picked
    rest = range(many, len(picked.shape))
    return permute(e, picked, (*rest[:first], *range(many), *rest[first:]))


def _masked_put(e: Any, x: Any, masks: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """x[mask] = number"""
    (mask, *more), one = masks, not is_value(values) or math.prod(values.shape) == 1
    if more or not one or accumulate or tuple(mask.shape) != tuple(x.shape[: len(mask.shape)]):
        raise Unsupported("where the elements of a mask come from depends on values")
    mask = broadcast(e, reshape(e, mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape)))), x.shape)
    if is_value(values):
        values = reshape(e, cast(e, values, x.dtype), ())
    return e.op("where", mask, values if is_value(values) else scalar_like(e, values, x), x)


# **************** along one axis ****************


@rule("scatter", indices=(2,))
def scatter(e: Any, x: Any, dim: int, index: Any, source: Any, *, reduce: str = "") -> Any:
    return _scattered(e, x, dim, index, source, {"": "none", "add": "add", "multiply": "mul"}[reduce])


@rule("scatter_add", indices=(2,))
def scatter_add(e: Any, x: Any, dim: int, index: Any, source: Any) -> Any:
    return _scattered(e, x, dim, index, source, "add")


def _scattered(e: Any, x: Any, dim: int, index: Any, source: Any, reduction: str) -> Any:
    needs(e, "scatter_elements", x)
    if not x.shape:
        one = [reshape(e, v, (1,)) if is_value(v) else v for v in (x, index, source)]
        return reshape(e, _scattered(e, one[0], 0, one[1], one[2], reduction), ())
    if is_value(source):
        for axis, size in enumerate(index.shape):
            source = cut(e, source, axis, 0, size)
    else:
        source = e.filled(tuple(index.shape), source, x.dtype)
    axis = axis_of(dim, len(x.shape))
    return e.op("scatter_elements", x, index, source, axis=axis, reduction=reduction)


# **************** the greatest ****************


@rule("topk", wide=(1,))
def topk(e: Any, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    needs(e, "topk", x)
    if not x.shape:
        axis_of(dim, 0)
        return x, e.array(np.zeros((), np.int32), "int32")
    if x.dtype == "bool":
        raise Unsupported("an order of bools is the host's")
    axis = axis_of(dim, len(x.shape))
    return e.op("topk", x, k=k, axis=axis, largest=largest, sorted=True, dtype="int32")


@rule("sort", wide=(1,))
def sort(e: Any, x: Any, *how: Any, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
    if len(how) == 3:  # the overload that begins with stable
        how = how[1:]
    dim, descending = how + (dim, descending)[len(how) :]
    return topk(e, x, x.shape[dim] if x.shape else 1, dim, descending)
