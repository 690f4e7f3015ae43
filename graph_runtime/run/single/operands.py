"""Operands of an op, and the dtype in which it computes.

Tensors are used as they are, Python scalars become small constants on the device, arrays are copied to the
device. The dtype follows numpy's rule (NEP 50). For two tensors or arrays it is numpy.result_type; bfloat16
with an integer or bool gives bfloat16, and with float16 float32. A Python scalar is weak and takes the
tensor's dtype, unless the scalar's kind is higher (int tensor + 1.5). A device that lacks the resulting dtype
computes in another: in the 32-bit dtype of the same kind in place of a 64-bit dtype, and in float32 in place
of float16 (tt)."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from functools import cache
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, InputError
from ...base.exact import exactly
from ...base.locks import new_lock
from ...base.machine.devices import Device
from ...ir.graph import TensorType
from ..tensors.spec import default_spec, held
from ..tensors.tensor import Tensor
from .apply import Refused, apply
from .upload import push

_MOST_CONSTANTS = 1024
_constants: OrderedDict[tuple[Device, str, str], Tensor] = OrderedDict()
_lock = new_lock()
_alive: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # also the tensors dropped from _constants


def tensor(value: Any) -> Tensor:
    """The value, if it is a tensor. Raises Refused otherwise."""
    if not isinstance(value, Tensor):
        raise Refused("the input is no tensor")
    return value


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """An axis, or several axes, as non-negative numbers in the given order. Raises Refused if numpy would
    raise, because numpy's own error then explains it best."""
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    try:
        axes = tuple(a.__index__() for a in given)
    except AttributeError:
        raise Refused("an axis is no integer") from None
    if any(not -ndim <= a < ndim for a in axes) or len({a % ndim for a in axes}) != len(axes):
        raise Refused("an axis is out of range or named twice")
    return tuple(a % ndim for a in axes)


def dtype_name(dtype: Any) -> str:
    """The canonical name of a caller's dtype. Raises Refused if no device holds it."""
    try:
        return dtypes.from_numpy(dtype)
    except DocumentError as error:
        raise Refused(f"no device holds {np.dtype(dtype)}") from error


def device_of(name: str, *operands: Any) -> Device:
    """The device of the first tensor among operands. Raises InputError if there is no tensor."""
    for operand in operands:
        if isinstance(operand, Tensor):
            return operand.device
        if isinstance(operand, (list, tuple)):
            for item in operand:
                if isinstance(item, Tensor):
                    return item.device
    text = f"eager.{name} needs a Tensor among its inputs: make one by gr.eager.array(value, device)"
    raise InputError(text, op=name, got=[type(o).__name__ for o in operands])


def dtype_key(operand: Any) -> Any:
    """An operand's key for promotion: the name of its dtype, or the type of a Python scalar."""
    if isinstance(operand, Tensor):
        return operand.dtype
    if type(operand) in (bool, int, float, complex):
        return type(operand)
    if not isinstance(operand, (np.ndarray, np.generic)):
        operand = np.asarray(operand)
    return dtype_name(operand.dtype)


def together(name: str, *operands: Any, dtype: str | None = None) -> list[Tensor]:
    """The operands as tensors of one dtype, ``dtype`` or by default the promoted one, on the device of the
    first tensor. Raises Refused, InputError."""
    device = device_of(name, *operands)
    if dtype is None:
        dtype = common(device, *map(dtype_key, operands))
    return [on_device(operand, device, dtype) for operand in operands]


def on_device(operand: Any, device: Device, dtype: str) -> Tensor:
    """An operand as a tensor of ``dtype``. Raises OverflowError for a Python scalar that the dtype cannot
    hold, InputError for an array's element that the dtype, if it is of the array's kind, cannot hold."""
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
    """The tensor's values in another dtype, on the device. Raises Refused."""
    return apply("cast", (("to", dtype),), tensor)


def _constant(value: np.ndarray, device: Device, dtype: str) -> Tensor:
    """A scalar on the device, which is copied there once and kept for later uses. The key has the scalar's
    bytes, because 0.0 is not -0.0."""
    key = (device, dtype, value.tobytes().hex())
    with _lock:
        found = _constants.get(key)
        if found is not None and found.is_allocated:  # otherwise the device was closed meanwhile
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
    """Bytes of a device's main memory, with padding, that scalars kept for reuse take."""
    held = ((made(), nbytes) for made, nbytes in tuple(_alive.values()))
    return sum(nbytes for t, nbytes in held if t is not None and t.device == device and t.is_allocated)


_WEAK = {bool: True, int: 1, float: 1.0, complex: 1j}


def common(device: Device, *operands: Any) -> str:
    """The dtype of an op on operands: dtype names, or the types bool, int, float, complex for Python scalars.
    Raises Refused if the device has no such dtype."""
    return _held(device, numpy_result(operands))


def floating(device: Device, dtype: str) -> str:
    """The dtype in which a float function of ``dtype`` values computes; for integers numpy takes float64."""
    own = dtypes.format_of(dtype)
    if own is not None and own.kind != "float":
        dtype = "float64"
    return _held(device, np.dtype(dtypes.to_numpy(dtype)))


def _held(device: Device, dtype: np.dtype) -> str:
    if dtype.kind not in "biufV":
        raise Refused(f"no device computes with {dtype.name}")
    return held(device, dtypes.from_numpy(dtype))


@cache
def numpy_result(operands: tuple[Any, ...]) -> np.dtype:
    """numpy.result_type of dtype names and of the types of Python scalars, which are weak. Raises TypeError
    if numpy knows no common dtype."""
    strong = [dtypes.to_numpy(o) for o in operands if isinstance(o, str)]
    weak = [_WEAK[o] for o in operands if not isinstance(o, str)]
    narrow = dtypes.to_numpy("bfloat16")
    if narrow in strong:
        rest = [d for d in strong if d != narrow and d.kind not in "biu"]
        if any(isinstance(w, complex) for w in weak):
            return np.result_type(np.float32, *weak)
        if not rest:
            return narrow
        strong = [np.dtype(np.float32), *rest]
    return np.result_type(*strong, *weak)
