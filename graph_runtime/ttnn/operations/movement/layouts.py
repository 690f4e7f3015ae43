"""Layouts and types of tensors: to_layout, tilize, untilize, typecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.configs import MemoryConfig
from ...memory.values import TILE_SIZE, DataType, Layout, Shape, tiled
from ...tensors.tensor import Tensor, on_host
from ..operation import Operation, operation
from ..results import Target, device_tensor, target
from ..wide import Wide
from .moves import moved

__all__: list[str] = []


@operation("to_layout", "copy")
def to_layout(
    tensor: Tensor,
    layout: Layout,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    sub_core_grids: Any = None,
    pad_value: float = 0.0,
    **_: Any,
) -> Tensor:
    """The values in another layout, with ``pad_value`` in the padding of tiles; the tensor itself where it
    has that layout already."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"ttnn.to_layout(): incompatible function arguments: {type(tensor).__name__}")
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
    check(
        not rows or unchanged,
        "ttnn.to_layout",
        "dtype cannot be different from tensor dtype when converting to ROW_MAJOR_LAYOUT on device!",
    )
    return _laid_out("ttnn.to_layout", tensor, layout, kind, memory_config, pad_value)


def _laid_out(
    op: str, tensor: Tensor, layout: Layout, dtype: DataType, config: MemoryConfig | None, padding: float
) -> Tensor:
    x = device_tensor(op, tensor)
    goal = target(op, x, config, None, dtype, layout)
    return goal.wrap(x._handle, 0 if layout is Layout.ROW_MAJOR else padding)


_TILIZED = (
    DataType.BFLOAT16,
    DataType.FLOAT32,
    DataType.UINT32,
    DataType.INT32,
    DataType.UINT16,
    DataType.UINT8,
)


def _row_major(op: str, tensor: Tensor) -> Tensor:
    x = device_tensor(op, tensor)
    check(x.layout is Layout.ROW_MAJOR, op, "Can only tilize row major data")
    check(
        x.dtype in _TILIZED, op, f"Can only tilize bfloat16, float32, int32, uint32 or uint16, not {x.dtype}"
    )
    return x


@operation("tilize", "copy")
def tilize(
    input_tensor: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    use_multicore: bool = True,
    use_low_perf: bool = False,
    sub_core_grids: Any = None,
    **_: Any,
) -> Tensor:
    """Rows as tiles: both last dimensions multiples of 32."""
    x = _row_major("ttnn.tilize", input_tensor)
    whole = all(size % TILE_SIZE == 0 for size in x.shape[-2:])
    check(
        whole, "ttnn.tilize", "Input tensor width and height must be divisible by TILE_WIDTH and TILE_HEIGHT"
    )
    return _laid_out("ttnn.tilize", x, Layout.TILE, dtype or x.dtype, memory_config, 0)


@operation("tilize_with_val_padding", "copy")
def tilize_with_val_padding(
    input_tensor: Tensor,
    output_tensor_shape: Sequence[int],
    pad_value: float,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    use_multicore: bool = True,
    **_: Any,
) -> Tensor:
    """Rows as tiles, with ``pad_value`` up to ``output_tensor_shape``, which is the padded shape."""
    name = "ttnn.tilize_with_val_padding"
    x = _row_major(name, input_tensor)
    wanted = tuple(output_tensor_shape)
    given = tuple(x.shape) or (1,) * len(wanted)  # a number is one element of a tile
    check(len(wanted) == len(given), name, f"output shape {list(wanted)} has another rank than {x.shape}")
    fits = all(a >= b for a, b in zip(wanted, given, strict=True))
    check(fits, name, f"Output tensor shape {list(wanted)} must be greater than or equal to input {x.shape}")
    goal = target(name, x, memory_config, None, dtype, Layout.TILE)
    made = goal.wrap(x._handle, pad_value)
    made._more = None if wanted == tuple(tiled(x.shape)) else Shape(wanted)
    return made


@operation("tilize_with_zero_padding", "copy")
def tilize_with_zero_padding(
    input_tensor: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    output_dtype: DataType | None = None,
    use_multicore: bool = True,
    **_: Any,
) -> Tensor:
    """Rows as tiles, with zeros in their padding."""
    x = _row_major("ttnn.tilize_with_zero_padding", input_tensor)
    kind = output_dtype or x.dtype
    return _laid_out("ttnn.tilize_with_zero_padding", x, Layout.TILE, kind, memory_config, 0)


@operation("untilize", "copy")
def untilize(
    input_tensor: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    use_multicore: bool = True,
    sub_core_grids: Any = None,
    **_: Any,
) -> Tensor:
    """Tiles as rows, their padding with them; bfloat8_b as bfloat16."""
    x = device_tensor("ttnn.untilize", input_tensor)
    check(x.layout is Layout.TILE, "ttnn.untilize", "Can only untilize tile major data")
    kind = DataType.BFLOAT16 if x.dtype.is_block else x.dtype
    goal = target("ttnn.untilize", x, memory_config, None, kind, Layout.ROW_MAJOR)
    return goal.wrap(_with_padding(x))


def _with_padding(x: Tensor) -> Any:
    """The values of the padded shape."""
    padded = x._more or tiled(x.shape)
    more = [there - here for here, there in zip(x.shape, padded, strict=True)]
    if not any(more):
        return x._handle
    if not x.dtype.is_float and x._padding:
        raise Unsupported("padding of integers other than 0 is not supported as values", op="ttnn.untilize")
    attrs = {"pads": (*(0,) * len(more), *more), "value": float(x._padding)}
    return kernels.run("pad", [x._handle], attrs)


