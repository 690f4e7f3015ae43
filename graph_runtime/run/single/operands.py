"""Operands of an op: tensors as they are, Python scalars as small constants on the device, arrays pushed
there."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, InputError
from ...base.exact import exactly
from ...base.locks import new_lock
from ...base.machine.devices import Device
from ...ir.graph import TensorType
from ..tensors.spec import default_spec
from ..tensors.tensor import Tensor
from .apply import Refused, apply
from .promotion import common
from .upload import push

__all__ = [
    "axes_of",
    "cast",
    "constant_bytes",
    "device_of",
    "dtype_key",
    "dtype_name",
    "on_device",
    "tensor",
    "together",
]

_MOST_CONSTANTS = 1024
_constants: OrderedDict[tuple[Device, str, str], Tensor] = OrderedDict()
_lock = new_lock()
_alive: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # constants and bytes, those held elsewhere, too


def tensor(value: Any) -> Tensor:
    """The value, if it is a tensor. Raises Refused."""
    if not isinstance(value, Tensor):
        raise Refused("the input is no tensor")
    return value


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """An axis, or several, as non-negative numbers in the order given. Raises Refused for what numpy refuses,
    because numpy says best why."""
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    try:
        axes = tuple(a.__index__() for a in given)
    except AttributeError:
        raise Refused("an axis is no integer") from None
    if any(not -ndim <= a < ndim for a in axes) or len({a % ndim for a in axes}) != len(axes):
        raise Refused("an axis is out of range or named twice")
    return tuple(a % ndim for a in axes)


def dtype_name(dtype: Any) -> str:
    """The canonical name of what a caller gave as a dtype. Raises Refused for one that no device holds."""
    try:
        return dtypes.from_numpy(dtype)
    except DocumentError as error:
        raise Refused(f"no device holds {np.dtype(dtype)}") from error


def device_of(name: str, *operands: Any) -> Device:
    """The device of the first tensor among operands. Raises InputError where there is none."""
    for operand in operands:
        if isinstance(operand, Tensor):
            return operand.device
        if isinstance(operand, (list, tuple)):
            for item in operand:
                if isinstance(item, Tensor):
                    return item.device
    raise InputError(
        f"eager.{name} needs a Tensor among its inputs: make one by gr.eager.array(value, device)",
        op=name,
        got=[type(o).__name__ for o in operands],
    )


def dtype_key(operand: Any) -> Any:
    """What promotion needs to know of an operand: its dtype's name, or a Python scalar's type."""
    if isinstance(operand, Tensor):
        return operand.dtype
    if type(operand) in (bool, int, float, complex):
        return type(operand)
    if not isinstance(operand, (np.ndarray, np.generic)):
        operand = np.asarray(operand)
    return dtype_name(operand.dtype)


def together(name: str, *operands: Any, dtype: str | None = None) -> list[Tensor]:
    """The operands as tensors of one dtype, the promoted one or ``dtype``, on the device of the first tensor.
    Raises Refused, InputError."""
    device = device_of(name, *operands)
    if dtype is None:
        dtype = common(device, *map(dtype_key, operands))
    return [on_device(operand, device, dtype) for operand in operands]


def on_device(operand: Any, device: Device, dtype: str) -> Tensor:
    """An operand as a tensor of ``dtype``. A Python scalar that the dtype cannot hold is an OverflowError, a
    value of an array that a dtype of its kind cannot, an InputError."""
    if isinstance(operand, Tensor):
        return operand if operand.dtype == dtype else cast(operand, dtype)
    array, wanted = np.asarray(operand), dtypes.to_numpy(dtype)
    if isinstance(operand, (np.ndarray, np.generic)) and array.dtype.kind == wanted.kind:
        array = exactly(array, wanted, "an operand")
    if array.ndim:
        array = array.astype(wanted, order="C")
        return push(array, default_spec(device, TensorType(dtype, array.shape)))
    if type(operand) is int and dtypes.is_integer(dtype):
        array = np.array(operand, wanted)  # raises OverflowError
    return _constant(array.astype(wanted), device, dtype)


def cast(tensor: Tensor, dtype: str) -> Tensor:
    """The values in another dtype, on the device. Raises Refused."""
    return apply("cast", (("to", dtype),), tensor)


def _constant(value: np.ndarray, device: Device, dtype: str) -> Tensor:
    """A scalar on the device: pushed once, kept while it is used. The bytes are the key: 0.0 is not -0.0."""
    key = (device, dtype, value.tobytes().hex())
    with _lock:
        found = _constants.get(key)
        if found is not None and found.is_allocated:  # a close of the device ends it, too
            _constants.move_to_end(key)
            return found
    spec = default_spec(device, TensorType(dtype, ()))
    made = push(value, spec)
    _alive[made.id] = weakref.ref(made), spec.extent * device.main_memory.banks
    weakref.finalize(made, _alive.pop, made.id, None).atexit = False  # type: ignore[misc]
    with _lock:
        _constants[key] = made
        while len(_constants) > _MOST_CONSTANTS:
            _constants.popitem(last=False)
    return made


def constant_bytes(device: Device) -> int:
    """Bytes of a device's main memory, padding counted, that scalars take which are kept to be used again."""
    held = ((made(), nbytes) for made, nbytes in tuple(_alive.values()))
    return sum(nbytes for t, nbytes in held if t is not None and t.device == device and t.is_allocated)
