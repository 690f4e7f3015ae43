"""Gradients on all devices: backward passes run in the thread that asks for them.

Autograd starts one thread for each device that its C++ guard counts. A guard written in Python counts one
device, so tt:1 would have no thread. A backward pass that runs in the calling thread needs no count. Devices
have queues already, so a thread per device would only add hand-overs.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


class Guard(torch._C._acc.DeviceGuard):
    """torch's device guard for tt. device_module.py keeps the current device."""

    def type_(self) -> Any:
        """The device type."""
        return torch._C._autograd.DeviceType.PrivateUse1


def register() -> None:
    """Make every backward() and grad() of torch run in the calling thread."""
    plain = torch.autograd.graph._engine_run_backward

    @functools.wraps(plain)
    def in_this_thread(*args: Any, **kwargs: Any) -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return plain(*args, **kwargs)

    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = in_this_thread
