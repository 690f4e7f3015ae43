"""Norms, and distances by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from .operands import axis_of, cast, in_float32, is_float, name_of, reshape, scalar_like
from .reductions import over
from .table import rule


@rule("linalg_vector_norm")
def vector_norm(
    e: Any, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = x if dtype is None else cast(e, x, name_of(dtype))
    if not is_float(x):
        raise Unsupported("norms are of floats")
    if not x.shape:
        x = reshape(e, x, (1,))
        dim, keepdim = None, False
    if ord == 2:
        return e.op("sqrt", over(e, "sum_squares", x, dim, keepdim))
    if ord == 1:
        return over(e, "sum_abs", x, dim, keepdim)
    size = e.op("abs", x)
    if math.isinf(ord):
        return over(e, "max" if ord > 0 else "min", size, dim, keepdim)
    if ord == 0:
        some = cast(e, e.op("not_equal", x, scalar_like(e, 0, x)), x.dtype)
        return over(e, "sum", some, dim, keepdim)
    total = over(e, "sum", e.op("power", size, scalar_like(e, float(ord), x)), dim, keepdim)
    return e.op("power", total, scalar_like(e, 1 / ord, x))


@rule("norm")
def norm(e: Any, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return vector_norm(e, x, 2 if p is None else p, dim, keepdim, dtype=dtype)


@rule("renorm")
@in_float32
def renorm(e: Any, x: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    axis = axis_of(dim, len(x.shape))
    size = vector_norm(e, x, p, [i for i in range(len(x.shape)) if i != axis], True)
    most, one = scalar_like(e, float(maxnorm), x), scalar_like(e, 1.0, x)
    factor = e.op("divide", most, e.op("add", size, scalar_like(e, 1e-7, x)))
    return e.op("multiply", x, e.op("where", e.op("greater", size, most), factor, one))


@rule("_cdist_forward")
def cdist(e: Any, a: Any, b: Any, p: float, mode: Any = None) -> Any:
    rows = reshape(e, a, (*a.shape[:-1], 1, a.shape[-1]))
    columns = reshape(e, b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return _distance(e, rows, columns, p)


def _distance(e: Any, a: Any, b: Any, p: float) -> Any:
    """Along the last axis. By the norm 0, elements that differ are counted; one that is no number makes the
    distance none, which it does not in a norm."""
    off = e.op("subtract", a, b)
    if p:
        return vector_norm(e, off, p, [-1])
    differ = e.op("minimum", e.op("ceil", e.op("abs", off)), scalar_like(e, 1.0, off))
    return over(e, "sum", differ, [-1], False)


@rule("_pdist_forward")
def pdist(e: Any, x: Any, p: float = 2) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    if not len(first):
        raise Unsupported("there are no pairs")
    a, b = (e.op("take", x, e.array(at, "int32"), axis=0) for at in (first, second))
    return _distance(e, a, b, p)
