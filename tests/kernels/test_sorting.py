"""topk of whole lines, which is a stable sort: against numpy, with equal elements, NaN, infinities and zeros
of either sign, up to 256,000 elements."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime import GraphBuilder, create
from graph_runtime.base import dtypes
from graph_runtime.ir.ops import rules

pytestmark = pytest.mark.core


def sorted_by(device, x, axis, k=None, **attrs):
    """(values, places) of topk."""
    b = GraphBuilder(device=device)
    x_in = b.input("x", x.shape, dtypes.from_numpy(x.dtype))
    b.output(*b.op("topk", x_in, k=k or x.shape[axis], axis=axis, dtype="int32", **attrs))
    return [t.numpy() for t in create(b, devices=[device]).session.submit({"x": x}).outputs]


def drawn(shape, dtype, seed=0):
    """Few different values, and the special ones of floats."""
    draw = np.random.default_rng(seed)
    kind = dtypes.to_numpy(dtype)
    values = draw.integers(0, 100, shape) - (0 if np.dtype(kind).kind in "ub" else 50)
    made = values.astype(kind)
    if dtype in rules.FLOATS:
        flat = made.reshape(-1)
        flat[draw.integers(0, flat.size, 8)] = np.nan
        flat[draw.integers(0, flat.size, 8)] = [np.inf, -np.inf] * 4
        flat[draw.integers(0, flat.size, 8)] = [-0.0, 0.0] * 4
    return made


def expected(x, axis, largest):
    """numpy's stable order; NaN is the greatest, the lower index comes first."""
    wide = x.astype(np.float64 if x.dtype.itemsize < 8 else x.dtype)
    if largest:
        n = x.shape[axis]
        return n - 1 - np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
    return np.argsort(wide, axis=axis, kind="stable")


def agrees(device, x, axis, largest, k=None):
    values, places = sorted_by(device, x, axis, k, largest=largest)
    order = expected(x, axis, largest)
    order = np.take(order, np.arange(k or x.shape[axis]), axis=axis)
    np.testing.assert_array_equal(places, order)
    taken = np.take_along_axis(x, order, axis)
    # in float64, as numpy finds NaNs of bfloat16 unequal
    np.testing.assert_array_equal(values.astype(np.float64), taken.astype(np.float64))


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("n", [129, 1000, 1025, 32_768, 256_000])
def test_a_row_of_any_length(device, largest, n):
    agrees(device, drawn((n,), "float32", n), 0, largest)


@pytest.mark.parametrize("dtype", rules.TT_NUMBERS)
@pytest.mark.parametrize("largest", [False, True])
def test_every_type(dtype, largest):
    agrees("tt:0", drawn((3, 700), dtype), 1, largest)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 5, 300), 1), ((150, 3, 33), 0), ((2, 200, 3, 5), 1), ((600, 1), 0)]
)
def test_every_axis(shape, axis):
    x = drawn(shape, "float32")
    agrees("tt:0", x, axis, True)
    agrees("tt:0", x, axis, False, k=min(shape[axis], 140))


def test_total_order_tells_zeros_and_nans_apart():
    x = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0] * 30, np.float32)
    x[3::7] = np.copysign(np.float32(np.nan), np.float32(-1))
    for device in ("cpu:0", "tt:0"):
        values = sorted_by(device, x, 0, largest=False, total=True)[0]
        assert np.isnan(values[:30]).all()
        assert np.signbit(values[:30]).all()
        assert np.isnan(values[-30:]).all()
        zeros = values[values == 0]
        assert np.signbit(zeros[:30]).all()
        assert not np.signbit(zeros[30:]).any()
