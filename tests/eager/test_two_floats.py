"""Functions of two floats in eager mode: integers among their inputs."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime import eager


def test_functions_of_two_floats_of_integers(device):
    values = np.array([3, -4, 0], np.int32)
    x, to = eager.array(values, device), "float64" if device == "cpu:0" else "float32"
    with eager.strict():
        for name in ("hypot", "logaddexp", "logaddexp2"):
            got = getattr(np, name)(x, 4)
            assert got.dtype == to
            np.testing.assert_allclose(got.numpy(), getattr(np, name)(values, 4), rtol=1e-6)


def test_ldexp_takes_integers(device):
    values, by = np.array([1.5, -0.0, 3e-45], np.float32), np.array([3, -2, 100], np.int32)
    x, n = eager.array(values, device), eager.array(by, device)
    with eager.strict():
        for base, exponent, wanted in (
            (x, n, (values, by)),
            (x, -3, (values, -3)),
            (values, n, (values, by)),
        ):
            got = np.ldexp(base, exponent)
            assert got.dtype == "float32"
            np.testing.assert_array_equal(got.numpy(), np.ldexp(*wanted))
    with pytest.raises(TypeError, match="ldexp"):
        np.ldexp(x, x)
    assert np.ldexp(n, n).dtype == ("float64" if device == "cpu:0" else "float32")  # by numpy
    assert [f.device for f in eager.fallbacks()] == [device]
