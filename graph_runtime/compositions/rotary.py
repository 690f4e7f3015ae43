"""Rotary position embedding (Su et al., "RoFormer", 2021): pairs of elements are turned by angles."""

from __future__ import annotations

from typing import TypeVar

from ..ir.ops.moving.shape import exactly
from ..ir.value import Value

V = TypeVar("V", bound=Value)


def rotate(x: V, cos: Value, sin: Value, interleaved: bool = False) -> V:
    """x with pairs of elements of its last axis turned by angles. A pair is elements 2 i and 2 i + 1 if
    ``interleaved``, else i and i + size / 2. ``cos`` and ``sin`` have one entry a pair on their last axis,
    and broadcast to x's other axes. If they have fewer entries than x has pairs, the last elements of x stay
    as they are."""
    size, axis = 2 * cos.shape[-1], len(x.shape) - 1
    if interleaved:
        first, second = x[..., 0:size:2], x[..., 1:size:2]
    else:
        first, second = x[..., : size // 2], x[..., size // 2 : size]
    real, imag = first * cos - second * sin, first * sin + second * cos
    if interleaved:
        real, imag = real.op("unsqueeze", axes=[axis + 1]), imag.op("unsqueeze", axes=[axis + 1])
        pairs = real.op("concatenate", imag, axis=axis + 1)
        turned = pairs.op("reshape", **exactly((*x.shape[:-1], size)))
    else:
        turned = real.op("concatenate", imag, axis=axis)
    return turned if size == x.shape[-1] else turned.op("concatenate", x[..., size:], axis=axis)
