"""Whether constants that a rule moves, joins or folds compute where they go what they did where they were."""

from __future__ import annotations

import numpy as np

from ..base import dtypes
from ..base.errors import MissingDataError
from .values import NetValue

__all__ = ["is_usual", "keeps_range", "keeps_scaled"]

_READ = 4 * 2**20  # bytes of a constant that is looked at


def keeps_range(dtype: str, *factors: float | np.ndarray) -> bool:
    """Whether numbers, and their product, are finite in a dtype, leave room for sums of products with them
    (the root of the greatest number), and are normal or 0: others overflow, or lose digits, where they come
    into a sum before the sum would. False for NaN, infinity, and integers, whose quotients are rounded."""
    made = dtypes.format_of(dtype)
    if made is None or made.kind != "float":
        return False
    bias = 2 ** (made.exponent - 1)  # numbers are below 2**bias, normal ones from 2**(2 - bias) on
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = [np.log2(np.abs(np.asarray(factor, np.float64))) for factor in factors]
        powers.append(sum(powers[1:], powers[0]))
    return all(bool(((p == -np.inf) | ((p >= 2 - bias) & (p <= bias / 2))).all()) for p in powers)


def is_usual(value: NetValue) -> bool:
    """keeps_range of a constant's greatest number."""
    most = _magnitudes(value, None)
    return most is None or keeps_range(value.dtype, most)


def keeps_scaled(op: str, scale: NetValue, weight: NetValue, axis: int, bias: NetValue | None) -> bool:
    """Whether a weight and a bias can be multiplied by, or divided by, the scales of their channels (one, or
    one for each place of the weight's axis) instead of what is made of them. A channel is judged by its
    greatest number: what others lose is less than what sums round."""
    factor = _magnitudes(scale, int(np.argmax(scale.shape)) if scale.shape else None)
    if factor is None:
        return True
    if not keeps_range(scale.dtype, factor):
        return False
    if op == "divide":
        with np.errstate(divide="ignore"):
            factor = 1 / factor
    most = _magnitudes(weight, axis)
    added = None if bias is None else _magnitudes(bias, None)
    return keeps_range(weight.dtype, factor, factor if most is None else most) and (
        added is None or keeps_range(weight.dtype, factor.max(initial=0), added)
    )


def _magnitudes(value: NetValue, axis: int | None) -> np.ndarray | None:
    """float64: the greatest magnitude of a constant's numbers, or of those at each place of an axis; None for
    a constant of many bytes, or whose bytes are not there: it is taken to be usual."""
    constant = value.constant
    assert constant is not None, f"{value.name} is no constant"
    if value.type.nbytes > _READ:
        return None
    try:
        numbers = constant.read()
    except MissingDataError:  # an estimate, say, of a model without its weights
        return None
    others = None if axis is None else tuple(d for d in range(numbers.ndim) if d != axis)
    return np.asarray(np.abs(numbers).max(axis=others, initial=0), np.float64)
