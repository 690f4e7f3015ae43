"""Tiles of other sizes than 32x32: values, padding, shards and products (numbers by numpy)."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")


def _tensor(device, shape, tile, dtype=ttnn.bfloat16, config=None):
    torch.manual_seed(0)
    values = torch.randn(shape).bfloat16()
    made = ttnn.from_torch(
        values,
        dtype=dtype,
        layout=ttnn.TILE_LAYOUT,
        tile=ttnn.Tile(tile),
        device=device,
        memory_config=config,
    )
    return values, made


@pytest.mark.parametrize("tile", [(1, 16), (4, 32), (16, 16), (32, 16)])
def test_a_tile_decides_the_padding(device, tile):
    values, made = _tensor(device, (2, 71, 35), tile)
    rows, cols = (-(-size // step) * step for size, step in zip((71, 35), tile, strict=True))
    assert (made.padded_shape, tuple(made.tile.tile_shape)) == ([2, rows, cols], tile)
    assert torch.equal(ttnn.to_torch(made), values)
    there = ttnn.to_memory_config(ttnn.from_device(made).to(device), ttnn.L1_MEMORY_CONFIG)
    assert tuple(there.tile.tile_shape) == tile
    assert torch.equal(ttnn.to_torch(there), values)


def test_no_hardware_has_such_tiles():
    with pytest.raises(RuntimeError, match="not supported by the hardware"):
        ttnn.Tile((24, 32))


@pytest.mark.parametrize("rows", [8, 16, 32])
@pytest.mark.parametrize("cols", [16, 32])
def test_a_product_has_the_rows_of_one_and_the_columns_of_the_other(device, rows, cols):
    a, x = _tensor(device, (64, 96), (rows, 32))
    b, y = _tensor(device, (96, 48), (32, cols))
    config = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True)
    made = ttnn.matmul(x, y, compute_kernel_config=config, dtype=ttnn.float32)
    assert tuple(made.tile.tile_shape) == (rows, cols)
    want = a.float().numpy().astype(np.float64) @ b.float().numpy()
    assert np.abs(ttnn.to_torch(made).numpy() - want).max() < 1e-3
    into = ttnn.from_torch(
        torch.zeros(64, 48), layout=ttnn.TILE_LAYOUT, tile=ttnn.Tile((rows, cols)), device=device
    )
    ttnn.matmul(x, y, compute_kernel_config=config, optional_output_tensor=into)
    assert torch.equal(ttnn.to_torch(into), ttnn.to_torch(made))


def test_a_product_needs_inner_sizes_of_32(device):
    _, x = _tensor(device, (64, 64), (32, 16))
    _, y = _tensor(device, (64, 64), (32, 32))
    with pytest.raises(RuntimeError, match="inner dim equal to 32"):
        ttnn.matmul(x, y)


def _cut(kind, cores, shape):
    grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (cores - 1, 0))])
    return ttnn.MemoryConfig(kind, ttnn.BufferType.L1, ttnn.ShardSpec(grid, shape))


def test_shards_of_small_tiles(device):
    kinds = ttnn.TensorMemoryLayout
    values, made = _tensor(device, (1, 1, 16, 256), (16, 32), config=_cut(kinds.WIDTH_SHARDED, 4, (16, 64)))
    assert torch.equal(ttnn.to_torch(made), values)
    with pytest.raises(RuntimeError, match=r"must be tile \{16, 32\} sized"):
        _tensor(device, (1, 1, 16, 256), (16, 32), config=_cut(kinds.WIDTH_SHARDED, 4, (8, 64)))
    with pytest.raises(ttnn.Unsupported, match="tiles lie as 32x32"):
        _tensor(device, (1, 1, 64, 64), (16, 32), config=_cut(kinds.HEIGHT_SHARDED, 4, (16, 64)))


def test_blocks_along_columns(device):
    torch.manual_seed(0)
    values = torch.randn(2, 48, 80).bfloat16()
    made = ttnn.to_torch(ttnn.from_torch(values, dtype=ttnn.bfloat8_b, col_tilize=True))
    turned = values.transpose(-1, -2).contiguous()
    assert torch.equal(made, ttnn.to_torch(ttnn.from_torch(turned, dtype=ttnn.bfloat8_b)))
    with pytest.raises(RuntimeError, match="requires BFP dtype"):
        ttnn.from_torch(values, dtype=ttnn.bfloat16, col_tilize=True)
