"""Numbers of a tensor are what numpy says of it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graph_runtime.views import tensor_numbers
from graph_runtime.views.tensor_numbers import TensorNumbers

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, ml_dtypes.int4]
)
def test_any_dtype_in_blocks(dtype, monkeypatch):
    monkeypatch.setattr(tensor_numbers, "_BLOCK", 7)
    values = np.random.default_rng(0).integers(0, 7, (5, 9)).astype(dtype)
    exact, found = values.astype(np.float64), TensorNumbers.of(values)
    assert (found.size, found.min, found.max) == (45, exact.min(), exact.max())
    assert found.mean == pytest.approx(exact.mean())
    assert found.std == pytest.approx(exact.std())
    assert found.zeros == int((exact == 0).sum())
    assert found.first == tuple(exact.ravel()[:8])


def test_a_spread_beside_a_large_mean_is_kept():
    values = 1e9 + np.array([-1.0, 1.0] * 100)
    assert TensorNumbers.of(values).std == pytest.approx(1.0)


def test_what_is_not_finite_is_counted_and_left_out():
    found = TensorNumbers.of(np.array([np.nan, np.inf, -np.inf, 2, 0], np.float32))
    assert (found.nan, found.inf, found.zeros) == (1, 2, 1)
    assert (found.min, found.max, found.mean, found.std) == (0, 2, 1, 1)
    assert found.as_dict()["first"] == ["nan", "inf", "-inf", 2, 0]
    nothing = TensorNumbers.of(np.full(3, np.nan))
    assert (nothing.nan, nothing.min, nothing.mean, nothing.std) == (3, None, None, None)


def test_scalars_empty_tensors_bools_and_strings():
    assert TensorNumbers.of(np.float32(3)).first == (3.0,)
    assert TensorNumbers.of(np.zeros((0, 4))).max is None
    assert TensorNumbers.of(np.array([True, False])).mean == 0.5
    text = TensorNumbers.of(np.array(["a", "b"], object))
    assert (text.size, text.first) == (2, ())
