"""The constructor and Python's operators of tensors, and small functions of ttnn over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import Unsupported
from ..memory.configs import MemoryConfig
from ..memory.cores import CoreGrid
from ..memory.values import StorageType
from ..registry import OPERATIONS
from ..tensors.specs import TensorSpec
from ..tensors.tensor import Tensor
from .creation.constructor import construct
from .creation.conversion import as_numpy, as_torch
from .creation.filled import empty
from .movement.parts import getitem

__all__ = [
    "allocate_tensor_on_device",
    "allocate_tensor_on_host",
    "get_memory_config",
    "get_optimal_core_grid",
    "has_storage_type_of",
    "has_tile_padding",
    "is_sharded",
    "is_tensor_storage_on_device",
    "num_cores",
    "pearson_correlation_coefficient",
]


def _init(self: Tensor, *args: Any, **kwargs: Any) -> None:
    made = construct(*args, **kwargs)
    self._set(made._handle, made.dtype, made.layout, made._config, made._device, made._padding)
    self.tile = made.tile


def _to_torch_with_padded_shape(self: Tensor) -> Any:
    """The values with the padding of tiles."""
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
    """Whether tiles are filled up, in any dimension or in one."""
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


def allocate_tensor_on_device(spec: Any, *args: Any, **given: Any) -> Tensor:
    """A tensor of zeros: (spec, device), or (shape, dtype, layout, device, memory_config)."""
    if isinstance(spec, TensorSpec):
        device = args[0] if args else given["device"]
        return empty(list(spec.shape), spec.dtype, spec.layout, device, spec.memory_config)
    return empty(spec, *args, **given)


def allocate_tensor_on_host(spec: Any, *args: Any, **given: Any) -> Tensor:
    """A host tensor whose content is undefined."""
    if isinstance(spec, TensorSpec):
        return empty(list(spec.shape), spec.dtype, spec.layout)
    dtype, layout = args[:2]
    return empty(spec, dtype, layout)


def pearson_correlation_coefficient(expected: Any, actual: Any) -> float:
    """How well two tensors go together, 1 at best: of torch tensors, arrays or ttnn tensors."""
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
