"""Gradients flow on all devices: backward passes run in the thread that asks for them.

Autograd has a thread for each device that a guard of torch's C++ side counts, and a guard written in Python
counts one, so on tt:1 there would be no thread. Without threads of its own nothing is counted, and the device
has queues already: a thread per device would add nothing but hand-overs.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["Guard", "register"]


class Guard(torch._C._acc.DeviceGuard):
    """torch's guard of the device: which one is the current one is Python's business (device_module.py)."""

    def type_(self) -> Any:
        """The device type."""
        return torch._C._autograd.DeviceType.PrivateUse1


def register() -> None:
    """Let what every backward() and grad() of torch calls go through the graph in the calling thread."""
    plain = torch.autograd.graph._engine_run_backward

    @functools.wraps(plain)
    def in_this_thread(*args: Any, **kwargs: Any) -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return plain(*args, **kwargs)

    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = in_this_thread
