"""Caches and attention of one token a user, of compat.ttnn against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graph_runtime.compat import ttnn

rng = np.random.default_rng(9)


def put(device, values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device)


def drawn(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def rows(device, values):
    return put(device, np.asarray(values, np.int32), ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)


def attended(q, k, v, seen, sink=None):
    """[b, h, s, d]: over the keys that ``seen`` [b, 1, s, keys] says."""
    scores = np.where(seen, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), -np.inf)
    if sink is not None:
        scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:3], 1))], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights[..., : k.shape[2]] @ v


def test_a_cache_is_filled_and_updated_in_place(device):
    held = drawn(4, 2, 64, 32)
    cache = put(device, held)
    address = cache.buffer_address()
    more = drawn(1, 2, 20, 32)
    assert ttnn.fill_cache(cache, put(device, more), 2) is cache
    held[2, :, :20] = more[0]
    token = drawn(1, 2, 6, 32)
    ttnn.kv_cache.update_cache_for_token_(cache, put(device, token), 33, batch_offset=2)
    held[:, :, 33] = token[0, :, 2:6].swapaxes(0, 1)
    assert (cache.to_numpy() == held).all()
    assert cache.buffer_address() == address
    with pytest.raises(RuntimeError, match="does not fit into the cache"):
        ttnn.fill_cache(cache, put(device, drawn(1, 3, 20, 32)), 0)


def test_a_cache_in_pages_is_updated_by_its_table(device):
    pages, table = drawn(8, 2, 32, 64), np.array([[5, 0], [3, 6], [1, 2]])
    cache, token, at = put(device, pages), drawn(1, 3, 32, 64), [40, -1, 7]
    ttnn.experimental.paged_update_cache(
        cache, put(device, token), update_idxs_tensor=rows(device, at), page_table=rows(device, table)
    )
    pages[0, :, 8], pages[1, :, 7] = token[0, 0, :2], token[0, 2, :2]
    assert (cache.to_numpy() == pages).all()
    more = drawn(1, 2, 45, 64)
    ttnn.experimental.paged_fill_cache(cache, put(device, more), rows(device, table), batch_idx=1)
    pages[3], pages[6, :, :13] = more[0, :, :32], more[0, :, 32:]
    assert (cache.to_numpy() == pages).all()
    whole = put(device, np.zeros((3, 2, 64, 64), np.float32))
    ttnn.experimental.paged_update_cache(whole, put(device, token), update_idxs=[1, 2, 63])
    found = whole.to_numpy()
    assert (found[np.arange(3), :, [1, 2, 63]] == token[0, :, :2]).all()
    assert (found != 0).sum() == 3 * 2 * 64


def test_one_token_a_user_attends_to_what_was_before(device):
    q, k, v = drawn(1, 2, 4, 64), drawn(2, 2, 64, 64), drawn(2, 2, 64, 64)
    at = [10, 63]
    seen = (np.arange(64) <= np.array(at)[:, None]).reshape(2, 1, 1, 64)
    turned = q.reshape(2, 4, 1, 64)
    wanted = attended(turned, k.repeat(2, 1), v.repeat(2, 1), seen).reshape(1, 2, 4, 64)
    inputs = [put(device, x) for x in (q, k, v)]
    exact = {
        "compute_kernel_config": ttnn.WormholeComputeKernelConfig(
            math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True
        )
    }
    function = ttnn.transformer.scaled_dot_product_attention_decode
    for given in ({"cur_pos": at}, {"cur_pos_tensor": rows(device, at)}):
        assert np.allclose(function(*inputs, **given, **exact).to_numpy(), wanted, atol=2e-2)
    table = rows(device, [[1, 0], [3, 2]])
    pages = [
        put(device, x.reshape(2, 2, 2, 32, 64).transpose(0, 2, 1, 3, 4).reshape(4, 2, 32, 64)[[1, 0, 3, 2]])
        for x in (k, v)
    ]
    made = ttnn.transformer.paged_scaled_dot_product_attention_decode(
        inputs[0], *pages, table, cur_pos_tensor=rows(device, at), **exact
    )
    assert np.allclose(made.to_numpy(), wanted, atol=2e-2)
    sink = drawn(4, 32)
    wanted = attended(turned, k.repeat(2, 1), v.repeat(2, 1), seen, sink[None, :, :1, None])
    made = function(*inputs, cur_pos=at, attention_sink=put(device, sink), **exact)
    assert np.allclose(made.to_numpy().reshape(wanted.shape), wanted, atol=2e-2)
    with pytest.raises(RuntimeError, match="cur_pos or cur_pos_tensor"):
        function(*inputs)


def test_windows_chunks_and_two_sequences(device):
    q, k, v = (drawn(1, 2, 64, 64) for _ in range(3))
    inputs = [put(device, x) for x in (q, k, v)]
    own, keys = np.arange(64)[:, None], np.arange(64)
    made = ttnn.transformer.scaled_dot_product_attention(*inputs, sliding_window_size=8)
    wanted = attended(q, k, v, (keys <= own) & (keys > own - 8))
    assert np.allclose(made.to_numpy(), wanted, atol=3e-2)
    table = rows(device, [[0, 1]])
    pages = [put(device, x.reshape(2, 2, 32, 64).transpose(1, 0, 2, 3)) for x in (k[0], v[0])]
    made = ttnn.transformer.chunked_scaled_dot_product_attention(
        put(device, q[:, :, :32]), *pages, table, chunk_start_idx=32
    )
    wanted = attended(q[:, :, :32], k, v, keys <= own[:32] + 32)
    assert np.allclose(made.to_numpy(), wanted, atol=3e-2)
    parts = [put(device, x) for y in (slice(40), slice(40, 64)) for x in (q[:, :, y], k[:, :, y], v[:, :, y])]
    first, second = ttnn.transformer.joint_scaled_dot_product_attention(*parts, joint_strategy="rear")
    wanted = attended(q, k, v, np.ones((1, 1, 1, 1), bool))
    assert np.allclose(np.concatenate([first.to_numpy(), second.to_numpy()], 2), wanted, atol=3e-2)


def test_heads_of_a_token(device):
    x = drawn(1, 1, 8, (4 + 2 * 2) * 32)
    q, k, v = ttnn.experimental.nlp_create_qkv_heads_decode(put(device, x), num_heads=4, num_kv_heads=2)
    cut = x.reshape(1, 8, 8, 32)
    assert q.memory_config().memory_layout is ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    assert (q.to_numpy() == cut[:, :, :4]).all()
    assert (k.to_numpy() == cut[:, :, 4:6]).all()
    assert (v.to_numpy() == cut[:, :, 6:]).all()
    back = ttnn.experimental.nlp_concat_heads_decode(q, num_heads=3)
    assert (back.to_numpy() == cut[:, :, :3].reshape(1, 1, 8, 96)).all()
    made = ttnn.experimental.nlp_create_qkv_heads(put(device, x), num_heads=4, num_kv_heads=2)
    assert (made[1].to_numpy() == cut[:, :, 4:6].transpose(0, 2, 3, 1)).all()


def test_neighbours_are_turned_by_a_matrix(device):
    turn = np.zeros((1, 1, 32, 32), np.float32)
    turn[..., np.arange(0, 32, 2), np.arange(1, 32, 2)] = 1
    turn[..., np.arange(1, 32, 2), np.arange(0, 32, 2)] = -1
    x, cos, sin = drawn(1, 2, 32, 64), drawn(1, 1, 64, 64), drawn(1, 1, 64, 64)
    turned = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    made = ttnn.experimental.rotary_embedding_llama(*(put(device, t) for t in (x, cos, sin, turn)))
    assert np.allclose(made.to_numpy(), x * cos[:, :, :32] + turned * sin[:, :, :32], atol=1e-5)
    users = x.transpose(0, 2, 1, 3)
    per = cos[:, :, :32].transpose(0, 2, 1, 3), sin[:, :, :32].transpose(0, 2, 1, 3)
    made = ttnn.experimental.rotary_embedding_llama(
        *(put(device, np.ascontiguousarray(t)) for t in (users, *per, turn)), is_decode_mode=True
    )
    turned = turned.transpose(0, 2, 1, 3)
    assert np.allclose(made.to_numpy(), users * per[0] + turned * per[1], atol=1e-5)


def test_positions_go_on(device):
    at = rows(device, [3, -1, 7])
    ttnn.plus_one(at)
    assert at.to_numpy().tolist() == [4, 0, 8]
    ttnn.plus_one(ttnn.typecast(at, ttnn.int32), skip_negative_entries=True)
