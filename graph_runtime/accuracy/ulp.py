"""Units in the last place: how many steps of a format lie between what was computed and what is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS

__all__ = [
    "BINS",
    "ElementDifference",
    "as_bf16",
    "bf16_codes",
    "last_place",
    "steps_of",
    "ulps",
    "worst_elements",
]

BINS = (0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 256.0)  # upper ends of a histogram; one more bin is beyond them
_LEAST = -126  # exponent of the smallest normal number, of bf16 as of f32
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """One element of a result: ``at`` its index or its inputs, ``ulp`` NaN where the distance has none."""

    at: tuple[float, ...]
    got: float
    wanted: float
    ulp: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON-able values; NaN and infinities as text."""
        return {
            "at": [_plain(x) for x in self.at],
            "got": _plain(self.got),
            "wanted": _plain(self.wanted),
            "ulp": None if np.isnan(self.ulp) else self.ulp,
        }


def _plain(x: float) -> float | int | str:
    return x if np.isfinite(x) else str(x)


def bf16_codes() -> np.ndarray:
    """float32 [65536]: what each bf16 code means, by code."""
    return (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)


def as_bf16(x: np.ndarray) -> np.ndarray:
    """float64 of any values, rounded to bf16 once, to nearest, ties to even; what is below the smallest
    normal number is 0."""
    with np.errstate(all="ignore"):
        place = last_place(x, steps_of("bf16"))
        near = np.round(x / place) * place
        near = np.where(np.abs(near) >= 2.0**128, np.copysign(np.inf, x), near)
        return np.where(np.isfinite(x), np.where(np.abs(near) < 2.0**_LEAST, np.copysign(0.0, x), near), x)


def steps_of(format: str) -> int:
    """Significant bits by which results in a format are judged: a dtype's own, of block floats those of bf16,
    to which their values are unpacked."""
    own = FORMATS[format]
    return FORMATS["bf16"].digits if own.shared_exponent else own.digits


def last_place(wanted: np.ndarray, digits: int) -> np.ndarray:
    """float64: the distance between neighbours of ``digits`` significant bits at each value. Below the
    smallest normal number it is as at that."""
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(np.asarray(wanted, np.float64)))[1] - 1
    return np.exp2(np.maximum(exponent, _LEAST) - (digits - 1.0))


def ulps(got: np.ndarray, wanted: np.ndarray, digits: int) -> np.ndarray:
    """float64: |wanted - got| in last places of ``wanted``, which is not rounded first: 0.5 and below is
    correctly rounded. NaN where either is not finite, and where wanted is 0, which has no last place."""
    a, w = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(a - w) / last_place(w, digits)
    return np.where(np.isfinite(a) & np.isfinite(w) & (w != 0), distance, np.nan)


def worst_elements(
    got: np.ndarray, wanted: np.ndarray, digits: int, count: int = _SHOWN
) -> list[ElementDifference]:
    """The elements that are farthest off, by absolute error, the worst first; ``at`` is the index. Those that
    are finite on one side only come before all others."""
    a, w = np.asarray(got, np.float64).ravel(), np.asarray(wanted, np.float64).ravel()
    with np.errstate(all="ignore"):
        error = np.abs(a - w)
    same = (a == w) | (np.isnan(a) & np.isnan(w))
    error = np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))
    count = min(count, int((error > 0).sum()))
    if not count:
        return []
    flat = np.argpartition(-error, count - 1)[:count]
    flat = flat[np.argsort(-error[flat], kind="stable")]
    places = ulps(a[flat], w[flat], digits)
    shape = np.shape(got)  # numpy has no indices of a number
    indices = np.transpose(np.unravel_index(flat, shape)).tolist() if shape else [[]] * count
    return [
        ElementDifference(tuple(at), float(a[i]), float(w[i]), float(ulp))
        for at, i, ulp in zip(indices, flat.tolist(), places.tolist(), strict=True)
    ]
