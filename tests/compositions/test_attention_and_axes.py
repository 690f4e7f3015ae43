"""Masks and heads of attention, running results and kernels of resampling against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.compositions.attention import repeat_heads, visible
from graph_runtime.compositions.resampling import keys, triangle
from graph_runtime.compositions.scans import running


def test_masks() -> None:
    assert np.array_equal(visible(3, 5), np.tri(3, 5, dtype=bool))
    assert np.array_equal(visible(3, 5, 2), np.tri(3, 5, 2, dtype=bool))
    assert np.array_equal(visible(4, 4, left=1), np.tri(4, dtype=bool) & ~np.tri(4, k=-2, dtype=bool))
    assert np.array_equal(visible(4, 4, left=0, right=-1), np.triu(np.ones((4, 4), bool)))
    assert visible(2, 3, right=-1).all()


@pytest.mark.parametrize("times", [1, 3])
def test_heads_are_repeated_side_by_side(times: int) -> None:
    x = np.arange(24.0).reshape(1, 2, 3, 4)
    assert np.array_equal(repeat_heads(ArrayValue(x), times).array, np.repeat(x, times, axis=1))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_running_products(axis: int, dtype: type) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (5, 6)).astype(dtype)
    for back in (False, True):
        turned = np.flip(x, axis) if back else x
        wanted = np.cumprod(turned, axis, dtype)
        wanted = np.flip(wanted, axis) if back else wanted
        assert np.array_equal(running("multiply", ArrayValue(x), axis, 1, back).array, wanted)
        before = np.roll(wanted, -1 if back else 1, axis)
        np.moveaxis(before, axis, 0)[-1 if back else 0] = 1
        assert np.array_equal(running("multiply", ArrayValue(x), axis, 1, back, True).array, before)


def test_running_results_of_few_elements() -> None:
    for count in (0, 1):
        x = ArrayValue(np.full((2, count), 3.0))
        assert running("multiply", x, 1, 1).array.tolist() == x.array.tolist()
        assert running("multiply", x, 1, 1, exclusive=True).array.tolist() == [[1.0] * count] * 2


def test_weights_of_neighbours_sum_to_one() -> None:
    for part in np.linspace(0, 1, 9)[:-1]:
        distances = part - np.arange(-1, 3)
        for a in (-0.75, -0.5):
            assert abs(keys(distances, a).sum() - 1) < 1e-12
        assert triangle(distances).sum() == pytest.approx(1)
    assert keys(np.array([0.0, 1.0, 2.0, 3.0]), -0.75).tolist() == [1, 0, 0, 0]
    x = np.array([0.5, 1.5])  # the cubic polynomials by their coefficients, highest first
    a = -0.5
    wanted = [np.polyval([a + 2, -a - 3, 0, 1], x[0]), np.polyval([a, -5 * a, 8 * a, -4 * a], x[1])]
    np.testing.assert_allclose(keys(x, a), wanted)
