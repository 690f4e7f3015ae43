"""com.microsoft, what ONNX Runtime's optimizer writes: skips with normalisation, embeddings, activations with
a bias, fused convolutions and products. The definitions are those of ONNX Runtime's
docs/ContribOperators.md."""

from __future__ import annotations

from ...context import Context, Results, converter
from ...tape import TapeValue
from ..conv import convolve
from ..linear import gemm, matmul
from ..packed import unpacked_weights

CONTRIB = "com.microsoft"


def _moments(ctx: Context, x: TapeValue, epsilon: float) -> tuple[TapeValue, TapeValue]:
    """Over the last axis: the mean, and one over the deviation."""
    axes = [x.rank - 1]
    mean = ctx.op("mean", x, axes=axes, keepdims=True)
    away = ctx.op("subtract", x, mean)
    var = ctx.op("mean", ctx.op("multiply", away, away), axes=axes, keepdims=True)
    return mean, ctx.op("rsqrt", ctx.op("add", var, ctx.scalar(epsilon, x)))


def _layer_norm(
    ctx: Context, x: TapeValue, gamma: TapeValue, beta: TapeValue | None, epsilon: float
) -> TapeValue:
    beta = ctx.full(gamma.shape, 0, gamma.dtype) if beta is None else beta
    return ctx.op("layer_norm", x, gamma, beta, axis=-1, epsilon=epsilon)


def _sum(ctx: Context, x: TapeValue, *others: TapeValue | None) -> TapeValue:
    return ctx.each("add", x, *(other for other in others if other is not None))


@converter("SkipLayerNormalization", domain=CONTRIB)
def _skip_layer_norm(ctx: Context) -> Results:
    epsilon = ctx.attr("epsilon", 1e-12)
    total = _sum(ctx, ctx.input(0), ctx.input(1), ctx.optional(4))
    y = _layer_norm(ctx, total, ctx.input(2), ctx.optional(3), epsilon)
    mean, inverse = _moments(ctx, total, epsilon) if ctx.wants(1) or ctx.wants(2) else (None, None)
    return y, mean, inverse, total


@converter("SkipSimplifiedLayerNormalization", domain=CONTRIB, limits="no inv_std_var")
def _skip_rms_norm(ctx: Context) -> Results:
    total = _sum(ctx, ctx.input(0), ctx.input(1), ctx.optional(3))
    y = ctx.op("rms_norm", total, ctx.input(2), axis=-1, epsilon=ctx.attr("epsilon", 1e-12))
    return y, None, None, total


def _simplified(ctx: Context) -> Results:
    x, scale = ctx.input(0), ctx.input(1)
    axis, epsilon = ctx.axis(ctx.attr("axis", -1), x.rank), ctx.attr("epsilon", 1e-5)
    ctx.ignore("stash_type")  # sums are kept in float32 at least
    y = ctx.op("rms_norm", x, ctx.expand(scale, x.shape[axis:]), axis=axis, epsilon=epsilon)
    if not ctx.wants(1):
        return y
    mean = ctx.op("mean", ctx.op("multiply", x, x), axes=list(range(axis, x.rank)), keepdims=True)
    return y, ctx.op("rsqrt", ctx.op("add", mean, ctx.scalar(epsilon, mean)))


# ONNX Runtime puts this one of its ops into ONNX's own domain
converter("SimplifiedLayerNormalization")(_simplified)
converter("SimplifiedLayerNormalization", domain=CONTRIB)(_simplified)


@converter("EmbedLayerNormalization", domain=CONTRIB)
def _embed(ctx: Context) -> Results:
    ids, segments = ctx.input(0), ctx.optional(1)
    words, positions, kinds = ctx.input(2), ctx.input(3), ctx.optional(4)
    if ctx.attr("mask_index_type", 1) not in (0, 1):
        ctx.fail("mask_index_type is neither 0 nor 1")
    batch, length = ids.shape
    total = ctx.op("take", words, ids, axis=0)
    if ctx.has(8):
        placed = ctx.op("take", positions, ctx.input(8), axis=0)
    else:
        placed = ctx.slice(positions, 0, 0, length)
    total = ctx.op("add", total, placed)
    if kinds is not None and segments is not None:
        total = ctx.op("add", total, ctx.op("take", kinds, segments, axis=0))
    y = _layer_norm(ctx, total, ctx.input(5), ctx.input(6), ctx.attr("epsilon", 1e-12))
    counts = ctx.full((batch,), 0, "int32")
    if ctx.has(7):
        counts = ctx.op("sum", ctx.cast(ctx.input(7), "int32"), axes=[1], keepdims=False)
    return y, counts, total


