"""A tensor summarised: range, mean, spread, count of non-finite elements, first values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_FIRST = 8
_BLOCK = 1 << 20  # most elements that are converted to float64 at once


@dataclass(frozen=True, slots=True)
class TensorNumbers:
    """Numbers of a tensor. ``min``, ``max``, ``mean`` and ``std`` (population) are over the finite elements,
    None if there are none; ``nan``, ``inf`` and ``zeros``: numbers of elements of that kind; ``size``: number
    of all elements; ``first``: the first values in row-major order, empty for strings."""

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
        """The summary of an array of any shape. Its dtype is of numbers (bfloat16 too), bools, or strings,
        for which only ``size`` is given."""
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
        """The fields as JSON-able values; an element of ``first`` that JSON cannot write becomes "nan", "inf"
        or "-inf"."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return made | {"first": [value if math.isfinite(value) else str(value) for value in self.first]}


def _blocks(flat: np.ndarray) -> Iterator[np.ndarray]:
    """The array's elements, in blocks: float64 [at most _BLOCK]."""
    for at in range(0, flat.size, _BLOCK):
        yield flat[at : at + _BLOCK].astype(np.float64)
