"""get_fallback_function: an operation on whatever tensors there are. ttnn computes it by torch; here the
device does, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..devices.mesh_device import MeshDevice
from ..devices.opening import GetDefaultDevice
from ..golden.functions import get_golden_function
from ..memory.values import Layout
from ..tensors.tensor import Tensor
from .movement.layouts import to_layout
from .movement.moves import from_device, to_device
from .operation import Operation

__all__ = ["get_fallback_function"]


def get_fallback_function(operation: Operation) -> Callable[..., Any]:
    """The operation itself, which takes tensors of the host and of any layout, too: results have the first
    tensor's layout and place. Raises RuntimeError where the operation has no golden function, as ttnn's."""
    get_golden_function(operation)

    def fallback(*args: Any, **given: Any) -> Any:
        tensors = [x for x in (*args, *given.values()) if isinstance(x, Tensor)]
        on_host = bool(tensors) and tensors[0]._device is None
        if not on_host:
            return operation(*args, **given)
        device = GetDefaultDevice() or MeshDevice(0)
        moved = [_tiled(x, device) for x in args]
        made = operation(*moved, **{key: _tiled(x, device) for key, x in given.items()})
        return _back(made, tensors[0].layout)

    return fallback


def _tiled(value: Any, device: MeshDevice) -> Any:
    if not isinstance(value, Tensor) or value._device is not None:
        return value
    return to_layout(to_device(value, device), Layout.TILE)


def _back(made: Any, layout: Layout) -> Any:
    if isinstance(made, (list, tuple)):
        return type(made)(_back(one, layout) for one in made)
    return to_layout(from_device(made), layout)
