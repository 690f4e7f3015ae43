"""Conversions of arrays that keep all values; a value that would change is refused, with its place.

Floats are rounded to the nearest value of the wanted dtype, as literals are; a float beyond its range does
not fit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from . import dtypes
from .errors import InputError


def exactly(array: np.ndarray, wanted: np.dtype, what: str) -> np.ndarray:
    """The values of an array, called ``what`` in errors, in another dtype. Raises the errors of fitting."""
    array = fitting(array, wanted, what)
    if array.dtype == wanted:
        return array
    with np.errstate(all="ignore"):  # a signalling NaN stays a signalling NaN
        return array.astype(wanted)


def fitting(array: np.ndarray, wanted: np.dtype, what: str) -> np.ndarray:
    """The array itself, if numpy's cast to the wanted dtype keeps its values. If converting is the fastest
    check, the result is the converted array instead. Raises InputError with the first value that does not fit
    and its place.
    """
    if array.dtype == wanted or not array.size:
        return array
    if array.dtype.kind == wanted.kind == "f":
        try:
            with np.errstate(all="ignore", over="raise"):
                return array.astype(wanted)
        except FloatingPointError:
            pass  # the cast made a finite value infinite
    safe = _safe(array.dtype, wanted)
    if safe == _ALL:
        return array
    with np.errstate(invalid="ignore"):  # comparisons with NaN are false: then each value is looked at
        if safe is not None and _inside(array, *safe):
            return array
        wrong = _unfit(array, wanted)
    if not wrong.any():
        return array
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    text = (
        f"{what} has {array[at]!s}{f' at {list(at)}' if at else ''}, which does not fit {wanted.name}: "
        f"convert it with .astype({wanted.name!r}) if you mean to"
    )
    raise InputError(text, got=array[at].item(), wanted=wanted.name, index=at)


_ALL = (None, None)


@lru_cache(256)
def _safe(source: np.dtype, wanted: np.dtype) -> tuple[Any, Any] | None:
    """(lowest, highest): every value from the lowest to the highest fits the wanted dtype. The result is _ALL
    if all values of the source dtype fit, and None if each value must be looked at."""
    of, to = _kind(source), _kind(wanted)
    if of == "b":
        return _ALL
    if of == to == "f":
        if np.can_cast(source, wanted, "safe"):
            return _ALL
        largest = _limits(wanted)[1]
        return -largest, largest
    if of not in "iu" or to not in "iuf":
        return None
    own = np.iinfo(source)
    least, most = own.min, own.max
    if to == "f":
        digits, largest = _limits(wanted)
        limit = int(min(1 << digits, largest))
        low, high = -limit, limit
    else:
        low, high = np.iinfo(wanted).min, np.iinfo(wanted).max
    return (low if low > least else None), (high if high < most else None)


def _inside(array: np.ndarray, low: Any, high: Any) -> bool:
    """Whether all values are in a range; an end of the range is None if no value of the dtype is beyond
    it."""
    return (low is None or low <= array.min().item()) and (high is None or array.max().item() <= high)


def _unfit(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """Mask of the values that a dtype does not hold. Raises InputError if the dtype holds no values of their
    kind."""
    of, to = _kind(array.dtype), _kind(wanted)
    if of not in "biuf" or to not in "biuf":
        text = f"{array.dtype.name} does not become {wanted.name}"
        raise InputError(text, got=array.dtype.name, wanted=wanted.name)
    if to == "b":
        return (array != 0) & (array != 1)
    if of == "f" and to == "f":
        with np.errstate(all="ignore"):
            return np.isfinite(array) & ~np.isfinite(array.astype(wanted))
    if to == "f":
        return _inexact(array, wanted)
    info = np.iinfo(wanted)
    if of == "f":  # the caller named an integer dtype, so 2.0 is taken for the integer 2
        array = array.astype(np.float64) if array.dtype.itemsize < 8 else array
        inside = (array >= float(info.min)) & (array < float(info.max + 1))
        return ~inside | (np.trunc(array) != array)
    return (array < info.min) | (array > info.max)


def _inexact(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """Mask of the integers that have more digits than a float of the wanted dtype holds, or that are beyond
    its range."""
    digits, largest = _limits(wanted)
    signed = array.dtype.kind == "i"
    size = (np.abs(array.astype(np.int64)) if signed else array).astype(np.uint64)
    odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
    return (odd >= 1 << digits) | (size > np.uint64(min(int(largest), (1 << 64) - 1)))


def _limits(dtype: np.dtype) -> tuple[int, float]:
    """(significant digits of a float, the hidden one included; its largest value)"""
    own = dtypes.BY_DTYPE[dtype.name]
    largest = (2 - 2.0 ** (1 - own.digits)) * 2.0 ** ((1 << (own.exponent - 1)) - 1)
    return own.digits, largest


def _kind(dtype: np.dtype) -> str:
    """numpy's letter for a dtype's kind, but "f" for an extension's floats, whose letter in numpy is V."""
    own = dtypes.BY_DTYPE.get(dtype.name)
    return "f" if own is not None and own.kind == "float" else dtype.kind
