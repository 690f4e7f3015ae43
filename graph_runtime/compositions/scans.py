"""Running results along an axis."""

from __future__ import annotations

from typing import TypeVar

from ..ir.value import Value

V = TypeVar("V", bound=Value)


def running(op: str, x: V, axis: int, nothing: float, back: bool = False, exclusive: bool = False) -> V:
    """Results of a binary op over all elements up to each element of an axis, by doubling (Hillis and Steele,
    1986): each step combines twice as many elements. ``nothing``: the op's neutral number, such as 1 for a
    product; ``back``: whether to start at the end of the axis; ``exclusive``: whether to leave out the
    element itself."""
    size, reach = x.shape[axis], 1
    if exclusive:
        x = moved(x, axis, 1, nothing, back)
    while reach < size:
        x = x.op(op, moved(x, axis, reach, nothing, back))
        reach *= 2
    return x


def moved(x: V, axis: int, by: int, fill: float, back: bool = False) -> V:
    """Elements moved ``by`` positions along an axis, towards its end, or with ``back`` towards its beginning;
    ``fill`` takes the places that become free."""
    rank, size = len(x.shape), x.shape[axis]
    by = min(by, size)
    start, end = (by, size) if back else (0, size - by)
    kept = x.op("slice", starts=[start], ends=[end], axes=[axis], steps=[1])
    pads = [0] * (2 * rank)
    pads[axis + rank * back] = by
    return kept.op("pad", pads=pads, value=float(fill))
