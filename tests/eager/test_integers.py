"""Remainders and squares of integers in eager mode: numpy's, of every width, by kernels."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime import eager

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("function", [np.remainder, np.fmod], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_remainders_of_integers_are_numpys(function, dtype, device, rng):
    """Every sign with every sign, the ends of the type, a divisor of 0, broadcast; nothing on the host."""
    dtype = dtype if device == "cpu:0" else dtype.replace("64", "32")  # what it has of them
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1]
    values = np.array([*ends, *np.arange(-9, 10).astype(dtype)], dtype)
    drawn = rng.integers(info.min, info.max, (3, 1, 40), dtype, endpoint=True)
    with eager.strict():
        for a, b in ((values[:, None], values), (drawn, values[:, None]), (values, np.array(0, dtype))):
            got = function(eager.array(a, device), eager.array(b, device))
            with np.errstate(divide="ignore"):
                wanted = function(a, b)
            assert (got.dtype, got.shape) == (wanted.dtype.name, wanted.shape)
            np.testing.assert_array_equal(got.numpy(), wanted)
        x = eager.array(values, device)
        for number in (7, 1, *((-7, -1) if dtype.startswith("int") else ())):
            np.testing.assert_array_equal(function(x, number).numpy(), function(values, number))
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(function(x, 0).numpy(), function(values, 0))
            np.testing.assert_array_equal(function(5, x).numpy(), function(5, values))
    assert eager.fallbacks() == []


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16"])
def test_squares_are_numpys(dtype, device):
    """Of every type that the device has, or its 32-bit one; integers wrap."""
    if device != "cpu:0" and "int" in dtype:
        dtype = dtype.replace("64", "32")
    info = np.iinfo(dtype) if "int" in dtype else np.finfo(dtype)
    values = np.array([info.min, info.max, *range(20)], dtype)
    with np.errstate(over="ignore"):
        wanted = np.square(values)
    x = eager.array(values, device)
    got = np.square(x)
    assert got.dtype == x.dtype
    if x.dtype == dtype:
        np.testing.assert_array_equal(got.numpy(), wanted)
    if device == "cpu:0" or x.dtype in ("float32", "int32"):
        assert eager.fallbacks() == []


def test_remainders_of_two_types_and_of_bools(device):
    x, y = np.array([-7, 7, 5], np.int8), np.array([3, 2, 250], np.uint8)
    a, b = eager.array(x, device), eager.array(y, device)
    with eager.strict():
        got = a % b
        assert got.dtype == "int16"
        np.testing.assert_array_equal(got.numpy(), x % y)
        np.testing.assert_array_equal((a % 2.5).numpy(), x % 2.5)
    a %= 4
    np.testing.assert_array_equal(a.numpy(), x % 4)
    flags = eager.array(np.array([True]), device)
    assert (flags % flags).dtype == "int8"  # by numpy
    assert [f.device for f in eager.fallbacks()] == [device]
