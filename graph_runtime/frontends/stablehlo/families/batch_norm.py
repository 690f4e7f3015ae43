"""batch_norm_inference and batch_norm_training, by their formulas."""

from __future__ import annotations

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter


def _epsilon(ctx: HloContext, like: TapeValue) -> TapeValue:
    value = ctx.attr("epsilon")
    if not isinstance(value, (int, float)):
        ctx.fail("epsilon is no number")
    return ctx.scalar(float(value), like)


def _along(ctx: HloContext, x: TapeValue, axis: int, rank: int) -> TapeValue:
    """A vector, one entry a feature, to be broadcast."""
    return ctx.reshape(x, [x.shape[0] if d == axis else 1 for d in range(rank)])


def _normalised(ctx: HloContext, x: TapeValue, mean: TapeValue, variance: TapeValue, axis: int) -> TapeValue:
    scale, offset, mean, variance = (
        _along(ctx, v, axis, x.rank) for v in (ctx.input(1), ctx.input(2), mean, variance)
    )
    factor = ctx.op("multiply", scale, ctx.op("rsqrt", ctx.op("add", variance, _epsilon(ctx, x))))
    return ctx.op("add", ctx.op("multiply", ctx.op("subtract", x, mean), factor), offset)


@converter("batch_norm_inference")
def _inference(ctx: HloContext) -> Results:
    x = ctx.input(0)
    (axis,) = ctx.dims([ctx.number("feature_index")], x.rank, "feature_index")
    return _normalised(ctx, x, ctx.input(3), ctx.input(4), axis)


@converter("batch_norm_training")
def _training(ctx: HloContext) -> Results:
    x = ctx.input(0)
    (axis,) = ctx.dims([ctx.number("feature_index")], x.rank, "feature_index")
    others = [d for d in range(x.rank) if d != axis]
    mean = ctx.op("mean", x, axes=others, keepdims=False)
    apart = ctx.op("subtract", x, _along(ctx, mean, axis, x.rank))
    variance = ctx.op("mean", ctx.op("multiply", apart, apart), axes=others, keepdims=False)
    return [_normalised(ctx, x, mean, variance, axis), mean, variance]
