"""Choice of experts for each token: groups of experts by their best members, then the best experts of the
best groups (DeepSeek-AI, "DeepSeek-V3", 2024)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..ir.value import Value, where

V = TypeVar("V", bound=Value)
Best = Callable[[V, int], tuple[V, V]]  # (x, k) -> the k greatest of each row and their indices as int32


def members(places: V, size: int) -> V:
    """bool [rows, size]: whether a number is among the places [rows, k] of its row."""
    rows, count = places.shape
    numbers = places.scalar(np.arange(size, dtype=np.int32).reshape(1, 1, size), "int32")
    each = places.op("reshape", shape=(rows, count, 1)).equal(numbers)
    return where(each, places.scalar(1.0, "float32"), 0.0).sum([1], keepdims=False) > 0.0


def grouped(biased: V, best: Best[V], groups: int, summed: int, chosen: int) -> V:
    """Rows of scores [rows, experts], with minus infinity outside of the ``chosen`` groups that have the
    greatest sums of their ``summed`` best scores."""
    rows, experts = biased.shape
    if groups == 1:
        return biased
    size = experts // groups
    values, _ = best(biased.op("reshape", shape=(rows * groups, size)), summed)
    sums = values.sum([1]).op("reshape", shape=(rows, groups))
    held = members(best(sums, chosen)[1], groups)
    wide = held.op("reshape", shape=(rows, groups, 1)).op("broadcast_to", shape=(rows, groups, size))
    return where(wide.op("reshape", shape=(rows, experts)), biased, -math.inf)


def shares(scores: V, places: V, scale: float, epsilon: float) -> V:
    """The scores at the places of each row, divided by their sum, times ``scale``."""
    found = scores.op("take_along_axis", places, axis=1)
    return found / (found.sum([1]) + epsilon) * scale
