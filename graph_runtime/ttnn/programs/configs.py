"""Compute kernel configurations and program configurations: how operations compute, and on which cores."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ..errors import check, fatal
from ..memory.cores import CoreRangeSet, coord
from ..memory.values import DEFAULT_TILE, MathFidelity, Tile

__all__ = [
    "BlackholeComputeKernelConfig",
    "DeviceComputeKernelConfig",
    "GrayskullComputeKernelConfig",
    "LayerNormDefaultProgramConfig",
    "LayerNormShardedMultiCoreProgramConfig",
    "MatmulMultiCoreReuseMultiCast1DProgramConfig",
    "MatmulMultiCoreReuseMultiCastBatchedDRAMShardedProgramConfig",
    "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig",
    "MatmulMultiCoreReuseMultiCastProgramConfig",
    "MatmulMultiCoreReuseProgramConfig",
    "SDPAProgramConfig",
    "SoftmaxDefaultProgramConfig",
    "SoftmaxShardedMultiCoreProgramConfig",
    "WormholeComputeKernelConfig",
    "init_device_compute_kernel_config",
]


@dataclass
class DeviceComputeKernelConfig:
    """``math_fidelity`` and ``fp32_dest_acc_en`` take effect in matrix products and convolutions; the other
    fields concern silicon's speed and approximations, which do not exist here."""

    math_fidelity: MathFidelity = MathFidelity.LoFi
    math_approx_mode: bool = True
    fp32_dest_acc_en: bool = False
    packer_l1_acc: bool = False
    dst_full_sync_en: bool = False
    throttle_level: Any = None


WormholeComputeKernelConfig = BlackholeComputeKernelConfig = DeviceComputeKernelConfig
GrayskullComputeKernelConfig = DeviceComputeKernelConfig


def init_device_compute_kernel_config(
    arch: Any, device_kernel_config: DeviceComputeKernelConfig | None = None, **fields: Any
) -> DeviceComputeKernelConfig:
    """The given configuration, or, if none is given, a new configuration with the given fields."""
    return device_kernel_config or DeviceComputeKernelConfig(**fields)


def numerics(config: DeviceComputeKernelConfig | None, fidelity: MathFidelity) -> dict[str, str]:
    """Numerics attributes of a matrix product: those of the configuration, or, without one, the operation's
    default fidelity with sums in 32 bits."""
    fp32 = True
    if config is not None:
        fidelity, fp32 = config.math_fidelity, config.fp32_dest_acc_en
    return {"fidelity": fidelity.name, "dst": "fp32" if fp32 else "bf16"}


@dataclass(kw_only=True)
class _Blocks:
    """Blocks of the result for each core. Sizes are in tiles."""

    compute_with_storage_grid_size: Any
    in0_block_w: int = 1
    out_subblock_h: int = 1
    out_subblock_w: int = 1
    per_core_M: int = 1
    per_core_N: int = 1
    allowed_worker_cores: CoreRangeSet | None = None


class MatmulMultiCoreReuseProgramConfig(_Blocks):
    """Blocks of the result for each core; cores do not share operands."""


@dataclass(kw_only=True)
class _SentBlocks(_Blocks):
    out_block_h: int | None = None
    out_block_w: int | None = None
    fused_activation: Any = None
    fuse_batch: bool = True


@dataclass(kw_only=True)
class MatmulMultiCoreReuseMultiCastProgramConfig(_SentBlocks):
    """Blocks of the result on a grid of cores; operands are sent along the grid's rows and columns."""

    transpose_mcast: bool = False


@dataclass(kw_only=True)
class MatmulMultiCoreReuseMultiCast1DProgramConfig(_SentBlocks):
    """Bands of the result for each core; one operand is sent to all cores."""

    mcast_in0: bool = True
    gather_in0: bool = False
    hop_cores: CoreRangeSet = field(default_factory=CoreRangeSet)
    num_global_cb_receivers: int = 1
    untilize_out: bool = False
    stream_in1: bool = False


