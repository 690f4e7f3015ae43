"""DLPack: tensors as capsules for other libraries, and other libraries' memory as arrays.

numpy makes and reads the capsules. They are versioned, have the flag of read-only memory, and their deleter
drops the reference to the tensor's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import InputError, KernelError
from ...base.machine.layout import HOST

HOST_DEVICE = (1, 0)  # kDLCPU


def export(
    tensor: Any,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule of host memory, versioned if ``max_version`` allows that. Waits for the values.

    A tensor in a device's own memory is copied if ``dl_device`` (1, 0) or ``copy`` asks for it. A constant is
    always copied, for consumers that ignore the read-only flag. Raises BufferError for an impossible export.
    """
    if stream is not None:
        raise BufferError(f"host memory has no streams, got stream={stream!r}: pass None")
    to_host = dl_device is not None and tuple(dl_device) == HOST_DEVICE
    if dl_device is not None and not to_host and tuple(dl_device) != tensor.__dlpack_device__():
        raise BufferError(f"{tensor!r} cannot be exported to device {dl_device}: only to {HOST_DEVICE}")
    on_host = tensor.layout.memory == HOST
    if not on_host and (copy is False or not (copy or to_host)):
        raise BufferError(
            f"a tensor on {tensor.device} has no host address: call numpy(), or pass "
            "dl_device=(1, 0), for a copy"
        )
    if tensor.readonly and copy is False:
        raise BufferError("a constant is exported as a copy only: leave copy=False away")
    array = tensor.__array__(copy=False) if on_host and not copy and not tensor.readonly else tensor.numpy()
    return array.__dlpack__() if max_version is None else array.__dlpack__(max_version=max_version)


def viewed(value: Any) -> np.ndarray:
    """The memory of a numpy array, a DLPack owner or an object with the buffer protocol, as an array that
    keeps the object alive. Raises InputError for a value without memory of its own."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(memoryview(value))
    except KernelError:  # the work that should have made the value failed
        raise
    except (TypeError, BufferError, RuntimeError) as error:
        raise InputError(
            f"a {type(value).__name__} has no host memory to borrow ({error}): give an array "
            "or a DLPack owner",
            got=type(value).__name__,
        ) from None
