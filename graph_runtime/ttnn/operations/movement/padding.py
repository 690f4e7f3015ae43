"""pad: adds elements around a tensor; fold: makes channels of the squares of an image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...devices import kernels
from ...errors import Unsupported, called, expect
from ...memory.configs import L1_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import CoreCoord, CoreRange, CoreRangeSet
from ...memory.values import BufferType, DataType, Layout, TensorMemoryLayout
from ...programs.windows import sides
from ...tensors.tensor import Tensor, on_host
from ..bodies import AnyTensor
from ..operation import operation
from ..results import device_tensor, target
from .shapes import reshaped

_FRONT = "ttnn.pad: on device tile padding does not support front padding"


@operation("pad", "pad")
def pad(
    input_tensor: AnyTensor,
    padding: Any = None,
    *args: Any,
    value: float | None = None,
    memory_config: MemoryConfig | None = None,
    use_multicore: bool = True,
    **given: Any,
) -> Tensor:
    """The values with others around them. The arguments are (tensor, [(before, after), ...], value), where
    the last pair is for the last dimension, or (tensor, output shape, start, value)."""
    pairs, value = _pairs(input_tensor, padding, args, value, given)
    x = input_tensor
    if x._device is None:
        made = np.pad(x._values(), pairs, constant_values=value)
        return on_host(made, x.dtype, x.layout)
    device_tensor(x)
    rows = x.layout is Layout.ROW_MAJOR
    front = any(before for before, _ in pairs)
    expect(rows or not front, _FRONT)
    goal = target(x, memory_config)
    if not any(map(any, pairs)):
        return goal.wrap(x._handle, x._padding)
    if not x.dtype.is_float and abs(value) >= 1 << 24:
        raise Unsupported(f"ttnn.pad of integers by {value} is not supported")
    shape = tuple(a + size + b for (a, b), size in zip(pairs, x.shape, strict=True))
    attrs = {"pads": tuple(a for a, _ in pairs) + tuple(b for _, b in pairs), "value": float(value)}
    padded = goal.run("pad", [x._handle], attrs, shape)
    padded._padding = 0 if rows else value
    return padded


def _pairs(
    x: Tensor, padding: Any, args: Any, value: float | None, given: Any
) -> tuple[list[tuple[int, int]], float]:
    """([(before, after) of each dimension], the value)."""
    rank = len(x.shape)
    if padding is None:
        padding = given.pop("output_padded_shape", None)
    rest = list(args)
    if padding is not None and len(padding) and isinstance(padding[0], int):
        start = rest.pop(0) if rest else given.pop("input_tensor_start", [0] * rank)
        sizes = [int(s) for s in padding]
        expect(len(sizes) == rank, f"the output shape {sizes} has another rank than {x.shape}")
        pairs = [(int(a), s - int(a) - size) for a, s, size in zip(start, sizes, x.shape, strict=True)]
    else:
        pairs = [(int(a), int(b)) for a, b in padding or ()]
        expect(len(pairs) <= rank, "ttnn.pad: padding len can't be larger than input tensor rank")
        pairs = [(0, 0)] * (rank - len(pairs)) + pairs
    expect(all(a >= 0 <= b for a, b in pairs), "ttnn.pad: padding must be positive")
    value = rest.pop(0) if rest else value
    return pairs, 0.0 if value is None else value


@operation("fold", "reshape, transpose")
def fold(
    input: Tensor,
    stride_h: int,
    stride_w: int,
    use_transpose_as_fold: bool = False,
    output_shape: Any = None,
    pad_c: int = 0,
    pad_h: int = 0,
    pad_w: int = 0,
    grid_size: Any = None,
    override_memory_config: MemoryConfig | None = None,
    padding: Any = None,
) -> Tensor:
    """An image in which each square of sh x sw pixels becomes one pixel: [N, H, W, C] gives [N, H/sh, W/sw, C
    sh sw]; an image in L1 gives the flat form, [1, 1, N H/sh W/sw, C sh sw]. With use_transpose_as_fold the
    image is [N, C, H, W], and the form stays. padding: (height, width), and (top, bottom, left, right), to
    which channels before and after may be added."""
    x = input
    if pad_c or pad_h or pad_w:
        raise Unsupported("ttnn.fold with pad_c, pad_h or pad_w is not supported; give padding=")
    sizes = [padding or 0] if isinstance(padding or 0, int) else list(padding)
    expect(len(sizes) in (1, 2, 4, 6), f"padding must have 2, 4 or 6 numbers, got {sizes}")
    pads = (*sides(called(), sizes[:4]), *map(int, sizes[4:] or (0, 0)))
    if use_transpose_as_fold:
        return _by_transposes(x, (stride_h, stride_w), output_shape, pads, grid_size, override_memory_config)
    top, left, bottom, right, front, back = pads
    n, h, w, c = x.shape.to_rank(4)
    source = reshaped(x._handle, (n, h, w, c))
    if any(pads):
        expect(x.layout is Layout.ROW_MAJOR, _FRONT)
        source = kernels.run("pad", [source], {"pads": (0, top, left, front, 0, bottom, right, back)})
        h, w, c = h + top + bottom, w + left + right, c + front + back
    expect(h % stride_h == 0 and w % stride_w == 0, f"{h}x{w} is no multiple of {stride_h}x{stride_w}")
    cut = reshaped(source, (n, h // stride_h, stride_h, w // stride_w, stride_w, c))
    turned = kernels.run("transpose", [cut], {"perm": (0, 1, 3, 2, 4, 5)})
    made = (n, h // stride_h, w // stride_w, c * stride_h * stride_w)
    if x.memory_config().buffer_type is not BufferType.DRAM:
        made = (1, 1, math.prod(made[:3]), made[3])
    block = x.dtype.is_block
    kind, layout = (DataType.BFLOAT16, Layout.ROW_MAJOR) if block else (x.dtype, x.layout)
    return target(x, override_memory_config, None, kind, layout).wrap(reshaped(turned, made))


def _by_transposes(
    x: Tensor,
    stride: tuple[int, int],
    output_shape: Any,
    pads: tuple[int, ...],
    grid: CoreRangeSet | None,
    memory_config: MemoryConfig | None,
) -> Tensor:
    """fold of [N, C, H, W]. ttnn takes the paddings above, to the left and of channels behind: an image in
    shards has them on both sides, another has them behind only, and stays as large as its tiles."""
    rank = len(x.shape)
    expect(rank == 4, f"Fold op only supports 4D tensors, got rank {rank}")
    config = x.memory_config()
    shards = config.shard_spec
    top, left, more = pads[0], pads[1], pads[5]
    n, c, h, w = x.shape
    front = (top, left) if shards is not None else (0, 0)
    sizes = (h + top + front[0], w + left + front[1])
    tiled = [-(-size // 32) * 32 for size in sizes]
    expect(
        all(size % s == 0 for size, s in zip(tiled, stride, strict=True)),
        f"{tiled[0]}x{tiled[1]} is no multiple of {stride[0]}x{stride[1]}",
    )
    behind = (0, more, tiled[0] - h - front[0], tiled[1] - w - front[1])
    padded = kernels.run("pad", [x._handle], {"pads": (0, 0, *front, *behind)})
    (sh, sw), c = stride, c + more
    rows, columns = tiled[0] // sh, tiled[1] // sw
    cut = reshaped(padded, (n, c, rows, sh, columns, sw))
    turned = kernels.run("transpose", [cut], {"perm": (0, 2, 4, 3, 5, 1)})
    whole = (n, rows, columns, sh * sw * c)
    shape: tuple[int, ...] = whole
    if output_shape is not None:
        shape = tuple(int(size) for size in output_shape)
    elif shards is not None:
        shape = (n, sizes[0] // sh, sizes[1] // sw, whole[3])
    made = reshaped(turned, whole)
    if shape != whole:
        made = kernels.run("slice", [made], {"starts": (0,) * 4, "ends": shape})
    goal = L1_MEMORY_CONFIG
    if shards is not None:
        expect(
            config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED,
            "fold op does not support non height-sharding!",
        )
        grid = grid or CoreRangeSet({CoreRange(CoreCoord(0, 0), CoreCoord(1, 1))})
        cut_rows = -(-math.prod(shape[:3]) // grid.num_cores())
        spec = ShardSpec(grid, (cut_rows, shape[3]), shards.orientation)
        goal = memory_config or MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, spec)
    return target(x, goal).wrap(made)
