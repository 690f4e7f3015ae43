"""What a run is given: whether it is of the right kind; and host values in buffers of their own, so that the
caller may change his array as soon as submit returns."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any

from .. import core
from ..devices import cpu
from ..errors import InputError
from ..graph import TensorType
from ..layout import Layout, host_layout
from ..queues.buffer import Buffer
from ..tensors.host_values import as_array
from ..tensors.tensor import Tensor

__all__ = ["check_kinds", "stage", "write"]


def check_kinds(inputs: Any, out: Any, donate: Any) -> None:
    """Of what Session.submit is given. Raises InputError."""
    for what, value, kinds, wanted in (
            ("inputs", inputs, Mapping, "a mapping of input numbers to values"),
            ("out", out, (Mapping, Sequence, NoneType), "a list of tensors, or output numbers and tensors"),
            ("donate", donate, Collection, "a list of input numbers")):
        if not isinstance(value, kinds):
            raise InputError(f"{what} is {wanted}, got {type(value).__name__}", got=type(value).__name__)


def stage(value: Any, type_: TensorType, what: str) -> Buffer:
    """A host value in a buffer of its own, so that the caller may change his array at once."""
    array = as_array(value, type_, what)
    staged = Buffer.alloc(core.open_device(cpu(0)), 0, type_.nbytes, what)
    write(staged, type_, host_layout(type_.dtype), array, what)
    return staged


def write(buffer: Buffer, type_: TensorType, layout: Layout, value: Any, what: str) -> None:
    """Fill a fresh buffer now, as soon as nobody reads what it held before."""
    tensor = Tensor(buffer.handle.device, buffer.handle, type_, layout, buffer.addr, buffer)
    tensor.copy_from(value, what)
