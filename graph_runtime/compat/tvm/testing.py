"""tvm.testing: the comparison that deploy scripts use."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["assert_allclose"]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError where shapes differ, or values by more than the tolerance."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)
