"""Shards of any number of dimensions, in L1 and in DRAM, of compat.ttnn: where they lie, and their values."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn

rng = np.random.default_rng(4)


def cores(*corners):
    return ttnn.CoreRangeSet([ttnn.CoreRange(*pair) for pair in corners])


def nd(shape, where, buffer=ttnn.BufferType.L1, orientation=ttnn.ShardOrientation.ROW_MAJOR):
    return ttnn.MemoryConfig(buffer, ttnn.NdShardSpec(shape, where, orientation))


FOUR = cores(((0, 0), (1, 1)))
CASES = {  # tensor, shard, cores, memory
    "one": ((32, 32), (32, 32), FOUR, ttnn.BufferType.L1),
    "rounds": ((5, 96, 64), (1, 32, 32), FOUR, ttnn.BufferType.L1),
    "overhang": ((2, 4, 128, 160), (2, 3, 96, 96), FOUR, ttnn.BufferType.L1),
    "fewer dimensions": ((2, 2, 64, 96), (32, 32), FOUR, ttnn.BufferType.L1),
    "two ranges": ((3, 160, 160), (2, 64, 64), cores(((1, 1), (2, 1)), ((4, 4), (6, 5))), ttnn.BufferType.L1),
    "dram": ((3, 70, 45), (2, 32, 32), cores(((0, 0), (4, 0))), ttnn.BufferType.DRAM),
}


@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
@pytest.mark.parametrize("name", CASES)
def test_values_are_held_and_computed_with(device, name, layout):
    shape, shard, where, buffer = CASES[name]
    values = rng.standard_normal(shape).astype(np.float32)
    config = nd(shard, where, buffer)
    x = ttnn.from_torch(values, dtype=ttnn.float32, layout=layout, device=device, memory_config=config)
    assert x.memory_config() == config
    assert (x.to_numpy() == values).all()
    made = ttnn.add(x, x)
    assert made.memory_config() == config
    assert (made.to_numpy() == values + values).all()
    back = ttnn.to_memory_config(made, ttnn.DRAM_MEMORY_CONFIG)
    assert (back.to_numpy() == values + values).all()


def test_a_bank_has_the_shards_whose_turn_it_is(device):
    """Shards 0, 4, 8 of ten on the first of four cores; a bank takes three shards."""
    before = ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank
    x = ttnn.zeros((10 * 32, 32), ttnn.float32, ttnn.TILE_LAYOUT, device, nd((32, 32), FOUR))
    after = ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank
    assert after - before == 3 * 4096
    ttnn.deallocate(x)


def test_width_shards_in_dram(device):
    spec = ttnn.ShardSpec(cores(((0, 0), (5, 0))), [64, 32], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.DRAM, spec)
    values = rng.standard_normal((64, 6 * 32)).astype(np.float32)
    x = ttnn.from_torch(values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
    made = ttnn.to_memory_config(x, config)
    assert (made.to_numpy() == values).all()
    assert np.allclose(ttnn.matmul(ttnn.transpose(x, 0, 1), made).to_numpy(), values.T @ values, atol=1e-3)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (nd((32, 32), cores(((0, 0), (99, 0)))), "are not all cores"),
        (nd((32, 32), cores(((0, 1), (2, 1))), ttnn.BufferType.DRAM), "not all banks of DRAM"),
        (nd((1, 1, 1, 32, 32), FOUR), "cannot cut a tensor"),
    ],
)
def test_what_does_not_fit_is_refused(device, config, text):
    with pytest.raises(RuntimeError, match=text):
        ttnn.zeros((64, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config)


def test_a_spec_cuts_a_tensor_along_dimensions(device):
    spec = ttnn.TensorSpec((3, 40, 70), ttnn.float32, ttnn.TILE_LAYOUT, buffer_type=ttnn.BufferType.L1)
    for cut, shape in (
        (spec.sharded_across_dims([0, 1], FOUR), (1, 32, 96)),
        (spec.sharded_across_dims_except([1], FOUR), (1, 64, 32)),
        (spec.sharded((2, 30, 60), FOUR), (2, 32, 64)),
    ):
        assert cut.memory_config.nd_shard_spec.shard_shape == shape
        values = rng.standard_normal((3, 40, 70)).astype(np.float32)
        assert (ttnn.from_torch(values, spec=cut, device=device).to_numpy() == values).all()
