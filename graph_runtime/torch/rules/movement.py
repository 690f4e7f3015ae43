"""Shapes, slices, concatenation, indices."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import numpy as np

from ...ir.value import where
from ..counters import Unsupported
from .operands import axis_of, broadcast, distinct, joined, pair, reshape, shape_of
from .table import rule


@rule("view", "_unsafe_view", "reshape", "_reshape_copy", "view_copy")
def view(x: Any, size: Any) -> Any:
    if not isinstance(size, (list, tuple)):
        raise Unsupported("a view as another dtype runs on the host")
    return reshape(x, shape_of(size, math.prod(x.shape)))


@rule("transpose")
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    perm = list(range(len(x.shape)))
    a, b = axis_of(dim0, len(perm)), axis_of(dim1, len(perm))
    if not perm or a == b:
        return x
    perm[a], perm[b] = perm[b], perm[a]
    return x.op("transpose", perm=tuple(perm))


@rule("permute")
def permute(x: Any, dims: Any) -> Any:
    perm = distinct(dims, len(x.shape))
    return x if perm == tuple(range(len(perm))) else x.op("transpose", perm=perm)


@rule("expand")
def expand(x: Any, size: Any, *, implicit: bool = False) -> Any:
    size = tuple(size)
    lead = len(size) - len(x.shape)
    shape = tuple(x.shape[i - lead] if n == -1 else n for i, n in enumerate(size))
    return broadcast(x, shape)


@rule("unsqueeze")
def unsqueeze(x: Any, dim: int) -> Any:
    at = dim % (len(x.shape) + 1)
    return reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


@rule("squeeze")
def squeeze(x: Any, dim: Any = None) -> Any:
    dims = range(len(x.shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    drop = distinct(dims, len(x.shape))
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if not (i in drop and n == 1)))


def cut(x: Any, axis: int, start: int, end: int, step: int = 1) -> Any:
    """Elements start, start + step, ... of an axis, up to but not including end."""
    if (start, end, step) == (0, x.shape[axis], 1):
        return x
    return x.op("slice", starts=(start,), ends=(end,), axes=(axis,), steps=(step,))


@rule("slice")
def slice_(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    axis = axis_of(dim, len(x.shape))
    first, last, _ = slice(start, end).indices(x.shape[axis])
    if last <= first:
        raise Unsupported("the slice is empty")
    return cut(x, axis, first, last, step)


@rule("select")
def select(x: Any, dim: int, index: int) -> Any:
    axis = axis_of(dim, len(x.shape))
    at = index % x.shape[axis]
    return reshape(cut(x, axis, at, at + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


@rule("slice_scatter")
def slice_scatter(
    x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    axis = axis_of(dim, len(x.shape))
    first, _, _ = slice(start, end).indices(x.shape[axis])
    return x.op("slice_update", source, starts=(first,), axes=(axis,), steps=(step,))


@rule("select_scatter")
def select_scatter(x: Any, source: Any, dim: int, index: int) -> Any:
    axis = axis_of(dim, len(x.shape))
    source = reshape(source, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return x.op("slice_update", source, starts=(index % x.shape[axis],), axes=(axis,))


@rule("slice_backward")
def slice_backward(e: Any, grad: Any, sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    return slice_scatter(e.filled(tuple(sizes), 0, grad.dtype), grad, dim, start, end, step)


@rule("select_backward")
def select_backward(e: Any, grad: Any, sizes: Any, dim: int, index: int) -> Any:
    return select_scatter(e.filled(tuple(sizes), 0, grad.dtype), grad, dim, index)


@rule("split")
def split(x: Any, size: Any, dim: int = 0) -> Any:
    axis = axis_of(dim, len(x.shape))
    total = x.shape[axis]
    if not isinstance(size, (list, tuple)):
        size = [min(size, total - at) for at in range(0, total, size)]
    if 0 in size:
        raise Unsupported("a part is empty")
    return tuple(cut(x, axis, end - n, end) for n, end in zip(size, accumulate(size), strict=True))


@rule("unbind")
def unbind(x: Any, dim: int = 0) -> Any:
    return tuple(select(x, dim, i) for i in range(x.shape[axis_of(dim, len(x.shape))]))


@rule("cat")
def cat(e: Any, tensors: Any, dim: int = 0) -> Any:
    given = [x for x in tensors if x.shape != (0,)]
    axis = axis_of(dim, len(given[0].shape))
    return given[0] if len(given) == 1 else joined(pair(e, *given), axis)


@rule("stack")
def stack(e: Any, tensors: Any, dim: int = 0) -> Any:
    at = dim % (len(tensors[0].shape) + 1)
    shape = tensors[0].shape
    return joined([reshape(x, (*shape[:at], 1, *shape[at:])) for x in pair(e, *tensors)], at)


rule("t")(lambda x: x if len(x.shape) < 2 else x.op("transpose", perm=(1, 0)))
rule("flip")(lambda x, dims: x.op("reverse", axes=distinct(dims, len(x.shape))))
rule("split_with_sizes")(lambda x, sizes, dim=0: split(x, sizes, dim))


@rule("repeat")
def repeat(x: Any, repeats: Any) -> Any:
    lead = len(repeats) - len(x.shape)
    return reshape(x, (1,) * lead + tuple(x.shape)).op("tile", repeats=tuple(repeats))


@rule("constant_pad_nd")
def constant_pad(x: Any, pad: Any, value: Any = 0) -> Any:
    n = len(x.shape)
    before, after = [0] * n, [0] * n
    for i in range(len(pad) // 2):
        before[n - 1 - i], after[n - 1 - i] = pad[2 * i], pad[2 * i + 1]
    for axis, size in enumerate(x.shape):  # negative padding cuts elements off
        x = cut(x, axis, max(-before[axis], 0), size - max(-after[axis], 0))
    before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
    return x.op("pad", pads=(*before, *after), value=float(value))


def _lower(x: Any, diagonal: int) -> Any:
    rows, columns = x.shape[-2:]
    return np.tri(rows, columns, diagonal, dtype=bool)


def _masked(e: Any, x: Any, mask: Any) -> Any:
    """x where a mask of its last two dimensions is true, else 0."""
    return where(broadcast(e.array(mask, "bool"), x.shape), x, 0)


rule("tril")(lambda e, x, diagonal=0: _masked(e, x, _lower(x, diagonal)))
rule("triu")(lambda e, x, diagonal=0: _masked(e, x, ~_lower(x, diagonal - 1)))


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
    flat = reshape(permute(x, (*rest, rows, columns)), (*(x.shape[i] for i in rest), height * width))
    return flat.op("take", e.array(first + np.arange(count) * (width + 1), "int32"), axis=len(rest))
