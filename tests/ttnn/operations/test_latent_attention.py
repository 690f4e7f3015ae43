"""ttnn's latent and sparse attention, its caches in padded rows and positions, against torch."""

from __future__ import annotations

import enum
import math

import pytest

from graph_runtime.compat import ttnn

from .helpers import ROWS, close, drawn, got, number, put

torch = pytest.importorskip("torch")

E, P, T = ttnn.experimental, ttnn.experimental.deepseek_prefill, ttnn.transformer
BF16 = ttnn.bfloat16
EXACT = {
    "compute_kernel_config": ttnn.WormholeComputeKernelConfig(
        math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True
    )
}
Format = enum.Enum("Format", "BF16 FP8_E4M3")


def attended(q, k, v, seen, scale=None, sink=None):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores.masked_fill(~seen, -torch.inf)
    if sink is not None:
        scores = torch.cat([scores, sink.expand(*scores.shape[:3], 1)], -1)
    return scores.softmax(-1)[..., : k.shape[2]] @ v


def test_latent_attention_of_one_token(device):
    q, k = drawn(1, 2, 8, 64), drawn(2, 1, 96, 64)
    at = torch.tensor([40, 95])
    seen = (torch.arange(96) <= at[:, None])[:, None, None]
    expected = attended(q.reshape(2, 8, 1, 64), k, k[..., :32], seen).reshape(1, 2, 8, 32)
    made = T.flash_multi_latent_attention_decode(
        put(device, q), put(device, k), head_dim_v=32, cur_pos=at.tolist(), **EXACT
    )
    close(got(made), expected, 2**-8)
    order = torch.randperm(6).reshape(2, 3)
    pages = torch.empty(6, 1, 32, 64)
    pages[order.reshape(-1)] = k.reshape(6, 1, 32, 64)
    made = T.paged_flash_multi_latent_attention_decode(
        put(device, q),
        put(device, pages),
        head_dim_v=32,
        page_table_tensor=put(device, order.int(), ttnn.int32, ROWS),
        cur_pos_tensor=put(device, at.int(), ttnn.int32, ROWS),
        **EXACT,
    )
    close(got(made), expected, 2**-8)
    with pytest.raises(RuntimeError, match="less than or equal to head dim of Q, got 96 and 64"):
        T.flash_multi_latent_attention_decode(put(device, q), put(device, k), head_dim_v=96, cur_pos=[1, 2])


def test_latent_attention_of_a_chunk(device):
    q, k = drawn(1, 4, 32, 64), drawn(1, 1, 128, 64)
    table = put(device, torch.arange(4)[None].int(), ttnn.int32, ROWS)
    made = T.chunked_flash_mla_prefill(
        put(device, q), put(device, k.reshape(4, 1, 32, 64)), 32, table, 64, **EXACT
    )
    seen = torch.arange(128) <= 64 + torch.arange(32)[:, None]
    close(got(made), attended(q, k, k[..., :32], seen), 2**-8)


def chosen_keys(groups, length, total, count, some):
    indices = torch.full((1, groups, length, count), -1)
    seen = torch.zeros(1, groups, length, total, dtype=torch.bool)
    for g in range(groups):
        for s in range(length):
            keys = torch.randperm(total)[: 1 + (s + g) % some]
            indices[0, g, s, : len(keys)] = keys
            seen[0, g, s, keys] = True
    return indices, seen


def test_attention_over_listed_keys(blackhole):
    q, kv = drawn(1, 32, 8, 64).bfloat16(), drawn(2, 1, 256, 64).bfloat16()
    indices, seen = chosen_keys(1, 8, 256, 128, 60)
    sink = drawn(1, 1, 1, 32).bfloat16()
    made = T.sparse_sdpa(
        put(blackhole, q, BF16, ROWS),
        put(blackhole, kv, BF16, ROWS),
        put(blackhole, indices.int(), ttnn.uint32, ROWS),
        32,
        kv_format=Format.BF16,
        cache_batch_idx=1,
        attention_sink=put(blackhole, sink, BF16, ROWS),
        **EXACT,
    )
    k = kv[1:].float()
    scaled = sink.float().reshape(1, 32, 1, 1) / 8
    close(got(made), attended(q.float(), k, k[..., :32], seen, sink=scaled), 2**-7)
    assert made.layout is ROWS
    with pytest.raises(ttnn.Unsupported, match="kv_format"):
        T.sparse_sdpa(*[made] * 3, 32, kv_format=Format.FP8_E4M3)


