"""Kernels of resampling: functions from the distance between elements to a weight, over numpy arrays."""

from __future__ import annotations

import numpy as np


def triangle(distance: np.ndarray) -> np.ndarray:
    """Weights of linear interpolation."""
    return np.maximum(1 - np.abs(distance), 0)


def keys(distance: np.ndarray, a: float) -> np.ndarray:
    """Weights of cubic convolution (R. Keys, "Cubic convolution interpolation for digital image processing",
    1981), 0 from a distance of 2 on. ``a``: the slope at distance 1, usually -0.75 or -0.5."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
