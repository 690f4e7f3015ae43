"""Attention (opset 23 and later) with its masks and caches, and RotaryEmbedding."""

from __future__ import annotations

import math

import numpy as np

from ....compositions.attention import repeat_heads
from ....compositions.rotary import rotate
from ....ir.value import where
from ..context import Context, Results, converter
from ..read import DTYPES
from ..tape import TapeValue


def _heads(ctx: Context, x: TapeValue, heads: int) -> TapeValue:
    """[batch, length, heads * size] -> [batch, heads, length, size]."""
    batch, length, wide = x.shape
    return ctx.transpose(ctx.reshape(x, (batch, length, heads, wide // heads)), [0, 2, 1, 3])


def _flat(ctx: Context, y: TapeValue) -> TapeValue:
    """[batch, heads, length, size] -> [batch, length, heads * size]."""
    b, h, s, d = y.shape
    return ctx.reshape(ctx.transpose(y, [0, 2, 1, 3]), (b, s, h * d))


@converter("Attention", limits="nonpad_kv_seqlen must be known before a run")
def _attention(ctx: Context) -> Results:
    q, k, v = (ctx.input(i) for i in range(3))
    q_heads, kv_heads = ctx.attr("q_num_heads", 0), ctx.attr("kv_num_heads", 0)
    flat = q.rank == 3
    if flat:
        q, k, v = _heads(ctx, q, q_heads), _heads(ctx, k, kv_heads), _heads(ctx, v, kv_heads)
    past = 0
    if ctx.has(4):
        past = ctx.input(4).shape[2]
        k = ctx.op("concatenate", ctx.input(4), k, axis=2)
        v = ctx.op("concatenate", ctx.input(5), v, axis=2)
    present = (k, v)
    bias = _bias(ctx, q, k, past)
    times = q.shape[1] // k.shape[1]
    k, v = repeat_heads(k, times), repeat_heads(v, times)
    scale = ctx.attr("scale", 1 / math.sqrt(q.shape[3]))
    softcap, precision = ctx.attr("softcap", 0.0), DTYPES.get(ctx.attr("softmax_precision", 0), q.dtype)
    mode, scores = ctx.attr("qk_matmul_output_mode", 0), None
    if softcap or ctx.wants(3):
        y, scores = _in_steps(ctx, (q, k, v), bias, scale, softcap, precision, mode)
    else:
        y = ctx.op("attention", q, k, v, *(() if bias is None else (bias,)), scale=scale, causal=False)
        y = _guarded(y, bias)
    return (_flat(ctx, y) if flat else y, *present, scores)


def _in_steps(
    ctx: Context,
    qkv: tuple[TapeValue, TapeValue, TapeValue],
    bias: TapeValue | None,
    scale: float,
    softcap: float,
    precision: str,
    mode: int,
) -> tuple[TapeValue, TapeValue]:
    """(result of attention, the scores at the stage that output 3 returns)."""
    q, k, v = qkv
    stages = [ctx.op("matmul", q, k, transpose_b=True) * scale]
    capped = stages[0]
    if softcap:
        capped = (capped / softcap).tanh() * softcap
    masked = capped if bias is None else capped + bias
    soft = ctx.op("softmax", masked.cast(precision), axis=-1)
    soft = _guarded(soft.cast(q.dtype), bias)
    stages += [capped, masked, soft]
    if mode not in range(4):
        ctx.fail(f"qk_matmul_output_mode is {mode}")
    return soft @ v, stages[mode]


def _guarded(y: TapeValue, bias: TapeValue | None) -> TapeValue:
    """y, with zeros in the rows of queries whose keys are all masked."""
    if bias is None:
        return y
    known = bias.known()
    if known is not None and np.isfinite(np.asarray(known, np.float64).max(-1, initial=-np.inf)).all():
        return y
    top = bias.max([-1 % bias.rank])
    return where(top.op("isinf", detect_positive=False), 0, y)


def _bias(ctx: Context, q: TapeValue, k: TapeValue, past: int) -> TapeValue | None:
    """The bias added to the scores, in a shape that broadcasts to [batch, heads, queries, keys]; None if
    there is none."""
    rows, columns = q.shape[2], k.shape[2]
    allowed, mask = _allowed(ctx, rows, columns, past), ctx.optional(3)
    if mask is not None and mask.dtype != "bool":
        mask = mask.cast(q.dtype)
    if mask is not None and mask.shape[-1] < columns:
        shape = (*mask.shape[:-1], columns - mask.shape[-1])
        hidden = ctx.full(shape, False if mask.dtype == "bool" else -math.inf, mask.dtype)
        mask = ctx.op("concatenate", mask, hidden, axis=mask.rank - 1)
    if mask is not None and mask.dtype == "bool":
        mask = where(mask, q.scalar(0), -math.inf)
    if allowed is None:
        return mask
    fixed = ctx.filled(allowed.shape, lambda: np.where(allowed, 0.0, -np.inf), q.dtype, "the causal mask")
    return fixed if mask is None else mask + fixed


def _allowed(ctx: Context, rows: int, columns: int, past: int) -> np.ndarray | None:
    """Mask bool [queries, keys] or [batch, 1, queries, keys]: true for keys that causality, windows and
    lengths allow; None if all keys are allowed."""
    causal = bool(ctx.attr("is_causal", 0))
    left, right = ctx.attr("left_window_size", -1), ctx.attr("right_window_size", -1)
    lengths = ctx.value(6, None)
    offset: np.ndarray | np.int64 = np.int64(past)
    if lengths is not None:
        lengths = lengths.reshape(-1, 1, 1, 1)
        offset = lengths - rows if not ctx.has(4) else offset
    if not causal and left < 0 and right < 0 and lengths is None:
        return None
    ctx.fits(rows, columns)
    ahead = np.arange(columns) - (np.arange(rows)[:, None] + offset)
    allowed = np.ones(ahead.shape, bool)
    if causal:
        allowed &= ahead <= 0
    if left >= 0:
        allowed &= ahead >= -left
    if right >= 0:
        allowed &= ahead <= right
    return allowed if lengths is None else allowed & (np.arange(columns) < lengths)


@converter("RotaryEmbedding")
def _rotary(ctx: Context) -> Results:
    x, cos, sin = (ctx.input(i) for i in range(3))
    flat = x.rank == 3
    heads, size = ctx.attr("num_heads", 0), ctx.attr("rotary_embedding_dim", 0)
    interleaved = bool(ctx.attr("interleaved", 0))
    if flat:
        x = ctx.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
    else:
        x = ctx.transpose(x, [0, 2, 1, 3])
    if (size or x.shape[3]) != 2 * cos.shape[-1]:
        ctx.fail(f"cos_cache of {cos.type} does not fit {size or x.shape[3]} rotated elements of a head")
    if ctx.has(3):
        cos, sin = (ctx.op("take", v, ctx.input(3), axis=0) for v in (cos, sin))
    cos, sin = (ctx.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (cos, sin))
    turned = rotate(x, cos, sin, interleaved)
    if flat:
        return ctx.reshape(turned, (*x.shape[:2], x.shape[2] * x.shape[3]))
    return ctx.transpose(turned, [0, 2, 1, 3])
