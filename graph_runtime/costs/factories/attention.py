"""Attention in chunks of queries and keys, and the card programs that split and join heads."""

from __future__ import annotations

from .buffers import BF16, F32, CardOperand, CardProgram, CircularBuffer, ceil_div, tile_bytes, tiles

_MASKS = "bfp4_b"


def attention(
    q: CardOperand,
    k: CardOperand,
    v: CardOperand,
    result: CardOperand,
    chunks: tuple[int, int],
    cores: int,
    causal: bool = False,
    mask: str = "",
) -> CardProgram:
    """The card program of attention (transformer/sdpa/device/sdpa_program_factory.cpp). ``chunks``: (elements
    of a chunk of queries, elements of a chunk of keys). ``cores``: number of cores that share the chunks.
    ``mask``: the format of the mask, "" if there is none."""
    rows, cols = (ceil_div(size, 32) for size in chunks)
    deep, wide, middle = q.matrix[1], v.matrix[1], tile_bytes(BF16)
    batch, heads = (1, 1, *q.shape)[-4:-2]
    share = max(1, cores // min(batch, cores))
    share = max(1, share // min(heads, share))
    queries = ceil_div(tiles(q.shape[-2]), rows)
    twice = 2 if ceil_div(queries, min(share, queries)) > 1 else 1
    scalar = tile_bytes(F32 if q.format == F32 else BF16)
    light = causal and not mask
    padded = k.shape[-2] % (cols * 32) != 0
    size = rows * cols
    buffers = [
        CircularBuffer("queries", rows * deep * twice, q.tile),
        CircularBuffer("keys", cols * deep * 2, k.tile),
        CircularBuffer("values", cols * wide * 2, v.tile),
    ]
    if light:
        buffers.append(CircularBuffer("mask", 2, middle))
    elif mask or padded:
        buffers.append(CircularBuffer("mask", size * 2, tile_bytes(mask or _MASKS)))
    buffers += [CircularBuffer(f"scalar {at}", 1, scalar) for at in (0, 1)]
    buffers.append(CircularBuffer("scores", size, middle))
    buffers += [CircularBuffer(f"partial result {at}", rows * wide, middle) for at in (0, 1)]
    buffers += [CircularBuffer(f"statistics {at}", rows, middle) for at in range(5)]
    return CardProgram.of("attention", [*buffers, CircularBuffer("out", rows * wide, result.tile)])


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


def concatenated_heads(x: CardOperand) -> CardProgram:
    """Buffers of experimental/transformer/nlp_concat_heads/device/nlp_concat_heads_program_factory.cpp: twice
    the tiles of a row of all heads; or, for shards, views of the shards."""
    if x.sharded and x.on_l1:
        views = [CircularBuffer(name, x.shard_tiles, x.tile, borrowed=True) for name in ("in", "out")]
        return CardProgram.of("concat heads of shards", views)
    heads, wide = (1, *x.shape)[-3], tiles(x.shape[-1])
    return CardProgram.of("concat heads", [CircularBuffer("in", 2 * heads * wide, x.tile)])
