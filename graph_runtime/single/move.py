"""Values to and from the host for ops outside of graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..bind import Region
from ..tensor import Tensor
from .place import Place

__all__ = ["gather", "push"]


def gather(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """Copies of the values, in one batch."""
    return [tensor.numpy() for tensor in tensors]


def push(array: np.ndarray, to: Place) -> Tensor:
    """A new tensor with the values of an array of its dtype and shape. Raises DeviceMemoryError."""
    region = Region(to.handle, to.memory, to.extent, f"eager {to.type}")
    made = Tensor(to.device, to.handle, to.type, to.layout, region.addr, region)
    made.copy_from(array)
    return made
