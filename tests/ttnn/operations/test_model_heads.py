"""ttnn's heads of single models, and rotary positions, against torch."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

from .helpers import close, drawn, got, put

torch = pytest.importorskip("torch")

E = ttnn.experimental


def cut(x, heads):
    """[b, s, h d] as [b, h, s, d]."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)


def test_heads_of_bert_large(device):
    x = drawn(7, 1, 384, 3072).bfloat16()
    q, k, v = E.split_query_key_value_and_split_heads(put(device, x, ttnn.bfloat16), ttnn.CoreCoord(8, 7))
    parts = [cut(part, 16).float() for part in x[:, 0].split(1024, -1)]
    for made, expected in zip((q, k, v), (parts[0], parts[1].mT, parts[2]), strict=True):
        assert torch.equal(got(made), expected)
    made = E.concatenate_heads(q, ttnn.CoreCoord(8, 7))
    assert torch.equal(got(made), x[..., :1024].float())


def test_heads_of_bert_large_in_block_shards(device):
    shape, heads = [2, 1, 64, 384], 4  # 2 x 2 cores: each column of cores has q, k, v of two heads
    x = drawn(*shape).bfloat16()
    config = ttnn.create_sharded_memory_config(
        shape, ttnn.CoreGrid(y=2, x=2), ttnn.ShardStrategy.BLOCK, ttnn.ShardOrientation.ROW_MAJOR
    )
    out = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1)
    made = E.split_query_key_value_and_split_heads(
        put(device, x, ttnn.bfloat16, memory_config=config),
        ttnn.CoreCoord(2, 2),
        num_heads=heads,
        memory_config=out,
    )
    parts = x.reshape(2, 64, 2, 3, 2, 32).permute(3, 0, 2, 4, 1, 5).reshape(3, 2, 4, 64, 32).float()
    assert torch.equal(got(made[0]), parts[0])
    assert torch.equal(got(made[1]), parts[1].mT)
    assert torch.equal(got(made[2]), parts[2])
    assert list(made[0].memory_config().shard_spec.shape) == [128, 32]


def test_queries_with_keys_and_values_apart(device):
    q, kv = drawn(1, 1, 64, 128), drawn(1, 1, 64, 256)

    def blocks(x):
        return ttnn.create_sharded_memory_config(
            list(x.shape), ttnn.CoreGrid(y=1, x=2), ttnn.ShardStrategy.BLOCK, ttnn.ShardOrientation.ROW_MAJOR
        )

    made = E.create_qkv_heads_from_separate_tensors(
        put(device, q, memory_config=blocks(q)),
        put(device, kv, memory_config=blocks(kv)),
        num_heads=4,
        num_kv_heads=4,
        transpose_k_heads=False,
        memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG,
    )
    pairs = kv.reshape(1, 64, 4, 2, 32).permute(3, 0, 2, 1, 4)
    for one, expected in zip(made, (cut(q[:, 0], 4), pairs[0], pairs[1]), strict=True):
        assert torch.equal(got(one), expected)


def test_heads_of_falcon_vit_and_segformer(device):
    x = drawn(2, 1, 32, 4672)
    q, k, v = E.nlp_create_qkv_heads_falcon7b(put(device, x))
    assert torch.equal(got(q), cut(x[:, 0, :, : 71 * 64], 71))
    assert torch.equal(got(k), x[..., 71 * 64 : 72 * 64])
    assert torch.equal(got(v), x[..., 72 * 64 :])
    x = drawn(2, 1, 32, 2304)
    for made, part in zip(E.nlp_create_qkv_heads_vit(put(device, x)), x[:, 0].split(768, -1), strict=True):
        assert torch.equal(got(made), cut(part, 12))
    x = drawn(2, 1, 64, 96)
    for made in E.nlp_create_qkv_heads_segformer(put(device, x)):
        assert torch.equal(got(made), cut(x[:, 0], 3))


def test_heads_of_boltz(device):
    x = drawn(1, 32, 32, 3 * 64)
    made = E.nlp_create_qkv_heads_boltz(put(device, x), num_heads=2, transpose_k_heads=False)
    for one, part in zip(made, x[0].split(64, -1), strict=True):
        assert torch.equal(got(one), part.reshape(32, 32, 2, 32).permute(2, 0, 1, 3))
    assert torch.equal(got(E.nlp_concat_heads_boltz(made[0])), x[..., :64])
    with pytest.raises(ttnn.Unsupported, match="transpose_k_heads"):
        E.nlp_create_qkv_heads_boltz(put(device, x), num_heads=2)


def test_rotary_positions_of_queries_and_keys_at_once(device):
    users, size = 4, 64
    q, k = drawn(1, users, 8, size), drawn(1, users, 2, size)
    cos, sin = drawn(1, 2 * users, 32, size), drawn(1, 2 * users, 32, size, seed=1)
    turn = torch.zeros(32, 32)
    turn[torch.arange(0, 32, 2), torch.arange(1, 32, 2)] = 1
    turn[torch.arange(1, 32, 2), torch.arange(0, 32, 2)] = -1

    def shards(x, first):
        cores = ttnn.CoreRangeSet(
            {ttnn.CoreRange(ttnn.CoreCoord(0, first), ttnn.CoreCoord(x.shape[1] - 1, first))}
        )
        spec = ttnn.ShardSpec(cores, [32, x.shape[-1]], ttnn.ShardOrientation.ROW_MAJOR)
        config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
        return put(device, x, ttnn.bfloat16, memory_config=config)

    mats = turn.repeat(1, 2 * users, 1, 1)
    operands = [shards(x, at) for at, x in enumerate((q, k, cos, sin, mats))]
    made = E.rotary_embedding_llama_fused_qk(*operands)
    q, k, cos, sin = (x.bfloat16().float() for x in (q, k, cos, sin))

    def rotated(x, at):
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        turned = torch.stack((-pairs[..., 1], pairs[..., 0]), -1).reshape(x.shape)
        return x * cos[:, at : at + users, :1] + turned * sin[:, at : at + users, :1]

    close(got(made[0]), rotated(q, 0), 2**-8)
    close(got(made[1]), rotated(k, users), 2**-8)
