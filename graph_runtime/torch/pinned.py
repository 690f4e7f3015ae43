"""x.pin_memory(), DataLoader(pin_memory=True): memory of the host that the device reads in place.

A simulated device reads any memory of sufficient alignment, so pinned memory is aligned, and its addresses
are remembered. ``torch.empty(pin_memory=True)`` needs the allocator of the C++ module (native_calls.py);
without the module torch raises.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch

from ..run.sessions.zero_copy import ALIGNMENT
from .required import TorchDeviceError

_pinned: dict[int, int] = {}  # {address: bytes} of live pinned storages


def pin_memory(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """aten::_pin_memory of a CPU tensor: a copy in pinned memory; dense strides are kept."""
    _check(device)
    made = torch.empty_like(tensor, device="meta")
    flat = torch.from_numpy(memory(made.numel() * made.element_size())[0]).view(tensor.dtype)
    return flat.as_strided(made.size(), made.stride()).copy_(tensor)


def memory(nbytes: int) -> tuple[np.ndarray, int]:
    """(uint8 [nbytes], its address). The memory is aligned, and counts as pinned while the array lives."""
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
