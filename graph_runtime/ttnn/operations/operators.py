"""The constructor and Python's operators of tensors, and small functions of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices.mesh_device import MeshDevice
from ..devices.opening import GetDefaultDevice
from ..errors import Unsupported
from ..golden.functions import get_golden_function
from ..memory.configs import MemoryConfig
from ..memory.cores import CoreGrid
from ..memory.values import DataType, Layout, StorageType
from ..registry import OPERATIONS
from ..tensors.specs import TensorSpec
from ..tensors.tensor import Tensor
from .creation.conversion import as_numpy, as_torch, build
from .creation.filled import empty
from .movement.layouts import to_layout
from .movement.moves import from_device, to_device
from .movement.parts import getitem
from .operation import Operation

__all__ = [
    "allocate_tensor_on_device",
    "allocate_tensor_on_host",
    "get_fallback_function",
    "get_memory_config",
    "get_optimal_core_grid",
    "has_storage_type_of",
    "has_tile_padding",
    "is_sharded",
    "is_tensor_storage_on_device",
    "num_cores",
    "pearson_correlation_coefficient",
    "query_registered_operations",
]


def construct(tensor: Any = None, *args: Any, **given: Any) -> Tensor:
    """A Tensor by the arguments of its constructor. They are (data, shape, data_type, layout, device,
    memory_config, tile, pad_value) for a list, (tensor, data_type, device, layout, mem_config, tile) for an
    array, or (other) for a tensor."""
    if tensor is None:
        tensor = given.pop("data", given.pop("buffer", None))
    if isinstance(tensor, Tensor):
        made = Tensor.of(
            tensor._handle, tensor.dtype, tensor.layout, tensor._config, tensor._device, tensor._padding
        )
        made.tile = tensor.tile
        return made
    if isinstance(tensor, list):
        return _of_list(tensor, *args, **given)
    return _of_array(tensor, *args, **given)


def _of_list(
    data: list[Any],
    shape: Any,
    data_type: DataType,
    layout: Layout = Layout.ROW_MAJOR,
    device: Any = None,
    memory_config: Any = None,
    tile: Any = None,
    pad_value: float = 0,
) -> Tensor:
    values = np.asarray(data, np.float32 if data_type.is_float else np.int64).reshape(tuple(shape))
    return build(values, data_type, layout, device, memory_config, pad_value, tile)


def _of_array(
    tensor: Any,
    data_type: DataType | None = None,
    device: Any = None,
    layout: Layout | None = None,
    mem_config: Any = None,
    tile: Any = None,
    cq_id: Any = None,
    pad_value: float | None = None,
    **_: Any,
) -> Tensor:
    return build(as_numpy(tensor), data_type, layout, device, mem_config, pad_value, tile)


def _init(self: Tensor, *args: Any, **kwargs: Any) -> None:
    made = construct(*args, **kwargs)
    self._set(made._handle, made.dtype, made.layout, made._config, made._device, made._padding)
    self.tile = made.tile


def _to_torch_with_padded_shape(self: Tensor) -> Any:
    """A torch tensor of the values with the padding of the tiles."""
    return as_torch(self._padded_values(), self.dtype)


def _operator(name: str, swapped: bool = False) -> Any:
    def operator(self: Tensor, other: Any) -> Tensor:
        function = OPERATIONS[name]
        made: Tensor = function(other, self) if swapped else function(self, other)
        return made

    return operator


for _name, _of in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "div",
    "eq": "eq",
    "ne": "ne",
    "gt": "gt",
    "ge": "ge",
    "lt": "lt",
    "le": "le",
    "matmul": "matmul",
}.items():
    setattr(Tensor, f"__{_name}__", _operator(_of))
for _name, _of, _turned in (("radd", "add", False), ("rmul", "multiply", False), ("rtruediv", "rdiv", False)):
    setattr(Tensor, f"__{_name}__", _operator(_of, _turned))
Tensor.__init__ = _init  # type: ignore[assignment,method-assign]
Tensor.__getitem__ = getitem  # type: ignore[attr-defined,misc]
Tensor.to_torch_with_padded_shape = _to_torch_with_padded_shape  # type: ignore[attr-defined]


def is_tensor_storage_on_device(tensor: Tensor) -> bool:
    return tensor._device is not None


def has_storage_type_of(tensor: Tensor, storage_type: StorageType) -> bool:
    return tensor.storage_type() is storage_type


def has_tile_padding(tensor: Tensor, *, dim: int | None = None) -> bool:
    """Whether the tiles of a tensor have padding in dimension ``dim``, or, without ``dim``, in any
    dimension."""
    if len(tensor.shape) < 2 or dim is None:
        return tensor.shape != tensor.padded_shape
    return bool(tensor.shape[dim] != tensor.padded_shape[dim])


def is_sharded(tensor: Tensor) -> bool:
    return tensor.is_sharded()


def get_memory_config(tensor: Tensor) -> MemoryConfig:
    return tensor.memory_config()


def num_cores(grid: CoreGrid) -> int:
    return grid.num_cores


def get_optimal_core_grid(*_: Any, **__: Any) -> Any:
    raise Unsupported("ttnn.get_optimal_core_grid is not supported")


def allocate_tensor_on_device(tensor_spec: Any, *args: Any, **given: Any) -> Tensor:
    """A tensor of zeros. The arguments are (tensor_spec, mesh_device) or (shape, dtype, layout,
    mesh_device, memory_config)."""
    if isinstance(tensor_spec, TensorSpec):
        device = args[0] if args else given["mesh_device"]
        return empty(
            list(tensor_spec.shape), tensor_spec.dtype, tensor_spec.layout, device, tensor_spec.memory_config
        )
    if "mesh_device" in given:
        given["device"] = given.pop("mesh_device")
    return empty(given.pop("shape", tensor_spec), *args, **given)


def allocate_tensor_on_host(tensor_spec: Any, *args: Any, **given: Any) -> Tensor:
    """A host tensor of undefined values."""
    if isinstance(tensor_spec, TensorSpec):
        return empty(list(tensor_spec.shape), tensor_spec.dtype, tensor_spec.layout)
    dtype, layout = args[:2]
    return empty(tensor_spec, dtype, layout)


def pearson_correlation_coefficient(expected: Any, actual: Any) -> float:
    """The correlation of two tensors, at most 1; they may be torch tensors, arrays or ttnn tensors."""
    a, b = (
        np.asarray(x._values() if isinstance(x, Tensor) else as_numpy(x), np.float64).ravel()
        for x in (expected, actual)
    )
    if a.shape != b.shape:
        raise RuntimeError(f"the shapes {a.shape} and {b.shape} differ")
    known = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(known, a, 0), np.where(known, b, 0)
    if np.array_equal(a, b):
        return 1.0
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float((a * a).sum() * (b * b).sum()))
    return float((a * b).sum() / size) if size else 0.0


def query_registered_operations(include_experimental: bool = False) -> list[Operation]:
    """The operations in order of their names, those of ttnn.experimental last if they are wanted."""
    named = sorted(OPERATIONS.items())
    plain = [operation for name, operation in named if not name.startswith("experimental.")]
    return plain + [
        operation for name, operation in named if include_experimental and name.startswith("experimental.")
    ]


def get_fallback_function(operation: Operation) -> Callable[..., Any]:
    """The operation as a function that also takes tensors on the host and of any layout; its results have the
    layout and the place of the first tensor. Raises RuntimeError for an operation without a golden function,
    as ttnn does."""
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
