"""The order of more elements than topk's kernel keeps: each element's place is how many come before it."""

from __future__ import annotations

import math

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ..wide import Wide

MOST_KEPT = 1024  # what topk's kernel keeps along its axis
_AT_ONCE = 1 << 22  # pairs of elements that are compared at once


def places_in_order(w: Wide, x: Handle, axis: int, largest: bool) -> Handle:
    """int32: which elements along an axis come first, second and so on; equal ones as they lie. Each pair is
    compared, so that the time grows with the square of their number. NaN comes where infinity does."""
    n, last = x.shape[axis], len(x.shape) - 1
    order = [*(at for at in range(last + 1) if at != axis), axis]
    plain = w.wide(x) if x.dtype == "float32" else w.ordered(x)
    turned = plain if axis == last else kernels.run("transpose", [plain], {"perm": tuple(order)})
    shape = tuple(turned.shape)
    lines = math.prod(shape[:-1])
    flat = w.reshape(w.rows(turned), (lines, n))
    if flat.dtype == "float32":
        flat = w.select(w("isnan", flat), math.inf, flat)
    own = w.number(np.arange(n, dtype=np.float32)[None], "float32")
    step = max(1, min(n, _AT_ONCE // (lines * n)))
    ranks = [_ranks(w, flat, own, (start, min(start + step, n)), largest) for start in range(0, n, step)]
    whole = ranks[0] if len(ranks) == 1 else w("concatenate", *ranks, axis=1)
    places = w.cast(whole, "int32")
    names = kernels.run("broadcast_to", [w.cast(own, "int32")], {"shape": (lines, n)})
    found = kernels.run("scatter_elements", [names, places, names], {"axis": 1})
    back = w.reshape(w.rows(found), shape)
    if axis == last:
        return back
    return kernels.run("transpose", [back], {"perm": tuple(np.argsort(order).tolist())})


def _ranks(w: Wide, flat: Handle, own: Handle, part: tuple[int, int], largest: bool) -> Handle:
    """Of the elements of a part of each line how many come before them."""
    lines, n = flat.shape
    start, end = part
    size = end - start
    cut = w("slice", flat, starts=(start,), ends=(end,), axes=(1,))
    ids = w("slice", own, starts=(start,), ends=(end,), axes=(1,))
    every, some = w.reshape(w.rows(flat), (lines, n, 1)), w.reshape(w.rows(cut), (lines, 1, size))
    before = w("greater" if largest else "less", every, some)
    lower = w("less", w.reshape(w.rows(own), (1, n, 1)), w.reshape(w.rows(ids), (1, 1, size)))
    ties = w.select(w("equal", every, some), w.select(lower, 1.0, 0.0), 0.0)
    return w("sum", w.select(before, 1.0, ties), axes=(1,), keepdims=False)
