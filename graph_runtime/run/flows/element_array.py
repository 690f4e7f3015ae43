"""ElementArray: what a flow gives for texts and small elements, of which there are no tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.machine.devices import Device
from ...base.machine.devices import cpu as host
from ...frontends.onnx.elements import ELEMENTS, element_name
from ..tensors.arrays import array as tensor_array
from ..tensors.tensor import Tensor

__all__ = ["ElementArray", "tensor_of"]


@dataclass(frozen=True, eq=False)
class ElementArray:
    """An array on the host: of str as objects, or of a dtype of ml_dtypes. It is its owner's."""

    array: np.ndarray

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on {self.device}>"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> str:
        """The name of its element type, as "string"."""
        return element_name(self.array.dtype)

    @property
    def device(self) -> Device:
        return host()

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def numpy(self) -> np.ndarray:
        """The array itself."""
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype, copy=copy)


def tensor_of(array: np.ndarray, device: Any = None) -> Tensor | ElementArray:
    """A Tensor with an array's values, an ElementArray where there are no tensors of its elements."""
    if element_name(array.dtype) in ELEMENTS:
        return ElementArray(np.asarray(array))
    return tensor_array(array) if device is None else tensor_array(array, device)
