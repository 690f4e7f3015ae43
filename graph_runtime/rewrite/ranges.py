"""Checks that constants which a rule moves, joins or folds give the same results in their new place."""

from __future__ import annotations

import numpy as np

from ..base import dtypes
from ..base.errors import MissingDataError
from .values import NetValue

_READ = 4 * 2**20  # largest constant in bytes that is examined


def keeps_range(dtype: str, *factors: float | np.ndarray) -> bool:
    """Whether each of the factors, and their product, is 0 or a normal number of the dtype that is at most
    the root of the dtype's largest number, which leaves room for sums of products. Other numbers could
    overflow or lose digits in one term, although the sum does not. False for NaN, infinity and integer
    dtypes, whose quotients are rounded."""
    made = dtypes.format_of(dtype)
    if made is None or made.kind != "float":
        return False
    bias = 2 ** (made.exponent - 1)  # numbers are below 2**bias, normal ones at least 2**(2 - bias)
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = [np.log2(np.abs(np.asarray(factor, np.float64))) for factor in factors]
        powers.append(sum(powers[1:], powers[0]))
    return all(bool(((p == -np.inf) | ((p >= 2 - bias) & (p <= bias / 2))).all()) for p in powers)


def is_usual(value: NetValue) -> bool:
    """Whether keeps_range holds for the number of largest magnitude in a constant."""
    most = _magnitudes(value, None)
    return most is None or keeps_range(value.dtype, most)


def keeps_scaled(op: str, scale: NetValue, weight: NetValue, axis: int, bias: NetValue | None) -> bool:
    """Whether ``scale`` can multiply or divide (``op``) a weight and a bias instead of their product's
    result. ``scale``: one number, or one number for each index of the weight's ``axis``. A channel is judged
    by its largest number: what smaller numbers lose is less than the rounding of sums."""
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
    """The largest magnitude (float64) of a constant's numbers, or, with an ``axis``, of the numbers at each
    index of the axis. None if the constant is too large to examine or its bytes are missing; such a constant
    counts as usual."""
    constant = value.constant
    assert constant is not None, f"{value.name} is no constant"
    if value.type.nbytes > _READ:
        return None
    try:
        numbers = constant.read()
    except MissingDataError:  # as when a model without its weights is only estimated
        return None
    others = None if axis is None else tuple(d for d in range(numbers.ndim) if d != axis)
    return np.asarray(np.abs(numbers).max(axis=others, initial=0), np.float64)
