"""OrtValue over this package's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import InputError
from ...base.machine.devices import Device
from ...base.machine.devices import cpu as host
from ...frontends.onnx import require_onnx
from ...run.flows.element_array import ElementArray, tensor_of
from ...run.tensors.arrays import empty
from ...run.tensors.tensor import Tensor

__all__ = ["OrtValue", "on_host", "require_dtype", "type_text"]


def element_code(dtype: str) -> int:
    """ONNX's number of an element type."""
    from ...frontends.onnx.elements import ELEMENTS
    from ...frontends.onnx.read import DTYPES  # a user with a model has onnx installed

    if dtype in ELEMENTS:
        return ELEMENTS[dtype].code
    return next(code for code, name in DTYPES.items() if name == dtype)


def type_text(dtype: str, sequence: bool = False) -> str:
    """The name of a type in ONNX Runtime, such as tensor(float)."""
    name = require_onnx().TensorProto.DataType.Name(element_code(dtype)).lower()
    return f"seq(tensor({name}))" if sequence else f"tensor({name})"


def require_dtype(value: Any, wanted: str, what: str) -> None:
    """Raise InputError if ``value``, an array or tensor, has another element type than ``wanted``. The text
    begins with ``what``."""
    got = getattr(value, "dtype", wanted)
    if isinstance(got, np.dtype):
        from ...frontends.onnx.elements import STRING

        got = STRING.name if got.kind in "OSUT" else got.name
    if got != wanted:
        text = f"{what}. Actual: ({_said(got)}) , expected: ({_said(wanted)})"
        raise InputError(text, got=got, wanted=wanted)


def _said(dtype: str) -> str:
    """The type_text of a dtype; numpy's name for a dtype that ONNX lacks."""
    try:
        return type_text(dtype)
    except StopIteration:
        return dtype


def on_host(device: Device) -> bool:
    """Whether tensors on the device have an address in the host's memory."""
    return device == host()


class OrtValue:
    """A tensor or a list of tensors, with ONNX Runtime's interface."""

    def __init__(self, value: Tensor | ElementArray | list[Tensor]):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """An OrtValue on a device, with a copy of an array."""
        return OrtValue(tensor_of(np.array(numpy_obj), f"{device_type}:{device_id}"))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """An OrtValue on a device; its values are undefined."""
        return OrtValue(empty(tuple(shape), np.dtype(element_type), f"{device_type}:{device_id}"))

    def numpy(self) -> np.ndarray:
        """The values, as an array. Raises InputError for a sequence."""
        return np.array(self._tensor().numpy())

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Overwrite the values by those of an array of the same type and shape. Raises InputError for other
        arrays."""
        require_dtype(np_arr, self._numbers().dtype, "Unexpected data type of the array")
        self._numbers().copy_from(np_arr)

    def shape(self) -> list[int]:
        return list(self._tensor().shape)

    def data_type(self) -> str:
        found = self._value
        if isinstance(found, list):
            return type_text(found[0].dtype if found else "float32", True)
        return type_text(found.dtype)

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return element_code(self._tensor().dtype)

    def device_name(self) -> str:
        return self._tensor().device.kind

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return not isinstance(self._value, list)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        return False

    def data_ptr(self) -> int:
        """The address of the tensor's first element. Raises InputError for a tensor that is not on the
        host."""
        if not on_host(self._tensor().device):
            raise InputError(f"a tensor on {self._tensor().device} has no address on the host")
        return int(self._tensor().numpy().ctypes.data)

    def __dlpack__(self, **words: Any) -> Any:
        return self._numbers().__dlpack__(**words)

    def __dlpack_device__(self) -> Any:
        return self._numbers().__dlpack_device__()

    @property
    def value(self) -> Tensor | ElementArray | list[Tensor]:
        """The tensor as this package's Tensor or ElementArray, or the list of tensors."""
        return self._value

    def _tensor(self) -> Tensor | ElementArray:
        if isinstance(self._value, list):
            raise InputError("this OrtValue is a sequence of tensors, not a tensor")
        return self._value

    def _numbers(self) -> Tensor:
        made = self._tensor()
        if isinstance(made, ElementArray):
            raise InputError("this OrtValue has texts or elements of few bits, which no tensor holds")
        return made
