"""Operations that read and write parts, small activations, sets, scans and other names, against torch."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.operations.other_names import QUASAR

torch = pytest.importorskip("torch")
TWO = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (1, 0))])
rng = np.random.default_rng(5)


def _on(device, values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, memory_config=None):
    given = {"dtype": dtype, "layout": layout, "device": device, "memory_config": memory_config}
    return ttnn.from_torch(torch.as_tensor(values), **given)


def _rows(device, values, dtype=ttnn.bfloat16, memory_config=None):
    return _on(device, values, dtype, ttnn.ROW_MAJOR_LAYOUT, memory_config)


def _drawn(*shape, low=-3.0, high=3.0):
    return torch.as_tensor(rng.uniform(low, high, shape).astype(np.float32))


def _whole(*shape):
    """Whole numbers that bfloat16 holds."""
    return torch.as_tensor(rng.integers(-100, 100, shape).astype(np.float32))


def _shards(layout, shape):
    spec = ttnn.ShardSpec(TWO, shape, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(layout, ttnn.BufferType.L1, spec)


HEIGHT, WIDTH = ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.TensorMemoryLayout.WIDTH_SHARDED


def _close(made, wanted, atol=2e-4):
    assert tuple(made.shape) == tuple(wanted.shape)
    assert torch.allclose(ttnn.to_torch(made).float(), wanted.float(), rtol=2e-4, atol=atol)


@pytest.fixture
def blackhole():
    ttnn.use_board("p150")
    opened = ttnn.open_device(device_id=3)
    ttnn.use_board("")
    yield opened
    ttnn.close_device(opened)


def test_clamped_gate(device):
    gate, up = _drawn(40, 64), _drawn(40, 64)
    made = ttnn.clamped_silu_glu(_on(device, gate), _on(device, up), 1.5)
    _close(made, torch.nn.functional.silu(gate.clamp(max=1.5)) * up.clamp(-1.5, 1.5))
    with pytest.raises(RuntimeError, match="limit must be positive"):
        ttnn.clamped_silu_glu(_on(device, gate), _on(device, up), 0.0)


def test_snake(device):
    x, alpha, beta = _drawn(2, 33, 48), _drawn(48), _drawn(48, low=0.5)
    made = ttnn.snake_beta(*(_on(device, v) for v in (x, alpha, beta)))
    _close(made, x + torch.sin(alpha * x) ** 2 / beta)
    with pytest.raises(RuntimeError, match="Broadcasting rule violation"):
        ttnn.snake_beta(_on(device, x), _on(device, _drawn(33, 48)), _on(device, beta))


def test_rotation_of_pairs(device):
    x = _drawn(3, 10)
    wanted = torch.stack([-x[:, 1::2], x[:, ::2]], -1).reshape(3, 10)
    _close(ttnn.alt_complex_rotate90(_on(device, x)), wanted)
    with pytest.raises(RuntimeError, match="must be even"):
        ttnn.alt_complex_rotate90(_on(device, _drawn(3, 11)))


@pytest.mark.parametrize("name", ["softcap", "situ_glu"])
def test_what_wormhole_does_not_have(device, name):
    x = _on(device, _drawn(32, 32))
    given = (x, 2.0) if name == "softcap" else (x, x, 2.0, 3.0)
    with pytest.raises(RuntimeError, match="for Blackhole only, got arch wormhole_b0"):
        getattr(ttnn, name)(*given)


def test_what_blackhole_has(blackhole):
    gate, up = _drawn(40, 64), _drawn(40, 64)
    x, y = _on(blackhole, gate), _on(blackhole, up)
    _close(ttnn.softcap(x, 2.0), 2 * torch.tanh(gate / 2))
    wanted = 2 * torch.tanh(gate / 2) * torch.sigmoid(gate) * 3 * torch.tanh(up / 3)
    _close(ttnn.situ_glu(x, y, 2.0, 3.0), wanted)
    rows = torch.stack([torch.randperm(200) for _ in range(3)]).float()
    rows[:, 100] = -torch.inf
    best = ttnn.experimental.topk_large_indices(_rows(blackhole, rows), k=16)
    assert best.dtype is ttnn.uint32
    assert np.array_equal(best.to_numpy(), torch.topk(rows, 16).indices.numpy())
    few = ttnn.experimental.topk_large_indices(_rows(blackhole, rows), k=112, valid_length=112)
    assert np.array_equal(few.to_numpy()[:, :-1], torch.topk(rows[:, :112], 111).indices.numpy())
    assert (few.to_numpy()[:, -1] == 0xFFFFFFFF).all()


def test_broadcast_of_a_side(device):
    a = _drawn(2, 3, 33, 40)
    x = _on(device, a)
    row, column, one = _drawn(1, 1, 1, 40), _drawn(2, 3, 33, 1), _drawn(1, 1, 1, 1)
    _close(ttnn.bcast(x, _on(device, row), ttnn.BcastOpMath.ADD, ttnn.BcastOpDim.H), a + row)
    _close(ttnn.bcast(x, _on(device, column), ttnn.BcastOpMath.MUL, ttnn.BcastOpDim.W), a * column)
    _close(ttnn.bcast(x, _on(device, one), ttnn.BcastOpMath.SUB, ttnn.BcastOpDim.HW), a - one)
    with pytest.raises(RuntimeError, match="must be 1 to be broadcast"):
        ttnn.bcast(x, x, ttnn.BcastOpMath.ADD, ttnn.BcastOpDim.H)


def test_filled_corners(device):
    like = _rows(device, torch.zeros(32, 32))
    wanted = torch.full((2, 3, 31, 64), -1.0)
    wanted[:, :, :5, :6] = 2.0
    made = ttnn.fill_rm(2, 3, 31, 64, 5, 6, like, 2.0, -1.0)
    assert made.layout is ttnn.ROW_MAJOR_LAYOUT
    assert made.dtype is ttnn.bfloat16
    _close(made, wanted)
    _close(ttnn.fill_ones_rm(2, 3, 31, 64, 5, 6, like), (wanted > 0).float())
    with pytest.raises(RuntimeError, match="Fill dimensions must be"):
        ttnn.fill_ones_rm(1, 1, 4, 4, 5, 4, like)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("dtype", [ttnn.int32, ttnn.uint32, ttnn.bfloat16])
def test_membership(device, dtype, invert):
    x, other = torch.randint(0, 50, (3, 33)), torch.randint(0, 50, (5, 4))
    kind = torch.bfloat16 if dtype is ttnn.bfloat16 else torch.int32
    made = ttnn.experimental.isin(
        _on(device, x.to(kind), dtype), _on(device, other.to(kind), dtype), invert=invert
    )
    assert made.dtype is ttnn.uint32
    wanted = np.where(torch.isin(x, other, invert=invert).numpy(), 0xFFFFFFFF, 0)
    assert np.array_equal(made.to_numpy(), wanted)


def test_rows_by_index(device):
    x, index = _drawn(2, 5, 3), torch.randint(0, 5, (2, 4))
    made = ttnn.tosa_gather(_on(device, x), _on(device, index.int(), ttnn.uint32))
    _close(made, torch.gather(x, 1, index[..., None].expand(-1, -1, 3)))
    with pytest.raises(RuntimeError, match="int32/uint32"):
        ttnn.tosa_gather(_on(device, x), _on(device, index.int(), ttnn.uint16))
    filled = ttnn.index_fill_new(
        _on(device, x), 1, _rows(device, torch.tensor([0, 3]).int(), ttnn.uint32), 7.0
    )
    _close(filled, x.index_fill(1, torch.tensor([0, 3]), 7.0))


def test_running_results(device):
    x = _drawn(1, 5, 9, 3)
    _close(ttnn.experimental.intimg(_on(device, x)), x.cumsum(1).cumsum(2), atol=1e-3)
    y = _drawn(1, 1, 32, 2048)
    made = ttnn.experimental.hc_sum_reduce(_on(device, y, ttnn.bfloat16))
    _close(made, y.bfloat16().float().reshape(1, 1, 32, 64, 32).sum(-1), atol=0.1)


def test_states_of_a_scan(device):
    a, bx, before = _drawn(1, 1, 64, 64, low=0.1, high=0.9), _drawn(1, 1, 64, 64), _drawn(1, 1, 1, 64)
    wide = _shards(WIDTH, [64, 32])
    state = _rows(device, before.bfloat16(), memory_config=_shards(WIDTH, [1, 32]))
    made = ttnn.experimental.prefix_scan(
        _on(device, a, memory_config=wide), _on(device, bx, memory_config=wide), state
    )
    h, wanted = before.bfloat16().float()[0, 0, 0], []
    for t in range(64):
        h = a[0, 0, t] * h + bx[0, 0, t]
        wanted.append(h)
    _close(made, torch.stack(wanted)[None, None], atol=1e-3)
    assert torch.allclose(ttnn.to_torch(state).float()[0, 0, 0], h, atol=0.05)


@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
def test_blocks_put_back(device, stride, padding, dilation):
    size, kernel = (9, 11), (3, 2)
    how = {"dilation": dilation, "padding": padding, "stride": stride}
    blocks = torch.nn.functional.unfold(_drawn(2, 3, *size), kernel, **how)
    made = ttnn.moreh_fold(_rows(device, blocks, ttnn.float32), None, size, kernel, *how.values())
    _close(made, torch.nn.functional.fold(blocks, size, kernel, **how))


# **************** parts ****************


def test_parts_of_rows(device):
    x = _whole(2, 2, 64, 64)
    whole = _on(device, x, ttnn.bfloat16)
    kept = _on(device, torch.zeros(2, 2, 64, 64), ttnn.bfloat16)
    for at in range(4):
        part = ttnn.interleaved_to_sharded_partial(
            whole, ttnn.CoreCoord(2, 1), [32, 64], 4, at, HEIGHT, ttnn.ShardOrientation.ROW_MAJOR
        )
        assert part.is_sharded()
        _close(part, x.reshape(1, 1, 256, 64)[:, :, 64 * at : 64 * at + 64])
        ttnn.sharded_to_interleaved_partial(part, kept, 4, at)
    _close(kept, x)
    with pytest.raises(RuntimeError, match="Slice index and num_slices"):
        ttnn.sharded_to_interleaved_partial(part, kept, 4, 4)


def test_slices_for_convolutions(device):
    x = _whole(1, 8, 8, 3)
    made = ttnn.experimental.padded_slice(
        _rows(device, x), [0, 2, 0, 0], [1, 6, 8, 3], [1, 1, 1, 1], memory_config=_shards(HEIGHT, [16, 8])
    )
    wanted = torch.zeros(1, 1, 32, 8)
    wanted[..., :3] = x[:, 2:6].reshape(1, 1, 32, 3)
    _close(made, wanted)
    into = _rows(device, torch.zeros(1, 8, 8, 3))
    ttnn.experimental.slice_write(made, into, [0, 2, 0, 0], [1, 6, 8, 3], [1, 1, 1, 1])
    kept = torch.zeros_like(x)
    kept[:, 2:6] = x[:, 2:6]
    _close(into, kept)
    ttnn.experimental.slice_write(_rows(device, x[:, :2]), into, [0, 1, 0, 0], [1, 8, 8, 3], [1, 4, 1, 1])
    kept[:, 1::4] = x[:, :2]
    _close(into, kept)
    with pytest.raises(RuntimeError, match="should match the size of the input"):
        ttnn.experimental.slice_write(_rows(device, x), into, [0, 0, 0, 0], [1, 4, 8, 3], [1, 1, 1, 1])


def test_orders_of_channels(device):
    x = _whole(1, 1, 64, 8)
    made = ttnn.experimental.convert_to_chw(
        _on(device, x, ttnn.bfloat16, memory_config=_shards(HEIGHT, [32, 32]))
    )
    assert made.memory_config().shard_spec.shape == [8, 32]
    _close(made, x.transpose(2, 3))
    y = _whole(1, 2, 3, 64)
    back = ttnn.experimental.convert_to_hwc(_rows(device, y, memory_config=_shards(WIDTH, [6, 32])))
    wanted = torch.zeros(1, 1, 128, 8)
    wanted[..., :3] = y.transpose(2, 3).reshape(1, 1, 128, 3)
    assert back.memory_config().shard_spec.shape == [64, 8]
    _close(back, wanted)
    z = _drawn(3, 32, 64)
    assert torch.equal(ttnn.to_torch(ttnn.experimental.transpose_rm(_rows(device, z, ttnn.float32))), z.mT)


def test_copies(device):
    x = _drawn(32, 64)
    one = _on(device, x)
    _close(ttnn.composite_example(one), x)
    assert ttnn.composite_example_multiple_return(one, False, True)[0] is None
    for made in ttnn.composite_example_multiple_return(one):
        _close(made, x)
    with pytest.raises(RuntimeError, match="At least one output"):
        ttnn.composite_example_multiple_return(one, False, False)


def test_shards_of_some_cores_are_written(device):
    x = _whole(64, 64)
    on = _on(device, torch.zeros(64, 64), ttnn.bfloat16, memory_config=_shards(HEIGHT, [32, 64]))
    host = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    second = ttnn.CoreRangeSet([ttnn.CoreRange((1, 0), (1, 0))])
    ttnn.copy_host_to_device_tensor_partial(host, on, second, 0)
    _close(on, torch.cat([torch.zeros(32, 64), x[32:]]))
    ttnn.copy_host_to_device_tensor_partial(host, on, ttnn.CoreRangeSet([]))
    ttnn.copy_host_to_device_tensor(host, on, 0)
    _close(on, x)


def test_weights_cast_on_the_host(device):
    x = _drawn(64, 64)
    config = ttnn.L1_MEMORY_CONFIG
    made = ttnn.experimental.quantize_weights_via_host(
        _on(device, x), dtype=ttnn.bfloat8_b, memory_config=config
    )
    assert (made.dtype, made.memory_config()) == (ttnn.bfloat8_b, config)
    assert torch.allclose(ttnn.to_torch(made), x, atol=0.03)


def test_no_core_prefetches(device):
    assert ttnn.experimental.is_tensor_prefetcher_supported(device) is False


# **************** other names ****************


@pytest.mark.parametrize("name", QUASAR)
def test_an_other_name_is_the_same_operation(name):
    other = ttnn.OPERATIONS[f"experimental.quasar.{name}"]
    base = ttnn.OPERATIONS.get(name) or ttnn.OPERATIONS[f"experimental.{name}"]
    assert other.function is base.function
    assert other.reason == base.reason
    assert other.python_fully_qualified_name == f"ttnn.experimental.quasar.{name}"


def test_other_names_compute_and_check(device):
    x, y = _drawn(33, 40), _drawn(33, 40)
    _close(ttnn.experimental.quasar.add(_on(device, x), _on(device, y)), x + y)
    _close(ttnn.experimental.quasar.matmul(_on(device, x), _on(device, y.mT)), x @ y.mT, atol=2e-2)
    ops = ttnn.experimental.quasar.transformer
    q = _drawn(1, 2, 32, 32)
    made = ops.scaled_dot_product_attention(*(_on(device, q, ttnn.bfloat16),) * 3, is_causal=True)
    _close(made, torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), atol=0.03)
    with pytest.raises(TypeError, match=r"experimental\.quasar\.add"):
        ttnn.experimental.quasar.add(_on(device, x), _on(device, y), activation=1)
