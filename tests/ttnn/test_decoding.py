"""Caches and attention of one token a user, of compat.ttnn against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graph_runtime.compat import ttnn

rng = np.random.default_rng(9)
EXACT = {
    "compute_kernel_config": ttnn.WormholeComputeKernelConfig(
        math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True
    )
}


def put(device, values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device)


def drawn(*shape):
    """Numbers that bfloat16 holds, the type that the release's attention takes."""
    return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def short(device, values):
    return put(device, values, ttnn.bfloat16)


def rows(device, values):
    return put(device, np.asarray(values, np.int32), ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)


def attended(q, k, v, seen, sink=None, scale=None):
    """[b, h, s, d]: over the keys that ``seen`` [b, 1, s, keys] says. The scale is the sink's, too."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = np.where(seen, q @ k.swapaxes(-1, -2) * scale, -np.inf)
    if sink is not None:
        scores = np.concatenate([scores, np.broadcast_to(sink * scale, (*scores.shape[:3], 1))], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights[..., : k.shape[2]] @ v


def test_a_cache_is_filled_and_updated_in_place(device):
    held = drawn(4, 2, 64, 32)
    cache = put(device, held)
    address = cache.buffer_address()
    more = drawn(1, 2, 20, 32)
    assert ttnn.fill_cache(cache, put(device, more), 2).buffer_address() == cache.buffer_address()
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
    inputs = [short(device, x) for x in (q, k, v)]
    function = ttnn.transformer.scaled_dot_product_attention_decode
    for given in ({"cur_pos": at}, {"cur_pos_tensor": rows(device, at)}):
        assert np.allclose(function(*inputs, **given, **EXACT).to_numpy(), wanted, atol=2e-2)
    table = rows(device, [[1, 0], [3, 2]])
    pages = [
        put(device, x.reshape(2, 2, 2, 32, 64).transpose(0, 2, 1, 3, 4).reshape(4, 2, 32, 64)[[1, 0, 3, 2]])
        for x in (k, v)
    ]
    made = ttnn.transformer.paged_scaled_dot_product_attention_decode(
        inputs[0], *pages, table, cur_pos_tensor=rows(device, at), **EXACT
    )
    assert np.allclose(made.to_numpy(), wanted, atol=2e-2)
    sink = 8 * drawn(4, 32)
    for scale in (None, 0.5):
        wanted = attended(turned, k.repeat(2, 1), v.repeat(2, 1), seen, sink[None, :, :1, None], scale)
        given = {"cur_pos": at, "attention_sink": short(device, sink), "scale": scale, **EXACT}
        assert np.allclose(function(*inputs, **given).to_numpy().reshape(wanted.shape), wanted, atol=2e-2)
    with pytest.raises(RuntimeError, match="cur_pos or cur_pos_tensor"):
        function(*inputs)


@pytest.mark.parametrize("given", [{}, {"scale": 0.5}, {"sliding_window_size": 8}, {"is_causal": False}])
def test_a_sink_is_scaled_as_the_scores_are(device, given):
    q, k, v = drawn(2, 4, 64, 64), drawn(2, 2, 64, 64), drawn(2, 2, 64, 64)
    sink = 8 * drawn(1, 4, 1, 1)
    own, keys = np.arange(64)[:, None], np.arange(64)
    seen = (keys <= own) & (keys > own - given.get("sliding_window_size", 64))
    seen = seen | (not given.get("is_causal", True))
    inputs = [short(device, x) for x in (q, k, v)]
    given = {"attention_sink": short(device, sink), **given, **EXACT}
    made = ttnn.transformer.scaled_dot_product_attention(*inputs, **given)
    wanted = attended(q, k.repeat(2, 1), v.repeat(2, 1), seen, sink, given.get("scale"))
    assert np.allclose(made.to_numpy(), wanted, atol=3e-2)


def test_windows_chunks_and_two_sequences(device):
    q, k, v = (drawn(1, 2, 64, 64) for _ in range(3))
    inputs = [short(device, x) for x in (q, k, v)]
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


def test_heads_of_queries_alone(device):
    x = np.random.default_rng(0).standard_normal((1, 1, 64, 256)).astype(np.float32)
    queries, keys, values = ttnn.experimental.nlp_create_qkv_heads(
        put(device, x), num_heads=4, num_kv_heads=0
    )
    assert queries.shape == [1, 4, 64, 64]
    assert keys.shape == values.shape == [1, 0, 64, 64]


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


def in_shards(device, values, cores, kind=ttnn.TensorMemoryLayout.WIDTH_SHARDED, down=1):
    """Values in L1, cut over so many cores side by side, and down."""
    rows, columns = values.size // values.shape[-1] // down, values.shape[-1] // cores
    if down == 1:
        grid = ttnn.num_cores_to_corerangeset(cores, device.compute_with_storage_grid_size(), True)
    else:
        grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (cores - 1, down - 1))])
    spec = ttnn.ShardSpec(grid, [-(-rows // 32) * 32, columns], ttnn.ShardOrientation.ROW_MAJOR)
    return put(device, values).to(device, ttnn.MemoryConfig(kind, ttnn.BufferType.L1, spec))


def side_by_side(q, k, v, cores):
    """[b, h, s, d] as rows [b, 1, s, ..] that have a part of queries, keys and values for each core."""
    batch, _, length, _ = q.shape
    parts = [x.transpose(0, 2, 1, 3).reshape(batch, 1, length, cores, -1) for x in (q, k, v) if x is not None]
    return np.concatenate(parts, -1).reshape(batch, 1, length, -1)


HEIGHT = ttnn.TensorMemoryLayout.HEIGHT_SHARDED


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize(("heads", "groups", "cores"), [(4, 1, 1), (8, 2, 2), (4, 4, 4), (8, 4, 2)])
def test_heads_of_shards_that_have_queries_keys_and_values_of_their_own(
    device, separate, heads, groups, cores
):
    q, k, v = drawn(1, heads, 32, 64), drawn(1, groups, 32, 64), drawn(1, groups, 32, 64)
    first = in_shards(device, side_by_side(q, *((None, None) if separate else (k, v)), cores), cores)
    other = in_shards(device, side_by_side(k, v, None, cores), cores) if separate else None
    config = first.memory_config()
    function = ttnn.experimental.nlp_create_qkv_heads
    given = {"num_heads": heads, "num_kv_heads": groups, "transpose_k_heads": False}
    made = function(
        first, other, **given, memory_config=ttnn.MemoryConfig(HEIGHT, ttnn.BufferType.L1, config.shard_spec)
    )
    for found, wanted in zip(made, (q, k, v), strict=True):
        assert (found.to_numpy() == wanted).all()
        assert found.memory_config().shard_spec.num_cores() == wanted.shape[1]
        assert found.memory_config().shard_spec.shape == [32, 64]
    with pytest.raises(RuntimeError, match="must be sharded and not WIDTH_SHARDED"):
        function(first, other, **given)
    with pytest.raises(RuntimeError, match="Transpose K heads must be false"):
        function(first, other, num_heads=heads, num_kv_heads=groups)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("heads", "groups", "across"), [(4, 4, 2), (8, 2, 2), (4, 2, 1)])
def test_heads_of_blocks_whose_rows_go_group_by_group(device, turned, heads, groups, across):
    q, k, v = drawn(2, heads, 32, 64), drawn(2, groups, 32, 64), drawn(2, groups, 32, 64)
    rows = side_by_side(q, k, v, groups)
    blocks = in_shards(device, rows, across, ttnn.TensorMemoryLayout.BLOCK_SHARDED, 2)
    three = in_shards(device, rows[:, 0], across, ttnn.TensorMemoryLayout.BLOCK_SHARDED, 2)
    given = {
        "num_heads": heads,
        "num_kv_heads": groups,
        "memory_config": ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG,
    }
    split = ttnn.transformer.split_query_key_value_and_split_heads
    wanted = q, k.swapaxes(2, 3) if turned else k, v
    for made in (
        ttnn.experimental.create_qkv_heads(blocks, **given, transpose_k_heads=turned),
        split(three, **given, transpose_key=turned),
    ):
        for found, values in zip(made, wanted, strict=True):
            assert found.memory_config().memory_layout is HEIGHT
            assert (found.to_numpy() == values).all()
    with pytest.raises(RuntimeError, match="must be HEIGHT_SHARDED"):
        ttnn.experimental.create_qkv_heads(blocks, num_heads=heads, num_kv_heads=groups)


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