@dataclass
class MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig:
    """Weights in DRAM shards, each read by ``num_workers_per_dram_bank`` cores beside its bank."""

    in0_block_w: int = 1
    per_core_M: int = 1
    per_core_N: int = 1
    fused_activation: Any = None
    num_workers_per_dram_bank: int = 1


@dataclass(kw_only=True)
class MatmulMultiCoreReuseMultiCastBatchedDRAMShardedProgramConfig:
    """Batches of weights in DRAM shards."""

    in0_block_w: int
    per_core_M: int
    per_core_N: int
    fused_activation: Any = None


@dataclass
class SoftmaxDefaultProgramConfig:
    """The default configuration, which has no fields."""


@dataclass
class _RowBlocks:
    """Rows that stay on the cores that hold them. Sizes are in tiles."""

    compute_with_storage_grid_size: Any
    subblock_w: int
    block_h: int
    block_w: int


class SoftmaxShardedMultiCoreProgramConfig(_RowBlocks):
    """Rows that stay on the cores that hold them."""


@dataclass
class LayerNormDefaultProgramConfig:
    """The default configuration, which has only these flags."""

    legacy_reduction: bool = False
    legacy_rsqrt: bool = False
    use_welford: bool = False


@dataclass
class LayerNormShardedMultiCoreProgramConfig(_RowBlocks):
    """Rows that stay on the cores that hold them."""

    inplace: bool = False
    legacy_reduction: bool = False
    legacy_rsqrt: bool = False
    use_welford: bool = False


@dataclass
class SDPAProgramConfig:
    """Sizes of the chunks of queries and keys."""

    compute_with_storage_grid_size: Any = None
    sub_core_grids: Any = None
    q_chunk_size: int = 0
    k_chunk_size: int = 0
    exp_approx_mode: bool | None = None
    max_cores_per_head_batch: int = 16
    max_k_splits: int = 1
    matmul_math_fidelity: MathFidelity | None = None
    segmented_accumulation: bool = False


def check_program_config(
    op: str, config: Any, k_tiles: int, fp32: bool, grid: Any, tile: Tile = DEFAULT_TILE
) -> None:
    """Raise RuntimeError for a matmul's program configuration that no device could run: blocks that do not
    divide the result, a sub-block too large for Dst, a grid larger than the device's."""
    if config is None:
        return
    kinds = (
        MatmulMultiCoreReuseProgramConfig,
        MatmulMultiCoreReuseMultiCastProgramConfig,
        MatmulMultiCoreReuseMultiCast1DProgramConfig,
        MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    )
    if not isinstance(config, kinds):
        raise fatal(op, f"{type(config).__name__} is no program configuration of a matmul")
    width = config.in0_block_w
    check(
        width > 0 and k_tiles % width == 0, op, f"Kt ({k_tiles}) must be divisible by in0_block_w ({width})"
    )
    if isinstance(config, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig):
        return
    most = (4 if fp32 else 8) * 1024 // math.prod(tile.tile_shape)
    used = config.out_subblock_h * config.out_subblock_w
    check(used <= most, op, f"out_subblock_h * out_subblock_w = {used} is more than the {most} tiles of Dst")
    rows = getattr(config, "out_block_h", None) or config.per_core_M
    cols = getattr(config, "out_block_w", None) or config.per_core_N
    check(rows % config.out_subblock_h == 0, op, f"{rows} rows of tiles must be divisible by out_subblock_h")
    check(
        cols % config.out_subblock_w == 0, op, f"{cols} columns of tiles must be divisible by out_subblock_w"
    )
    size = coord(config.compute_with_storage_grid_size)
    text = f"the grid {size.x}x{size.y} is larger than the device's {grid.x}x{grid.y}"
    check(size.x <= grid.x and size.y <= grid.y, op, text)
