"""Copying of host values to a device, for ops outside of graphs."""

from __future__ import annotations

import numpy as np

from ...base import dtypes
from ...base.exact import exactly
from ..tensors.arrays import allocate
from ..tensors.spec import TensorSpec
from ..tensors.tensor import Tensor


def push(array: np.ndarray, to: TensorSpec) -> Tensor:
    """A new tensor of the spec ``to`` with the values of an array of the same shape. Raises InputError for a
    value that the tensor's dtype does not hold, DeviceMemoryError."""
    array = exactly(array, dtypes.to_numpy(to.type.dtype), "the value")
    made = allocate(to.type, to.device, to.layout, f"eager {to.type}", for_host=True)
    made._spec = to
    made.copy_from(array)
    return made
