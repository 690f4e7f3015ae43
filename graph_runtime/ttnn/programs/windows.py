"""Configurations of convolutions and pools, and the arguments that describe their windows."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import check
from ..memory.values import Layout

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

_PLACES = (  # fields of Conv2dConfig about places and methods of silicon's work
    "config_tensors_in_dram act_block_h_override act_block_w_div reshard_if_not_optimal "
    "override_sharding_config core_grid transpose_shards enable_act_double_buffer "
    "enable_weights_double_buffer full_inner_dim enable_kernel_stride_folding enable_activation_reuse "
    "force_split_reader override_output_sharding_config reallocate_halo_output enable_split_reader "
    "enable_subblock_padding in_place input_channels_alignment"
).split()


class Conv2dConfig:
    """``weights_dtype``, ``activation``, ``shard_layout``, ``output_layout``, ``deallocate_activation`` and
    ``dtype`` (an older form) take effect. The other fields say how silicon blocks its work; they are only
    kept."""

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
    """Configuration of a convolution of volumes. ``C_in_block``, ``alignment`` and ``dilation`` have an
    effect; the other fields say how silicon cuts the work."""

    def __init__(self, **fields: Any):
        vars(self).update(fields)


_SliceType = enum.Enum("_SliceType", "DRAMSliceHeight DRAMSliceWidth L1Full", start=0)


@dataclass
class Op2DSliceConfig:
    """Whether a large image is computed in slices in DRAM or as a whole in L1. The choice decides the
    result's memory, not its values."""

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
    """The number of positions of a window along a dimension."""
    return (input + 2 * pad - dilation * (window - 1) - 1) // stride + 1


def pair(value: Any) -> tuple[int, int]:
    """(height, width), from one number or two."""
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))


def sides(op: str, padding: Any) -> tuple[int, int, int, int]:
    """(top, left, bottom, right), from one number, (height, width) or (top, bottom, left, right)."""
    sizes = [padding] if isinstance(padding, int) else list(padding)
    check(len(sizes) in (1, 2, 4), op, f"padding must have 1, 2 or 4 numbers, got {sizes}")
    if len(sizes) == 4:
        top, bottom, left, right = map(int, sizes)
        return top, left, bottom, right
    return (*pair(padding), *pair(padding))
