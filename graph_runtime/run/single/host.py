"""Ops on the host: the inputs are gathered in one batch, numpy computes, and the result is placed back on the
device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceError, DocumentError, InputError
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, Layout
from ...ir.graph import TensorType
from ..tensors import journal
from ..tensors.spec import default_spec, held
from ..tensors.tensor import Tensor
from ..tensors.traffic import record, refuse_hidden
from ..tensors.transfers import gather
from .upload import push


def on_host(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    reason: str,
    error: Exception | None = None,
) -> Any:
    """Result of numpy's ``function`` on the values of its arguments; Arrays in the result are placed on the
    device of the first tensor, except that arrays of strings, complex numbers and objects stay numpy arrays.

    ``reason``: why the device did not do the op; ``error``: the exception behind the reason. Raises the
    errors of journal.refuse. Errors of numpy are due to the caller's arguments and are raised unchanged,
    except that a ValueError becomes an InputError."""
    tensors = tensors_in((*args, *kwargs.values()))
    types = tuple(str(tensor.type) for tensor in tensors)
    device = tensors[0].device
    journal.refuse(name, device, types, reason, error)
    given, named = to_host(args, tensors, kwargs, f"eager.{name}")
    try:
        result = function(*given, **named)
    except ValueError as fault:
        text = f"{name}({', '.join(types)}) on {device}: {fault}"
        raise InputError(text, op=name, device=str(device), got=types) from fault
    except (TypeError, IndexError, ArithmeticError) as fault:
        fault.add_note(f"in {name}({', '.join(types)}) of tensors on {device}")
        raise
    back = _place_back(result, device, tensors[0].layout)
    nbytes = sum(tensor.nbytes for tensor in tensors)
    journal.record(name, device, types, reason, nbytes, back=device if tensors_in((back,)) else "host")
    return back


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors among arguments, each once; those in lists, tuples and dicts are included."""
    found: dict[int, Tensor] = {}
    _find(values, found)
    return list(found.values())


# not a nested function: a nested function that calls itself is a reference cycle, and would keep the tensors
# that it has found
def _find(value: Any, found: dict[int, Tensor]) -> None:
    if isinstance(value, Tensor):
        found.setdefault(id(value), value)
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _find(item, found)


def _swapped(value: Any, arrays: Mapping[int, np.ndarray]) -> Any:
    if isinstance(value, Tensor):
        return arrays[id(value)]
    if type(value) in (list, tuple):
        return type(value)(_swapped(item, arrays) for item in value)
    if type(value) is dict:
        return {key: _swapped(item, arrays) for key, item in value.items()}
    return value


def to_host(
    args: Sequence[Any], tensors: Sequence[Tensor], kwargs: Mapping[str, Any], hidden: str | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) with an array in place of each of ``tensors``, by one gather. ``hidden`` names a
    transfer that the caller did not ask for by name; it raises ImplicitTransferError inside
    no_implicit_transfer()."""
    for tensor in tensors:
        if hidden is not None and tensor.layout.memory != HOST:
            refuse_hidden(tensor, hidden)
            record("implicit", tensor.device, tensor.nbytes)
    arrays = dict(zip(map(id, tensors), gather(tensors), strict=True))
    return (
        [_swapped(value, arrays) for value in args],
        {key: _swapped(value, arrays) for key, value in kwargs.items()},
    )


def _place_back(result: Any, device: Device, like: Layout) -> Any:
    if type(result) in (list, tuple):
        return type(result)(_place_back(item, device, like) for item in result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):  # numpy's named tuples
        return type(result)(*(_place_back(item, device, like) for item in result))
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    try:
        dtype = held(device, dtypes.from_numpy(result.dtype))
    except (DocumentError, DeviceError):
        return result
    array = np.asarray(result, dtypes.to_numpy(dtype))
    return push(array, default_spec(device, TensorType(dtype, array.shape), like))
