"""What a run is given: whether it is of the right kind, which input is meant; and host values in buffers of
their own, so that the caller may change his array as soon as submit returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any

from ...base.errors import InputError, did_you_mean, no_such
from ...base.machine.devices import cpu
from ...base.machine.layout import Layout, host_layout
from ...ir.graph import Graph, TensorType
from ..device_handles import DeviceHandle, open_device
from ..queues.buffer import Buffer
from ..tensors.lineage import before_write
from ..tensors.tensor import Tensor

__all__ = ["check_kinds", "find_input", "most_in_flight", "require_queues", "stage", "written"]


def check_kinds(inputs: Any, out: Any, donate: Any) -> None:
    """Of what Session.submit is given. Raises InputError."""
    for what, value, kinds, wanted in (
        ("inputs", inputs, Mapping, "a mapping of input names or numbers to values"),
        ("out", out, (Mapping, Sequence, NoneType), "a list of tensors, or output numbers and tensors"),
        ("donate", donate, Collection, "a list of input names or numbers"),
    ):
        if not isinstance(value, kinds):
            raise InputError(f"{what} is {wanted}, got {type(value).__name__}", got=type(value).__name__)


def to_write(out: Mapping[int, Any] | Sequence[Any] | None) -> dict[int, Any]:
    """{output: the tensor that it will be written to}. What eager ops made of those tensors, and may have to
    make again, is waited for."""
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
    """The graph input of a number, or of a name (the last one of that name, as in TVM). Raises InputError."""
    if isinstance(key, str):
        names = graph.input_names
        if key in names:
            return len(names) - 1 - names[::-1].index(key)
        raise InputError(
            f"{holder} has no input {key!r}{did_you_mean(key, names)}", got=key, wanted=list(names)
        )
    if isinstance(key, int) and 0 <= key < len(graph.inputs):
        return key
    raise InputError(
        f"there is no input {key!r}: {holder} has {len(graph.inputs)}", got=key, wanted=len(graph.inputs)
    )


def most_in_flight(count: Any) -> int:
    """A caller's ``max_in_flight``. Raises InputError for what is no number of runs, 1 or more."""
    if isinstance(count, int) and not isinstance(count, bool) and count >= 1:
        return count
    raise InputError(
        f"max_in_flight is how many runs may be queued at once, 1 or more, got {count!r}", got=count
    )


def require_queues(queues: str) -> bool:
    """Whether runs use the devices' queues. Raises InputError for a word that says neither."""
    if queues not in ("inline", "threads"):
        raise InputError(no_such("kind of queues", queues, ("inline", "threads")), got=queues)
    return queues == "threads"


def stage(value: Any, type_: TensorType, what: str) -> Buffer:
    """A host value in a buffer of its own, so that the caller may change his array at once."""
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
    """A host value, or a Tensor's, called ``what`` in errors, in a new block of a device. Raises as
    Buffer.alloc and Tensor.copy_from."""
    buffer = Buffer.alloc(handle, memory, extent, holder or what, for_host=True)
    Tensor(handle.device, handle, type_, layout, buffer.addr, buffer, known=False).copy_from(value, what)
    return buffer
