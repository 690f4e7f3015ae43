"""Functions that read or write a part of a tensor for convolutions and for tensors that do not fit in L1, and
the orders of channels that convolutions want."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...devices.wide_value import WideValue
from ...errors import Unsupported, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import corerange_to_cores
from ...memory.placing import up
from ...memory.values import TILE_SIZE, DataType, Layout, ShardOrientation, TensorMemoryLayout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor
from ..bodies import AnyTensor
from ..operation import operation
from ..results import target
from .moves import moved, sharded_config


def _rows(x: Tensor, count: int, index: int, cut: Tensor) -> tuple[int, int]:
    """The first row, and the row after the last, of part ``index`` of ``count`` of ``cut``."""
    expect(
        0 <= index < count, f"Slice index and num_slices don't match! Index = {index} num_slices = {count}"
    )
    expect(x.layout is Layout.TILE, "Currently, only tile layout is supported for partial sharding")
    height = math.prod(cut.padded_shape[:-1])
    expect(height % count == 0, "Total height of a tensor must be divisible by num_slices!")
    return index * (height // count), (index + 1) * (height // count)


def _whole_rows(x: Tensor) -> WideValue:
    """The values as a matrix of the rows."""
    if tuple(x.shape[-2:]) != tuple(x.padded_shape[-2:]):
        raise Unsupported("partial sharding of padded tiles is not supported")
    return x._value.reshape((x.logical_volume() // x.shape[-1], x.shape[-1]))


@operation("interleaved_to_sharded_partial", "slice, copy")
def interleaved_to_sharded_partial(
    input_tensor: Tensor,
    grid: Any,
    shard_shape: Sequence[int],
    num_slices: int,
    slice_index: int,
    shard_scheme: TensorMemoryLayout,
    shard_orientation: ShardOrientation,
    *,
    output_dtype: DataType | None = None,
) -> Tensor:
    """Part ``slice_index`` of ``num_slices`` equal parts of the rows, in shards: [1, 1, rows, width]."""
    x = input_tensor
    first, end = _rows(x, num_slices, slice_index, x)
    expect(not x.is_sharded(), "Input tensor must be Interleaved")
    config = sharded_config(grid, shard_shape, shard_scheme, shard_orientation)
    made = _whole_rows(x).part(0, first, end).reshape((1, 1, end - first, x.shape[-1]))
    return target(x, config, None, output_dtype).wrap(made)


@operation(
    "sharded_to_interleaved_partial",
    "slice_update, copy",
    takes="memory_config, output_dtype",
    like="cache_tensor",
    in_place=True,
)
def sharded_to_interleaved_partial(
    input_tensor: Tensor, cache_tensor: Tensor, num_slices: int, slice_index: int
) -> WideValue:
    """``cache_tensor``, in whose part ``slice_index`` of ``num_slices`` of the rows the input is written."""
    x, cache = input_tensor, cache_tensor
    first, end = _rows(x, num_slices, slice_index, cache)
    expect(x.is_sharded(), "Input tensor must be sharded")
    rows, part = _whole_rows(cache), _whole_rows(x)
    fits = part.shape == (end - first, rows.shape[1])
    expect(fits, f"{x.shape} is not one of {num_slices} parts of {cache.shape}")
    return rows.op("slice_update", part, starts=(first,), axes=(0,)).reshape(cache.shape)


@operation("experimental.padded_slice", "slice, pad, copy")
def padded_slice(
    input_tensor: Tensor,
    padded_slice_start: Sequence[int],
    padded_slice_end: Sequence[int],
    padded_slice_step: Sequence[int] | None = None,
    *,
    memory_config: MemoryConfig,
    output_tensor: Tensor | None = None,
    pad_value: float | None = None,
) -> Tensor:
    """The part of [n, h, w, c] from start to before end, as rows [1, 1, n h w, c] in shards; c grows to the
    width of a height shard, with zeros."""
    x, rank = input_tensor, len(input_tensor.shape)
    starts, ends = tuple(padded_slice_start), tuple(padded_slice_end)
    steps = tuple(padded_slice_step) if padded_slice_step is not None else (1,) * rank
    expect(rank == 4, "Only 4D tensors are supported for padded_slice")
    expect(rank == len(starts) == len(ends) == len(steps), "Start, end and step must have the input's rank")
    expect(set(steps) == {1}, "Steps != 1 are not supported for padded_slice.")
    text = "Output Memory Config must be sharded. Use slice for non-sharded outputs."
    expect(memory_config.is_sharded() and memory_config.shard_spec is not None, text)
    expect(not x.is_sharded(), " padded_slice does not support sharded inputs.")
    for a, b, size in zip(starts, ends, x.shape, strict=True):
        expect(a <= b, f"End {b} must be greater than or equal to start {a}")
        expect(
            a < size and b <= size, f"Ends {b} must be less than or equal to the shape of the tensor {size}"
        )
    made = x._value.op("slice", starts=starts, ends=ends)
    made = made.reshape((1, 1, math.prod(made.shape[:-1]), made.shape[-1]))
    assert memory_config.shard_spec is not None
    shard, layout = memory_config.shard_spec.shape, memory_config.memory_layout
    more = [0] * 4
    if layout is TensorMemoryLayout.HEIGHT_SHARDED:
        more[3] = max(0, shard[1] - made.shape[3])
    elif layout is TensorMemoryLayout.WIDTH_SHARDED:
        more[2] = max(0, shard[0] - made.shape[2])
    if any(more):
        made = made.op("pad", pads=(*(0,) * 4, *more))
    kind = DataType.BFLOAT16 if x.dtype is DataType.BFLOAT8_B else x.dtype
    goal = target(x, memory_config, output_tensor, None if output_tensor else kind, Layout.ROW_MAJOR)
    return goal.wrap(made)


@operation("experimental.slice_write", "slice_update")
def slice_write(
    input_tensor: Tensor,
    output_tensor: Tensor,
    start: Sequence[int],
    end: Sequence[int],
    step: Sequence[int],
) -> Tensor:
    """``output_tensor``, in whose part from ``start`` to before ``end``, by ``step``, the input is
    written."""
    x, into = input_tensor, output_tensor
    starts, ends, steps = tuple(start), tuple(end), tuple(step)
    expect(not into.is_sharded(), "Slice Write currently doesn't support sharded output tensors.")
    text = "Ranks of input tensor, output_tensor, slice start and slice end should be equal."
    expect(len(x.shape) == len(into.shape) == len(starts) == len(ends) == len(steps), text)
    for a, b, size in zip(starts, ends, into.shape, strict=True):
        expect(b >= a, f"End {b} must be greater than or equal to start {a}")
        expect(b <= size, f"Ends {b} must be less than or equal to the shape of the tensor {size}")
    wanted = tuple(-(-(b - a) // s) for a, b, s in zip(starts, ends, steps, strict=True))
    if 0 in wanted:
        return into
    values = x._value
    if x.is_sharded() and tuple(x.shape[:2]) == (1, 1):  # rows of padded_slice
        rows, (count, wide) = math.prod(wanted[:-1]), values.shape[-2:]
        expect(count >= rows and wide >= wanted[-1], f"{x.shape} has no values for {list(wanted)}")
        values = values.op("slice", starts=(0, 0), ends=(rows, wanted[-1]), axes=(2, 3)).reshape(wanted)
    text = f"Size of the slice being written {list(wanted)} should match the size of the input {x.shape}"
    expect(tuple(values.shape) == wanted, text)
    made = into._value.op("slice_update", values, starts=starts, axes=tuple(range(len(wanted))), steps=steps)
    return target(into, None, into).wrap(made)


@operation("copy_host_to_device_tensor_partial")
def copy_host_to_device_tensor_partial(
    host_tensor: AnyTensor, device_tensor: Tensor, logical_core_filter: Any, cq_id: int | None = None
) -> None:
    """Write those shards of a host tensor that are on some cores into a sharded device tensor."""
    wanted = set(logical_core_filter.cores())
    if not wanted:
        return
    x = device_tensor
    expect(x.is_sharded(), "copy_host_to_device_tensor_partial needs a sharded device tensor")
    same = (host_tensor.shape == x.shape, host_tensor.dtype is x.dtype)
    expect(all(same), "the tensors must have one shape and dtype")
    spec = x.memory_config().shard_spec
    if spec is None:
        raise Unsupported("copy_host_to_device_tensor_partial of ND shards is not supported")
    values, given = x._values(), host_tensor._values()
    rows, new = (v.reshape((math.prod(v.shape[:-1]), v.shape[-1])) for v in (values.copy(), given))
    high, wide = spec.shape
    order = corerange_to_cores(spec.grid, None, spec.orientation is ShardOrientation.ROW_MAJOR)
    across = -(-rows.shape[1] // wide)
    for at, core in enumerate(order):
        if core in wanted:
            down, right = high * (at // across), wide * (at % across)
            rows[down : down + high, right : right + wide] = new[down : down + high, right : right + wide]
    x._handle.copy_from(rows.reshape(values.shape))


# **************** orders of channels ****************


@operation("experimental.convert_to_chw", "transpose")
def convert_to_chw(input: Tensor, *, dtype: DataType | None = None) -> Tensor:
    """[1, 1, h w, c] in height shards as [1, 1, c, h w] in width shards of the same cores."""
    x = input
    spec, config = x.memory_config().shard_spec, x.memory_config()
    expect(spec is not None, "Input tensor must be sharded to infer output memory config")
    assert spec is not None
    high = config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED
    expect(high, "Input tensor must be height sharded")
    expect(len(x.shape) == 4, f"Input shape must be rank 4 (was rank {len(x.shape)})")
    expect(tuple(x.shape[:2]) == (1, 1), "Expected input tensor to be shape [1, 1, HW, C]")
    rows, channels = x.shape[2:]
    expect(channels <= TILE_SIZE, f"C must be less than or equal to 32 (was {channels})")
    expect(rows % TILE_SIZE == 0, "HW must be divisible by tile size")
    made = MemoryConfig(
        TensorMemoryLayout.WIDTH_SHARDED,
        config.buffer_type,
        ShardSpec(spec.grid, (channels, spec.shape[0]), spec.orientation),
    )
    turned = x._value.op("transpose", perm=(0, 1, 3, 2))
    return target(x, made, None, dtype, Layout.ROW_MAJOR).wrap(turned)


_ALIGNED = 16  # bytes of a row in L1 (convert_to_hwc_program_factory.cpp: alignment in elements)


@operation("experimental.convert_to_hwc", "transpose, pad")
def convert_to_hwc(
    input: Tensor, *, memory_config: MemoryConfig | None = None, dtype: DataType | None = None
) -> Tensor:
    """[1, b, c, h w] in width shards as [1, 1, b h w, c] in height shards; c grows to whole 16 bytes."""
    x, config = input, input.memory_config()
    given = memory_config is not None
    text = "When input tensor is in DRAM, output memory_config must be explicitly specified"
    expect(given or config.buffer_type is not DRAM_MEMORY_CONFIG.buffer_type, text)
    spec = config.shard_spec
    wide = spec is not None and config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED
    expect(wide, "Input tensor must be width sharded")
    assert spec is not None
    expect(x.layout is Layout.ROW_MAJOR, "Input tensor must be in row-major layout")
    fits = len(x.shape) == 4 and x.shape[0] == 1
    expect(fits, f"Expected input tensor to be shape [1, B, C, HW] (shape was {x.shape})")
    _, batch, channels, size = x.shape
    expect(channels <= TILE_SIZE, f"C must be less than or equal to 32 (was {channels})")
    width = up(channels, _ALIGNED // x.element_size())
    if memory_config is None:
        shard = ShardSpec(spec.grid, (batch * spec.shape[1], width), spec.orientation)
        memory_config = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, config.buffer_type, shard)
    turned = x._value.op("transpose", perm=(0, 1, 3, 2)).reshape((1, 1, batch * size, channels))
    if width > channels:
        turned = turned.op("pad", pads=(0, 0, 0, 0, 0, 0, 0, width - channels))
    return target(x, memory_config, None, dtype).wrap(turned)


@operation("experimental.transpose_rm", "transpose")
def transpose_rm(input: Tensor) -> Tensor:
    """The last two dimensions exchanged, of floats in rows whose sizes are multiples of 32."""
    x = input
    kinds = (DataType.FLOAT32, DataType.BFLOAT16)
    expect(x.dtype in kinds, f"transpose_rm: only Float32 and BFloat16 supported (got {x.dtype.name}).")
    expect(x.layout is Layout.ROW_MAJOR, "transpose_rm: only ROW_MAJOR layout supported.")
    expect(len(x.shape) >= 2, "transpose_rm: the input must have at least two dimensions.")
    for name, size in zip(("A (second-to-last dim)", "C (last dim)"), x.shape[-2:], strict=True):
        whole = size >= TILE_SIZE and size % TILE_SIZE == 0
        expect(whole, f"transpose_rm: {name} must be a multiple of 32 and >=32 (got {size}).")
    made: Tensor = OPERATIONS["transpose"](x, -2, -1)
    return made


# **************** examples of tt-metal ****************


@operation("composite_example", "copy")
def composite_example(input_tensor: Tensor) -> Tensor:
    """A copy of the tensor, by tt-metal's example of an operation made of operations."""
    return moved(input_tensor, input_tensor.memory_config())


@operation("composite_example_multiple_return", "copy")
def composite_example_multiple_return(
    input_tensor: Tensor, return_output1: bool = True, return_output2: bool = True
) -> list[Tensor | None]:
    """Two copies of the tensor, or None in place of one that is not wanted."""
    wanted = (return_output1, return_output2)
    one, two = map(int, wanted)
    text = f"At least one output must be returned. return_output1 = {one}, return_output2 = {two} "
    expect(any(wanted), text)
    return [moved(input_tensor, DRAM_MEMORY_CONFIG) if asked else None for asked in wanted]
