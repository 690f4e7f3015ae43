"""Views by strides, where the strides of what they view are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from ..geometry import box_of
from .movement import permute
from .operands import broadcast, reshape
from .table import rule

_MOST = 2**24  # elements that are picked by a table of their places


@rule("as_strided", "as_strided_copy")
def as_strided(e: Any, x: Any, size: Any, stride: Any, offset: Any = None, *, strides: Any = None) -> Any:
    """``strides`` of x, which a graph gives: the order of its elements in memory."""
    order = sorted(range(len(x.shape)), key=lambda i: (-strides[i], i)) if strides is not None else []
    stored = tuple(x.shape[i] for i in order)
    dense = tuple(math.prod(stored[i + 1 :]) for i in range(len(stored)))
    if any(strides[i] != step for i, step, n in zip(order, dense, stored, strict=True) if n > 1):
        raise Unsupported("a view by strides of what is no whole storage")
    size, count = tuple(map(int, size)), math.prod(x.shape)
    flat = reshape(e, permute(e, x, tuple(order)), (count,))
    box = box_of(size, tuple(map(int, stride)), int(offset or 0), count)
    if box is None:
        at = np.zeros((), np.int64)
        for n, step in zip(size, stride, strict=True):
            at = at[..., None] + np.arange(n) * int(step)
        if at.size > _MOST or int(at.max()) + int(offset or 0) >= count:
            raise Unsupported("a view by strides of so many elements, or of some that are not there")
        return e.op("take", flat, e.array(at + int(offset or 0), "int32"), axis=0)
    if box.used != count:
        flat = e.op("slice", flat, starts=(0,), ends=(box.used,), axes=(0,), steps=(1,))
    made = reshape(e, flat, box.digits)
    if box.sizes != box.digits:
        ends = tuple(a + b for a, b in zip(box.starts, box.sizes, strict=True))
        axes = tuple(range(len(ends)))
        made = e.op("slice", made, starts=box.starts, ends=ends, axes=axes, steps=(1,) * len(ends))
    made = reshape(e, permute(e, made, box.perm), box.kept)
    return broadcast(e, made, size)
