"""Moments against numpy's, turns of pairs against complex numbers."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.compositions.norms import moments
from graph_runtime.compositions.rotary import rotate


def test_moments() -> None:
    x = np.random.default_rng(0).normal(3, 2, (2, 3, 4))
    mean, variance = moments(ArrayValue(x), (0, 2))
    np.testing.assert_allclose(mean.array, x.mean((0, 2), keepdims=True))
    np.testing.assert_allclose(variance.array, x.var((0, 2), keepdims=True))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [4, 3, 1])
def test_pairs_are_turned(interleaved: bool, pairs: int) -> None:
    draw = np.random.default_rng(pairs)
    x, angles = draw.normal(size=(2, 5, 8)), draw.normal(size=(5, pairs))
    made = rotate(ArrayValue(x), ArrayValue(np.cos(angles)), ArrayValue(np.sin(angles)), interleaved).array
    first = slice(0, 2 * pairs, 2) if interleaved else slice(0, pairs)
    second = slice(1, 2 * pairs, 2) if interleaved else slice(pairs, 2 * pairs)
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angles)
    np.testing.assert_allclose(made[..., first] + 1j * made[..., second], turned)
    assert np.array_equal(made[..., 2 * pairs :], x[..., 2 * pairs :])


def test_nothing_is_turned_of_no_elements() -> None:
    made = rotate(ArrayValue(np.zeros((0, 4))), ArrayValue(np.ones(2)), ArrayValue(np.zeros(2)), True)
    assert made.shape == (0, 4)
