"""Functions that change layouts and types of tensors: to_layout, tilize, untilize, typecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, expect, mistaken
from ...memory.configs import MemoryConfig
from ...memory.values import TILE_SIZE, DataType, Layout, Shape, tiled
from ...tensors.tensor import Tensor, on_host
from ..bodies import AnyTensor, TiledTensor
from ..operation import Operation, operation
from ..results import Target, device_tensor, target
from .moves import moved, to_device


@operation("to_layout", "copy")
def to_layout(
    tensor: AnyTensor,
    layout: Layout,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    sub_core_grids: Any = None,
    pad_value: float = 0.0,
) -> Tensor:
    """The values in another layout, with ``pad_value`` in the padding of tiles; the tensor itself if it has
    that layout already."""
    if not isinstance(tensor, Tensor):
        raise mistaken(f"{type(tensor).__name__}")
    if tensor.layout is layout:
        return tensor
    rows = layout is Layout.ROW_MAJOR
    kind = dtype or tensor.dtype
    if rows and kind.is_block:
        kind = DataType.BFLOAT16
    if tensor._device is None:
        padding = pad_value if tensor._more is None else tensor._padding
        return on_host(tensor._values(), kind, layout, 0 if rows else padding)
    unchanged = dtype in (None, tensor.dtype) or tensor.dtype.is_block
    expect(
        not rows or unchanged,
        "dtype cannot be different from tensor dtype when converting to ROW_MAJOR_LAYOUT on device!",
    )
    goal = target(device_tensor(tensor), memory_config, None, kind, layout)
    return goal.wrap(tensor._value, 0 if rows else pad_value)


@operation("tilize", "copy", takes="memory_config, dtype", layout=Layout.TILE)
def tilize(input_tensor: Tensor) -> WideValue:
    """Rows as tiles; the last two dimensions must be multiples of 32."""
    values = input_tensor._value
    whole = all(size % TILE_SIZE == 0 for size in values.shape[-2:])
    expect(whole, "Input tensor width and height must be divisible by TILE_WIDTH and TILE_HEIGHT")
    return values


@operation("tilize_with_val_padding", "copy", takes="memory_config, dtype", layout=Layout.TILE)
def tilize_with_val_padding(
    input_tensor: Tensor, output_tensor_shape: Sequence[int], pad_value: float, *, goal: Target
) -> Tensor:
    """Rows as tiles; ``output_tensor_shape`` is the padded shape, and ``pad_value`` fills its padding. Tiles
    are returned as they are."""
    x, values = input_tensor, input_tensor._value
    if x.layout is Layout.TILE:
        return x
    wanted = tuple(output_tensor_shape)
    given = tuple(x.shape) or (1,) * len(wanted)  # a number is one element of a tile
    expect(len(wanted) == len(given), f"output shape {list(wanted)} has another rank than {x.shape}")
    fits = all(a >= b for a, b in zip(wanted, given, strict=True))
    expect(fits, f"Output tensor shape {list(wanted)} must be greater than or equal to input {x.shape}")
    made = goal.wrap(values, pad_value)
    made._more = None if wanted == tuple(tiled(x.shape)) else Shape(wanted)
    return made


@operation("tilize_with_zero_padding", "copy", takes="memory_config, output_dtype", layout=Layout.TILE)
def tilize_with_zero_padding(input_tensor: Tensor) -> Tensor | WideValue:
    """Rows as tiles, with zeros in their padding. Tiles are returned as they are."""
    return input_tensor if input_tensor.layout is Layout.TILE else input_tensor._value


@operation("untilize", "copy", takes="memory_config")
def untilize(input_tensor: TiledTensor, *, goal: Target) -> Tensor:
    """Tiles as rows, which include the padding of the tiles; bfloat8_b becomes bfloat16."""
    return _in_rows(goal).wrap(_with_padding(input_tensor))


def _in_rows(goal: Target) -> Target:
    goal.layout, goal.dtype = Layout.ROW_MAJOR, DataType.BFLOAT16 if goal.dtype.is_block else goal.dtype
    return goal


def _with_padding(x: Tensor) -> Any:
    """The values of the padded shape."""
    padded = x._more or tiled(x.shape)
    more = [there - here for here, there in zip(x.shape, padded, strict=True)]
    if not any(more):
        return x._value
    if not x.dtype.is_float and x._padding:
        raise Unsupported("padding of integers other than 0 is not supported as values")
    return x._value.run("pad", pads=(*(0,) * len(more), *more), value=float(x._padding))


@operation("untilize_with_unpadding", "slice, copy", takes="memory_config")
def untilize_with_unpadding(
    input_tensor: TiledTensor, output_tensor_end: Sequence[int], *, goal: Target
) -> Tensor:
    """Tiles as rows, up to the index ``output_tensor_end``, included; a tensor of more than four dimensions
    is untilized whole, as in ttnn."""
    x = input_tensor
    ends = tuple(int(end) + 1 for end in output_tensor_end)
    expect(len(ends) == len(x.shape), f"{list(output_tensor_end)} has another rank than {x.shape}")
    fits = all(end <= size for end, size in zip(ends, x._more or tiled(x.shape), strict=True))
    expect(fits, f"output_tensor_end {list(output_tensor_end)} is outside of {x.padded_shape}")
    if len(ends) > 4:
        ends = tuple(x.shape)
    source = x._value if all(e <= s for e, s in zip(ends, x.shape, strict=True)) else _with_padding(x)
    goal = _in_rows(goal)
    if ends == tuple(source.shape):
        return goal.wrap(source)
    return goal.run("slice", [source], {"starts": (0,) * len(ends), "ends": ends}, ends)


@operation("fill_implicit_tile_padding")
def fill_implicit_tile_padding(
    tensor: Tensor, fill_value: float, *, memory_config: MemoryConfig | None = None
) -> Tensor:
    """The same values, with ``fill_value`` in the padding of tiles."""
    x = tensor
    if x.shape == x.padded_shape:
        return x
    made = moved(x, memory_config or x.memory_config())
    made._padding = float(np.float32(fill_value)) if x.dtype.is_float else int(fill_value)
    return made


# **************** types ****************


@operation("typecast", "cast")
def typecast(
    input_tensor: AnyTensor,
    dtype: DataType,
    output_dtype: DataType | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """The values in another type. The arguments may also be (tensor, input type, output type). Floats are
    rounded toward 0 to integers."""
    x, kind = input_tensor, output_dtype or dtype
    if x._device is None:
        return to_dtype.function(x, kind)
    device_tensor(x)
    rows = x.layout is Layout.ROW_MAJOR
    expect(not (rows and kind.is_block), f"{kind} needs Layout.TILE")
    if kind is x.dtype and output_tensor is None:
        if memory_config not in (None, x.memory_config()):
            return moved(x, memory_config)
        return target(x).wrap(kernels.copied(x._handle), x._padding)
    goal = target(x, memory_config, output_tensor, kind)
    made = goal.wrap(_cast(goal, x), x._padding)
    if output_tensor is None and made._handle._owner is x._handle._owner:
        return goal.wrap(kernels.copied(made._handle), x._padding)
    return made


Operation("experimental.typecast", typecast.function, "cast")


def _cast(goal: Target, x: Tensor) -> Any:
    """The values to store. A cast between integers keeps bits, as in C, so values wrap."""
    if x.dtype.is_float or goal.dtype.is_float:
        return x._value
    made = x._value.int32()
    return made.reinterpret("uint32") if goal.dtype is DataType.UINT32 else made


@operation("to_dtype")
def to_dtype(tensor: AnyTensor, dtype: DataType) -> Tensor:
    """A host tensor in another type."""
    expect(tensor._device is None, "ttnn.to_dtype takes host tensors: use ttnn.typecast on a device")
    layout = Layout.TILE if dtype.is_block else tensor.layout
    values = tensor._values()
    if not dtype.is_float and values.dtype.kind == "f":
        values = values.astype(np.int64)
    return on_host(values.astype(dtype.stored[0], casting="unsafe"), dtype, layout, tensor._padding)


@operation("experimental.quantize_weights_via_host")
def quantize_weights_via_host(
    device_tensor: Tensor, *, dtype: DataType, memory_config: MemoryConfig | None
) -> Tensor:
    """The values in another type, cast on the host, in the memory that the caller names."""
    x = device_tensor
    cast: Tensor = to_dtype.function(x.cpu(), dtype)
    made: Tensor = to_device.function(cast, x._device, memory_config or x.memory_config())
    return made


@operation("bitcast")
def bitcast(input_tensor: Tensor, dtype: DataType, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The same bits as elements of another type with as many bits."""
    x = input_tensor
    widths = [bits for bits, kinds in _BITS.items() for kind in (x.dtype, dtype) if kind in kinds]
    text = f"{x.dtype} and {dtype} differ in their numbers of bits"
    expect(len(widths) == 2 and widths[0] == widths[1], text)
    if (widths[0] == 32 or x.dtype is dtype) and memory_config in (None, x._config):
        handle = x._value.copied().reinterpret(dtype.stored[0])
        return Tensor.of(handle.handle, dtype, x.layout, x._config, x._device)
    goal = target(x, memory_config, None, dtype)
    if widths[0] == 32 or x.dtype is dtype:
        return goal.wrap(x._value.copied().reinterpret(dtype.stored[0]))
    if dtype is DataType.BFLOAT16:  # a bfloat16 is the upper half of a float32
        return goal.wrap((x._value.int32() << 16).reinterpret("float32"))
    upper = x._value.wide().reinterpret("uint32")
    return goal.wrap(upper.run("shift_right", upper.scalar(16)).reinterpret("int32"))


_BITS = {
    32: (DataType.INT32, DataType.UINT32, DataType.FLOAT32),
    16: (DataType.UINT16, DataType.BFLOAT16),
}
