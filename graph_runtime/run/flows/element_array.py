"""ElementArray: a flow's value of strings or small elements, which a Tensor cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.machine.devices import Device
from ...base.machine.devices import cpu as host
from ...frontends.onnx.elements import ELEMENTS, element_name
from ..tensors.arrays import array as tensor_array
from ..tensors.tensor import Tensor


@dataclass(frozen=True, eq=False)
class ElementArray:
    """An array on the host, owned by this value, whose elements are str objects or have a dtype of
    ml_dtypes."""

    array: np.ndarray

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on {self.device}>"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> str:
        """The name of the element type, for example "string"."""
        return element_name(self.array.dtype)

    @property
    def device(self) -> Device:
        return host()

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def numpy(self) -> np.ndarray:
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype, copy=copy)


def tensor_of(array: np.ndarray, device: Any = None) -> Tensor | ElementArray:
    """A Tensor with an array's values, or an ElementArray if a Tensor cannot hold elements of the array's
    dtype."""
    if element_name(array.dtype) in ELEMENTS:
        return ElementArray(np.asarray(array))
    return tensor_array(array) if device is None else tensor_array(array, device)
