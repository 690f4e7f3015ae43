"""batch_norm_inference and batch_norm_training, by their formulas."""

from __future__ import annotations

from ....compositions.norms import moments
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter


def _normalised(ctx: HloContext, x: TapeValue, mean: TapeValue, variance: TapeValue, axis: int) -> TapeValue:
    epsilon = ctx.attr("epsilon")
    if not isinstance(epsilon, (int, float)):
        ctx.fail("epsilon is not a number")
    shape = [x.shape[axis] if d == axis else 1 for d in range(x.rank)]
    scale, offset, mean, variance = (
        ctx.reshape(v, shape) for v in (ctx.input(1), ctx.input(2), mean, variance)
    )
    factor = scale * (variance + float(epsilon)).rsqrt()
    return (x - mean) * factor + offset


@converter("batch_norm_inference")
def _inference(ctx: HloContext) -> Results:
    x = ctx.input(0)
    (axis,) = ctx.dims([ctx.number("feature_index")], x.rank, "feature_index")
    return _normalised(ctx, x, ctx.input(3), ctx.input(4), axis)


@converter("batch_norm_training")
def _training(ctx: HloContext) -> Results:
    x = ctx.input(0)
    (axis,) = ctx.dims([ctx.number("feature_index")], x.rank, "feature_index")
    mean, variance = moments(x, [d for d in range(x.rank) if d != axis])
    of_feature = [ctx.reshape(v, (x.shape[axis],)) for v in (mean, variance)]
    return [_normalised(ctx, x, mean, variance, axis), *of_feature]
