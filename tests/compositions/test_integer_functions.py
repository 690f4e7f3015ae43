"""Functions of integers against Python's."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.compositions import integers

BITS = (8, 16, 32, 64)


def draws(bits: int) -> np.ndarray:
    top = np.random.default_rng(bits).integers(0, 1 << bits, 200, dtype=f"uint{bits}", endpoint=False)
    small = top >> np.arange(200).astype(top.dtype) % top.dtype.type(bits)
    return np.concatenate([small, np.array([0, 1, (1 << bits) - 1], top.dtype)])


@pytest.mark.parametrize("bits", BITS)
def test_bits_that_are_set(bits: int) -> None:
    x = draws(bits)
    assert integers.population_count(ArrayValue(x)).array.tolist() == [int(v).bit_count() for v in x]


@pytest.mark.parametrize("bits", BITS)
def test_zeros_before_the_first_that_is_set(bits: int) -> None:
    x = draws(bits)
    assert integers.leading_zeros(ArrayValue(x)).array.tolist() == [bits - int(v).bit_length() for v in x]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("of_zero", [None, -7])
def test_powers(dtype: str, of_zero: int | None) -> None:
    bases, exponents = (v.ravel() for v in np.meshgrid([-3, -2, -1, 0, 1, 2, 3], range(-3, 4)))
    a, b = bases.astype(dtype), exponents.astype(dtype)
    made = integers.power(ArrayValue(a), ArrayValue(b), of_zero).array

    def wanted(x: int, y: int) -> int:
        if y >= 0:
            return x**y
        return (of_zero or 0) if x == 0 else int(x**y) if abs(x) == 1 else 0

    assert made.dtype == dtype
    assert made.tolist() == [wanted(int(x), int(y)) for x, y in zip(a, b, strict=True)]


def test_powers_of_unsigned_integers() -> None:
    a, b = np.array([0, 1, 2, 255], np.uint8), np.array([-1, -2, -1, -1], np.int32)
    made = integers.power(ArrayValue(a), ArrayValue(b), raised=lambda a, b: a)
    assert made.array.tolist() == [0, 1, 0, 0]
