"""Shapes, slices, joins, indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from .operands import axis_of, broadcast, distinct, pair, reshape, scalar_like, shape_of
from .table import rule


@rule("view", "_unsafe_view", "reshape", "_reshape_copy", "view_copy")
def view(e: Any, x: Any, size: Any) -> Any:
    if not isinstance(size, (list, tuple)):
        raise Unsupported("a view as another dtype is the host's")
    return reshape(e, x, shape_of(size, math.prod(x.shape)))


@rule("t")
def t(e: Any, x: Any) -> Any:
    return x if len(x.shape) < 2 else e.op("transpose", x, perm=(1, 0))


@rule("transpose")
def transpose(e: Any, x: Any, dim0: int, dim1: int) -> Any:
    perm = list(range(len(x.shape)))
    a, b = axis_of(dim0, len(perm)), axis_of(dim1, len(perm))
    if not perm or a == b:
        return x
    perm[a], perm[b] = perm[b], perm[a]
    return e.op("transpose", x, perm=tuple(perm))


@rule("permute")
def permute(e: Any, x: Any, dims: Any) -> Any:
    perm = distinct(dims, len(x.shape))
    return x if perm == tuple(range(len(perm))) else e.op("transpose", x, perm=perm)


@rule("expand")
def expand(e: Any, x: Any, size: Any, *, implicit: bool = False) -> Any:
    size = tuple(size)
    lead = len(size) - len(x.shape)
    shape = tuple(x.shape[i - lead] if n == -1 else n for i, n in enumerate(size))
    return broadcast(e, x, shape)


@rule("unsqueeze")
def unsqueeze(e: Any, x: Any, dim: int) -> Any:
    at = dim % (len(x.shape) + 1)
    return reshape(e, x, (*x.shape[:at], 1, *x.shape[at:]))


@rule("squeeze")
def squeeze(e: Any, x: Any, dim: Any = None) -> Any:
    dims = range(len(x.shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    drop = distinct(dims, len(x.shape))
    return reshape(e, x, tuple(n for i, n in enumerate(x.shape) if not (i in drop and n == 1)))


def cut(e: Any, x: Any, axis: int, start: int, end: int, step: int = 1) -> Any:
    """Elements start, start + step, .. below end of an axis."""
    if (start, end, step) == (0, x.shape[axis], 1):
        return x
    return e.op("slice", x, starts=(start,), ends=(end,), axes=(axis,), steps=(step,))


@rule("slice")
def slice_(e: Any, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    axis = axis_of(dim, len(x.shape))
    first, last, _ = slice(start, end).indices(x.shape[axis])
    if last <= first:
        raise Unsupported("the slice is empty")
    return cut(e, x, axis, first, last, step)


@rule("select")
def select(e: Any, x: Any, dim: int, index: int) -> Any:
    axis = axis_of(dim, len(x.shape))
    at = index % x.shape[axis]
    return reshape(e, cut(e, x, axis, at, at + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


@rule("slice_scatter")
def slice_scatter(
    e: Any, x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    axis = axis_of(dim, len(x.shape))
    first, _, _ = slice(start, end).indices(x.shape[axis])
    return e.op("slice_update", x, source, starts=(first,), axes=(axis,), steps=(step,))


@rule("select_scatter")
def select_scatter(e: Any, x: Any, source: Any, dim: int, index: int) -> Any:
    axis = axis_of(dim, len(x.shape))
    source = reshape(e, source, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return e.op("slice_update", x, source, starts=(index % x.shape[axis],), axes=(axis,))


@rule("slice_backward")
def slice_backward(e: Any, grad: Any, sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    return slice_scatter(e, e.filled(tuple(sizes), 0, grad.dtype), grad, dim, start, end, step)


@rule("select_backward")
def select_backward(e: Any, grad: Any, sizes: Any, dim: int, index: int) -> Any:
    return select_scatter(e, e.filled(tuple(sizes), 0, grad.dtype), grad, dim, index)


@rule("split")
def split(e: Any, x: Any, size: Any, dim: int = 0) -> Any:
    axis = axis_of(dim, len(x.shape))
    total = x.shape[axis]
    sizes = (
        list(size)
        if isinstance(size, (list, tuple))
        else [min(size, total - at) for at in range(0, total, size)]
    )
    return _parts(e, x, axis, sizes)


@rule("split_with_sizes")
def split_with_sizes(e: Any, x: Any, sizes: Any, dim: int = 0) -> Any:
    return _parts(e, x, axis_of(dim, len(x.shape)), list(sizes))


@rule("unbind")
def unbind(e: Any, x: Any, dim: int = 0) -> Any:
    return tuple(select(e, x, dim, i) for i in range(x.shape[axis_of(dim, len(x.shape))]))


def _parts(e: Any, x: Any, axis: int, sizes: list[int]) -> Any:
    if 0 in sizes:
        raise Unsupported("a part is empty")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(cut(e, x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True))


@rule("cat")
def cat(e: Any, tensors: Any, dim: int = 0) -> Any:
    given = [x for x in tensors if x.shape != (0,)]
    axis = axis_of(dim, len(given[0].shape))
    return given[0] if len(given) == 1 else e.op("concatenate", *pair(e, *given), axis=axis)


@rule("stack")
def stack(e: Any, tensors: Any, dim: int = 0) -> Any:
    at = dim % (len(tensors[0].shape) + 1)
    shape = tensors[0].shape
    rows = [reshape(e, x, (*shape[:at], 1, *shape[at:])) for x in pair(e, *tensors)]
    return rows[0] if len(rows) == 1 else e.op("concatenate", *rows, axis=at)


@rule("flip")
def flip(e: Any, x: Any, dims: Any) -> Any:
    return e.op("reverse", x, axes=distinct(dims, len(x.shape)))


@rule("repeat")
def repeat(e: Any, x: Any, repeats: Any) -> Any:
    lead = len(repeats) - len(x.shape)
    return e.op("tile", reshape(e, x, (1,) * lead + tuple(x.shape)), repeats=tuple(repeats))


@rule("constant_pad_nd")
def constant_pad(e: Any, x: Any, pad: Any, value: Any = 0) -> Any:
    n = len(x.shape)
    before, after = [0] * n, [0] * n
    for i in range(len(pad) // 2):
        before[n - 1 - i], after[n - 1 - i] = pad[2 * i], pad[2 * i + 1]
    for axis, size in enumerate(x.shape):  # what is padded by less than nothing is cut
        x = cut(e, x, axis, max(-before[axis], 0), size - max(-after[axis], 0))
    before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
    return e.op("pad", x, pads=(*before, *after), value=float(value))


@rule("tril")
def tril(e: Any, x: Any, diagonal: int = 0) -> Any:
    return _masked(e, x, _lower(x, diagonal))


@rule("triu")
def triu(e: Any, x: Any, diagonal: int = 0) -> Any:
    return _masked(e, x, ~_lower(x, diagonal - 1))


def _lower(x: Any, diagonal: int) -> Any:
    rows, columns = x.shape[-2:]
    return np.tri(rows, columns, diagonal, dtype=bool)


def _masked(e: Any, x: Any, mask: Any) -> Any:
    """x where a mask of its last two dimensions says so, else 0."""
    return e.op("where", broadcast(e, e.array(mask, "bool"), x.shape), x, scalar_like(e, 0, x))


@rule("diagonal", "diagonal_copy")
def diagonal(e: Any, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    n = len(x.shape)
    rows, columns = axis_of(dim1, n), axis_of(dim2, n)
    rest = [i for i in range(n) if i not in (rows, columns)]
    height, width = x.shape[rows], x.shape[columns]
    count = min(height + min(offset, 0), width - max(offset, 0))
    if count <= 0:
        raise Unsupported("the diagonal is empty")
    first = offset if offset >= 0 else -offset * width
    flat = reshape(e, permute(e, x, (*rest, rows, columns)), (*(x.shape[i] for i in rest), height * width))
    return e.op("take", flat, e.array(first + np.arange(count) * (width + 1), "int32"), axis=len(rest))
