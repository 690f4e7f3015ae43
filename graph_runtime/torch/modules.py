"""Moving modules: parameters remain the same objects, so that optimizers made before the move keep working.

A module without parameters remembers its last ``.to(device)`` and runs there: a loss that was moved by
``.to("cpu")`` fetches its inputs from any device, and autograd sends the gradients back.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .required import TorchDeviceError
from .store import device_of, torch_device

_HOME = "_graph_runtime_home"
_plain_to, _plain_cpu = nn.Module.to, nn.Module.cpu
_plain_parallel = nn.DataParallel.__init__


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
    """Remember the device of a module without parameters, and of all its parts that have a remembered
    device."""
    if device is None or device.type not in ("cpu", "tt"):
        return module
    home = torch.device("tt", device_of(device)) if device.type == "tt" else device
    empty = next(module.parameters(), None) is None and next(module.buffers(), None) is None
    if empty and not hasattr(module, _HOME):
        module.register_forward_pre_hook(_gather, with_kwargs=True)
        object.__setattr__(module, _HOME, home)
    for part in module.modules():  # parts that remember a device get the new device
        if hasattr(part, _HOME):
            object.__setattr__(part, _HOME, home)
    return module


def _moved(module: nn.Module, move: Callable[[], nn.Module]) -> nn.Module:
    """Move a module by swapping the contents of its parameters. torch cannot swap a parameter that another
    object holds (for example a live graph of autograd): then the module gets new parameters, and a warning
    says so."""
    future = torch.__future__
    before = future.get_swap_module_params_on_conversion()
    lazy = [(x, type(x)) for x in (*module.parameters(), *module.buffers()) if nn.parameter.is_lazy(x)]
    try:
        future.set_swap_module_params_on_conversion(True)
        made = move()
        for held, kind in lazy:  # the swap exchanges classes, too; lazy parameters still wait for shapes
            held.__class__ = kind
        return made
    except RuntimeError as error:
        if "swap" not in str(error):
            raise
        future.set_swap_module_params_on_conversion(False)
        warnings.warn(
            "the parameters of this module are in use elsewhere (the result of a forward pass is still "
            "alive, say), so it gets new ones: optimizers that were made before step the old ones, make "
            "them anew",
            stacklevel=3,
        )
        return move()
    finally:
        future.set_swap_module_params_on_conversion(before)


def _about_tt(module: nn.Module, device: torch.device | None) -> bool:
    """Whether a move goes to tt, or moves something that is on tt."""
    if device is not None and device.type == "tt":
        return True
    return any(t.device.type == "tt" for t in (*module.parameters(), *module.buffers()))


def _to(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    device = torch._C._nn._parse_to(*args, **kwargs)[0]
    if not _about_tt(self, device):
        return _settle(_plain_to(self, *args, **kwargs), device)
    return _settle(_moved(self, lambda: _plain_to(self, *args, **kwargs)), device)


def _cpu(self: nn.Module) -> nn.Module:
    return self.to("cpu")


def _tt(self: nn.Module, device: Any = None) -> nn.Module:
    """Move all parameters and buffers to the tt device of the given number, by default the current one."""
    return self.to(torch_device(device_of(device)))


def _in_parallel(self: nn.DataParallel, module: nn.Module, *args: Any, **more: Any) -> None:
    """nn.DataParallel.__init__. Without another accelerator the module runs unchanged, because torch splits
    batches over CUDA devices only. Raises TorchDeviceError for a module on tt."""
    if torch._utils._get_available_device_type() != "tt":
        _plain_parallel(self, module, *args, **more)
        return
    if _about_tt(module, None):
        raise TorchDeviceError(
            "nn.DataParallel splits batches over devices of CUDA: over those of tt use "
            'torch.nn.parallel.DistributedDataParallel, with init_process_group("tt") (docs/torch.md)'
        )
    nn.Module.__init__(self)
    self.module, self.device_ids = module, []


def register() -> None:
    """Replace nn.Module.to, cpu and tt, and nn.DataParallel.__init__."""
    nn.DataParallel.__init__ = _in_parallel
    _to.__doc__, _cpu.__doc__ = _plain_to.__doc__, _plain_cpu.__doc__
    nn.Module.to, nn.Module.cpu, nn.Module.tt = _to, _cpu, _tt
