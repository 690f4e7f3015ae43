"""gr.runtime: program stitching with tt-mlir's names. The functions are adapters; each docstring names the
function that is called, where the details are documented.

    with rt.open_device("tt:0") as device:
        x = rt.to_layout(rt.create_borrowed_host_tensor(array), device, rt.get_layout(bundle, "encode", 0))
        hidden, = rt.submit(device, bundle, "encode", [x])
        logits, = rt.submit(device, bundle, "decode", [hidden])
        rt.memcpy(out, rt.to_host(logits))

docs/runtime.md has the rules, and the differences to tt-mlir with their reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from ..artifacts.bundles.bundle import Bundle
from ..base.errors import no_attribute
from ..base.machine.devices import Device
from ..base.machine.layout import Layout
from ..run.loading import read_runnable
from ..run.tensors import arrays, host_tensors, transfers
from ..run.tensors.host_tensors import TensorDesc
from ..run.tensors.tensor import Tensor
from ..run.tensors.traffic import Stats, stats
from .stitching.executable import executable, input_layout, unload_program
from .stitching.hooks import (
    Hooks,
    MemoryLog,
    OpContext,
    ProgramContext,
    TensorRef,
    debug_hooks,
    set_memory_log_level,
    unregister_hooks,
)
from .stitching.open_device import MemoryView, OpenDevice, deallocated, opened
from .stitching.submit import submit

__all__ = [
    "Bundle",
    "Hooks",
    "Layout",
    "MemoryLog",
    "MemoryView",
    "OpContext",
    "OpenDevice",
    "ProgramContext",
    "Stats",
    "TensorDesc",
    "TensorRef",
    "close_device",
    "copy",
    "create_borrowed_host_tensor",
    "create_empty_tensor",
    "create_owned_host_tensor",
    "deallocate",
    "debug_hooks",
    "dump_tensor",
    "gather",
    "get_layout",
    "get_op_debug_str",
    "get_op_input_refs",
    "get_op_loc_info",
    "get_op_output_refs",
    "get_retain",
    "get_tensor_desc",
    "get_tensor_layout",
    "has_layout",
    "is_allocated",
    "load_bundle",
    "load_program",
    "load_tensor",
    "memcpy",
    "memory_view",
    "open_device",
    "retrieve_tensor_from_pool",
    "set_memory_log_level",
    "set_retain",
    "stats",
    "submit",
    "to_device",
    "to_host",
    "to_layout",
    "unload_program",
    "unregister_hooks",
    "update_tensor_in_pool",
    "wait",
]

# **************** devices and bundles ****************


def open_device(device: Device | str) -> OpenDevice:
    """Open a device: "tt:0", "tt:1=n150". Raises DeviceError."""
    return OpenDevice(device)


def close_device(device: OpenDevice) -> None:
    """Close a device: end all tensors on it, however they were made, and unload its programs
    (OpenDevice.close). Raises DeviceError for a closed device."""
    opened(device).close()


def memory_view(device: OpenDevice) -> Mapping[str, MemoryView]:
    """{name of a memory: MemoryView} of a device, with every block and its holder."""
    return opened(device).memory_view()


def load_bundle(path: str | PathLike[str], libraries: bool = True, rebuild: bool = False) -> Bundle:
    """Read a bundle's index and check its hashes (factory.read_runnable). The bundle's programs are loaded
    when they are first submitted. ``libraries`` and ``rebuild`` are those of gr.load."""
    return read_runnable(path, libraries, rebuild)


def load_program(
    device: OpenDevice, bundle: Bundle, program: str | int | None = None, *, max_in_flight: int | None = None
) -> None:
    """Load a program and its parameters now instead of at the first submit. ``max_in_flight`` (8): most
    submissions of the program that hold memory at once; a further submission waits for the oldest."""
    executable(device, bundle, program, max_in_flight)


# **************** tensors ****************


def create_owned_host_tensor(value: Any, dtype: str | None = None) -> Tensor:
    """A dense copy of values on the host (host_tensors.owned)."""
    return host_tensors.owned(value, dtype)


def create_borrowed_host_tensor(value: Any) -> Tensor:
    """A tensor over the caller's array, which is not copied, and is kept alive (arrays.borrow)."""
    return arrays.borrow(value)


def create_empty_tensor(
    shape: int | Sequence[int],
    dtype: str = "float32",
    device: OpenDevice | None = None,
    layout: Layout | None = None,
) -> Tensor:
    """A tensor with undefined values, on the host if no device is given (arrays.empty)."""
    if device is None:
        return arrays.empty(shape, dtype, layout=layout)
    return opened(device).adopt(arrays.empty(shape, dtype, opened(device).alive().device, layout))


