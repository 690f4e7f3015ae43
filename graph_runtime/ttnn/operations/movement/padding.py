"""pad: adds elements around a tensor; fold: makes channels of the squares of an image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...devices import kernels
from ...errors import Unsupported, called, expect
from ...memory.configs import MemoryConfig
from ...memory.values import BufferType, DataType, Layout
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
    sh sw]; an image in L1 gives the flat form, [1, 1, N H/sh W/sw, C sh sw]."""
    x = input
    if use_transpose_as_fold or pad_c or pad_h or pad_w:
        raise Unsupported("ttnn.fold by transposes is not supported")
    top, left, bottom, right = sides(called(), padding or 0)
    n, h, w, c = x.shape.to_rank(4)
    source = reshaped(x._handle, (n, h, w, c))
    if top or left or bottom or right:
        expect(x.layout is Layout.ROW_MAJOR, _FRONT)
        source = kernels.run("pad", [source], {"pads": (0, top, left, 0, 0, bottom, right, 0)})
        h, w = h + top + bottom, w + left + right
    expect(h % stride_h == 0 and w % stride_w == 0, f"{h}x{w} is no multiple of {stride_h}x{stride_w}")
    cut = reshaped(source, (n, h // stride_h, stride_h, w // stride_w, stride_w, c))
    turned = kernels.run("transpose", [cut], {"perm": (0, 1, 3, 2, 4, 5)})
    made = (n, h // stride_h, w // stride_w, c * stride_h * stride_w)
    if x.memory_config().buffer_type is not BufferType.DRAM:
        made = (1, 1, math.prod(made[:3]), made[3])
    block = x.dtype.is_block
    kind, layout = (DataType.BFLOAT16, Layout.ROW_MAJOR) if block else (x.dtype, x.layout)
    return target(x, override_memory_config, None, kind, layout).wrap(reshaped(turned, made))
