"""Views by strides, for a source whose own strides are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from ..geometry import box_of
from .movement import permute
from .operands import broadcast, reshape
from .table import rule

_MOST = 2**24  # maximum number of elements that are picked by a table of positions


@rule("as_strided", "as_strided_copy")
def as_strided(e: Any, x: Any, size: Any, stride: Any, offset: Any = None, *, strides: Any = None) -> Any:
    """A view of x by strides. ``strides``: x's own, in a graph, which tell the order of its elements in
    memory; None for row-major."""
    order = sorted(range(len(x.shape)), key=lambda i: (-strides[i], i)) if strides is not None else []
    stored = tuple(x.shape[i] for i in order)
    dense = tuple(math.prod(stored[i + 1 :]) for i in range(len(stored)))
    if any(strides[i] != step for i, step, n in zip(order, dense, stored, strict=True) if n > 1):
        raise Unsupported("its source does not show a whole storage")
    size, count = tuple(map(int, size)), math.prod(x.shape)
    flat = reshape(permute(x, tuple(order)), (count,))
    box = box_of(size, tuple(map(int, stride)), int(offset or 0), count)
    if box is None:
        at = np.zeros((), np.int64)
        for n, step in zip(size, stride, strict=True):
            at = at[..., None] + np.arange(n) * int(step)
        if at.size > _MOST or int(at.max()) + int(offset or 0) >= count:
            raise Unsupported("the view has too many elements, or some outside of its source")
        return flat.op("take", e.array(at + int(offset or 0), "int32"), axis=0)
    if box.used != count:
        flat = flat.op("slice", starts=(0,), ends=(box.used,), axes=(0,), steps=(1,))
    made = reshape(flat, box.digits)
    if box.sizes != box.digits:
        ends = tuple(a + b for a, b in zip(box.starts, box.sizes, strict=True))
        axes = tuple(range(len(ends)))
        made = made.op("slice", starts=box.starts, ends=ends, axes=axes, steps=(1,) * len(ends))
    made = reshape(permute(made, box.perm), box.kept)
    return broadcast(made, size)
