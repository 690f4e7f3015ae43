"""What packages of others met: semaphores, results that are their operand, rows left out by a reshape."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn


def test_a_semaphore_lies_at_one_address_of_its_cores(device):
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 1))})
    made = ttnn.create_global_semaphore(device, cores, 5)
    other = ttnn.global_semaphore.create_global_semaphore(device, cores, 0)
    assert ttnn.get_global_semaphore_address(made) != ttnn.get_global_semaphore_address(other)
    assert made.counters.shape[0] == 8
    ttnn.reset_global_semaphore_value(made, 3)
    assert [made.counters[core, 0].item() for core in (0, 7)] == [3, 3]
    with pytest.raises(TypeError, match="wanted what create_global_semaphore made"):
        ttnn.get_global_semaphore_address(3)
    with pytest.raises(TypeError, match="wanted a CoreRangeSet"):
        ttnn.create_global_semaphore(device, 3, 0)


@pytest.mark.parametrize(
    "nothing",
    [
        lambda x: ttnn.sharded_to_interleaved(x, ttnn.L1_MEMORY_CONFIG),
        lambda x: ttnn.to_layout(x, ttnn.TILE_LAYOUT),
        lambda x: ttnn.reshape(x, (32, 64)),
        lambda x: ttnn.multiply_(x, 1.0),
    ],
)
def test_a_result_outlives_the_operand_that_it_is(device, nothing):
    x = ttnn.ones((32, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    made = nothing(x)
    assert made is not x
    assert made.buffer_address() == x.buffer_address()
    x.deallocate()
    assert made[31, 63].item() == 1
    ttnn.deallocate(made)
    assert not made.is_allocated()


def test_a_reshape_within_the_padded_shape_leaves_elements_out(device):
    torch = pytest.importorskip("torch")
    x = torch.arange(32 * 64).reshape(1, 1, 32, 64).float()
    held = ttnn.from_torch(x, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
    made = ttnn.reshape(held, (1, 1, 3, 64), (1, 1, 32, 64))
    assert made.padded_shape == held.padded_shape
    assert np.array_equal(ttnn.to_torch(made).numpy(), x[:, :, :3].numpy())
    with pytest.raises(ttnn.Unsupported, match="within the same padded shape"):
        ttnn.reshape(held, (1, 1, 3, 64), (1, 1, 64, 64))


def test_a_cache_of_weights_makes_its_folder(device, tmp_path):
    torch = pytest.importorskip("torch")
    name = tmp_path / "model" / "weights"
    ttnn.as_tensor(torch.ones(2, 2), ttnn.bfloat16, cache_file_name=name)
    assert [path.name for path in name.parent.iterdir()] == [
        "weights_dtype_BFLOAT16_layout_ROW_MAJOR.tensorbin"
    ]
