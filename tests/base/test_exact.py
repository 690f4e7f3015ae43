"""Conversions that keep values: each pair of dtypes against Python's exact integers and fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from graph_runtime.base import dtypes
from graph_runtime.base.errors import InputError
from graph_runtime.base.exact import exactly

pytestmark = pytest.mark.unit

NAMES = list(dtypes.BY_DTYPE)


def edges(name: str) -> np.ndarray:
    """Values of a dtype near the ends of others."""
    dtype = dtypes.to_numpy(name)
    if name == "bool":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [s * (1 << k) + d for k in range(65) for d in (-1, 0, 1) for s in (1, -1)]
        return np.array([v for v in {*near, 3 << 30, 5 << 50} if info.min <= v <= info.max], dtype)
    floats = [0.0, -0.0, 0.1, 2.5, 1e-300, 65504.0, 65519.0, 65520.0, 3.4e38, 3.4028235e38, 3.4028236e38]
    floats += [1e300, np.inf, np.nan, *(2.0**k for k in range(70)), *(2.0**k - 1 for k in range(60))]
    with np.errstate(all="ignore"):
        return np.array([*floats, *(-f for f in floats)]).astype(dtype)


def holds(value, wanted: np.dtype) -> bool:
    """Whether the conversion of one value by Python's numbers is what it was."""
    name = wanted.name
    if name == "bool":
        return value in (0, 1)
    if dtypes.BY_DTYPE[name].kind == "float":
        if isinstance(value, (int, bool)):
            digits = dtypes.BY_DTYPE[name].digits
            odd = abs(value)
            while odd and odd % 2 == 0:
                odd //= 2
            return odd < 1 << digits and abs(value) <= Fraction(*largest(name))
        with np.errstate(all="ignore"):
            return not np.isfinite(value) or bool(np.isfinite(np.float64(value).astype(wanted)))
    info = np.iinfo(wanted)
    return bool(np.isfinite(value)) and value == int(value) and info.min <= value <= info.max


def largest(name: str) -> tuple[int, int]:
    dtype = dtypes.to_numpy(name)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    inf = np.array(np.inf, dtype).view(bits)
    return float((inf - bits(1)).view(dtype)).as_integer_ratio()


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_every_pair_is_kept_or_refused(name):
    source = edges(name)
    for wanted in map(dtypes.to_numpy, NAMES):
        for one in source:
            value = bool(one) if name == "bool" else int(one) if source.dtype.kind in "iu" else float(one)
            array = np.full((2, 3), 0, source.dtype)
            array[1, 2] = one
            if one.dtype == wanted or holds(value, wanted):
                got = exactly(array, wanted, "x")
                with np.errstate(all="ignore"):
                    assert got.tobytes() == array.astype(wanted).tobytes()
            else:
                with pytest.raises(InputError, match=r"x has .* at \[1, 2\], which") as caught:
                    exactly(array, wanted, "x")
                assert caught.value.index == (1, 2)
                assert caught.value.wanted == wanted.name


@pytest.mark.parametrize(
    ("source", "wanted"),
    list(itertools.product(["complex64", "object", "M8[s]", "S3"], ["float32", "int64"])),
)
def test_kinds_without_a_conversion_are_refused(source, wanted):
    with pytest.raises(InputError, match="does not become"):
        exactly(np.zeros(2, source), np.dtype(wanted), "x")


def test_nothing_is_looked_at_where_nothing_is():
    assert exactly(np.zeros((0, 3)), np.dtype("int8"), "x").shape == (0, 3)
