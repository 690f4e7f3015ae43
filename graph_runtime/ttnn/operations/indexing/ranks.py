"""Sorting of more elements than topk's kernel keeps: the rank of an element is the number of elements before
it."""

from __future__ import annotations

import math

import numpy as np

from ....ir.value import where
from ...devices.wide_value import WideValue

MOST_KEPT = 1024  # most elements along its axis that topk's kernel keeps
_AT_ONCE = 1 << 22  # most pairs of elements that are compared at once


def places_in_order(x: WideValue, axis: int, largest: bool) -> WideValue:
    """Indices of the elements along an axis in sorted order, as int32; equal elements keep their order. Each
    pair is compared, so the time grows with the square of the number of elements. NaN is sorted as infinity
    is."""
    n, last = x.shape[axis], len(x.shape) - 1
    order = [*(at for at in range(last + 1) if at != axis), axis]
    plain = x.wide() if x.dtype == "float32" else x.ordered()
    turned = plain if axis == last else plain.run("transpose", perm=tuple(order))
    shape = tuple(turned.shape)
    lines = math.prod(shape[:-1])
    flat = turned.reshape((lines, n))
    if flat.dtype == "float32":
        flat = where(flat.isnan(), math.inf, flat)
    own = x.scalar(np.arange(n, dtype=np.float32)[None], "float32")
    step = max(1, min(n, _AT_ONCE // (lines * n)))
    ranks = [_ranks(flat, own, (start, min(start + step, n)), largest) for start in range(0, n, step)]
    whole = ranks[0] if len(ranks) == 1 else ranks[0].op("concatenate", *ranks[1:], axis=1)
    places = whole.cast("int32")
    names = own.cast("int32").run("broadcast_to", shape=(lines, n))
    found = names.run("scatter_elements", places, names, axis=1)
    back = found.reshape(shape)
    if axis == last:
        return back
    return back.run("transpose", perm=tuple(np.argsort(order).tolist()))


def _ranks(flat: WideValue, own: WideValue, part: tuple[int, int], largest: bool) -> WideValue:
    """For each element of a part of each line, the number of elements of the line that come before it in
    sorted order."""
    lines, n = flat.shape
    start, end = part
    size = end - start
    cut = flat.part(1, start, end)
    ids = own.part(1, start, end)
    every, some = flat.reshape((lines, n, 1)), cut.reshape((lines, 1, size))
    before = every.op("greater" if largest else "less", some)
    lower = own.reshape((1, n, 1)) < ids.reshape((1, 1, size))
    ties = where(every.equal(some), where(lower, 1.0, 0.0), 0.0)
    return where(before, 1.0, ties).sum(axes=(1,), keepdims=False)
