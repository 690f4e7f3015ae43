"""Functions of compat.ttnn that write at indices, run along rows or draw, and those of single models."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")


def on(device, values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device)


def near(made, wanted, by=1e-5):
    return torch.allclose(ttnn.to_torch(made), wanted, rtol=by, atol=by)


def rows(device, values, dtype=ttnn.uint32):
    return on(device, values.int(), dtype, ttnn.ROW_MAJOR_LAYOUT)


def test_scattered_rows(device):
    x, source = torch.randn(2, 9, 5), torch.randn(2, 4, 5)
    places = torch.stack([torch.randperm(9)[:4] for _ in range(2)])
    made = ttnn.tosa_scatter(on(device, x), rows(device, places), on(device, source))
    assert near(made, x.scatter(1, places.unsqueeze(-1).expand(2, 4, 5), source))
    with pytest.raises(RuntimeError, match="index tensor must be of rank 2"):
        ttnn.tosa_scatter(on(device, x), rows(device, places[0]), on(device, source))
    with pytest.raises(RuntimeError, match="different dimension C"):
        ttnn.tosa_scatter(on(device, x), rows(device, places), on(device, source[..., :4]))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_filled_places(device, dim):
    x, places = torch.randn(6, 7, 33), torch.tensor([4, 0])
    lying = ttnn.ROW_MAJOR_LAYOUT
    made = ttnn.index_fill(on(device, x, layout=lying), dim, rows(device, places), 2.5)
    assert near(made, x.index_fill(dim, places, 2.5))
    ones = on(device, torch.ones(6, 7, 33).int(), ttnn.int32, lying)
    whole = ttnn.index_fill(ones, dim, rows(device, places), -3)
    assert ttnn.to_torch(whole).sum() == 6 * 7 * 33 - 4 * 2 * (6 * 7 * 33) // x.shape[dim]


@pytest.mark.parametrize("dim", [0, 1])
def test_parts_at_places(device, dim):
    a, places = torch.randn(4, 5, 3, 33), torch.tensor([3, 1])
    b = torch.randn(*(2 if at == dim else size for at, size in enumerate(a.shape)))
    wanted = a.clone()
    wanted.index_copy_(dim, places, b)
    assert near(ttnn.indexed_fill(rows(device, places), on(device, a), on(device, b), dim=dim), wanted)
    with pytest.raises(RuntimeError, match="must equal the number of indices"):
        ttnn.indexed_fill(rows(device, places[:1]), on(device, a), on(device, b), dim=dim)


@pytest.mark.parametrize("alpha", [0.25, 0.9, 0.0])
def test_a_running_average(device, alpha):
    x = torch.rand(1, 2, 3, 70).bfloat16().float()
    wanted, last = torch.empty_like(x), torch.zeros(1, 2, 3)
    for at in range(70):
        last = alpha * last + (1 - alpha) * x[..., at]
        wanted[..., at] = last
    made = ttnn.ema(on(device, x, ttnn.bfloat16), alpha)
    assert torch.allclose(ttnn.to_torch(made).float(), wanted, rtol=2**-8, atol=2**-8)


def draws(device, values, k, p, **given):
    names = torch.arange(values.shape[-1]).expand(values.shape) + 100
    users = values.shape[2]
    made = ttnn.sampling(
        on(device, values, ttnn.bfloat16),
        rows(device, names, ttnn.int32),
        k=rows(device, torch.full((users,), k)),
        p=on(device, torch.full((users,), p), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT),
        temp=on(device, torch.ones(users), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT),
        **given,
    )
    assert made.shape == [1, 1, 1, users]
    assert made.dtype is ttnn.uint32
    return ttnn.to_torch(made).reshape(-1).long() - 100


def test_draws_come_from_the_best(device):
    values = torch.stack([torch.randperm(64) for _ in range(32)]).reshape(1, 1, 32, 64) / 16.0
    best = values[0, 0].argsort(-1, descending=True)
    assert torch.equal(draws(device, values, 1, 1.0), best[:, 0])
    assert torch.equal(draws(device, values, 32, 0.0), best[:, 0])  # the best one is always there
    made = draws(device, values, 4, 1.0, seed=7)
    assert all(one in few for one, few in zip(made, best[:, :4], strict=True))
    assert torch.equal(made, draws(device, values, 4, 1.0, seed=7))


def test_draws_have_their_probabilities(device):
    values = torch.full((1, 1, 32, 32), -100.0)
    values[..., 3], values[..., 5] = torch.tensor(0.75).log(), torch.tensor(0.25).log()
    made = torch.cat([draws(device, values, 8, 1.0, seed=1 + turn) for turn in range(40)])
    assert set(made.tolist()) == {3, 5}
    assert abs((made == 3).double().mean() - 0.75) < 0.05  # 1280 draws: 4 standard deviations
    assert set(draws(device, values, 8, 0.5).tolist()) == {3}


def test_seeds_of_draws(device):
    values = torch.rand(1, 1, 32, 32)
    ttnn.manual_seed(5, device=device)
    first = draws(device, values, 32, 1.0)
    assert not torch.equal(first, draws(device, values, 32, 1.0))
    ttnn.manual_seed(5, device=device)
    ttnn.manual_seed(0xFFFFFFFF, device=device)  # leaves all as it is
    assert torch.equal(first, draws(device, values, 32, 1.0))
    words, users = rows(device, torch.tensor([5, 6])), rows(device, torch.tensor([0, 1]))
    ttnn.manual_seed(words, user_ids=users)
    again = draws(device, values, 32, 1.0)
    assert again[0] == first[0]
    with pytest.raises(RuntimeError, match="user_ids must not be provided as a scalar"):
        ttnn.manual_seed(words, user_ids=7)


def test_products_of_attention_in_decoding(device):
    a, b = torch.randn(1, 4, 32, 64), torch.randn(32, 1, 64, 96)
    wanted = (a.transpose(0, 2) @ b).transpose(0, 2)
    grid = {"compute_with_storage_grid_size": ttnn.CoreCoord(8, 8)}
    exact = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True)
    grid["compute_kernel_config"] = exact
    made = ttnn.experimental.attn_matmul(on(device, a), on(device, b), **grid)
    assert near(made, wanted, 5e-2)  # tf32: 2^-10 of 64 products of 1
    cache = torch.randn(32, 1, 128, 64)
    made = ttnn.experimental.attn_matmul_from_cache(
        on(device, a), on(device, cache), num_tokens=50, transpose_hw=True, **grid
    )
    assert near(made, (a.transpose(0, 2) @ cache[:, :, :64].mT).transpose(0, 2), 5e-2)
    b = torch.randn(32, 2, 64, 96)
    wanted = (a.transpose(0, 2) @ b.repeat_interleave(2, 1)).transpose(0, 2)
    made = ttnn.experimental.group_attn_matmul(on(device, a), on(device, b), **grid)
    assert near(made, wanted, 5e-2)


@pytest.mark.parametrize(("one", "two"), [(32, 5120), (32 * 40, 40), (32, 32 * 40)])
def test_the_product_of_a_state_space_model(device, one, two):
    a, b = torch.randn(1, 1, 32, one), torch.randn(1, 1, 32, two)
    count = 5120 if two == 5120 else 40
    first = a.repeat(1, 1, 1, count) if one == 32 else a
    second = b if two == 32 * 40 else b.repeat_interleave(32, -1)
    made = ttnn.experimental.repeat_and_interleave_eltwise_mul(on(device, a), on(device, b))
    assert near(made, first * second)


def test_norms_of_diffusion_transformers(device):
    x, weight, bias = torch.randn(2, 1, 32, 128), torch.rand(2, 1, 64), torch.rand(2, 1, 64)
    parts = [on(device, part) for part in x.chunk(2, -1)]
    stats = [ttnn.experimental.dit_layernorm_pre_allgather(part, dtype=ttnn.float32) for part in parts]
    given = {"epsilon": 1e-5, "weight": on(device, weight), "bias": on(device, bias)}
    whole = ttnn.concat(stats, -1)
    made = ttnn.experimental.dit_layernorm_post_allgather(parts[1], whole, **given)
    normal = torch.nn.functional.layer_norm(x, (128,))[..., 64:]
    assert near(made, normal * weight.unsqueeze(1) + bias.unsqueeze(1), 1e-4)


def test_the_norm_with_heads_and_rotation(device):
    x, weight = torch.randn(1, 1, 32, 128), torch.rand(1, 128)
    stats = ttnn.experimental.wan_fused_rmsnorm_pre_allgather(on(device, x), dtype=ttnn.float32)
    given = {"weight": on(device, weight), "num_heads_per_device": 2, "epsilon": 1e-5}
    normal = torch.nn.functional.rms_norm(x, (128,), weight[0], 1e-5)
    heads = normal.reshape(1, 32, 2, 64).transpose(1, 2)
    made = ttnn.experimental.wan_fused_rmsnorm_post_allgather(on(device, x), stats, **given)
    assert near(made, heads, 1e-4)
    cos, sin, turn = torch.randn(1, 1, 32, 64), torch.randn(1, 1, 32, 64), torch.zeros(1, 1, 32, 32)
    turn[..., range(0, 32, 2), range(1, 32, 2)], turn[..., range(1, 32, 2), range(0, 32, 2)] = 1, -1
    given |= {
        "rope_cos": on(device, cos),
        "rope_sin": on(device, sin),
        "transformation_mat": on(device, turn),
    }
    made = ttnn.experimental.wan_fused_rmsnorm_post_allgather(on(device, x), stats, **given)
    pairs = heads.reshape(1, 2, 32, 32, 2)
    turned = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(1, 2, 32, 64)
    assert near(made, heads * cos + turned * sin, 1e-4)


def test_one_program_for_many_shapes(device):
    device.disable_and_clear_program_cache()
    device.enable_program_cache()
    before = device.num_program_cache_entries()
    for heads, width in ((4, 256), (8, 512)):
        a, b = on(device, torch.ones(1, heads, 32, 32)), on(device, torch.ones(32, 2, 32, width))
        grid = {"compute_with_storage_grid_size": ttnn.CoreCoord(8, 8)}
        ttnn.experimental.group_attn_matmul(a, b, **grid)
    assert device.num_program_cache_entries() == before + 1


def test_all_buffers_of_a_device_go(device):
    x = on(device, torch.ones(2, 3))
    ttnn.device.DeallocateBuffers(device)
    assert not x.is_allocated()


def test_what_is_left_of_the_slope_of_tanh(device):
    x = torch.tensor([[0.0, 1.0, 10.0, -10.0, 40.0]])
    (made,) = ttnn.tanh_bw(on(device, torch.ones(1, 5)), on(device, x))
    wanted = 1 / x.double().cosh() ** 2
    assert torch.allclose(ttnn.to_torch(made).double(), wanted, rtol=1e-5, atol=0)


def test_a_gradient_into_a_tensor(device):
    grad, x = torch.randn(3, 34), torch.randn(3, 34)
    into = on(device, torch.zeros(3, 34))
    made = ttnn.gelu_bw(on(device, grad), on(device, x), input_grad=into)
    assert made[0] is into
    a, b = (on(device, torch.zeros(3, 34)) for _ in range(2))
    given = {"input_a_grad": a, "input_b_grad": b, "are_required_outputs": [True, True]}
    ttnn.assign_bw(on(device, grad), on(device, x), on(device, x), **given)
    assert near(a, grad)
    assert near(b, grad)


def test_padding_beyond_whole_tiles_comes_to_the_host(device):
    x = torch.randn(3, 100, 100)
    made = ttnn.tilize_with_val_padding(on(device, x, layout=ttnn.ROW_MAJOR_LAYOUT), [4, 128, 160], 7.0)
    found = made.cpu().to_torch_with_padded_shape()
    assert found.shape == (4, 128, 160)
    assert torch.equal(found[:3, :100, :100], x)
    assert (found[3] == 7).all()
    assert (found[:, :, 100:] == 7).all()


@pytest.mark.parametrize("name", ["DRAM_MEMORY_CONFIG", "L1_MEMORY_CONFIG"])
def test_memory_is_moved_to_where_there_is_room(device, name):
    place = getattr(ttnn, name)
    first, second = (
        ttnn.from_torch(torch.full((64, 64), n), layout=ttnn.TILE_LAYOUT, device=device, memory_config=place)
        for n in (1.0, 2.0)
    )
    better = min if place is ttnn.DRAM_MEMORY_CONFIG else max  # the end from which a memory is filled
    before = second.buffer_address()
    first.deallocate()
    moved = ttnn.reallocate(second)
    assert better(moved.buffer_address(), before) == moved.buffer_address()
    assert (ttnn.to_torch(moved) == 2).all()


def test_random_numbers_have_one_program(device):
    device.enable_program_cache()
    before = device.num_program_cache_entries()
    for seed in (1, 2):
        ttnn.randn([32, 32], device=device, seed=seed)
    assert device.num_program_cache_entries() == before + 1


def test_ends_of_rows_count_for_four_dimensions(device):
    x = torch.randn(2, 3, 2, 64, 64)
    whole = ttnn.untilize_with_unpadding(on(device, x), [1, 0, 0, 31, 31])
    assert whole.shape == [2, 3, 2, 64, 64]
    assert near(whole, x)
    part = ttnn.untilize_with_unpadding(on(device, x[0]), [1, 0, 31, 31])
    assert near(part, x[0, :2, :1, :32, :32])