def get_tensor_desc(tensor: Tensor) -> TensorDesc:
    """The shape, dtype, strides and volumes of a tensor."""
    return host_tensors.describe(transfers.checked(tensor))


def get_tensor_layout(tensor: Tensor) -> Layout:
    """The memory, layout and format in which a tensor is stored."""
    return transfers.checked(tensor).layout


def is_allocated(tensor: Tensor) -> bool:
    """Whether the handle still refers to memory."""
    return transfers.checked(tensor).is_allocated


def set_retain(tensor: Tensor, retain: bool) -> None:
    """Set whether a tensor is retained, that is, never deallocated or donated."""
    transfers.checked(tensor).retain = retain


def get_retain(tensor: Tensor) -> bool:
    """Whether a tensor is retained."""
    return transfers.checked(tensor).retain


def deallocate(tensor: Tensor, device: OpenDevice | bool | None = None, force: bool = False) -> bool:
    """Release a handle and its memory (Tensor.deallocate). ``device``, an argument in #671, must be the
    tensor's device; True or False in its place is ``force``, as in tt-mlir. Raises DeviceError for another
    device."""
    return deallocated(transfers.checked(tensor), device, force)


def dump_tensor(tensor: Tensor, path: str | PathLike[str]) -> None:
    """Write a tensor's values, device and layout to a file (host_tensors.dump)."""
    host_tensors.dump(transfers.checked(tensor), path)


def load_tensor(path: str | PathLike[str], device: OpenDevice | None = None) -> Tensor:
    """Read a tensor from a file, onto the host if no device is given (host_tensors.load)."""
    if device is None:
        return host_tensors.load(path)
    return opened(device).adopt(host_tensors.load(path, opened(device).alive().device))


# **************** movement ****************


def to_device(tensor: Tensor, device: OpenDevice, layout: Layout | str | None = None) -> Tensor:
    """A handle on the values on a device; the source remains (transfers.to)."""
    return opened(device).adopt(transfers.to(tensor, opened(device).alive().device, layout))


def to_layout(tensor: Tensor, device: OpenDevice, layout: Layout | str, retain: bool | None = None) -> Tensor:
    """A handle on the values in another layout; the source remains unless ``retain`` is False
    (transfers.to_layout)."""
    return opened(device).adopt(transfers.to_layout(tensor, opened(device).alive().device, layout, retain))


def to_host(tensor: Tensor, blocking: bool = True) -> Tensor:
    """A row-major tensor on the host; the device's tensor remains. If not ``blocking``, wait() on the result
    waits for the copy."""
    made = transfers.to(tensor, "cpu:0")
    return made.wait() if blocking else made


def copy(target: Tensor, source: Tensor) -> None:
    """Queue a copy into an existing tensor, which runs after all queued work that uses that tensor
    (transfers.copy_into)."""
    transfers.copy_into(target, source)


def gather(tensors: Iterable[Tensor]) -> list[np.ndarray]:
    """The values of several tensors, copied in one submission per device (transfers.gather)."""
    return transfers.gather(tensors)


def memcpy(target: Any, source: Tensor, dtype: str | None = None) -> None:
    """Copy values into a Tensor or writable host memory, and wait for the copy (host_tensors.memcpy)."""
    host_tensors.memcpy(target, source, dtype)


def wait(tensors: Tensor | Iterable[Tensor], timeout: float | None = None) -> None:
    """Wait for a tensor, or for all of several tensors (transfers.wait_all)."""
    transfers.wait_all([tensors] if isinstance(tensors, Tensor) else tensors, timeout)


# **************** layouts of programs ****************


def get_layout(bundle: Bundle, program: str | int | None, input: int | str) -> Layout:
    """The layout that a program needs for an input (executable.input_layout)."""
    return input_layout(bundle, program, input)


def has_layout(tensor: Tensor, layout: Layout) -> bool:
    """Whether a tensor is stored in a layout."""
    return transfers.checked(tensor).layout == layout


# **************** inside of hooks ****************


def get_op_debug_str(op: OpContext) -> str:
    """A description of the op in one line."""
    return op.debug_str


def get_op_loc_info(op: OpContext) -> str:
    """The name of the op's node."""
    return op.node


def get_op_input_refs(op: OpContext) -> tuple[TensorRef, ...]:
    """The entries that the op reads."""
    return op.inputs


def get_op_output_refs(op: OpContext) -> tuple[TensorRef, ...]:
    """The entries that the op writes."""
    return op.outputs


def retrieve_tensor_from_pool(op: OpContext, ref: TensorRef) -> Tensor:
    """A copy on the host of an entry that the op reads or wrote."""
    return op.tensor(ref)


def update_tensor_in_pool(op: OpContext, ref: TensorRef, value: Any) -> None:
    """Overwrite an entry that the op reads or wrote."""
    op.update(ref, value)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
