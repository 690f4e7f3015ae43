"""Units in the last place (ULP): the error of a computed value in steps of a format at the right value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS

BINS = (0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 256.0)  # upper ends of a histogram's bins; the last bin is open
_LEAST = -126  # exponent of the smallest normal number, in bf16 and in f32
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """One element of a result. ``at``: index of the element, or the inputs that gave it. ``ulp``: error in
    ULP; NaN if the error in ULP is undefined."""

    at: tuple[float, ...]
    got: float
    wanted: float
    ulp: float

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values; NaN and infinities as text."""
        return {
            "at": [_plain(x) for x in self.at],
            "got": _plain(self.got),
            "wanted": _plain(self.wanted),
            "ulp": None if np.isnan(self.ulp) else self.ulp,
        }


def _plain(x: float) -> float | int | str:
    return x if np.isfinite(x) else str(x)


def bf16_codes() -> np.ndarray:
    """The values of all bf16 codes, as float32 [65536]."""
    return (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)


def as_bf16(x: np.ndarray) -> np.ndarray:
    """Values rounded once to bf16 (to nearest, ties to even), as float64. Results below the smallest normal
    number become 0."""
    with np.errstate(all="ignore"):
        place = last_place(x, steps_of("bf16"))
        near = np.round(x / place) * place
        near = np.where(np.abs(near) >= 2.0**128, np.copysign(np.inf, x), near)
        return np.where(np.isfinite(x), np.where(np.abs(near) < 2.0**_LEAST, np.copysign(0.0, x), near), x)


def steps_of(format: str) -> int:
    """Number of significant bits by which results in a format are judged. For a dtype it is the dtype's own
    number; for block floats it is that of bf16, because their values are unpacked to bf16."""
    own = FORMATS[format]
    return FORMATS["bf16"].digits if own.shared_exponent else own.digits


def last_place(wanted: np.ndarray, digits: int) -> np.ndarray:
    """The distance between neighbouring numbers of ``digits`` significant bits at each value, as float64.
    Below the smallest normal number it is the distance at that number."""
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(np.asarray(wanted, np.float64)))[1] - 1
    return np.exp2(np.maximum(exponent, _LEAST) - (digits - 1.0))


def ulps(got: np.ndarray, wanted: np.ndarray, digits: int) -> np.ndarray:
    """|wanted - got| as float64, in units in the last place of ``wanted``. ``wanted`` itself is not rounded,
    so that a result of 0.5 or less means that ``got`` is correctly rounded. NaN if ``got`` or ``wanted`` is
    not finite, or if ``wanted`` is 0, which has no last place."""
    a, w = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(a - w) / last_place(w, digits)
    return np.where(np.isfinite(a) & np.isfinite(w) & (w != 0), distance, np.nan)


def worst_elements(
    got: np.ndarray, wanted: np.ndarray, digits: int, count: int = _SHOWN
) -> list[ElementDifference]:
    """The elements with the largest absolute errors, largest first; their ``at`` is the index in the result.
    Elements that are finite in only one of ``got`` and ``wanted`` come first."""
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
    shape = np.shape(got)  # unravel_index refuses the shape of a scalar
    indices = np.transpose(np.unravel_index(flat, shape)).tolist() if shape else [[]] * count
    return [
        ElementDifference(tuple(at), float(a[i]), float(w[i]), float(ulp))
        for at, i, ulp in zip(indices, flat.tolist(), places.tolist(), strict=True)
    ]
