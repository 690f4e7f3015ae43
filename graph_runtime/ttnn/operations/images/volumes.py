"""Convolutions of volumes with channels last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...devices import kernels
from ...devices.mesh_device import MeshDevice
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect, failed
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import TILE_SIZE, DataType, Layout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor
from ..bodies import AnyTensor
from ..operation import operation
from ..results import target


@operation("experimental.prepare_conv3d_weights", "pad, reshape, transpose")
def prepare_conv3d_weights(
    *,
    weight_tensor: AnyTensor,
    groups: int = 1,
    C_in_block: int = 0,
    alignment: int = 32,
    device: MeshDevice | None = None,
) -> Tensor:
    """A weight [o, c / groups, kd, kh, kw] as rows [kd kh kw c, o] on the device, with c filled up to a
    multiple of ``alignment``: for each block of ``C_in_block`` channels all taps one after the other. A
    group's weight has zeros for the channels of other groups."""
    expect(len(weight_tensor.shape) == 5, f"Unsupported weight tensor rank: {len(weight_tensor.shape)}")
    place = device if device is not None else weight_tensor._device
    if place is None:
        raise failed("Device must be provided when weight tensor is unprepared (rank 5)")
    given = weight_tensor
    held: Tensor = OPERATIONS["to_device"](given, place) if given._device is None else given
    w = held._value.rows()
    if groups > 1:
        w = _without_groups(w, groups)
    out, channels, *taps = w.shape
    whole = -(-channels // alignment) * alignment
    if whole > channels:
        w = w.op("pad", pads=[0] * 6 + [whole - channels, 0, 0, 0], value=0.0)
    block = C_in_block or whole
    expect(whole % block == 0, "C_in_aligned must be divisible by C_in_block")
    cut = w.reshape((out, whole // block, block, *taps)).op("transpose", perm=(1, 3, 4, 5, 2, 0))
    rows = cut.reshape((whole * math.prod(taps), out))
    return target(held, DRAM_MEMORY_CONFIG, layout=Layout.ROW_MAJOR).wrap(rows)


def _without_groups(w: WideValue, groups: int) -> WideValue:
    """A weight [o, c / groups, ..] as [o, c, ..], with zeros for the channels of other groups."""
    out, channels, *taps = w.shape
    cut = w.reshape((groups, out // groups, 1, channels, *taps))
    held = np.eye(groups, dtype=np.float32).reshape(groups, 1, groups, *(1,) * (1 + len(taps)))
    return (cut.wide() * cut.scalar(held, "float32")).reshape((out, groups * channels, *taps))


def _field(config: Any, name: str, default: Any) -> Any:
    value = getattr(config, name, None)
    return default if value is None else value


def _edges(x: WideValue, axis: int, by: int) -> WideValue:
    """``by`` copies of the first and of the last element of an axis in front and behind."""
    if by == 0:
        return x
    size = x.shape[axis]
    places = np.clip(np.arange(-by, size + by), 0, size - 1).astype(np.int32)
    return x.run("take", x.scalar(places, "int32"), axis=axis)


def _of_windows(
    x: WideValue, columns: WideValue, taps: tuple[int, ...], block: int, attrs: dict[str, Any]
) -> WideValue:
    """The convolution by a prepared weight [rows, o]."""
    channels, out = x.shape[4], columns.shape[1]
    weight = columns.reshape((channels // block, *taps, block, out))
    weight = weight.op("transpose", perm=(5, 0, 4, 1, 2, 3)).reshape((out, channels, *taps))
    turned = x.op("transpose", perm=(0, 4, 1, 2, 3))
    return turned.run("conv3d", weight, to=kernels.WIDE, **attrs).op("transpose", perm=(0, 2, 3, 4, 1))


def _of_patches(x: WideValue, columns: WideValue, taps: tuple[int, ...], block: int) -> WideValue:
    """The convolution whose windows lie side by side: one product of all windows with the prepared weight."""
    n, *sizes, channels = x.shape
    counts = [size // tap for size, tap in zip(sizes, taps, strict=True)]
    cut = (n, *(part for pair in zip(counts, taps, strict=True) for part in pair), channels // block, block)
    rows = x.reshape(cut).op("transpose", perm=(0, 1, 3, 5, 7, 2, 4, 6, 8))
    rows = rows.reshape((n * math.prod(counts), channels * math.prod(taps))).wide()
    return (rows @ columns.wide()).reshape((n, *counts, columns.shape[1]))


@operation("experimental.conv3d", "transpose, conv3d, add")
def conv3d(
    *,
    input_tensor: Tensor,
    weight_tensor: AnyTensor,
    device: MeshDevice | None = None,
    bias_tensor: WideValue | None = None,
    config: Any = None,
    dtype: DataType,
    output_channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (1, 1, 1),
    padding: Sequence[int] = (0, 0, 0),
    dilation: Sequence[int] = (1, 1, 1),
    padding_mode: str = "zeros",
    groups: int = 1,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    halo_buffer: Any = None,
    logical_h_mask: int = 0,
    logical_w_mask: int = 0,
    pad_offset_tensor: Any = None,
    output_pad_h: int = 0,
    output_pad_w: int = 0,
    weight_lo_tensor: Any = None,
) -> Tensor:
    """The convolution [n, d, h, w, output_channels] of [n, d, h, w, c] with a weight [o, c / groups, kd, kh,
    kw] on the host, or with rows that prepare_conv3d_weights makes; padding is of zeros or, with "replicate",
    of the outer elements."""
    others = (halo_buffer, logical_h_mask, logical_w_mask, pad_offset_tensor, output_pad_h, output_pad_w)
    if any(others) or weight_lo_tensor is not None:
        raise Unsupported(f"{called()} with a halo, masks, output pads or a split weight is not supported")
    expect(
        padding_mode in ("zeros", "replicate"), f"padding_mode must be zeros or replicate: {padding_mode!r}"
    )
    channels = input_tensor.shape[4]
    block = _field(config, "C_in_block", 0 if config is not None else TILE_SIZE) or channels
    expect(channels % block == 0, f"Input channels ({channels}) must be divisible by C_in_block ({block})")
    if len(weight_tensor.shape) == 5:
        expect(weight_tensor._device is None, "Unprepared weight tensor must be on host")
        given = {
            "alignment": _field(config, "alignment", TILE_SIZE),
            "device": device or input_tensor._device,
        }
        prepare = prepare_conv3d_weights.function
        weight_tensor = prepare(weight_tensor=weight_tensor, groups=groups, C_in_block=block, **given)
    expect(len(weight_tensor.shape) == 2, f"Unsupported weight tensor rank: {len(weight_tensor.shape)}")
    taps = tuple(int(n) for n in kernel_size)
    rows, size = weight_tensor.shape[0], channels * math.prod(taps)
    expect(rows == size, f"Weight patch size must match input patch size. got {rows} vs {size}")
    x, pads = input_tensor._value, [int(by) for by in padding]
    if padding_mode == "replicate":
        for axis, by in enumerate(pads):
            x = _edges(x, axis + 1, by)
        pads = [0, 0, 0]
    apart = tuple(_field(config, "dilation", dilation))
    columns = weight_tensor._value.part(1, 0, output_channels)
    whole = all(size % tap == 0 for size, tap in zip(x.shape[1:4], taps, strict=True))
    if taps == tuple(stride) and not any(pads) and apart == (1, 1, 1) and whole:
        made = _of_patches(x, columns, taps, block)
    else:
        attrs = {"strides": tuple(stride), "pads": (*pads, *pads), "dilations": apart}
        made = _of_windows(x, columns, taps, block, attrs)
    if bias_tensor is not None:
        bias = bias_tensor.reshape((bias_tensor.size // bias_tensor.shape[-1], bias_tensor.shape[-1]))
        made = made + bias.part(0, 0, 1).part(1, 0, output_channels).reshape((1, 1, 1, 1, output_channels))
    return target(input_tensor, memory_config, None, dtype, Layout.ROW_MAJOR).wrap(made)
