"""Masks of attention, and heads of keys and values that several query heads share."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..ir.ops.moving.shape import exactly
from ..ir.value import Value

V = TypeVar("V", bound=Value)


def visible(rows: int, columns: int, ahead: int = 0, left: int = -1, right: int = 0) -> np.ndarray:
    """bool [rows, columns]: the keys that each query sees. These reach from ``left`` keys before the query's
    own to ``right`` keys after it; -1 means no limit. ``ahead``: number of keys before the first query's own.
    The defaults give the causal mask."""
    distance = np.arange(columns) - (np.arange(rows)[:, None] + ahead)
    seen = np.ones(distance.shape, bool) if right < 0 else distance <= right
    return seen if left < 0 else seen & (distance >= -left)


def repeat_heads(x: V, times: int) -> V:
    """Keys or values [batch, heads, length, size] with each head repeated for the ``times`` query heads that
    share it (Ainslie et al., "GQA", 2023)."""
    if times == 1:
        return x
    batch, heads, length, size = x.shape
    wide = x.op("reshape", **exactly((batch, heads, 1, length, size)))
    wide = wide.op("broadcast_to", shape=(batch, heads, times, length, size))
    return wide.op("reshape", **exactly((batch, heads * times, length, size)))
