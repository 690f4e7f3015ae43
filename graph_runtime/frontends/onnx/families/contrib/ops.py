"""com.microsoft's ops that ONNX Runtime's optimizer writes: skips with normalisation, embeddings, activations
with a bias, fused convolutions and products. The definitions are those of ONNX Runtime's
docs/ContribOperators.md."""

from __future__ import annotations

from functools import reduce
from operator import add

from .....compositions.norms import moments
from ...context import Context, Results, converter, function
from ...tape import TapeValue
from ..conv import convolve
from ..linear import gemm, matmul
from ..normalise import rms_normalization
from ..packed import unpacked_weights

CONTRIB = "com.microsoft"


def _layer_norm(
    ctx: Context, x: TapeValue, gamma: TapeValue, beta: TapeValue | None, epsilon: float
) -> TapeValue:
    beta = ctx.full(gamma.shape, 0, gamma.dtype) if beta is None else beta
    return ctx.op("layer_norm", x, gamma, beta, axis=-1, epsilon=epsilon)


def _sum(x: TapeValue, *others: TapeValue | None) -> TapeValue:
    return reduce(add, (other for other in others if other is not None), x)


@converter("SkipLayerNormalization", domain=CONTRIB)
def _skip_layer_norm(ctx: Context) -> Results:
    epsilon = ctx.attr("epsilon", 1e-12)
    total = _sum(ctx.input(0), ctx.input(1), ctx.optional(4))
    y = _layer_norm(ctx, total, ctx.input(2), ctx.optional(3), epsilon)
    if not ctx.wants(1) and not ctx.wants(2):
        return y, None, None, total
    mean, var = moments(total, [total.rank - 1])
    return y, mean, (var + epsilon).rsqrt(), total


@converter("SkipSimplifiedLayerNormalization", domain=CONTRIB, limits="no inv_std_var")
def _skip_rms_norm(ctx: Context) -> Results:
    total = _sum(ctx.input(0), ctx.input(1), ctx.optional(3))
    y = ctx.op("rms_norm", total, ctx.input(2), axis=-1, epsilon=ctx.attr("epsilon", 1e-12))
    return y, None, None, total


converter("SimplifiedLayerNormalization", domain=CONTRIB)(rms_normalization)


@converter("EmbedLayerNormalization", domain=CONTRIB)
def _embed(ctx: Context) -> Results:
    ids, segments = ctx.input(0), ctx.optional(1)
    words, positions, kinds = ctx.input(2), ctx.input(3), ctx.optional(4)
    if ctx.attr("mask_index_type", 1) not in (0, 1):
        ctx.fail("mask_index_type must be 0 or 1")
    batch, length = ids.shape
    total = ctx.op("take", words, ids, axis=0)
    if ctx.has(8):
        placed = ctx.op("take", positions, ctx.input(8), axis=0)
    else:
        placed = ctx.slice(positions, 0, 0, length)
    total = total + placed
    if kinds is not None and segments is not None:
        total = total + ctx.op("take", kinds, segments, axis=0)
    y = _layer_norm(ctx, total, ctx.input(5), ctx.input(6), ctx.attr("epsilon", 1e-12))
    counts = ctx.full((batch,), 0, "int32")
    if ctx.has(7):
        counts = ctx.input(7).cast("int32").sum(axes=[1], keepdims=False)
    return y, counts, total


# ---------------------------------------------------------------- activations


function("FastGelu", domain=CONTRIB)(lambda x, bias=None: _sum(x, bias).op("gelu", approximate="tanh"))
function("BiasGelu", "Gelu", domain=CONTRIB)(lambda x, bias=None: _sum(x, bias).op("gelu"))