@operation("untilize_with_unpadding", "slice, copy")
def untilize_with_unpadding(
    input_tensor: Tensor,
    output_tensor_end: Sequence[int],
    *,
    memory_config: MemoryConfig | None = None,
    use_multicore: bool = True,
    **_: Any,
) -> Tensor:
    """Tiles as rows, up to and with the index ``output_tensor_end``; of more than four dimensions all,
    as ttnn's."""
    name = "ttnn.untilize_with_unpadding"
    x = device_tensor(name, input_tensor)
    check(x.layout is Layout.TILE, name, "Can only untilize tile major data")
    ends = tuple(int(end) + 1 for end in output_tensor_end)
    check(len(ends) == len(x.shape), name, f"{list(output_tensor_end)} has another rank than {x.shape}")
    fits = all(end <= size for end, size in zip(ends, x._more or tiled(x.shape), strict=True))
    check(fits, name, f"output_tensor_end {list(output_tensor_end)} is outside of {x.padded_shape}")
    if len(ends) > 4:
        ends = tuple(x.shape)
    source = x._handle if all(e <= s for e, s in zip(ends, x.shape, strict=True)) else _with_padding(x)
    kind = DataType.BFLOAT16 if x.dtype.is_block else x.dtype
    goal = target(name, x, memory_config, None, kind, Layout.ROW_MAJOR)
    if ends == tuple(source.shape):
        return goal.wrap(source)
    attrs = {"starts": (0,) * len(ends), "ends": ends}
    return goal.run("slice", [source], attrs, ends)


@operation("fill_implicit_tile_padding")
def fill_implicit_tile_padding(
    tensor: Tensor, fill_value: float, *, memory_config: MemoryConfig | None = None
) -> Tensor:
    """The same values, with ``fill_value`` in the padding of tiles."""
    name = "ttnn.fill_implicit_tile_padding"
    x = device_tensor(name, tensor)
    if x.layout is Layout.ROW_MAJOR or x.shape == x.padded_shape:
        return x
    made = moved(name, x, memory_config or x.memory_config())
    made._padding = float(np.float32(fill_value)) if x.dtype.is_float else int(fill_value)
    return made


# **************** types ****************


@operation("typecast", "cast")
def typecast(
    input_tensor: Tensor,
    dtype: DataType,
    output_dtype: DataType | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """The values in another type; (tensor, input type, output type), too. Floats become integers toward 0."""
    x, kind = input_tensor, output_dtype or dtype
    if x._device is None:
        return to_dtype.function(x, kind)
    device_tensor("ttnn.typecast", x)
    rows = x.layout is Layout.ROW_MAJOR
    check(not (rows and kind.is_block), "ttnn.typecast", f"{kind} needs Layout.TILE")
    if kind is x.dtype and output_tensor is None:
        return moved("ttnn.typecast", x, memory_config or x.memory_config())
    goal = target("ttnn.typecast", x, memory_config, output_tensor, kind)
    return goal.wrap(_cast(goal, x), x._padding)


Operation("experimental.typecast", typecast.function, "cast")


def _cast(goal: Target, x: Tensor) -> Any:
    """Between integers bits are kept: a cast to fewer bits wraps, to and from uint32 it reinterprets."""
    if x.dtype.is_float or goal.dtype.is_float:
        return x._handle
    w = Wide(x._handle.device)
    made = w.int32(x._handle)
    return kernels.reinterpret(made, "uint32") if goal.dtype is DataType.UINT32 else made


@operation("to_dtype")
def to_dtype(tensor: Tensor, dtype: DataType, **_: Any) -> Tensor:
    """A host tensor in another type."""
    check(
        tensor._device is None,
        "ttnn.to_dtype",
        "ttnn.to_dtype is of host tensors; use ttnn.typecast on a device",
    )
    layout = Layout.TILE if dtype.is_block else tensor.layout
    values = tensor._values()
    if not dtype.is_float and values.dtype.kind == "f":
        values = values.astype(np.int64)
    return on_host(values.astype(dtype.stored[0], casting="unsafe"), dtype, layout, tensor._padding)


@operation("bitcast")
def bitcast(
    input_tensor: Tensor, dtype: DataType, *, memory_config: MemoryConfig | None = None, **_: Any
) -> Tensor:
    """The same bits as another type of as many bits."""
    x = device_tensor("ttnn.bitcast", input_tensor)
    widths = [bits for bits, kinds in _BITS.items() for kind in (x.dtype, dtype) if kind in kinds]
    text = f"{x.dtype} and {dtype} have other numbers of bits"
    check(len(widths) == 2 and widths[0] == widths[1], "ttnn.bitcast", text)
    w = Wide(x._handle.device)
    if (widths[0] == 32 or x.dtype is dtype) and memory_config in (None, x._config):
        handle = kernels.reinterpret(kernels.copied(x._handle), dtype.stored[0])
        return Tensor.of(handle, dtype, x.layout, x._config, x._device)
    goal = target("ttnn.bitcast", x, memory_config, None, dtype)
    if widths[0] == 32 or x.dtype is dtype:
        return goal.wrap(kernels.reinterpret(kernels.copied(x._handle), dtype.stored[0]))
    if dtype is DataType.BFLOAT16:  # the upper half of a float32
        upper = w("shift_left", w.int32(x._handle), 16)
        return goal.wrap(kernels.reinterpret(upper, "float32"))
    upper = kernels.reinterpret(w.wide(x._handle), "uint32")
    return goal.wrap(
        kernels.reinterpret(kernels.run("shift_right", [upper, w.number(16, "uint32")]), "int32")
    )


_BITS = {
    32: (DataType.INT32, DataType.UINT32, DataType.FLOAT32),
    16: (DataType.UINT16, DataType.BFLOAT16),
}