def test_attention_over_listed_blocks(blackhole):
    q, k, v = drawn(1, 32, 64, 32), drawn(1, 2, 128, 32), drawn(1, 2, 128, 64)
    indices, seen = chosen_keys(2, 64, 4, 8, 4)
    indices[..., 0], seen[..., 0] = torch.where(seen[..., 0], indices[..., 0], 0), True
    seen = torch.zeros_like(seen).scatter(3, indices.clamp(min=0), indices >= 0) | (indices == 0).any(
        -1, True
    ) * (torch.arange(4) == 0)
    operands = [put(blackhole, q, BF16, ROWS), put(blackhole, k, BF16), put(blackhole, v, BF16)]
    operands.append(put(blackhole, indices.int(), ttnn.uint32, ROWS))
    wide = seen.repeat_interleave(32, 3)
    exact = [x.bfloat16().float() for x in (q, k, v)]
    keys, values = (x.repeat_interleave(16, 1) for x in exact[1:])
    made = T.sparse_sdpa_msa(*operands, block_size=32, **EXACT)
    close(got(made), attended(exact[0], keys, values, wide.repeat_interleave(16, 1)), 2**-7)
    own = torch.arange(64)[:, None]
    later = (torch.arange(128) > own) & (torch.arange(128) // 32 == own // 32)
    made = T.sparse_sdpa_msa(*operands, block_size=32, chunk_start_idx=0, **EXACT)
    expected = attended(exact[0], keys, values, (wide & ~later).repeat_interleave(16, 1))
    held = (wide & ~later).any(-1).all(1)[0]
    close(got(made)[:, :, held], expected[:, :, held], 2**-7)


def test_scores_of_keys(blackhole):
    q, k, weights = (x.bfloat16() for x in (drawn(1, 4, 32, 64), drawn(1, 1, 128, 64), drawn(1, 1, 32, 4)))
    tensors = [put(blackhole, x, BF16) for x in (q, k, weights)]
    q, k, weights = q.float(), k.float(), weights.float()
    position = 64 + torch.arange(32)[:, None]
    made = got(E.indexer_score_dsa(*tensors, chunk_start_idx=64, **EXACT))
    expected = ((q @ k.mT).relu() * weights.permute(0, 3, 2, 1)).sum(1, keepdim=True)
    seen = (torch.arange(128) <= position).expand(1, 1, 32, 128)
    assert torch.equal(torch.isinf(made), ~seen)
    close(made[seen], expected[seen], 2**-7)
    made = got(
        E.indexer_score_msa(*tensors[:2], num_groups=2, chunk_start_idx=64, scale=0.5, block_size=64, **EXACT)
    )
    sums = ((q @ k.mT) * 0.5).reshape(1, 2, 2, 32, 128).sum(2).masked_fill(~seen, -torch.inf)
    expected = sums.reshape(1, 2, 32, 2, 64).amax(-1)
    close(made[~torch.isinf(expected)], expected[~torch.isinf(expected)], 2**-7)
    given = {"key_compression_ratio": 4, "kv_len": 30} | EXACT
    held = ~torch.isinf(got(E.indexer_score_dsa(*tensors, chunk_start_idx=96, **given)))[0, 0]
    assert torch.equal(held.sum(-1), ((torch.arange(96, 128) + 1) // 4).clamp(max=30))


def test_caches_of_users_and_layers(device):
    cache, x = drawn(4, 1, 256, 64), drawn(1, 1, 64, 64)
    held = put(device, cache)
    made = P.update_padded_kv_cache(held, put(device, x), 1, 0, 2, 64, 0)
    assert made.buffer_address() == held.buffer_address()
    cache[2, :, 64:128] = x[0]
    assert torch.equal(got(held), cache)
    P.update_padded_kv_cache(
        held,
        put(device, x),
        number(device, 0),
        number(device, 224),
        1,
        2,
        0,
        valid_global=number(device, 250),
    )
    cache[1, :, 224:] = x[0, :, :32]
    assert torch.equal(got(held), cache)
    made = P.zero_padded_kv_cache(held, 1, 0, 2, 70, 128, 0)
    assert made.buffer_address() == held.buffer_address()
    cache[2, :, 70:128] = 0
    assert torch.equal(got(held), cache)
    P.zero_padded_kv_cache(held, number(device, 1), number(device, 130), 1, 2, 128, 0)
    cache[3, :, 130:256] = 0
    assert torch.equal(got(held), cache)
    new = put(device, x)
    for call, text in (
        (lambda: P.update_padded_kv_cache(held, new, 1, 0, 2, 224, 0), "overflow global cache"),
        (
            lambda: P.update_padded_kv_cache(held, new, 2, 0, 2, 64, 0),
            "out of range for num_slots",
        ),
        (lambda: P.update_padded_kv_cache(held, new, 1, 0, 2, 65, 0), "must be tile-aligned"),
        (lambda: P.zero_padded_kv_cache(held, 1, 0, 2, 70, 64, 0), "must be a multiple of pad_align"),
        (lambda: P.zero_padded_kv_cache(held, 1, 0, 2, 300, 128, 0), "exceeds cache capacity"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_rows_of_pages_by_their_numbers(device):
    caches, rows = [drawn(4, 2, 32, 64, seed=s) for s in (0, 1)], [drawn(1, 2, 5, 64, seed=s) for s in (2, 3)]
    held, at = [put(device, x) for x in caches], [40, -1, 127, 200, 3]
    tensors = [held[0], put(device, rows[0]), held[1], put(device, rows[1])]
    made = E.indexed_fused_update_cache(*tensors, put(device, torch.tensor([at]).int(), ttnn.int32, ROWS))
    for cache, x, new in zip(caches, rows, made, strict=True):
        for row, place in enumerate(at):
            if 0 <= place < 128:
                cache[place // 32, :, place % 32] = x[0, :, row]
        assert torch.equal(got(new), cache)
    assert made[0] is held[0]


def test_parts_of_caches_and_heads(device):
    x = drawn(1, 2, 128, 64)
    made = E.nlp_kv_cache_load_slice(put(device, x), seq_len_start=32, seq_len_end=96)
    assert torch.equal(got(made), x[:, :, 32:96])
    assert list(made.memory_config().shard_spec.shape) == [64, 64]
    with pytest.raises(RuntimeError, match="full tiles"):
        E.nlp_kv_cache_load_slice(put(device, x), seq_len_start=16, seq_len_end=96)
    x = drawn(2, 1, 32, 384)
    first, second = E.nlp_create_q_heads_split(put(device, x), num_heads=4, split_head_dim=32)
    heads = x.reshape(2, 32, 4, 96).transpose(1, 2)
    assert torch.equal(got(first), heads[..., :32])
    assert torch.equal(got(second), heads[..., 32:])
    with pytest.raises(RuntimeError, match="tile-aligned channel regions"):
        E.nlp_create_q_heads_split(put(device, x), num_heads=4, split_head_dim=16)


def test_positions_as_hugging_face_has_them(device):
    x, cos, sin = drawn(1, 4, 40, 64), drawn(1, 1, 64, 64), drawn(1, 1, 64, 64, seed=1)

    def turned(x, cos, sin):
        return x * cos + torch.cat([-x[..., 32:], x[..., :32]], -1) * sin

    made = E.rotary_embedding_hf(put(device, x), put(device, cos), put(device, sin))
    close(got(made), turned(x, cos[:, :, :40], sin[:, :, :40]), 1e-6)
    x, cos, sin = drawn(1, 3, 8, 64), drawn(1, 3, 1, 64), drawn(1, 3, 1, 64, seed=1)
    made = E.rotary_embedding_hf(put(device, x), put(device, cos), put(device, sin), is_decode_mode=True)
    close(got(made), turned(x, cos, sin), 1e-6)


def test_positions_after_those_of_a_cache(device):
    x, cos, sin, before = (
        drawn(1, 2, 32, 96),
        drawn(1, 1, 128, 64),
        drawn(1, 1, 128, 64, seed=1),
        drawn(1, 2, 32, 32),
    )
    turn = torch.zeros(32, 32)
    turn[torch.arange(0, 32, 2), torch.arange(1, 32, 2)] = 1
    turn[torch.arange(1, 32, 2), torch.arange(0, 32, 2)] = -1
    part, here = x[..., 32:], slice(64, 96)
    pairs = part.reshape(1, 2, 32, 32, 2)
    turned = torch.stack((-pairs[..., 1], pairs[..., 0]), -1).reshape(part.shape)
    turned = part * cos[:, :, here] + turned * sin[:, :, here]
    expected = torch.cat([before, x[..., :32], turned], -1)
    operands = [put(device, one) for one in (x, cos, sin, turn[None, None])]
    given = {"rotary_dim": 64, "rotary_offset": 32, "concat_prefix": put(device, before)}
    for at in (64, number(device, 64)):
        close(got(P.rotary_embedding_indexed(*operands, at, 0, **given)), expected, 1e-5)
    with pytest.raises(RuntimeError, match="must be tile-aligned"):
        P.rotary_embedding_indexed(*operands, 33, 0, **given)
    assert math.isfinite(float(got(operands[0]).sum()))
