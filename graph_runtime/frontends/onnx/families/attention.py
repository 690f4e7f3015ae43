"""Attention (opset 23 and later) with its masks and caches, and RotaryEmbedding."""

from __future__ import annotations

import math

import numpy as np

from ..context import Context, Results, converter
from ..read import DTYPES
from ..tape import TapeValue


def _heads(ctx: Context, x: TapeValue, heads: int) -> TapeValue:
    """[batch, length, heads * size] -> [batch, heads, length, size]."""
    batch, length, wide = x.shape
    return ctx.transpose(ctx.reshape(x, (batch, length, heads, wide // heads)), [0, 2, 1, 3])


def _repeated(ctx: Context, x: TapeValue, times: int) -> TapeValue:
    """Each head of keys or values for ``times`` heads of queries."""
    if times == 1:
        return x
    b, h, t, d = x.shape
    wide = ctx.expand(ctx.reshape(x, (b, h, 1, t, d)), (b, h, times, t, d))
    return ctx.reshape(wide, (b, h * times, t, d))


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
    k, v = _repeated(ctx, k, times), _repeated(ctx, v, times)
    scale = ctx.attr("scale", 1 / math.sqrt(q.shape[3]))
    softcap, precision = ctx.attr("softcap", 0.0), DTYPES.get(ctx.attr("softmax_precision", 0), q.dtype)
    mode, scores = ctx.attr("qk_matmul_output_mode", 0), None
    if softcap or ctx.wants(3):
        y, scores = _in_steps(ctx, (q, k, v), bias, scale, softcap, precision, mode)
    else:
        y = ctx.op("attention", q, k, v, *(() if bias is None else (bias,)), scale=scale, causal=False)
        y = _guarded(ctx, y, bias)
    if flat:
        y = ctx.transpose(y, [0, 2, 1, 3])
        y = ctx.reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3]))
    return (y, *present, scores)


def _in_steps(
    ctx: Context,
    qkv: tuple[TapeValue, TapeValue, TapeValue],
    bias: TapeValue | None,
    scale: float,
    softcap: float,
    precision: str,
    mode: int,
) -> tuple[TapeValue, TapeValue]:
    """(the result, what of the scores output 3 wants)."""
    q, k, v = qkv
    stages = [ctx.op("multiply", ctx.op("matmul", q, k, transpose_b=True), ctx.scalar(scale, q))]
    capped = stages[0]
    if softcap:
        cap = ctx.scalar(softcap, q)
        capped = ctx.op("multiply", ctx.op("tanh", ctx.op("divide", capped, cap)), cap)
    masked = capped if bias is None else ctx.op("add", capped, bias)
    soft = ctx.op("softmax", ctx.cast(masked, precision), axis=-1)
    soft = _guarded(ctx, ctx.cast(soft, q.dtype), bias)
    stages += [capped, masked, soft]
    if mode not in range(4):
        ctx.fail(f"qk_matmul_output_mode is {mode}")
    return ctx.op("matmul", soft, v), stages[mode]


def _guarded(ctx: Context, y: TapeValue, bias: TapeValue | None) -> TapeValue:
    """Rows in which every key is masked are zero."""
    if bias is None:
        return y
    known = bias.known()
    if known is not None and np.isfinite(np.asarray(known, np.float64).max(-1, initial=-np.inf)).all():
        return y
    top = ctx.op("max", bias, axes=[-1 % bias.rank], keepdims=True)
    masked = ctx.op("isinf", top, detect_positive=False, detect_negative=True)
    return ctx.op("where", masked, ctx.scalar(0, y), y)


def _bias(ctx: Context, q: TapeValue, k: TapeValue, past: int) -> TapeValue | None:
    """What is added to the scores, broadcastable to [batch, heads, queries, keys]; None for nothing."""
    rows, columns = q.shape[2], k.shape[2]
    allowed, mask = _allowed(ctx, rows, columns, past), ctx.optional(3)
    if mask is not None and mask.dtype != "bool":
        mask = ctx.cast(mask, q.dtype)
    if mask is not None and mask.shape[-1] < columns:
        shape = (*mask.shape[:-1], columns - mask.shape[-1])
        hidden = ctx.full(shape, False if mask.dtype == "bool" else -math.inf, mask.dtype)
        mask = ctx.op("concatenate", mask, hidden, axis=mask.rank - 1)
    low = ctx.scalar(-math.inf, q)
    if mask is not None and mask.dtype == "bool":
        mask = ctx.op("where", mask, ctx.scalar(0, q), low)
    if allowed is None:
        return mask
    fixed = ctx.filled(allowed.shape, lambda: np.where(allowed, 0.0, -np.inf), q.dtype, "the causal mask")
    return fixed if mask is None else ctx.op("add", mask, fixed)


def _allowed(ctx: Context, rows: int, columns: int, past: int) -> np.ndarray | None:
    """bool [queries, keys] or [batch, 1, queries, keys]: what causality, windows and lengths leave."""
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
    if flat:
        x = ctx.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
    else:
        x = ctx.transpose(x, [0, 2, 1, 3])
    size = size or x.shape[3]
    if ctx.has(3):
        cos, sin = (ctx.op("take", v, ctx.input(3), axis=0) for v in (cos, sin))
    cos, sin = (ctx.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (cos, sin))
    if ctx.attr("interleaved", 0):
        first, second = ctx.slice(x, 3, 0, size, 2), ctx.slice(x, 3, 1, size, 2)
    else:
        first, second = ctx.slice(x, 3, 0, size // 2), ctx.slice(x, 3, size // 2, size)
    real = ctx.op("subtract", ctx.op("multiply", first, cos), ctx.op("multiply", second, sin))
    imag = ctx.op("add", ctx.op("multiply", first, sin), ctx.op("multiply", second, cos))
    if ctx.attr("interleaved", 0):
        real, imag = (ctx.op("unsqueeze", v, axes=[4]) for v in (real, imag))
        turned = ctx.reshape(ctx.op("concatenate", real, imag, axis=4), (*x.shape[:3], size))
    else:
        turned = ctx.op("concatenate", real, imag, axis=3)
    if size < x.shape[3]:
        turned = ctx.op("concatenate", turned, ctx.slice(x, 3, size, x.shape[3]), axis=3)
    if flat:
        return ctx.reshape(turned, (*x.shape[:2], x.shape[2] * x.shape[3]))
    return ctx.transpose(turned, [0, 2, 1, 3])
