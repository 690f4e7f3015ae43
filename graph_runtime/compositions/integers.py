"""Functions of integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..base import dtypes
from ..ir.value import Value, where

V = TypeVar("V", bound=Value)


def power(a: V, b: Value, of_zero: int | None = None, raised: Callable[[Any, Any], Any] = operator.pow) -> V:
    """a to the integer power b. For a negative power the result is 1 for 1, 1 or -1 for -1, ``of_zero`` for
    0, and 0 for any other a. ``raised``: function that computes powers with exponents of 0 or more."""
    below = b < 0
    whole = raised(a, where(below, 0, b))
    made = where(a.equal(1), a.scalar(1), 0)
    if of_zero is not None:
        made = where(a.equal(0), of_zero, made)
    if np.issubdtype(dtypes.to_numpy(a.dtype), np.signedinteger):
        made = where(a.equal(-1), where((b & 1).equal(1), a.scalar(-1), 1), made)
    return where(below, made, whole)


def population_count(x: V) -> V:
    """Number of set bits of unsigned integers, by adding the counts of ever larger halves."""
    bits, step = _bits(x), 1
    while step < bits:
        mask = sum(((1 << step) - 1) << at for at in range(0, bits, 2 * step))
        x = (x & mask) + ((x >> step) & mask)
        step *= 2
    return x


def leading_zeros(x: V) -> V:
    """Number of zero bits of unsigned integers above the highest set bit."""
    bits, step = _bits(x), 1
    while step < bits:
        x = x | (x >> step)
        step *= 2
    return bits - population_count(x)


def _bits(x: Value) -> int:
    return int(x.dtype.removeprefix("uint"))