def _activated(ctx: Context, x: TapeValue, given: list[float]) -> TapeValue:
    """x after the activation that the attribute ``activation`` names, with its parameters."""
    name = ctx.attr("activation", "")
    if name in ("", "Relu", "Tanh", "Sigmoid"):
        return ctx.op(name.lower(), x) if name else x
    if name == "LeakyRelu":
        return ctx.op("leaky_relu", x, alpha=given[0] if given else 0.01)
    if name == "Clip" and len(given) == 2:
        return x.clip(min=given[0], max=given[1])
    if name == "HardSigmoid":
        alpha, beta = given if len(given) == 2 else (0.2, 0.5)
        return ctx.op("hard_sigmoid", x, alpha=alpha, beta=beta)
    ctx.fail(f"activation {name!r} with {len(given)} parameters is not supported")


@converter("FusedConv", domain=CONTRIB, limits="1 to 3 spatial dimensions")
def _fused_conv(ctx: Context) -> Results:
    y = convolve(ctx, ctx.input(0), ctx.input(1), ctx.optional(2))
    return _activated(ctx, _sum(y, ctx.optional(3)), ctx.attr("activation_params", []))


@converter("NhwcConv", domain=CONTRIB, limits="1 to 3 spatial dimensions")
def _nhwc_conv(ctx: Context) -> Results:
    x, w = ctx.input(0), ctx.input(1)
    last = x.rank - 1
    front, back = [0, last, *range(1, last)], [0, *range(2, x.rank), 1]
    y = convolve(ctx, ctx.transpose(x, front), ctx.transpose(w, front), ctx.optional(2))
    return ctx.transpose(y, back)


@converter("FusedMatMul", "TransposeMatMul", domain=CONTRIB)
def _fused_matmul(ctx: Context) -> Results:
    a = _turned(ctx, ctx.input(0), bool(ctx.attr("transBatchA", 0)), bool(ctx.attr("transA", 0)))
    b = _turned(ctx, ctx.input(1), bool(ctx.attr("transBatchB", 0)), bool(ctx.attr("transB", 0)))
    y, alpha = matmul(ctx, a, b), ctx.attr("alpha", 1.0)
    return y if alpha == 1.0 else y * alpha


def _turned(ctx: Context, x: TapeValue, batch: bool, last: bool) -> TapeValue:
    """A factor of a product with its axes moved. ``batch``: whether the first axis moves to the place before
    the last. ``last``: whether the last two axes are swapped."""
    if x.rank < 2:
        return x
    axes = list(range(x.rank))
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if last:
        axes[-2:] = axes[:-3:-1]
    return ctx.transpose(x, axes)


@converter("FusedGemm", domain=CONTRIB)
def _fused_gemm(ctx: Context) -> Results:
    a, b, c = ctx.input(0), ctx.input(1), ctx.optional(2)
    alpha, beta = ctx.attr("alpha", 1.0), ctx.attr("beta", 1.0)
    swap_a, swap_b = bool(ctx.attr("transA", 0)), bool(ctx.attr("transB", 0))
    y = ctx.op("matmul", a, b, transpose_a=swap_a, transpose_b=swap_b)
    y = gemm(ctx, y, c, alpha, beta)
    defaults = {"LeakyRelu": {"alpha": 0.01}, "HardSigmoid": {"alpha": 0.2, "beta": 0.5}}
    wanted = defaults.get(ctx.attr("activation", ""), {})
    given = [ctx.attr(f"activation_{key}", default) for key, default in wanted.items()]
    ctx.ignore("activation_alpha", "activation_beta", "activation_gamma")
    return _activated(ctx, y, given)


@converter("MatMulNBits", domain=CONTRIB, limits="bits of 2, 4 and 8; constant weights")
def _matmul_nbits(ctx: Context) -> Results:
    x, k, n = ctx.input(0), ctx.attr("K", int), ctx.attr("N", int)
    narrow = ctx.attr("accuracy_level", 0) == 4
    w = unpacked_weights(ctx, (n, k), ctx.attr("bits", 4), ctx.attr("block_size", int), narrow)
    y = ctx.op("dense", x.cast("float32"), w).cast(x.dtype)
    return _sum(y, ctx.optional(5))
