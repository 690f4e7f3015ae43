"""Norms, and distances that norms define."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.value import where
from ..counters import Unsupported
from .operands import axis_of, in_float32, is_float, name_of, reshape
from .reductions import over
from .table import rule


@rule("linalg_vector_norm")
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.cast(name_of(dtype))
    if not is_float(x):
        raise Unsupported("a norm is defined for floats only")
    if not x.shape:
        x = reshape(x, (1,))
        dim, keepdim = None, False
    if ord == 2:
        return over("sum_squares", x, dim, keepdim).sqrt()
    if ord == 1:
        return over("sum_abs", x, dim, keepdim)
    size = abs(x)
    if math.isinf(ord):
        return over("max" if ord > 0 else "min", size, dim, keepdim)
    if ord == 0:
        some = x.not_equal(0).cast(x.dtype)
        return over("sum", some, dim, keepdim)
    total = over("sum", size ** float(ord), dim, keepdim)
    return total ** (1 / ord)


rule("norm")(lambda x, p=2, *how, **more: vector_norm(x, 2 if p is None else p, *how, **more))


@rule("renorm")
@in_float32
def renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    axis = axis_of(dim, len(x.shape))
    size = vector_norm(x, p, [i for i in range(len(x.shape)) if i != axis], True)
    most = float(maxnorm)
    return x * where(size > most, most / (size + 1e-7), 1.0)


@rule("_cdist_forward")
def cdist(a: Any, b: Any, p: float, mode: Any = None) -> Any:
    rows = reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    columns = reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return _distance(rows, columns, p)


def _distance(a: Any, b: Any, p: float) -> Any:
    """The distance of order p along the last axis. Order 0 counts the elements that differ. In contrast to a
    norm of order 0, NaN makes the distance NaN."""
    off = a - b
    if p:
        return vector_norm(off, p, [-1])
    differ = abs(off).ceil().minimum(1.0)
    return over("sum", differ, [-1], False)


@rule("_pdist_forward")
def pdist(e: Any, x: Any, p: float = 2) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    if not len(first):
        raise Unsupported("there are no pairs")
    a, b = (x.op("take", e.array(at, "int32"), axis=0) for at in (first, second))
    return _distance(a, b, p)
