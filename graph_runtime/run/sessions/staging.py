"""The arguments of a run: checks of their types, the input that a key names, and copies of host values in
buffers of their own, so that the caller may change an array as soon as submit returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any

from ...base.errors import InputError, did_you_mean
from ...base.machine.devices import cpu
from ...base.machine.layout import Layout, host_layout
from ...ir.graph import Graph, TensorType
from ..device_handles import DeviceHandle, open_device
from ..queues.buffer import Buffer
from ..tensors.lineage import before_write
from ..tensors.tensor import Tensor


def check_kinds(inputs: Any, out: Any, donate: Any) -> None:
    """Raise InputError if an argument of Session.submit has the wrong type."""
    for what, value, kinds, wanted in (
        ("inputs", inputs, Mapping, "a mapping of input names or numbers to values"),
        ("out", out, (Mapping, Sequence, NoneType), "a list of tensors, or output numbers and tensors"),
        ("donate", donate, Collection, "a list of input names or numbers"),
    ):
        if not isinstance(value, kinds):
            raise InputError(f"{what} is {wanted}, got {type(value).__name__}", got=type(value).__name__)


def to_write(out: Mapping[int, Any] | Sequence[Any] | None) -> dict[int, Any]:
    """{output: the tensor to write it to}. Waits for eager results that might have to be made again from the
    present values of these tensors."""
    if out is None:
        return {}
    if not isinstance(out, Mapping):
        out = {index: tensor for index, tensor in enumerate(out) if tensor is not None}
    found = dict(out)
    for tensor in found.values():
        if isinstance(tensor, Tensor):
            before_write(tensor)
    return found


def find_input(key: Any, graph: Graph, holder: str) -> int:
    """The number of the graph input that ``key``, a number or a name, means. If several inputs have the name,
    the last counts, as in TVM. Raises InputError."""
    if isinstance(key, str):
        names = graph.input_names
        if key in names:
            return len(names) - 1 - names[::-1].index(key)
        text = f"{holder} has no input {key!r}{did_you_mean(key, names)}"
        raise InputError(text, got=key, wanted=list(names))
    if isinstance(key, int) and 0 <= key < len(graph.inputs):
        return key
    text = f"there is no input {key!r}: {holder} has {len(graph.inputs)}"
    raise InputError(text, got=key, wanted=len(graph.inputs))


def stage(value: Any, type_: TensorType, what: str) -> Buffer:
    """A Buffer of its own with a host value, so that the caller may change the array at once."""
    return written(open_device(cpu(0)), 0, type_.nbytes, type_, host_layout(type_.dtype), value, what)


def written(
    handle: DeviceHandle,
    memory: int,
    extent: int,
    type_: TensorType,
    layout: Layout,
    value: Any,
    what: str,
    holder: str = "",
) -> Buffer:
    """A new block of a device with the values of a Tensor or of a host value, which errors call ``what``.
    Raises the errors of Buffer.alloc and Tensor.copy_from."""
    buffer = Buffer.alloc(handle, memory, extent, holder or what, for_host=True)
    Tensor(handle.device, handle, type_, layout, buffer.addr, buffer, known=False).copy_from(value, what)
    return buffer
