"""ttnn's mixtures of experts against torch."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

from .helpers import ROWS, close, drawn, got, number, put

torch = pytest.importorskip("torch")

E, P = ttnn.experimental, ttnn.experimental.deepseek_prefill
BF16 = ttnn.bfloat16
PROGRAM = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
    compute_with_storage_grid_size=ttnn.CoreCoord(2, 1), per_core_M=1, per_core_N=1
)


def integers(device, values, dtype=ttnn.uint32, layout=ROWS):
    return put(device, torch.as_tensor(values, dtype=torch.int32), dtype, layout)


def chosen(active, bias, groups=8, summed=2, kept=4, count=8, scale=1.0):
    biased = active + bias
    rows, experts = biased.shape
    cut = biased.reshape(rows, groups, experts // groups)
    best = cut.topk(summed, -1)[0].sum(-1).topk(kept, -1)[1]
    mask = torch.zeros(rows, groups).scatter(1, best, 1.0).bool()
    held = cut.masked_fill(~mask[..., None], -torch.inf).reshape(rows, experts)
    places = held.topk(count, -1)[1]
    weights = active.gather(1, places)
    return weights / (weights.sum(-1, keepdim=True) + 1e-20) * scale, places


@pytest.mark.parametrize("name", ["sigmoid", "sqrtsoftplus"])
def test_experts_of_the_best_groups(device, name):
    x, bias = drawn(1, 1, 33, 256), drawn(1, 1, 33, 256, seed=1) / 8
    active = x.sigmoid() if name == "sigmoid" else torch.nn.functional.softplus(x).sqrt()
    expected, places = chosen(active[0, 0], bias[0, 0], scale=2.5)
    made = P.moe_grouped_topk(put(device, x), put(device, bias), route_scale=2.5, score_func=name)
    assert [one.dtype for one in made] == [BF16, ttnn.uint16]
    assert torch.equal(got(made[1])[0, 0].long(), places)
    close(got(made[0])[0, 0], expected, 2**-8)
    with pytest.raises(ttnn.Unsupported, match="padding_config"):
        P.moe_grouped_topk(put(device, x), put(device, bias), padding_config=number(device, 3))


def test_experts_without_groups_and_the_older_gate(device):
    x, bias = drawn(1, 1, 32, 384), drawn(1, 1, 32, 384, seed=1)
    made = P.moe_grouped_topk(
        put(device, x), put(device, bias), n_groups=1, topk_groups=1, weights_layout=ROWS
    )
    assert made[0].layout is ROWS
    expected, places = chosen(x[0, 0].sigmoid(), bias[0, 0], 1, 1, 1)
    assert torch.equal(got(made[1])[0, 0].long(), places)
    close(got(made[0])[0, 0], expected, 2**-8)
    x, bias = (drawn(1, 1, 32, 256, seed=s).bfloat16() for s in (0, 1))
    made = E.deepseek_grouped_gate(put(device, x, BF16), put(device, bias, BF16), route_scale=2.0)
    expected, places = chosen(x[0, 0].float().sigmoid(), bias[0, 0].float(), scale=2.0)
    assert torch.equal(got(made[1])[0, 0].long(), places)
    close(got(made[0])[0, 0], expected, 2**-8)


def test_experts_by_a_table_of_tokens(device):
    x, ids = drawn(1, 1, 64, 256), torch.randint(0, 50, (2, 32))
    table = torch.randint(0, 256, (50, 8))
    made = P.moe_hash_gate(
        put(device, x), integers(device, ids), integers(device, table, ttnn.uint16), n_activated_experts=6
    )
    places = table[ids.reshape(-1)][:, :6]
    weights = torch.nn.functional.softplus(x[0, 0]).sqrt().gather(1, places)
    assert torch.equal(got(made[1])[0, 0].long(), places)
    close(got(made[0])[0, 0], weights / weights.sum(-1, keepdim=True), 2**-8)


def test_the_router_of_gpt_oss(device):
    x, weight, bias = (t.bfloat16() for t in (drawn(32, 64), drawn(64, 128) / 8, drawn(32, 128)))
    places, weights = E.topk_router_gpt(
        put(device, x, BF16), weight_tensor=put(device, weight, BF16), bias_tensor=put(device, bias, BF16)
    )
    logits = x.float() @ weight.float() + bias.float()
    values = logits.topk(4)[0]
    close(logits.gather(1, got(places).long()), values, 2**-8)  # products of HiFi2 may exchange near ties
    close(got(weights), values.softmax(-1), 2**-6)
    assert places.memory_config().buffer_type is ttnn.BufferType.L1


def test_the_weight_of_expert_0(device):
    x, mask, top = (
        t.bfloat16() for t in (drawn(1, 1, 32, 64), torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 1, 32))
    )
    mask[..., 8:], top[..., 2:] = -torch.inf, -torch.inf
    made = ttnn.moe(put(device, x, BF16), put(device, mask, BF16), put(device, top, BF16), 32)
    values, places = (x + mask).float().topk(32)
    expected = ((values + top.float()).softmax(-1) * (places == 0)).sum(-1, keepdim=True)
    close(got(made), expected, 2**-8)


def test_weights_of_chosen_experts_on_one_chip(device):
    weights = torch.zeros(1, 2, 16, 8).bfloat16()
    places = torch.stack([torch.randperm(8)[:3] for _ in range(32)]).reshape(1, 2, 16, 3)
    weights.scatter_(3, places, torch.rand(1, 2, 16, 3).bfloat16() + 0.5)
    extra = weights.clone()
    extra[weights == 0] = 7  # weights of experts that the metadata does not name
    mapping = integers(device, torch.ones(1, 1, 8, 1), ttnn.uint16)
    made, used = ttnn.moe_expert_token_remap(
        put(device, extra, BF16, ROWS), mapping, integers(device, places, ttnn.uint16), reduction_size=4
    )
    assert torch.equal(got(made), weights.float())
    assert torch.equal(got(used), (weights.reshape(1, 1, 8, 4, 8) != 0).any(3).float())
    row = put(device, weights[0, 0, :1], BF16, ROWS)
    assert torch.equal(got(ttnn.moe_routing_remap(row, 3, 1, 0)), weights[0, 0, :1].float())
    with pytest.raises(RuntimeError, match="should be the same as size of cluster axis 0"):
        ttnn.moe_routing_remap(row, 3, 2, 0)
    with pytest.raises(RuntimeError, match="must divide the number of tokens"):
        ttnn.moe_expert_token_remap(
            put(device, extra, BF16, ROWS), mapping, integers(device, places, ttnn.uint16), reduction_size=5
        )


def test_tokens_of_each_expert(device):
    places, mask = torch.randint(0, 17, (64, 8)), torch.where(torch.rand(16) < 0.3, -1, 0)
    counts = P.masked_bincount(
        integers(device, places, ttnn.uint16, ttnn.TILE_LAYOUT), integers(device, mask, ttnn.int32), 16, 6
    )
    expected = torch.bincount(places[:, :6].reshape(-1), minlength=17)[:16] * (mask >= 0)
    assert torch.equal(got(counts).long(), expected)
    first, total, region, every = P.offset_cumsum(counts, 0, 1, 4, ttnn.DRAM_MEMORY_CONFIG)
    tiles = ((expected + 31) // 32 * 32).reshape(4, 4)
    starts = (tiles.cumsum(1) - tiles).reshape(1, 16)
    for made in (first, region, every):
        assert torch.equal(got(made).long(), starts)
    assert torch.equal(got(total).long(), expected[None])


def test_rows_of_an_expert_out_of_a_buffer_and_back(device):
    x = drawn(128, 64).bfloat16()
    start, counts, table = (integers(device, v) for v in ([0, 32, 96], [20, 40, 5], [2, 1]))
    given = {"local_expert_id": 1}
    held = put(device, x, BF16)
    made = P.extract(held, start, counts, table, **given, max_dispatched_tokens_per_expert=96)
    assert torch.equal(got(made)[:64], x[32:96].float())
    new = drawn(96, 64, seed=5).bfloat16()
    made = P.insert(held, put(device, new, BF16), start, counts, table, **given)
    assert made.buffer_address() == held.buffer_address()
    expected = x.clone()
    expected[32:96] = new[:64]
    assert torch.equal(got(held), expected.float())


@pytest.mark.parametrize(("first", "second"), [(False, True), (True, True), (True, False)])
def test_products_of_some_experts(device, first, second):
    outer, inner = (1, 8) if first and second else (2, 8) if first else (2, 3)
    a, b = drawn(outer, inner, 32, 64), drawn(1, 8, 64, 32)
    shape = (1, 1, outer, 8) if first else (outer, inner, 1, 8)
    held = (torch.rand(shape) < 0.5).float()
    made = ttnn.sparse_matmul(
        put(device, a),
        put(device, b),
        sparsity=put(device, held, BF16, ROWS),
        program_config=PROGRAM,
        is_input_a_sparse=first,
        is_input_b_sparse=second,
    )
    expected = a @ b if first else (a[:, :, None, None] @ b[:, None, None])
    mask = held.reshape(outer, 8, 1, 1) if first else held[..., None, None]
    close(got(made), expected * mask, 2**-6)


def test_products_of_listed_experts(device):
    a, b, bias = drawn(1, 2, 32, 64), drawn(1, 8, 64, 32), drawn(8, 32, 32)
    made = ttnn.sparse_matmul(
        put(device, a),
        put(device, b),
        sparsity=put(device, torch.ones(1, 2, 1, 8), BF16, ROWS),
        program_config=PROGRAM,
        indices=integers(device, [[[[5, 0, 3]]]], ttnn.uint16),
        bias=put(device, bias, BF16),
    )
    listed = [5, 0, 3]
    expected = a[:, :, None, None] @ b[:, None, None, listed] + bias.bfloat16().float()[listed, :1]
    close(got(made), expected, 2**-6)


def test_the_feed_forward_part_of_an_expert(device):
    x, gate, up, down = drawn(32, 64), drawn(64, 96), drawn(64, 96, seed=1), drawn(96, 64)
    made = P.routed_expert_ffn(*(put(device, t) for t in (x, gate, up, down)))
    close(got(made), (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down, 2**-5)


def test_sums_over_experts(device):
    x = drawn(6, 1, 32, 128)
    for made, expected in zip(
        E.deepseek_moe_fast_reduce_nc(put(device, x), 0, split_size=64),
        x.sum(0, keepdim=True).split(64, -1),
        strict=True,
    ):
        close(got(made), expected, 1e-6)
    first, second = E.fast_reduce_nc_split(put(device, x), dim=0, split_output_width=32)
    close(torch.cat([got(first), got(second)], -1), x.sum(0, keepdim=True), 1e-6)
    assert first.shape[-1] == 32
    scores = torch.rand(32, 1, 1, 4)
    ids = integers(device, torch.zeros(32, 1, 1, 4), ttnn.uint16)
    made = E.deepseek_moe_fast_reduce_nc_fused(
        put(device, x),
        ids,
        ids,
        0,
        split_size=64,
        cluster_axis=0,
        scores_tensor=put(device, scores, layout=ROWS),
        num_shared_experts=2,
        shared_expert_scale=0.5,
    )
    expected = (x[:4] * scores.reshape(32, 4).T.reshape(4, 1, 32, 1)).sum(0) + 0.5 * x[4:].sum(0)
    close(torch.cat([got(one) for one in made], -1)[0], expected, 1e-5)


def test_outputs_of_experts_combined(device):
    x, weights = drawn(1, 1, 32, 4, 64).bfloat16(), torch.rand(1, 1, 32, 4, 1).bfloat16()
    weights[..., 1, :] = 0
    x[..., 1, :] = torch.nan
    made = P.post_combine_reduce(put(device, x, BF16, ROWS), put(device, weights, BF16, ROWS))
    left = [0, 2, 3]
    close(got(made), (x[..., left, :].float() * weights[..., left, :].float()).sum(3), 2**-7)
    places, table = torch.randint(0, 8, (1, 1, 32, 4)), torch.tensor([0, -1, 0, 0, -1, 0, 0, 0])
    x = drawn(1, 1, 32, 4, 64).bfloat16()
    made = P.post_combine_reduce(
        put(device, x, BF16, ROWS),
        put(device, weights, BF16, ROWS),
        integers(device, places, ttnn.uint16),
        integers(device, table, ttnn.int32),
    )
    held = (table[places] >= 0)[..., None]
    close(got(made), (x.float() * weights.float() * held).sum(3), 2**-7)
    with pytest.raises(RuntimeError, match="provided together"):
        P.post_combine_reduce(
            put(device, x, BF16, ROWS),
            put(device, weights, BF16, ROWS),
            integers(device, places, ttnn.uint16),
        )


def test_weighted_sums_of_slices(blackhole):
    x, weights = drawn(1, 5, 32, 64).bfloat16(), drawn(3, 5, 32, 1).bfloat16()
    made = P.attn_res_weighted_reduce_nc(put(blackhole, x, BF16), put(blackhole, weights, BF16))
    close(got(made), (x.float() * weights.float()).sum(1, keepdim=True), 2**-7)


def test_feed_forward_parts_of_all_experts(blackhole):
    x, sizes = drawn(128, 64).bfloat16(), [(64, 96), (64, 96), (96, 64)]
    weights = [[drawn(*sizes[n], seed=10 * n + e).bfloat16() for e in range(2)] for n in range(3)]
    start, counts, table = (integers(blackhole, v) for v in ([0, 32, 96], [20, 40, 5], [2, 1]))
    made = P.unified_routed_expert_moe(
        put(blackhole, x, BF16),
        start,
        counts,
        table,
        *([put(blackhole, w, BF16) for w in each] for each in weights),
        64,
    )
    for local, rows in enumerate((slice(96, 128), slice(32, 96))):
        gate, up, down = (each[local].float() for each in weights)
        part = x[rows].float()
        expected = (torch.nn.functional.silu(part @ gate) * (part @ up)) @ down
        close(got(made)[rows], expected, 2**-5)


def test_the_number_of_tokens_that_are_no_padding(device):
    config = integers(device, [[9, 9]])
    made = P.moe_padding_config(config, number(device, 64), number(device, 100), 64, 1, 0)
    assert made.buffer_address() == config.buffer_address()
    assert got(config).tolist() == [[36, 1]]
    P.moe_padding_config(config, number(device, 64), number(device, 400), 64, 0, 0)
    assert got(config).tolist() == [[64, 0]]
