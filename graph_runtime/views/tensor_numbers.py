"""What a tensor holds, in a few numbers: range, mean, spread, what is not finite, and its first values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["MOST_FIRST", "TensorNumbers"]

MOST_FIRST = 8
_BLOCK = 1 << 20  # elements that are float64 at once


@dataclass(frozen=True, slots=True)
class TensorNumbers:
    """``min``, ``max``, ``mean`` and ``std`` (of the population) are of the elements that are finite, None
    where none is; ``nan``, ``inf`` and ``zeros`` count elements, ``size`` all; ``first``: the first values in
    the order of rows, of strings none."""

    size: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    nan: int
    inf: int
    zeros: int
    first: tuple[float, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> TensorNumbers:
        """Of an array of any shape and dtype: numbers, those of extensions too (bfloat16), bools, or strings,
        of which only ``size`` is known."""
        flat = np.asarray(array).reshape(-1)
        if flat.dtype.kind in "OUS":
            return cls(flat.size, None, None, None, None, 0, 0, 0, ())
        low, high, total, nan, inf, zeros = math.inf, -math.inf, 0.0, 0, 0, 0
        with np.errstate(all="ignore"):
            for block in _blocks(flat):
                nan += int(np.isnan(block).sum())
                inf += int(np.isinf(block).sum())
                zeros += int((block == 0).sum())
                finite = block[np.isfinite(block)]
                low, high = min(low, finite.min(initial=low)), max(high, finite.max(initial=high))
                total += finite.sum()
            first = tuple(map(float, flat[:MOST_FIRST].astype(np.float64)))
            count = flat.size - nan - inf
            if not count:
                return cls(flat.size, None, None, None, None, nan, inf, zeros, first)
            mean = float(total / count)
            off = sum(float(np.square(b[np.isfinite(b)] - mean).sum()) for b in _blocks(flat))
        return cls(flat.size, float(low), float(high), mean, math.sqrt(off / count), nan, inf, zeros, first)

    def as_dict(self) -> dict[str, Any]:
        """As JSON-able values; a first value that JSON lacks is "nan", "inf" or "-inf"."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return made | {"first": [value if math.isfinite(value) else str(value) for value in self.first]}


def _blocks(flat: np.ndarray) -> Iterator[np.ndarray]:
    """float64 [at most _BLOCK] each."""
    for at in range(0, flat.size, _BLOCK):
        yield flat[at : at + _BLOCK].astype(np.float64)