# ---------------------------------------------------------------- activations


def _gelu(ctx: Context, approximate: str) -> Results:
    x = _sum(ctx, ctx.input(0), ctx.optional(1))
    return ctx.op("gelu", x, approximate=approximate)


@converter("FastGelu", domain=CONTRIB)
def _fast_gelu(ctx: Context) -> Results:
    return _gelu(ctx, "tanh")


@converter("BiasGelu", "Gelu", domain=CONTRIB)
def _bias_gelu(ctx: Context) -> Results:
    return _gelu(ctx, "none")


@converter("QuickGelu", domain=CONTRIB)
def _quick_gelu(ctx: Context) -> Results:
    x, alpha = ctx.input(0), ctx.attr("alpha", 1.702)
    return ctx.op("multiply", x, ctx.op("sigmoid", ctx.op("multiply", x, ctx.scalar(alpha, x))))


def _activated(ctx: Context, x: TapeValue, defaults: tuple[float, float] = (0.01, 0.0)) -> TapeValue:
    """The attribute ``activation`` with its parameters."""
    name, given = ctx.attr("activation", ""), list(ctx.attr("activation_params", []))
    if name in ("", "Relu", "Tanh", "Sigmoid"):
        return ctx.op(name.lower(), x) if name else x
    if name == "LeakyRelu":
        return ctx.op("leaky_relu", x, alpha=given[0] if given else defaults[0])
    if name == "Clip" and len(given) == 2:
        return ctx.op("clip", x, min=given[0], max=given[1])
    if name == "HardSigmoid":
        alpha, beta = given if len(given) == 2 else (0.2, 0.5)
        return ctx.op("hard_sigmoid", x, alpha=alpha, beta=beta)
    ctx.fail(f"activation {name!r} with {len(given)} parameters is not supported")


@converter("FusedConv", domain=CONTRIB, limits="1 to 3 spatial dimensions")
def _fused_conv(ctx: Context) -> Results:
    y = convolve(ctx, ctx.input(0), ctx.input(1), ctx.optional(2))
    return _activated(ctx, _sum(ctx, y, ctx.optional(3)))


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
    return y if alpha == 1.0 else ctx.op("multiply", y, ctx.scalar(alpha, y))


def _turned(ctx: Context, x: TapeValue, batch: bool, last: bool) -> TapeValue:
    """A factor as its flags say: ``batch`` moves the first axis before the last one, ``last`` swaps the last
    two."""
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
    names = {"LeakyRelu": ["activation_alpha"], "HardSigmoid": ["activation_alpha", "activation_beta"]}
    name = ctx.attr("activation", "")
    found = [ctx.attr(key, None) for key in names.get(name, [])]
    ctx.ignore("activation_alpha", "activation_beta", "activation_gamma")
    if name == "LeakyRelu":
        return ctx.op("leaky_relu", y, alpha=0.01 if found[0] is None else found[0])
    if name == "HardSigmoid":
        alpha, beta = (d if v is None else v for v, d in zip(found, (0.2, 0.5), strict=True))
        return ctx.op("hard_sigmoid", y, alpha=alpha, beta=beta)
    return _activated(ctx, y)


@converter("MatMulNBits", domain=CONTRIB, limits="bits of 2, 4 and 8; constant weights")
def _matmul_nbits(ctx: Context) -> Results:
    x, k, n = ctx.input(0), ctx.attr("K"), ctx.attr("N")
    narrow = ctx.attr("accuracy_level", 0) == 4
    w = unpacked_weights(ctx, (n, k), ctx.attr("bits", 4), ctx.attr("block_size"), narrow)
    y = ctx.cast(ctx.op("dense", ctx.cast(x, "float32"), w), x.dtype)
    return _sum(ctx, y, ctx.optional(5))
