"""Configurations of convolutions and pools, and images as these functions take and return them: channels
last, flat or not, on the host or on a device."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...run.tensors.tensor import Tensor as Handle
from . import kernels
from .devices import GetDefaultDevice, MeshDevice
from .errors import check
from .memory import DRAM_MEMORY_CONFIG, MemoryConfig
from .names import OPERATIONS
from .results import Target, device_tensor
from .tensor import Tensor
from .values import BufferType, DataType, Layout, TensorMemoryLayout
from .wide import Wide

__all__ = [
    "Conv1dConfig",
    "Conv2dConfig",
    "Conv2dDRAMSliceHeight",
    "Conv2dDRAMSliceWidth",
    "Conv2dL1Full",
    "Conv2dL1FullSliceConfig",
    "Conv2dSliceConfig",
    "Conv3dConfig",
    "Op2DDRAMSliceHeight",
    "Op2DDRAMSliceWidth",
    "Op2DL1Full",
    "Op2DL1FullSliceConfig",
    "Op2DSliceConfig",
    "get_conv_output_dim",
]

_PLACES = (  # of Conv2dConfig: where and how silicon works
    "config_tensors_in_dram act_block_h_override act_block_w_div reshard_if_not_optimal "
    "override_sharding_config core_grid transpose_shards enable_act_double_buffer "
    "enable_weights_double_buffer full_inner_dim enable_kernel_stride_folding enable_activation_reuse "
    "force_split_reader override_output_sharding_config reallocate_halo_output enable_split_reader "
    "enable_subblock_padding in_place input_channels_alignment"
).split()


class Conv2dConfig:
    """``weights_dtype``, ``activation``, ``shard_layout``, ``output_layout``, ``deallocate_activation`` and
    ``dtype`` (an older form) are acted on. The other fields say how silicon blocks its work; they are kept as
    they were given."""

    _FIELDS: ClassVar[dict[str, Any]] = {
        "weights_dtype": None,
        "activation": None,
        "deallocate_activation": False,
        "shard_layout": None,
        "output_layout": Layout.TILE,
        "padding_mode": None,
        "dtype": None,
    }

    def __init__(self, **fields: Any):
        known = self._FIELDS | dict.fromkeys(_PLACES)
        unknown = fields.keys() - known.keys()
        if unknown:
            raise TypeError(f"Conv2dConfig(): incompatible arguments: unexpected {sorted(unknown)[0]!r}")
        vars(self).update(known | fields)


Conv1dConfig = Conv2dConfig


class Conv3dConfig:
    """Fields of a convolution of volumes, kept as they were given: it is declined."""

    def __init__(self, **fields: Any):
        vars(self).update(fields)


class _SliceType(enum.Enum):
    DRAMSliceHeight = 0
    DRAMSliceWidth = 1
    L1Full = 2


@dataclass
class Op2DSliceConfig:
    """Whether a large image is worked on in slices in DRAM, or as a whole in L1. The values are the same; it
    says where a result lies."""

    slice_type: _SliceType = _SliceType.L1Full
    num_slices: int = 0
    SliceTypeEnum: ClassVar[Any] = _SliceType


Conv2dSliceConfig = Op2DSliceConfig
Conv2dDRAMSliceHeight, Conv2dDRAMSliceWidth = _SliceType.DRAMSliceHeight, _SliceType.DRAMSliceWidth
Conv2dL1Full = _SliceType.L1Full
Conv2dL1FullSliceConfig = Op2DSliceConfig(slice_type=Conv2dL1Full)
Op2DDRAMSliceHeight, Op2DDRAMSliceWidth = Conv2dDRAMSliceHeight, Conv2dDRAMSliceWidth
Op2DL1Full, Op2DL1FullSliceConfig = Conv2dL1Full, Conv2dL1FullSliceConfig


def get_conv_output_dim(input: int, window: int, stride: int = 1, pad: int = 0, dilation: int = 1) -> int:
    """How many windows there are along a dimension."""
    return (input + 2 * pad - dilation * (window - 1) - 1) // stride + 1


# **************** arguments ****************


def pair(value: Any) -> tuple[int, int]:
    """(height, width) of one number or two."""
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))


def sides(op: str, padding: Any) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) of a number, (height, width) or (top, bottom, left, right)."""
    sizes = [padding] if isinstance(padding, int) else list(padding)
    check(len(sizes) in (1, 2, 4), op, f"padding must have 1, 2 or 4 numbers, got {sizes}")
    if len(sizes) == 4:
        top, bottom, left, right = map(int, sizes)
        return top, left, bottom, right
    return (*pair(padding), *pair(padding))


def placed_on(op: str, tensor: Any, device: MeshDevice | None) -> Tensor:
    """A tensor on a device: a host tensor is moved to ``device``."""
    if isinstance(tensor, Tensor) and tensor._device is None:
        device = device or GetDefaultDevice()
        check(device is not None, op, "a host tensor needs a device")
        moved: Tensor = OPERATIONS["to_device"].function(tensor, device)
        return moved
    return device_tensor(op, tensor)


def planes(op: str, w: Wide, x: Tensor, size: Sequence[int], channels: int, *, exact: bool = False) -> Handle:
    """The image of [N, H, W, C] or [1, 1, N H W, C] as [N, C, H, W]. ``size``: (N, H, W). Channels beyond
    ``channels`` are padding, unless ``exact``."""
    check(len(x.shape) > 0, op, "the input has no dimensions")
    wide = x.shape[-1]
    fits = wide == channels if exact else wide >= channels
    count = size[0] * size[1] * size[2]
    check(
        fits and x.logical_volume() == count * wide,
        op,
        f"an input of shape {x.shape} is no image of {tuple(size)} (batch, height, width) and {channels} "
        "channels",
    )
    image = w.reshape(w.rows(x._handle), (*size, wide))
    if wide > channels:
        image = w("slice", image, starts=(0,), ends=(channels,), axes=(3,))
    return kernels.run("transpose", [image], {"perm": (0, 3, 1, 2)})


def flat(w: Wide, image: Handle) -> Handle:
    """[N, C, H, W] as [1, 1, N H W, C]."""
    n, channels, height, width = image.shape
    turned = kernels.run("transpose", [image], {"perm": (0, 2, 3, 1)})
    return w.reshape(w.rows(turned), (1, 1, n * height * width, channels))


def goal_of(
    op: str,
    x: Tensor,
    dtype: DataType,
    layout: Layout,
    memory_config: MemoryConfig | None,
    scheme: TensorMemoryLayout | None,
    slices: Op2DSliceConfig | None,
) -> Target:
    """Where a result goes unless ``memory_config`` says so: into shards in L1 where the input was in L1, or
    ``slices`` asks for it; else into DRAM, as an image that is worked on in slices."""
    config = x.memory_config()
    in_l1 = config.buffer_type is not BufferType.DRAM
    if slices is not None:
        in_l1 = slices.slice_type is Conv2dL1Full
    if memory_config is None:
        memory_config = DRAM_MEMORY_CONFIG
        if in_l1:
            own = config.memory_layout if config.is_sharded() else TensorMemoryLayout.HEIGHT_SHARDED
            memory_config = MemoryConfig(scheme or own, BufferType.L1)
    assert x._device is not None
    wanted = Layout.TILE if dtype.is_block else layout
    return Target(op, dtype, wanted, memory_config, x._device, like=config)
