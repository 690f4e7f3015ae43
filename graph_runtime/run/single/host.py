"""The way over the host: inputs gathered in one batch, numpy's own function, the result placed back."""

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

__all__ = ["on_host", "tensors_in", "to_host"]


def on_host(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    reason: str,
    error: Exception | None = None,
) -> Any:
    """numpy's ``function`` on the values of its arguments; arrays that it returns are placed on the device of
    the first tensor among them, others (strings, complex numbers, objects) stay numpy's.

    ``reason`` says why the device did not do it, ``error`` is the exception behind that. Raises what
    journal.refuse raises. What numpy raises is the caller's mistake and raised as it
    is, a ValueError as InputError.
    """
    tensors = tensors_in((*args, *kwargs.values()))
    types = tuple(str(tensor.type) for tensor in tensors)
    device = tensors[0].device
    journal.refuse(name, device, types, reason, error)
    result = _call(name, function, to_host(args, tensors, kwargs, f"eager.{name}"), types, device)
    back = _place_back(result, device, tensors[0].layout)
    nbytes = sum(tensor.nbytes for tensor in tensors)
    journal.record(name, device, types, reason, nbytes, back=device if tensors_in((back,)) else "host")
    return back


def _call(
    name: str,
    function: Callable[..., Any],
    given: tuple[list[Any], dict[str, Any]],
    types: tuple[str, ...],
    device: Device,
) -> Any:
    try:
        return function(*given[0], **given[1])
    except ValueError as error:
        raise InputError(
            f"{name}({', '.join(types)}) on {device}: {error}", op=name, device=str(device), got=types
        ) from error
    except (TypeError, IndexError, ArithmeticError) as error:
        error.add_note(f"in {name}({', '.join(types)}) of tensors on {device}")
        raise


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors among arguments, nested in lists, tuples and dicts too, each once."""
    found: dict[int, Tensor] = {}
    _find(values, found)
    return list(found.values())


# functions of their own: a nested one that calls itself is a ring, and keeps what it has found
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
    """args and kwargs with an array in place of each of ``tensors``: one gather for all of them, which
    ``hidden`` asked for without saying so: ImplicitTransferError where that is forbidden."""
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
