"""Modules without parameters: where ``.to(device)`` put them is remembered, and they run there.

A loss that was told ``.to("cpu")`` gathers its inputs from wherever they live; gradients go back there by
themselves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["register"]

_HOME = "_graph_runtime_home"
_plain_to, _plain_cpu = nn.Module.to, nn.Module.cpu


def _gathered(x: Any, home: torch.device) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to(home) if x.device.type in ("tt", "cpu") and x.device != home else x
    if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
        return type(x)(_gathered(item, home) for item in x)
    return x


def _gather(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    home = getattr(module, _HOME)
    return _gathered(args, home), {key: _gathered(value, home) for key, value in kwargs.items()}


def _settle(module: nn.Module, device: torch.device | None) -> nn.Module:
    """Remember the home of a module that has nothing to move; forget it where it has."""
    if device is None or device.type not in ("cpu", "tt"):
        return module
    empty = next(module.parameters(), None) is None and next(module.buffers(), None) is None
    if empty and not hasattr(module, _HOME):
        module.register_forward_pre_hook(_gather, with_kwargs=True)
    if empty:
        home = (
            torch.device("tt", torch.tt.current_device())
            if device.type == "tt" and device.index is None
            else device
        )
        object.__setattr__(module, _HOME, home)
    return module


def _to(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    return _settle(_plain_to(self, *args, **kwargs), torch._C._nn._parse_to(*args, **kwargs)[0])


def _cpu(self: nn.Module) -> nn.Module:
    return _settle(_plain_cpu(self), torch.device("cpu"))


def register() -> None:
    """Let nn.Module.to and nn.Module.cpu remember."""
    _to.__doc__, _cpu.__doc__ = _plain_to.__doc__, _plain_cpu.__doc__
    nn.Module.to, nn.Module.cpu = _to, _cpu
