"""Attention in chunks of queries and keys, and the card programs that split and join heads."""

from __future__ import annotations

from .buffers import BF16, CardOperand, CardProgram, CircularBuffer, ceil_div, tile_bytes, tiles

CAUSAL = "causal"
_COUNTS = 3


def attention(
    q: CardOperand,
    k: CardOperand,
    v: CardOperand,
    result: CardOperand,
    chunks: tuple[int, int],
    cores: int,
    mask: str = "",
    blackhole: bool = False,
) -> CardProgram:
    """The card program of attention (transformer/sdpa/device/sdpa_program_factory.cpp, with sums in 16 bits;
    sizes as ttnn 0.81.1 opens them). ``chunks``: (elements of a chunk of queries, elements of a chunk of
    keys). ``cores``: number of cores that share the chunks. ``mask``: the format of the mask, CAUSAL for one
    that follows from positions, "" if there is none. ``blackhole``: whether the board is one; it then counts
    chunks that come in pairs."""
    rows, cols = (ceil_div(size, 32) for size in chunks)
    causal = mask == CAUSAL
    deep, wide, middle = q.matrix[1], v.matrix[1], tile_bytes(BF16)
    size, queries = rows * cols, ceil_div(tiles(q.shape[-2]), rows)
    buffers = [
        CircularBuffer("queries", rows * deep * (2 if _several(q, queries, cores, causal) else 1), q.tile),
        CircularBuffer("keys", cols * deep * 2, k.tile),
        CircularBuffer("values", cols * wide * 2, v.tile),
    ]
    pairs = causal and queries % 2 == 0
    buffers.append(CircularBuffer("counts", _COUNTS if blackhole and pairs else 0, 32))
    padded = tiles(q.shape[-2]) % rows != 0 or k.shape[-2] % (cols * 32) != 0
    if mask and not causal:
        buffers.append(CircularBuffer("mask", size * 2, tile_bytes(mask)))
    elif causal or padded:
        buffers.append(CircularBuffer("mask", 2 if causal or k.shape[-2] % 32 else 1, middle))
    buffers += [CircularBuffer(f"scalar {at}", 1, middle) for at in range(3)]
    buffers.append(CircularBuffer("scores", size, middle))
    buffers += [CircularBuffer(f"partial result {at}", rows * wide, middle) for at in (0, 1)]
    buffers += [CircularBuffer(f"statistics {at}", rows, middle) for at in range(5)]
    return CardProgram.of(
        "attention", [*buffers, CircularBuffer("out", 2 * min(rows, 2) * wide, result.tile)]
    )


def _several(q: CardOperand, queries: int, cores: int, causal: bool) -> bool:
    """Whether a core computes several chunks of queries. Under a causal mask it takes chunks in pairs, an
    early one with a late one, if their number is even."""
    if causal and queries % 2 == 0:
        return True
    batch, heads = (1, 1, *q.shape)[-4:-2]
    return batch * heads * queries > cores


def scaled_mask(mask: CardOperand) -> CardProgram:
    """The card program that multiplies a mask by the inverse of the scale before attention runs."""
    sizes = (("in", 2, mask.tile), ("scale", 1, tile_bytes(BF16)), ("out", 2, mask.tile))
    return CardProgram.of("scaled mask", [CircularBuffer(*row) for row in sizes])


def split_heads(x: CardOperand, of_shards: bool) -> CardProgram:
    """Buffers of experimental/transformer/split_query_key_value_and_split_heads/device/*.cpp: two tiles; or,
    for shards, views of the shards and two columns of tiles to transpose."""
    if not of_shards:
        return CardProgram.of(
            "split heads", [CircularBuffer("in", 2, x.tile), CircularBuffer("turned", 2, x.tile)]
        )
    down = x.shard[0] // 32
    buffers = [
        CircularBuffer("in", x.shard_tiles, x.tile, borrowed=True),
        CircularBuffer("turned", 2 * down, x.tile),
    ]
    return CardProgram.of("split heads of shards", buffers)


def created_heads(x: CardOperand, turned: bool) -> CardProgram:
    """Buffers of
    experimental/transformer/nlp_create_qkv_heads/device/nlp_create_qkv_heads_program_factory.cpp for
    interleaved tensors: four tiles. ``turned``: whether the keys are transposed, which takes two more
    buffers of as many tiles."""
    names = ("in", "keys", "turned keys") if turned else ("in",)
    return CardProgram.of("create heads", [CircularBuffer(name, 4, x.tile) for name in names])


def concatenated_heads(x: CardOperand) -> CardProgram:
    """Buffers of experimental/transformer/nlp_concat_heads/device/nlp_concat_heads_program_factory.cpp: twice
    the tiles of a row of all heads; or, for shards, views of the shards."""
    if x.sharded and x.on_l1:
        views = [CircularBuffer(name, x.shard_tiles, x.tile, borrowed=True) for name in ("in", "out")]
        return CardProgram.of("concat heads of shards", views)
    heads, wide = (1, *x.shape)[-3], tiles(x.shape[-1])
    return CardProgram.of("concat heads", [CircularBuffer("in", 2 * heads * wide, x.tile)])
