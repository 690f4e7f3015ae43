"""Conversions of arrays that keep their values: what would change is refused by its value and place.

Floats are rounded to the nearest of the wanted dtype, as literals are; one beyond its range does not fit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from . import dtypes
from .errors import InputError

__all__ = ["exactly", "fitting"]


def exactly(array: np.ndarray, wanted: np.dtype, what: str) -> np.ndarray:
    """The values of an array, called ``what`` in errors, in another dtype. Raises as fitting."""
    array = fitting(array, wanted, what)
    if array.dtype == wanted:
        return array
    with np.errstate(all="ignore"):  # a signalling NaN is one afterwards, too
        return array.astype(wanted)


def fitting(array: np.ndarray, wanted: np.dtype, what: str) -> np.ndarray:
    """An array whose values numpy's cast to a dtype keeps: this one, or where converting is the quickest way
    to know, the converted one. Raises InputError, which names the first value that the dtype does not hold
    and its place."""
    if array.dtype == wanted or not array.size:
        return array
    if array.dtype.kind == wanted.kind == "f":
        try:
            with np.errstate(all="ignore", over="raise"):
                return array.astype(wanted)
        except FloatingPointError:
            pass  # a finite value became infinite
    safe = _safe(array.dtype, wanted)
    if safe == _ALL:
        return array
    with np.errstate(invalid="ignore"):  # NaN is below and above nothing, so a look at each tells
        if safe is not None and _inside(array, *safe):
            return array
        wrong = _unfit(array, wanted)
    if not wrong.any():
        return array
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    raise InputError(
        f"{what} has {array[at]!s}{f' at {list(at)}' if at else ''}, which does not fit {wanted.name}: "
        f"convert it with .astype({wanted.name!r}) if you mean to",
        got=array[at].item(),
        wanted=wanted.name,
        index=at,
    )


_ALL = (None, None)


@lru_cache(256)
def _safe(source: np.dtype, wanted: np.dtype) -> tuple[Any, Any] | None:
    """A range in which all values convert without a change, _ALL where all that the source has do; None where
    a look at each tells."""
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
    """Whether all values are in a range, whose ends are None where no value of the dtype is beyond them."""
    return (low is None or low <= array.min().item()) and (high is None or array.max().item() <= high)


def _unfit(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """Where an array has values that a dtype does not hold. Raises InputError where none can be."""
    of, to = _kind(array.dtype), _kind(wanted)
    if of not in "biuf" or to not in "biuf":
        raise InputError(
            f"{array.dtype.name} does not become {wanted.name}", got=array.dtype.name, wanted=wanted.name
        )
    if to == "b":
        return (array != 0) & (array != 1)
    if of == "f" and to == "f":
        with np.errstate(all="ignore"):
            return np.isfinite(array) & ~np.isfinite(array.astype(wanted))
    if to == "f":
        return _inexact(array, wanted)
    info = np.iinfo(wanted)
    if of == "f":  # the kind was asked for by name: 2.0 is 2
        array = array.astype(np.float64) if array.dtype.itemsize < 8 else array
        inside = (array >= float(info.min)) & (array < float(info.max + 1))
        return ~inside | (np.trunc(array) != array)
    return (array < info.min) | (array > info.max)


def _inexact(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """Where integers have more digits than a float, or are beyond it."""
    digits, largest = _limits(wanted)
    signed = array.dtype.kind == "i"
    size = (np.abs(array.astype(np.int64)) if signed else array).astype(np.uint64)
    odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
    return (odd >= 1 << digits) | (size > np.uint64(min(int(largest), (1 << 64) - 1)))


def _limits(dtype: np.dtype) -> tuple[int, float]:
    """(digits of a float with the hidden one, its largest value)"""
    own = dtypes.BY_DTYPE[dtype.name]
    largest = (2 - 2.0 ** (1 - own.digits)) * 2.0 ** ((1 << (own.exponent - 1)) - 1)
    return own.digits, largest


def _kind(dtype: np.dtype) -> str:
    """numpy's letter of a dtype's kind; that of floats for an extension's, which numpy calls V."""
    own = dtypes.BY_DTYPE.get(dtype.name)
    return "f" if own is not None and own.kind == "float" else dtype.kind
