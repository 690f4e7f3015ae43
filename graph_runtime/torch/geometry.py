"""Views as ops: the reshape, slice and transpose that give the elements of a strided view.

If the strides of a view divide one another, the view is a box in the storage reshaped to suitable dimensions,
its "digits". For example x[1:3].T, of x [4, 6], has strides (1, 6): with digits [4, 6] it is rows 1 to 2, all
columns, transposed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """A view as a box of its storage.

    ``digits``: shape to which the first ``used`` elements of the storage are reshaped.
    ``starts``, ``sizes``: first index and length of the box on each axis of ``digits``.
    ``perm``: order in which the box's dimensions become the dimensions of the view.
    ``kept``: the view's shape, with 1 for each dimension that only repeats elements.
    ``repeats``: whether a dimension of the view only repeats elements.
    ``whole``: whether the box is all of the storage.
    """

    digits: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    perm: tuple[int, ...]
    kept: tuple[int, ...]
    repeats: bool
    whole: bool

    @property
    def used(self) -> int:
        return math.prod(self.digits)


def box_of(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, count: int) -> Box | None:
    """The Box of a view with elements in a storage of ``count`` elements; None if the view is no box
    (overlapping windows, strides that do not divide one another)."""
    dims = [
        (stride, size, i)
        for i, (size, stride) in enumerate(zip(shape, strides, strict=True))
        if size > 1 and stride > 0
    ]
    repeats = any(size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True))
    ordered = sorted(dims, key=lambda d: -d[0])
    steps = [d[0] for d in ordered]
    if not steps or steps[-1] != 1:
        steps.append(1)
        ordered.append((1, 1, -1))
    if any(a % b for a, b in itertools.pairwise(steps)):
        return None
    digits = [count // steps[0], *(a // b for a, b in itertools.pairwise(steps))]
    starts, rest = [], offset
    for step in steps:
        starts.append(rest // step)
        rest %= step
    sizes = [d[1] for d in ordered]
    if any(start + size > digit for start, size, digit in zip(starts, sizes, digits, strict=True)):
        return None
    position = {d[2]: at for at, d in enumerate(ordered) if d[2] >= 0}
    rank = [position[i] for i in range(len(shape)) if i in position]
    perm = (*rank, *(at for at, d in enumerate(ordered) if d[2] < 0))
    kept = tuple(size if i in position else 1 for i, size in enumerate(shape))
    whole = not any(starts) and sizes == digits and math.prod(digits) == count
    return Box(tuple(digits), tuple(starts), tuple(sizes), perm, kept, repeats, whole)
