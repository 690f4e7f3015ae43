"""group_norm, and the preparation of its weights, biases and masks.

A prepared weight [1, 1, n, 32] has the channels core by core; the channels of each core are filled up to
whole tiles. group_norm takes such a weight apart again; it accepts masks and reciprocals, and does not need
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import CoreGrid, CoreRange, CoreRangeSet
from ...memory.placing import up
from ...memory.values import TILE_SIZE, BufferType, DataType, Layout, ShardOrientation, TensorMemoryLayout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor, on_host
from ..creation.conversion import from_torch
from ..operation import operation
from ..results import target


@operation("group_norm", "reshape, mean, subtract, multiply")
def group_norm(
    input_tensor: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-12,
    input_mask: Any = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    core_grid: CoreGrid | None = None,
    inplace: bool = True,
    output_layout: Layout | None = None,
    num_out_blocks: int | None = None,
    negative_mask: Any = None,
    reciprocals: Any = None,
) -> Tensor:
    """(x - mean) / standard deviation of each group of channels of [N, 1, HW, C], times weight, plus bias."""
    x = input_tensor
    n, _one, rows, channels = x.shape.to_rank(4)
    expect(channels % num_groups == 0, f"{channels} channels cannot be cut into {num_groups} groups")
    if core_grid is not None and not x.is_sharded():
        _check_grid(core_grid, n, num_groups, channels)
    cut = x._value.reshape((n, rows * _one, num_groups, channels // num_groups))
    away = cut - cut.mean(axes=(1, 3))
    count = rows * _one * channels // num_groups
    spread = away.op("sum_squares", axes=(1, 3), keepdims=True) / float(count)
    made = away * (spread + float(epsilon)).rsqrt()
    made = made.reshape(tuple(x.shape))
    for what, operand in (("multiply", weight), ("add", bias)):
        if operand is not None:
            made = made.op(what, _per_channel(x, operand, channels, core_grid))
    place = memory_config or DRAM_MEMORY_CONFIG
    kind, layout = dtype or DataType.BFLOAT16, output_layout or x.layout
    return target(x, place, None, kind, layout).wrap(made)


def _across(grid: CoreGrid, groups: int, channels: int) -> int:
    """Number of columns of cores among which the channels are cut."""
    tiles = up(channels, TILE_SIZE) // TILE_SIZE
    return _columns(min(tiles, grid.x), groups, tiles, 1)


def _check_grid(grid: CoreGrid, n: int, groups: int, channels: int) -> None:
    """Raise RuntimeError for a grid of cores that the batches cannot share equally."""
    across = _across(grid, groups, channels)
    down = grid.x // across * grid.y
    expect(
        down < n or down % n == 0,
        f"The core grid (x={grid.x}, y={grid.y}) produces num_virtual_rows={down} which is not divisible by "
        f"num_batches={n}: give another core_grid",
    )


def _shares(x: Tensor, channels: int, core_grid: CoreGrid | None) -> Iterator[int]:
    """Numbers of cores among which the channels may have been cut."""
    spec = x.memory_config().shard_spec
    if spec is not None:
        yield channels // spec.shape[1] if spec.shape[1] and channels % spec.shape[1] == 0 else 1
    elif core_grid is not None:
        yield from (core_grid.x, core_grid.y, core_grid.num_cores, 1)
    else:
        yield from (k for k in range(1, 65) if channels % k == 0)


def _per_channel(x: Tensor, operand: Tensor, channels: int, core_grid: CoreGrid | None) -> WideValue:
    """A weight or bias as [C]; it may have been filled up to whole tiles for each core."""
    volume = operand.logical_volume()
    flat = operand._value.reshape((volume,))
    if volume == channels:
        return flat
    fits = {
        channels // k
        for k in _shares(x, channels, core_grid)
        if channels % k == 0 and k * up(channels // k, TILE_SIZE) == volume
    }
    if len(fits) != 1:
        text = f"a weight or bias of {volume} elements for {channels} channels is not supported here"
        raise Unsupported(f"{called()}: {text}")
    size = fits.pop()
    parts = flat.reshaped((channels // size, up(size, TILE_SIZE)))
    return parts.part(1, 0, size).reshape((channels,))


# **************** preparation ****************


@operation("create_group_norm_weight_bias_rm")
def create_group_norm_weight_bias_rm(input_tensor: Any, num_channels: int, num_cores_x: int) -> Any:
    """A torch tensor [1, 1, n, 32] of a weight or bias [C]: the channels of each core, filled up with zeros
    to whole tiles."""
    import torch

    size = num_channels // num_cores_x
    parts = input_tensor.reshape(-1, size)
    return torch.nn.functional.pad(parts, (0, up(size, TILE_SIZE) - size)).reshape(1, 1, -1, TILE_SIZE)


def _mask(name: str, inside: float) -> None:
    @operation(name)
    def function(
        num_channel: int,
        num_groups: int,
        num_cores_across_channel: int,
        data_type: DataType = DataType.BFLOAT8_B,
    ) -> Tensor:
        """A host tensor [1, groups, 32, 32 w]. It says which columns of its tiles belong to a group."""
        size = num_channel // num_groups
        starts = [at * size % TILE_SIZE for at in range(num_groups)]
        width = up(max(starts) + size, TILE_SIZE)
        made = np.full((1, num_groups, TILE_SIZE, width), 1 - inside, np.float32)
        for at, start in enumerate(starts):
            made[:, at, :, start : start + size] = inside
        return on_host(made, data_type, Layout.TILE)


_mask("create_group_norm_input_mask", 1.0)
_mask("create_group_norm_input_negative_mask", 0.0)


@operation("create_group_norm_reciprocals")
def create_group_norm_reciprocals(
    N: int, C: int, H: int, W: int, num_groups: int, core_grid: CoreGrid
) -> Any:
    """A torch tensor of 1 / 1, 1 / 2 .. for each core. group_norm accepts it and does not need it."""
    import torch

    across = _across(core_grid, num_groups, C)
    down = core_grid.x // across * core_grid.y
    count = C // num_groups * -(-H * W // TILE_SIZE) // (1 if down <= N else down // N)
    return (1 / torch.arange(1, count + 1, dtype=torch.float32)).repeat(core_grid.num_cores, 1)


@operation("get_group_norm_cores_across_channel")
def get_group_norm_cores_across_channel(
    memory_layout: TensorMemoryLayout, core_grid: CoreGrid, shard_orientation: ShardOrientation | None = None
) -> int:
    """Number of cores among which the channels are cut."""
    if memory_layout is TensorMemoryLayout.BLOCK_SHARDED:
        return core_grid.x if shard_orientation is ShardOrientation.ROW_MAJOR else core_grid.y
    return 1 if memory_layout is TensorMemoryLayout.HEIGHT_SHARDED else core_grid.num_cores


def _most(size: int, most: int, step: int = 1) -> int:
    """The greatest number of cores, up to ``most``, that cuts ``size`` into multiples of ``step``."""
    return max(k for k in range(1, most + 1) if size % (k * step) == 0 or k == 1)


def _columns(most: int, groups: int, channels: int, step: int) -> int:
    """The greatest number of cores, up to ``most``, that divides ``groups`` and cuts ``channels`` into
    multiples of ``step``."""
    fits = (k for k in range(most, 1, -1) if groups % k == 0 and channels % (k * step) == 0)
    return next(fits, 1)


@operation("determine_expected_group_norm_sharded_config_and_grid_size")
def determine_expected_group_norm_sharded_config_and_grid_size(
    *,
    device: Any,
    num_channels: int,
    num_groups: int,
    input_nhw: int,
    is_height_sharded: bool,
    is_row_major: bool = False,
) -> tuple[MemoryConfig, CoreGrid]:
    """(configuration, grid) of an image in shards, over as many cores as divide it. In block shards each
    column of cores has whole groups."""
    grid = device.core_grid
    if is_height_sharded:
        count = _most(input_nhw, grid.num_cores, TILE_SIZE)
        wide = _most(count, grid.x)
        cores = CoreGrid(x=wide, y=count // wide) if count // wide <= grid.y else CoreGrid(x=wide, y=1)
        shape = [input_nhw // cores.num_cores, num_channels]
        layout, turned = TensorMemoryLayout.HEIGHT_SHARDED, ShardOrientation.ROW_MAJOR
    else:
        down, across = (grid.y, grid.x) if is_row_major else (grid.x, grid.y)
        down = _most(input_nhw, down, TILE_SIZE)
        across = _columns(across, num_groups, num_channels, 8)
        cores = CoreGrid(x=across, y=down) if is_row_major else CoreGrid(x=down, y=across)
        shape = [input_nhw // down, num_channels // across]
        layout = TensorMemoryLayout.BLOCK_SHARDED
        turned = ShardOrientation.ROW_MAJOR if is_row_major else ShardOrientation.COL_MAJOR
    ranges = CoreRangeSet([CoreRange((0, 0), (cores.x - 1, cores.y - 1))])
    return MemoryConfig(layout, BufferType.L1, ShardSpec(ranges, shape, turned)), cores


@operation("determine_expected_group_norm_dram_grid_size")
def determine_expected_group_norm_dram_grid_size(
    *, device: Any, num_channels: int, num_groups: int, input_nhw: int, num_batches: int = 1
) -> CoreGrid:
    """The cores that share a tensor in DRAM; each core has as many groups and as many rows of tiles as any
    other."""
    grid = device.core_grid
    across = _columns(grid.x, num_groups, num_channels, TILE_SIZE)
    return CoreGrid(x=across, y=_most(input_nhw, grid.y, TILE_SIZE))


@operation("dram_group_norm_params_from_torch")
def dram_group_norm_params_from_torch(
    torch_params: Any,
    channels_per_device: int,
    groups_per_device: int,
    device: Any,
    mesh_axis: int | None = None,
    core_grid: CoreGrid | None = None,
    return_mask: bool = True,
    dtype: DataType = DataType.BFLOAT16,
) -> Any:
    """torch's weights and biases as tensors on a device: a list of tensors if ``torch_params`` is a list,
    else one tensor. With ``return_mask`` the mask follows: (tensors, mask)."""
    alone = not isinstance(torch_params, (list, tuple))
    made = []
    for given in [torch_params] if alone else torch_params:
        text = f"{given.numel()} channels were given, wanted {channels_per_device}"
        expect(given.numel() == channels_per_device, text)
        rows = create_group_norm_weight_bias_rm.function(given, channels_per_device, 1)
        made.append(from_torch(rows, dtype=dtype, layout=Layout.ROW_MAJOR, device=device))
    found = made[0] if alone else made
    if not return_mask:
        return found
    mask = OPERATIONS["create_group_norm_input_mask"](channels_per_device, groups_per_device, 1, dtype)
    return found, mask if device is None else mask.to(device)
