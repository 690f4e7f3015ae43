"""Functions of signs, zeros and NaN against numpy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.compositions import signs

ODD = np.array([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan])
A, B = (ArrayValue(x.reshape(-1)) for x in np.meshgrid(ODD, ODD))
WHOLE = ArrayValue(np.array([-3, 0, 2], np.int32))

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def same(made: ArrayValue, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(made.array, wanted)
    known = ~np.isnan(wanted)
    assert (np.signbit(made.array[known]) == np.signbit(wanted[known])).all()


def test_signs_of_one() -> None:
    x = ArrayValue(ODD)
    assert signs.sign(x).array.tolist() == [0, 0, 1, -1, 1, -1, 0]
    assert signs.signbit(x).array.tolist() == [False, True, False, True, False, True, False]
    assert signs.signbit(WHOLE).array.tolist() == [True, False, False]
    assert signs.sign(WHOLE).array.tolist() == [-1, 0, 1]
    same(signs.angle(x), np.array([0, 0, 0, math.pi, 0, math.pi, math.nan]))
    same(signs.nan_to_num(x, 7.0, 8.0, -9.0), np.array([0.0, -0.0, 1.5, -2, 8, -9, 7]))


def test_signs_of_two() -> None:
    numbers = ~np.isnan(B.array)
    same(ArrayValue(signs.copysign(A, B).array[numbers]), np.copysign(A.array, B.array)[numbers])
    same(signs.heaviside(A, B), np.where(np.isnan(A.array), 0, np.heaviside(A.array, B.array)))
    np.testing.assert_array_equal(signs.numeric("maximum", A, B).array, np.fmax(A.array, B.array))
    np.testing.assert_array_equal(signs.numeric("minimum", A, B).array, np.fmin(A.array, B.array))
    assert signs.numeric("maximum", WHOLE, WHOLE.scalar(1)).array.tolist() == [1, 1, 2]


def test_angles() -> None:
    np.testing.assert_allclose(signs.atan2(A, B).array, np.arctan2(A.array, B.array), rtol=1e-15)
