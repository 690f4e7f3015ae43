"""x.pin_memory(), DataLoader(pin_memory=True): memory of the host that the device reads where it is.

A simulated device reads all memory whose alignment fits, so what is pinned has that, and is remembered.
``torch.empty(pin_memory=True)`` asks an allocator in C++ for it, which is there where calls go by C++
(native_calls.py); else torch raises.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch

from ..run.sessions.zero_copy import ALIGNMENT
from .required import TorchDeviceError

__all__ = ["KERNELS", "memory", "pin_memory"]

_pinned: dict[int, int] = {}  # address: bytes, of storages that are alive


def pin_memory(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """aten::_pin_memory of a CPU tensor: a copy in pinned memory, its strides kept where they are dense."""
    _check(device)
    made = torch.empty_like(tensor, device="meta")
    flat = torch.from_numpy(memory(made.numel() * made.element_size())[0]).view(tensor.dtype)
    return flat.as_strided(made.size(), made.stride()).copy_(tensor)


def memory(nbytes: int) -> tuple[np.ndarray, int]:
    """(uint8 [nbytes], aligned, and pinned as long as it lives; its address)."""
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    skipped = -block.ctypes.data % ALIGNMENT
    used = block[skipped : skipped + nbytes]
    address = block.ctypes.data + skipped
    _pinned[address] = nbytes
    weakref.finalize(used, _pinned.pop, address, None).atexit = False
    return used, address


def is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
    """aten::is_pinned of a CPU tensor."""
    _check(device)
    return tensor.untyped_storage().data_ptr() in _pinned


def _check(device: Any) -> None:
    if device is not None and torch.device(device).type != "tt":
        raise TorchDeviceError(f"memory is pinned for tt here, not for {device}", got=str(device))


KERNELS = {"_pin_memory": pin_memory, "is_pinned": is_pinned}
