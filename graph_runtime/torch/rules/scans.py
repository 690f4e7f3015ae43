"""Running results along an axis."""

from __future__ import annotations

import math
from typing import Any

from ...compositions.scans import running
from ..counters import Unsupported
from .operands import axis_of, dtype_of, in_float32, is_float, name_of
from .table import rule


@rule("cumsum")
def cumsum(e: Any, x: Any, dim: int, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.cast(dtype_of(e, dtype))
    if not is_float(x):
        if not e.narrow:
            raise Unsupported("running sums of integers are 64-bit, which the device lacks")
        x = x.cast(e.integers) if dtype is None else x
    if not x.shape:
        axis_of(dim, 0)
        return x
    return x.op("cumsum", axis=axis_of(dim, len(x.shape)))


@rule("cumprod")
def cumprod(x: Any, dim: int, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.cast(name_of(dtype))
    if not is_float(x):
        raise Unsupported("running products of integers are 64-bit, which the device lacks")
    return _scanned("multiply", x, dim, 1.0)


@rule("_logcumsumexp")
@in_float32
def logcumsumexp(x: Any, dim: int) -> Any:
    return _scanned("logaddexp", x, dim, -math.inf)


def _scanned(op: str, x: Any, dim: int, nothing: float) -> Any:
    axis = axis_of(dim, len(x.shape))
    return running(op, x, axis, nothing) if x.shape else x
