"""com.microsoft's attention: Attention, MultiHeadAttention and GroupQueryAttention with their caches and
masks, and RotaryEmbedding. The definitions are those of ONNX Runtime's docs/ContribOperators.md.

A present cache holds the past cache and the new keys. In a past buffer that is not full, the new keys follow
the last valid key, as in ONNX Runtime, and the rest of the buffer is undefined.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np

from .....compositions.attention import repeat_heads, visible
from .....compositions.rotary import rotate
from .....ir.value import where
from ...context import Context, Results, converter
from ...tape import TapeValue
from ..attention import _flat, _heads
from .ops import CONTRIB

_MASKED = -10000.0  # ONNX Runtime's default of mask_filter_value, added to the scores of masked keys


def _part(ctx: Context, x: TapeValue, axis: int, index: int) -> TapeValue:
    """x at one index of an axis; the axis is removed."""
    return ctx.reshape(ctx.slice(x, axis, index, index + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


def _joined(ctx: Context, past: TapeValue | None, new: TapeValue) -> TapeValue:
    return new if past is None else ctx.op("concatenate", past, new, axis=2)


def _positions(ctx: Context, count: int) -> TapeValue:
    """int32 [1, 1, 1, count] with the numbers 0, 1, 2, ..."""
    ctx.fits(count)
    return ctx.const(np.arange(count, dtype=np.int32).reshape(1, 1, 1, count))


def _padding(
    ctx: Context, mask: TapeValue | None, like: TapeValue, rows: int, total: int
) -> TapeValue | None:
    """Bias from a mask of keys; None without a mask. A mask [batch] has the number of valid keys of each
    sequence. A mask [2 * batch] has the ends of the valid keys, then their starts. Masks [batch, keys] and
    [batch, queries, keys] are not 0 at valid keys."""
    low = ctx.attr("mask_filter_value", _MASKED)
    if mask is None:
        return None
    batch, mask = like.shape[0], mask.cast("int32")
    if mask.rank == 1 and mask.shape[0] in (batch, 2 * batch):
        keys, column = _positions(ctx, total), (batch, 1, 1, 1)
        counts = keys < ctx.reshape(ctx.slice(mask, 0, 0, batch), column)
        if mask.shape[0] == 2 * batch:
            start = ctx.reshape(ctx.slice(mask, 0, batch, 2 * batch), column)
            counts = counts & (keys >= start)
    elif mask.shape == (batch, total):
        counts = ctx.reshape(mask, (batch, 1, 1, total)).cast("bool")
    elif mask.shape == (batch, rows, total):
        counts = ctx.reshape(mask, (batch, 1, rows, total)).cast("bool")
    else:
        ctx.fail(f"a mask of {mask.type} does not fit {batch} x {rows} queries and {total} keys")
    return where(counts, like.scalar(0), low)


def _causal(ctx: Context, like: TapeValue, rows: int, total: int) -> TapeValue | None:
    """Bias of the attribute ``unidirectional``, with which a query sees the keys up to its own position; None
    without the attribute."""
    if not ctx.attr("unidirectional", 0):
        return None
    ctx.fits(rows, total)
    seen = visible(rows, total, total - rows)
    return ctx.filled((rows, total), lambda: np.where(seen, 0, -math.inf), like.dtype, "the causal mask")


def _attend(
    ctx: Context, q: TapeValue, k: TapeValue, v: TapeValue, parts: list[TapeValue | None], scale: float
) -> TapeValue:
    """Result [batch, length, heads * size] of attention; ``parts`` are added to the scores."""
    given = [part for part in parts if part is not None]
    bias = (reduce(add, given),) if given else ()
    scale = scale or 1 / math.sqrt(q.shape[3])
    return _flat(ctx, ctx.op("attention", q, k, v, *bias, scale=scale, causal=False))


@converter("Attention", domain=CONTRIB, limits="no shared cache buffers, no rotation")
def _attention(ctx: Context) -> Results:
    x, weights, heads = ctx.input(0), ctx.input(1), ctx.attr("num_heads", int)
    if ctx.attr("do_rotary", 0) or ctx.attr("past_present_share_buffer", 0) or ctx.has(6):
        ctx.fail("do_rotary and past_present_share_buffer are not supported")
    sizes = list(ctx.attr("qkv_hidden_sizes", []) or [weights.shape[1] // 3] * 3)
    made = x @ weights
    made = made + ctx.input(2) if ctx.has(2) else made
    ends = np.cumsum([0, *sizes])
    if len(sizes) != 3 or ends[3] != weights.shape[1] or any(size % heads for size in sizes):
        ctx.fail(f"weights of {weights.type} do not fit {heads} heads and sizes {sizes}")
    q, k, v = (_heads(ctx, ctx.slice(made, 2, int(a), int(b)), heads) for a, b in pairwise(ends))
    present = None
    if ctx.has(4):
        k, v = (_joined(ctx, _part(ctx, ctx.input(4), 0, i), new) for i, new in enumerate((k, v)))
    if ctx.wants(1):
        present = ctx.stack([k, v], 0)
    rows, total = q.shape[2], k.shape[2]
    parts = [_padding(ctx, ctx.optional(3), q, rows, total), _causal(ctx, q, rows, total), ctx.optional(5)]
    return _attend(ctx, q, k, v, parts, ctx.attr("scale", 0.0)), present


def _multi_head_inputs(ctx: Context, heads: int) -> tuple[TapeValue, TapeValue, TapeValue]:
    """(q, k, v), each [batch, heads, length, size]. The bias is added to each, except to keys and values that
    are already split into heads. The inputs have one of four forms: three tensors; keys and values that are
    already split into heads; keys and values in one tensor; queries, keys and values in one tensor."""
    q, k, v, bias = ctx.input(0), ctx.optional(1), ctx.optional(2), ctx.optional(3)
    if q.rank == 5:  # [batch, length, heads, 3, size]
        parts = [ctx.transpose(_part(ctx, q, 3, i), [0, 2, 1, 3]) for i in range(3)]
    elif k is not None and k.rank == 5:  # [batch, length, heads, 2, size]
        parts = [_heads(ctx, q, heads), *(ctx.transpose(_part(ctx, k, 3, i), [0, 2, 1, 3]) for i in range(2))]
    elif k is not None and v is not None:
        parts = [_heads(ctx, q, heads), *(x if x.rank == 4 else _heads(ctx, x, heads) for x in (k, v))]
    else:
        ctx.fail("key and value are missing, and the query is not packed")
    if bias is None:
        return parts[0], parts[1], parts[2]
    start, made = 0, []
    for part, given in zip(parts, (q, k, v), strict=True):
        wide = heads * part.shape[3]
        own = ctx.reshape(ctx.slice(bias, 0, start, start + wide), (heads, 1, part.shape[3]))
        has_heads = given is not None and given.rank == 4  # the cache of a cross-attention is already split
        made.append(part if has_heads else part + own)
        start += wide
    return made[0], made[1], made[2]


@converter("MultiHeadAttention", domain=CONTRIB, limits="no shared cache buffers, no beams")
def _multi_head(ctx: Context) -> Results:
    heads = ctx.attr("num_heads", int)
    if ctx.has(8) or ctx.has(9):
        ctx.fail("past_sequence_length and cache_indirection are not supported")
    q, k, v = _multi_head_inputs(ctx, heads)
    k, v = _joined(ctx, ctx.optional(6), k), _joined(ctx, ctx.optional(7), v)
    rows, total = q.shape[2], k.shape[2]
    parts = [_padding(ctx, ctx.optional(4), q, rows, total), _causal(ctx, q, rows, total), ctx.optional(5)]
    return _attend(ctx, q, k, v, parts, ctx.attr("scale", 0.0)), k, v


# ---------------------------------------------------------------- grouped queries


def _rotated(
    ctx: Context, x: TapeValue, cos: TapeValue, sin: TapeValue, positions: TapeValue, interleaved: bool
) -> TapeValue:
    """x [batch, heads, length, size] rotated by the angles at ``positions`` [batch or 1, length]. ``cos`` and
    ``sin`` are [positions, half the number of rotated features]."""
    cos, sin = (ctx.op("unsqueeze", ctx.op("take", v, positions, axis=0), axes=[1]) for v in (cos, sin))
    return rotate(x, cos, sin, interleaved)


@converter("RotaryEmbedding", domain=CONTRIB)
def _rotary(ctx: Context) -> Results:
    x, positions, cos, sin = (ctx.input(i) for i in range(4))
    ctx.ignore("is_packed_batching", "max_position")
    if ctx.attr("scale", 1.0) != 1.0:
        ctx.fail("only scale 1 is supported")
    heads, size, flat = ctx.attr("num_heads", 0), ctx.attr("rotary_embedding_dim", 0), x.rank == 3
    if flat:
        heads = heads or x.shape[2] // (size or 2 * cos.shape[1])
        x = _heads(ctx, x, heads)
    batch, length = x.shape[0], x.shape[2]
    if positions.type.size == 1 and positions.rank <= 1:  # a single number is the first position
        ahead = ctx.const(np.arange(length, dtype=np.int64).reshape(1, length))
        positions = ctx.reshape(positions, (1, 1)).cast("int64") + ahead
    elif positions.shape != (batch, length):
        ctx.fail(f"position_ids of {positions.type} do not fit {batch} x {length}")
    made = _rotated(ctx, x, cos, sin, positions, bool(ctx.attr("interleaved", 0)))
    return _flat(ctx, made) if flat else made


@converter("GroupQueryAttention", domain=CONTRIB, limits="no quantized cache")
def _group_query(ctx: Context) -> Results:
    """The number of past keys is known only at run time: seqlens_k is the number of keys of each sequence,
    minus one."""
    heads, groups = ctx.attr("num_heads", int), ctx.attr("kv_num_heads", int)
    ctx.ignore("qk_output", "k_quant_type", "v_quant_type", "kv_cache_bit_width")
    if ctx.attr("smooth_softmax", 0) > 0 or any(ctx.has(i) for i in range(11, 14)):
        ctx.fail("smooth_softmax, head_sink and quantized caches are not supported")
    q, k, v = _grouped_inputs(ctx, heads, groups)
    batch, length, past = q.shape[0], q.shape[2], ctx.optional(3)
    held = past.shape[2] if past is not None else 0
    keys = ctx.reshape(ctx.input(5).cast("int32"), (batch, 1, 1, 1))
    real = keys - (length - 1)  # number of valid keys of the past
    if not held:  # in the first run, shorter sequences are padded at the end
        real = ctx.const(np.zeros((batch, 1, 1, 1), np.int32))
    if ctx.attr("do_rotary", 0):
        at = ctx.reshape(real, (batch, 1)) + ctx.const(np.arange(length, dtype=np.int32))
        at = ctx.input(9) if ctx.has(9) else at
        turn = bool(ctx.attr("rotary_interleaved", 0))
        q, k = (_rotated(ctx, x, ctx.input(7), ctx.input(8), at, turn) for x in (q, k))
    else:
        ctx.ignore("rotary_interleaved")
    k, v = (_cached(ctx, ctx.optional(3 + i), new, real) for i, new in enumerate((k, v)))
    present, total, times = (k, v), k.shape[2], heads // groups
    k, v = (repeat_heads(x, times) for x in present)
    allowed = _visible(ctx, real, length, total)
    bias = ctx.optional(10)
    if bias is not None and bias.shape[3] != total:
        ctx.fail(f"attention_bias of {bias.type} does not fit {total} keys")
    parts = [where(allowed, q.scalar(0), -math.inf), bias]
    scale, softcap = ctx.attr("scale", 0.0) or 1 / math.sqrt(q.shape[3]), ctx.attr("softcap", 0.0)
    if not softcap:
        return _attend(ctx, q, k, v, parts, scale), *present
    scores = ctx.op("matmul", q, k, transpose_b=True) * (scale / softcap)
    scores = reduce(add, (part for part in parts if part is not None), scores.tanh() * softcap)
    return _flat(ctx, ctx.op("softmax", scores, axis=-1) @ v), *present


def _grouped_inputs(ctx: Context, heads: int, groups: int) -> tuple[TapeValue, TapeValue, TapeValue]:
    q, k, v = ctx.input(0), ctx.optional(1), ctx.optional(2)
    if k is None or v is None:  # one tensor has the heads of queries, keys and values
        size = q.shape[2] // (heads + 2 * groups)
        ends = [0, heads * size, (heads + groups) * size, (heads + 2 * groups) * size]
        q, k, v = (ctx.slice(q, 2, a, b) for a, b in pairwise(ends))
    return _heads(ctx, q, heads), _heads(ctx, k, groups), _heads(ctx, v, groups)


def _cached(ctx: Context, past: TapeValue | None, new: TapeValue, real: TapeValue) -> TapeValue:
    """Cache [batch, heads, held + length, size]: the valid keys of the past, followed by the new keys."""
    if past is None or not past.shape[2]:
        return new
    both = ctx.op("concatenate", past, new, axis=2)
    batch, heads, total, size = both.shape
    held = past.shape[2]
    at = ctx.const(np.arange(total, dtype=np.int32).reshape(1, 1, total, 1))
    moved = (at + held - real).minimum(total - 1)
    index = where(at < real, at, moved)
    index = ctx.expand(index.cast("int64"), (batch, heads, total, size))
    return ctx.op("take_along_axis", both, index, axis=2)


def _visible(ctx: Context, real: TapeValue, length: int, total: int) -> TapeValue:
    """Mask bool [batch, 1, length, total]: true for the keys that a query sees, which are those up to its own
    position within its window."""
    ctx.fits(length, total)
    own = real + ctx.const(np.arange(length, dtype=np.int32).reshape(1, 1, length, 1))
    keys, window = _positions(ctx, total), ctx.attr("local_window_size", -1)
    allowed = keys <= own
    if window > 0:
        allowed = allowed & (keys > own - window)
    return allowed
