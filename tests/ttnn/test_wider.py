"""What a wider draw of tests showed: integers by a scale, minimal products, refusals, programs, masks."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")


def _on(device, values, dtype=None):
    return ttnn.from_torch(torch.as_tensor(values), dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)


def _back(tensor):
    return ttnn.to_torch(tensor).float().numpy()


@pytest.mark.parametrize("tensors", [False, True])
def test_one_scale(device, tensors):
    x = np.random.default_rng(0).uniform(-2, 2, (40, 48)).astype(np.float32)
    scale, zero = 4 / 255, -3
    s = _on(device, [[scale]], ttnn.float32) if tensors else scale
    z = _on(device, [[zero]], ttnn.int32) if tensors else zero
    q = ttnn.quantize(_on(device, x), s, z)
    assert q.dtype is ttnn.int32
    assert np.abs(_back(q) - np.round(x / np.float32(scale) + zero)).max() <= 1  # halves may go either way
    assert (_back(q) == np.round(x / np.float32(scale) + zero)).mean() > 0.999
    again = ttnn.dequantize(q, s, z, dtype=ttnn.float32)
    assert np.abs(_back(again) - x).max() <= scale * 0.51
    other = ttnn.requantize(q, s, z, 0.05, 7)
    assert np.abs(_back(other) - np.round((_back(q) - zero) * scale / 0.05 + 7)).max() <= 1


def test_one_scale_a_channel(device):
    x = np.random.default_rng(1).uniform(-1, 1, (2, 3, 32, 32)).astype(np.float32)
    scales, zeros = np.array([0.01, 0.02, 0.03], np.float32), np.array([1, -2, 3], np.int32)
    s, z = _on(device, scales), _on(device, zeros)
    q = _back(ttnn.quantize(_on(device, x), s, z, axis=1))
    want = np.round(x / scales[:, None, None] + zeros[:, None, None])
    assert (q == want).mean() > 0.999
    with pytest.raises(RuntimeError, match="doesn't match the size of the input tensor"):
        ttnn.quantize(_on(device, x), s, z, axis=2)
    with pytest.raises(RuntimeError, match="1D"):
        ttnn.quantize(_on(device, x), 0.1, z, axis=1)


def test_the_minimal_product(device):
    torch.manual_seed(0)
    a, b, bias = torch.randn(64, 96), torch.randn(96, 192), torch.randn(1, 192)
    x, y, c = (_on(device, v.bfloat16()) for v in (a, b, bias))
    config = ttnn.MinimalMatmulConfig(M_block_size=2, compute_with_storage_grid_size=(8, 8))
    made = ttnn.experimental.minimal_matmul(x, y, c, config=config)
    assert torch.equal(ttnn.to_torch(made), ttnn.to_torch(ttnn.linear(x, y, bias=c)))
    parts = ttnn.experimental.minimal_matmul_split(x, y, 3, -1, c)
    assert torch.equal(torch.cat([ttnn.to_torch(p) for p in parts], -1), ttnn.to_torch(made))
    base, gate = torch.randn(64, 192), torch.randn(1, 192)
    fused = ttnn.experimental.dit_minimal_matmul_addcmul_fused(
        x, y, 0.5, _on(device, base.bfloat16()), _on(device, gate.bfloat16()), bias_tensor=c
    )
    want = base + 0.5 * (a @ b + bias) * gate
    assert np.corrcoef(want.ravel(), _back(fused).ravel())[0, 1] > 0.9995


def test_in_place_with_an_activation_of_its_input(device):
    a, b = torch.rand(32, 64).bfloat16() + 1, torch.rand(32, 64).bfloat16()
    x = _on(device, a)
    ttnn.subtract_(x, _on(device, b), input_tensor_a_activations=[ttnn.UnaryOpType.SQUARE])
    want = (a.float() ** 2).bfloat16().float() - b.float()
    assert np.abs(_back(x) - want.numpy()).max() < 0.02


def test_softmax_of_another_dimension_never_overflows(device):
    x = torch.empty(1, 1, 64, 32).uniform_(-900, 900).bfloat16()
    made = _back(ttnn.softmax(_on(device, x), dim=-2, numeric_stable=False))
    assert np.abs(made - torch.softmax(x.float(), -2).numpy()).max() < 0.01


def test_what_ttnn_refuses(device):
    kinds, x = ttnn.TensorMemoryLayout, _on(device, torch.rand(2, 64, 64).bfloat16())
    line = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (0, 1))])
    config = ttnn.MemoryConfig(kinds.BLOCK_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(line, (64, 64)))
    with pytest.raises(RuntimeError, match="1D grid"):
        ttnn.matmul(x, x, memory_config=config)
    with pytest.raises(RuntimeError, match="sharded"):
        ttnn.experimental.broadcast_to(x, (2, 64, 64), memory_config=config)
    four = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (3, 0))])
    pure = ttnn.MemoryConfig(ttnn.BufferType.L1, ttnn.NdShardSpec((1, 32, 32), four))
    with pytest.raises(RuntimeError, match="2D shard spec"):
        ttnn.interleaved_to_sharded(x, pure)
    with pytest.raises(ttnn.Unsupported, match=r"ttnn\.all_to_all_dispatch is not supported"):
        ttnn.get_golden_function(ttnn.all_to_all_dispatch)


def test_statistics_of_shards_are_means(device):
    x = torch.randn(1, 1, 32, 128).bfloat16()
    cores = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (1, 0))])
    cut = ttnn.ShardSpec(cores, (32, 64))
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.L1, cut)
    placed = ttnn.to_memory_config(_on(device, x), config)
    stats = ttnn.layer_norm_pre_all_gather(placed)
    made, v = _back(stats), x.float().numpy()
    assert np.abs(made[..., 0] - v.mean(-1)).max() < 2e-3
    assert np.abs(made[..., 32] - (v**2).mean(-1)).max() < 1e-2
    done = _back(ttnn.layer_norm_post_all_gather(placed, stats))
    want = (v - v.mean(-1, keepdims=True)) / v.std(-1, keepdims=True)
    assert np.abs(done - want).max() < 0.05


def test_programs_of_two_operands(device):
    def entries(*calls):
        device.clear_program_cache()
        for a, b in calls:
            ttnn.add(_on(device, torch.ones(a)), b if isinstance(b, float) else _on(device, torch.ones(b)))
        return device.num_program_cache_entries()

    one = (1, 1, 32, 32)
    assert entries((one, 0.5), (one, 1.5)) == 1  # a number's value is an argument
    assert entries((one, one), ((2, 3, 64, 32), (2, 3, 64, 32))) == 1
    assert entries((one, one), (one, (1, 1, 1, 32)), (one, (1, 1, 32, 1)), (one, 0.5)) == 4


@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_of_fewer_rows(device, causal):
    x, mask = torch.randn(2, 1, 128, 64).bfloat16(), torch.randn(2, 1, 32, 64).bfloat16()
    made = ttnn.scale_mask_softmax(_on(device, x), 0.5, _on(device, mask), is_causal_mask=causal)
    rows = mask.repeat(1, 1, 4, 1) if causal else mask[:, :, :1]
    want = torch.softmax(x.float() * 0.5 + rows.float(), -1).numpy()
    assert np.abs(_back(made) - want).max() < 0.01


def test_a_mask_of_heights_and_widths_is_causal_unasked(device):
    x, mask = torch.randn(1, 2, 128, 64).bfloat16(), torch.randn(1, 1, 32, 64).bfloat16()
    made = ttnn.scale_causal_mask_hw_dims_softmax_in_place(_on(device, x), 0.5, _on(device, mask))
    want = torch.softmax(x.float() * 0.5 + mask.repeat(1, 1, 4, 1).float(), -1).numpy()
    assert np.abs(_back(made) - want).max() < 0.01


def test_a_mask_in_rows_of_a_tile_is_one_row(device):
    x, mask = torch.randn(2, 3, 64, 96).bfloat16(), torch.randn(2, 1, 1, 96).bfloat16()
    given = ttnn.to_layout(_on(device, mask.reshape(2, 1, 3, 32)), ttnn.ROW_MAJOR_LAYOUT)
    made = ttnn.scale_mask_softmax_in_place(_on(device, x), 0.5, given)
    want = torch.softmax(x.float() * 0.5 + mask.float(), -1).numpy()
    assert np.abs(_back(made) - want).max() < 0.01


@pytest.mark.parametrize(
    ("shape", "dim", "dtype"),
    [
        ((1, 2050), 1, ttnn.bfloat16),
        ((1100, 3), 0, ttnn.float32),
        ((2, 1030), -1, ttnn.uint16),
        ((1, 70_000), -1, ttnn.bfloat16),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
def test_long_rows_are_sorted(device, shape, dim, dtype, descending):
    values = np.random.default_rng(2).integers(0, 500, shape)  # with ties, which stay in their order
    values = values.astype(np.float32 if dtype.is_float else np.uint16)
    x = ttnn.from_torch(values, dtype, layout=ttnn.TILE_LAYOUT, device=device)
    found, places = ttnn.sort(x, dim, descending)
    kept = x.to_numpy().astype(np.int64)
    order = np.argsort(-kept if descending else kept, axis=dim, kind="stable")
    assert (places.to_numpy() == order).all()
    assert (found.to_numpy() == np.take_along_axis(kept, order, dim)).all()


@pytest.mark.parametrize(("reduce", "function"), [("add", np.add), ("multiply", np.multiply)])
def test_scatter_reduces(device, reduce, function):
    rng = np.random.default_rng(3)
    values, updates = rng.integers(1, 4, (2, 32, 64)).astype(np.float32)
    index = rng.integers(0, 64, (32, 64))
    index[:, 32:] = np.arange(32, 64)  # some are hit several times
    x, more, places = (
        ttnn.from_torch(v, t, device=device)
        for v, t in ((values, ttnn.float32), (updates, ttnn.float32), (index, ttnn.uint32))
    )
    wanted = values.copy()
    function.at(wanted, (np.arange(32)[:, None], index), updates)
    assert np.allclose(_back(ttnn.scatter(x, 1, places, more, reduce=reduce)), wanted, rtol=1e-6)
    with pytest.raises(RuntimeError, match="reduce must be either 'add' or 'multiply'"):
        ttnn.scatter(x, 1, places, more, reduce="amax")


@pytest.mark.parametrize("shape", [(7,), (3, 5, 1), (1, 1, 512, 1024)])
def test_argmax_of_all_elements(device, shape):
    """The first of equal ones; NaN is the greatest. A million elements are more than a core's L1 holds."""
    values = np.random.default_rng(4).integers(0, 50, shape).astype(np.float32)
    for _ in range(2):
        x = ttnn.from_torch(values, ttnn.bfloat16, device=device)
        assert int(ttnn.argmax(x).to_numpy().reshape(-1)[0]) == values.argmax()
        values.reshape(-1)[3] = values.reshape(-1)[-1] = np.nan


@pytest.mark.parametrize("shift", [1, -1, 33, 70, 3 * 64, 0, 10_000])
def test_a_roll_of_all_elements(device, shift):
    values = np.arange(2 * 33 * 64, dtype=np.float32).reshape(2, 33, 64) % 251
    x = ttnn.from_torch(values, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    assert (_back(ttnn.roll(x, shift)) == np.roll(values, shift)).all()
