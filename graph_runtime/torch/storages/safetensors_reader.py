"""safetensors with device="tt". The reader, written in Rust, knows only torch's own devices by name, but
takes a number for an accelerator. So from the import of safetensors on, names of tt devices are replaced by
numbers."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any

import torch

from ..store import device_of

_PACKAGE = "safetensors"


def _number(device: Any) -> Any:
    """The number of a tt device; any other device unchanged."""
    if isinstance(device, torch.device) or (isinstance(device, str) and device.split(":")[0] == "tt"):
        place = torch.device(device)
        return device_of(place) if place.type == "tt" else device
    return device


def _patch(package: ModuleType) -> None:
    plain = package.safe_open

    class safe_open:
        __doc__ = plain.__doc__

        def __new__(cls, filename: Any, framework: str, device: Any = "cpu", **more: Any) -> Any:
            return plain(filename, framework, device=_number(device), **more)

    for module in (package, sys.modules.get(f"{_PACKAGE}.torch")):
        if module is not None:
            module.safe_open = safe_open  # type: ignore[attr-defined]


class _Finder(importlib.abc.MetaPathFinder):
    """Import finder that patches safetensors once, after its import. The other finders find the module."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _PACKAGE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def patched(module: ModuleType) -> None:
            execute(module)
            _patch(module)

        spec.loader.exec_module = patched  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Patch safetensors now, or when it is imported."""
    if _PACKAGE in sys.modules:
        _patch(sys.modules[_PACKAGE])
    else:
        sys.meta_path.insert(0, _Finder())
