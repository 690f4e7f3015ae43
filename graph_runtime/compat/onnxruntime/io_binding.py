"""IOBinding: inputs and outputs that stay bound from run to run of a session."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import InputError, no_such
from ...base.machine.devices import parse
from ...run.concurrent import kept
from ...run.flows.element_array import ElementArray
from ...run.tensors.arrays import array
from .ort_value import OrtValue, on_host, require_dtype

__all__ = ["IOBinding"]


class IOBinding:
    """Inputs and outputs by name, for run_with_iobinding."""

    def __init__(self, session: Any):
        self._session = session
        self._inputs = [port.name for port in session.get_inputs()]
        self._outputs = [port.name for port in session.get_outputs()]
        self._feed: dict[str, Any] = {}
        self._targets: dict[str, Any] = {}  # name -> array or OrtValue to write, or a device's name
        self._found: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Bind an array on the host, which each run reads. As all bind_* methods, it raises InputError for an
        unknown name."""
        _require("input", name, self._inputs)
        self._feed[name] = arr_on_cpu

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory of the caller on the host. Raises InputError for another device."""
        _require("input", name, self._inputs)
        self._feed[name] = _memory(device_type, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a tensor; the tensor stays on its device."""
        _require("input", name, self._inputs)
        self._feed[name] = ortvalue.value

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory of the caller on the host, or let each run make it on a device."""
        _require("output", name, self._outputs)
        if buffer_ptr is None:
            self._targets[name] = f"{device_type}:{device_id}"
        else:
            self._targets[name] = _memory(device_type, element_type, shape or (), buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to a tensor, to which each run writes it."""
        _require("output", name, self._outputs)
        self._targets[name] = ortvalue

    def run(self) -> None:
        """Run the session, and write the outputs where they are bound."""
        session = self._session
        names = list(self._targets)
        with session.results(names, self._feed) as made:
            pairs = zip(names, made, strict=True)
            self._found = [_placed(self._targets[name], value) for name, value in pairs]

    def get_outputs(self) -> list[OrtValue]:
        return self._found

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        return [value.numpy() for value in self._found]

    def synchronize_inputs(self) -> None:
        """Do nothing: a run has ended when it returns."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a run has ended when it returns."""

    def clear_binding_inputs(self) -> None:
        self._feed.clear()

    def clear_binding_outputs(self) -> None:
        self._targets.clear()


def _require(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise InputError(no_such(what, name, known), got=name, wanted=list(known))


def _memory(device_type: str, element_type: Any, shape: Sequence[int], address: int) -> np.ndarray:
    if not on_host(parse(f"{device_type}:0")):
        raise InputError(f"only memory of the host is given by address, not {device_type!r}", got=device_type)
    dtype = np.dtype(element_type)
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype).reshape(tuple(shape))


def _placed(target: Any, value: Any) -> OrtValue:
    if isinstance(target, OrtValue):
        target.update_inplace(value.numpy())
        return target
    if isinstance(target, np.ndarray):
        require_dtype(target, value.dtype, "Unexpected data type of the bound output")
        np.copyto(target, value.numpy())
        return OrtValue(kept(value))
    return OrtValue(kept(value) if isinstance(value, ElementArray) else array(value, target))
