"""Running results along an axis."""

from __future__ import annotations

import math
from typing import Any

from ..counters import Unsupported
from .movement import cut
from .operands import axis_of, cast, dtype_of, in_float32, is_float, name_of
from .table import rule


@rule("cumsum")
def cumsum(e: Any, x: Any, dim: int, *, dtype: Any = None) -> Any:
    x = x if dtype is None else cast(e, x, dtype_of(e, dtype))
    if not is_float(x):
        if not e.narrow:
            raise Unsupported("running sums of integers are 64-bit, which the device has not")
        x = cast(e, x, e.integers) if dtype is None else x
    if not x.shape:
        axis_of(dim, 0)
        return x
    return e.op("cumsum", x, axis=axis_of(dim, len(x.shape)))


@rule("cumprod")
def cumprod(e: Any, x: Any, dim: int, *, dtype: Any = None) -> Any:
    x = x if dtype is None else cast(e, x, name_of(dtype))
    if not is_float(x):
        raise Unsupported("running products of integers are 64-bit, which the device has not")
    return _scanned(e, "multiply", x, dim, 1.0)


@rule("_logcumsumexp")
@in_float32
def logcumsumexp(e: Any, x: Any, dim: int) -> Any:
    return _scanned(e, "logaddexp", x, dim, -math.inf)


def _scanned(e: Any, op: str, x: Any, dim: int, nothing: float) -> Any:
    """Running results of an op along an axis, by doubling: each step takes in twice as many elements.
    ``nothing`` leaves what it is taken with."""
    if not x.shape:
        axis_of(dim, 0)
        return x
    axis, n = axis_of(dim, len(x.shape)), len(x.shape)
    reach, size = 1, x.shape[axis]
    while reach < size:
        pads = [0] * (2 * n)
        pads[axis] = reach
        early = cut(e, x, axis, 0, size - reach)
        x = e.op(op, x, e.op("pad", early, pads=tuple(pads), value=nothing))
        reach *= 2
    return x
