"""What the constructor ttnn.Tensor(...) takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from .conversion import as_numpy, build


def construct(tensor: Any = None, *args: Any, **given: Any) -> Tensor:
    """Tensor(data, shape, data_type, layout, device, memory_config, tile, pad_value) of a list,
    Tensor(tensor, data_type, device, layout, mem_config, tile) of an array, Tensor(other)."""
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
    return build("ttnn.Tensor", values, data_type, layout, device, memory_config, pad_value, tile)


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
    return build("ttnn.Tensor", as_numpy(tensor), data_type, layout, device, mem_config, pad_value, tile)
