"""Values from the host for ops outside of graphs."""

from __future__ import annotations

import numpy as np

from ..tensors.arrays import allocate
from ..tensors.spec import TensorSpec
from ..tensors.tensor import Tensor

__all__ = ["push"]


def push(array: np.ndarray, to: TensorSpec) -> Tensor:
    """A new tensor with the values of an array of its dtype and shape. Raises DeviceMemoryError."""
    made = allocate(to.type, to.device, to.layout, f"eager {to.type}", for_host=True)
    made.copy_from(array)
    return made
