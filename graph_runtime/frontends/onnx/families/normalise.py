"""Normalisations: batch, layer, group and instance normalisation, root mean square, and across channels."""

from __future__ import annotations

import math

import numpy as np

from ....base import dtypes
from ....compositions.norms import moments
from ....ir.model import Constant
from ..context import Context, Results, converter, function
from ..read import DTYPES
from ..tape import TapeValue


@converter("BatchNormalization")
def _batch(ctx: Context) -> Results:
    """x * scale + shift by channel. Constants are combined when they are read, so that a rewrite can fold
    them into the weights of a convolution."""
    x, *given = (ctx.input(i) for i in range(5))
    epsilon, training = ctx.attr("epsilon", 1e-5), ctx.opset >= 14 and ctx.attr("training_mode", 0)
    momentum = ctx.attr("momentum", 0.9)
    each = not ctx.attr("spatial", 1)  # in opsets 7 and 8 each element may have its own statistics
    for i, value in enumerate(given, 1):
        if each and value.shape != x.shape[1:]:
            ctx.fail(
                f"with spatial 0, input {i} must have the shape {list(x.shape[1:])}, but it is {value.type}"
            )
    if training:
        return _batch_training(ctx, x, given, epsilon, momentum)
    if all(v.constant is not None for v in given):
        scale, shift = _derived(ctx, x, given, epsilon)
    else:
        gamma, beta, mean, var = (value.cast(x.dtype) for value in given)
        scale = gamma / _deviation(var, epsilon)
        shift = beta - mean * scale
    if not each:
        scale, shift = _by_channel(ctx, x, scale), _by_channel(ctx, x, shift)
    return x * scale + shift


def _deviation(var: TapeValue, epsilon: float) -> TapeValue:
    return (var + epsilon).sqrt()


def _by_channel(ctx: Context, x: TapeValue, value: TapeValue) -> TapeValue:
    """Values [channels] in a shape that broadcasts to x [batch, channels, ...]."""
    return ctx.reshape(value, (value.shape[0], *(1,) * (x.rank - 2)))


def _derived(
    ctx: Context, x: TapeValue, given: list[TapeValue], epsilon: float
) -> tuple[TapeValue, TapeValue]:
    kind = dtypes.to_numpy(x.dtype)

    def scale(gamma: np.ndarray, var: np.ndarray) -> np.ndarray:
        return np.asarray(gamma, np.float64) / np.sqrt(np.asarray(var, np.float64) + epsilon)

    def shift(gamma: np.ndarray, beta: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        return np.asarray(beta, np.float64) - np.asarray(mean, np.float64) * scale(gamma, var)

    gamma, beta, mean, var = (v.constant for v in given if v.constant is not None)  # if all are constants
    name, target = ctx.node.name or given[0].name, given[0].type.__class__(x.dtype, given[0].shape)
    parts = (("scale", (gamma, var), scale), ("shift", (gamma, beta, mean, var), shift))
    made = []
    for what, constants, compute in parts:
        constant = Constant.derived(
            target,
            lambda *a, f=compute: f(*a).astype(kind),
            *constants,
            source=f"{what} of {name}, from {', '.join(c.source for c in constants)}",
            recipe=("batch_norm", what, epsilon),
        )
        made.append(TapeValue(target, f"{name}.{what}", constant))
    return made[0], made[1]


def _batch_training(
    ctx: Context, x: TapeValue, given: list[TapeValue], epsilon: float, momentum: float
) -> Results:
    gamma, beta, mean, var = (v.cast(x.dtype) for v in given)
    axes = [d for d in range(x.rank) if d != 1]
    centre, spread = moments(x, axes)
    y = (x - centre) / _deviation(spread, epsilon)
    y = _scaled(ctx, y, gamma, beta)

    def running(old: TapeValue, now: TapeValue, like: TapeValue) -> TapeValue:
        kept = old * momentum
        new = ctx.reshape(now, old.shape) * (1 - momentum)
        return (kept + new).cast(like.dtype)

    return y, running(mean, centre, given[2]), running(var, spread, given[3])


def _scaled(ctx: Context, y: TapeValue, scale: TapeValue, bias: TapeValue) -> TapeValue:
    return y * _by_channel(ctx, y, scale) + _by_channel(ctx, y, bias)


def _by_group(ctx: Context, x: TapeValue, groups: int) -> TapeValue:
    """x normalised within each group of channels to mean 0 and variance 1, by layer_norm."""
    n, c, *sizes = x.shape
    size = (c // groups * math.prod(sizes),)
    ones = ctx.filled(size, lambda: np.ones(size), x.dtype, "a scale of 1")
    zeros = ctx.filled(size, lambda: np.zeros(size), x.dtype, "a shift of 0")
    flat, epsilon = ctx.reshape(x, (n, groups, *size)), ctx.attr("epsilon", 1e-5)
    return ctx.reshape(ctx.op("layer_norm", flat, ones, zeros, axis=-1, epsilon=epsilon), x.shape)


@converter("InstanceNormalization")
def _instance(ctx: Context) -> Results:
    x, scale, bias = (ctx.input(i) for i in range(3))
    return _scaled(ctx, _by_group(ctx, x, x.shape[1]), scale, bias)


@converter("GroupNormalization")
def _group(ctx: Context) -> Results:
    x, scale, bias = (ctx.input(i) for i in range(3))
    groups, c = ctx.attr("num_groups"), x.shape[1]
    stash = DTYPES.get(ctx.attr("stash_type", 1), x.dtype)
    y = _by_group(ctx, x if x.dtype == "float64" else x.cast(stash), groups).cast(x.dtype)
    if scale.shape[0] == groups and groups != c:  # before opset 21 there is one value per group
        scale, bias = (
            ctx.reshape(ctx.expand(ctx.reshape(v, (groups, 1)), (groups, c // groups)), (c,))
            for v in (scale, bias)
        )
    return _scaled(ctx, y, scale, bias)


@converter("LayerNormalization")
def _layer(ctx: Context) -> Results:
    x, scale, bias = ctx.input(0), ctx.input(1), ctx.optional(2)
    epsilon, axis = ctx.attr("epsilon", 1e-5), ctx.axis(ctx.attr("axis", -1), x.rank)
    stash = DTYPES.get(ctx.attr("stash_type", 1), "float32")
    shape = x.shape[axis:]
    bias = ctx.full(shape, 0, x.dtype) if bias is None else bias
    y = ctx.op("layer_norm", x, ctx.expand(scale, shape), ctx.expand(bias, shape), axis=axis, epsilon=epsilon)
    if not ctx.wants(1) and not ctx.wants(2):
        return y
    mean, var = moments(x.cast(stash), range(axis, x.rank))
    return y, mean, _deviation(var, epsilon).reciprocal()


@converter(
    "RMSNormalization", "SimplifiedLayerNormalization"
)  # SimplifiedLayerNormalization is ONNX Runtime's, in the default domain
def rms_normalization(ctx: Context) -> Results:
    x, scale = ctx.input(0), ctx.input(1)
    axis, epsilon = ctx.axis(ctx.attr("axis", -1), x.rank), ctx.attr("epsilon", 1e-5)
    ctx.ignore("stash_type")  # sums are computed in float32 or wider
    y = ctx.op("rms_norm", x, ctx.expand(scale, x.shape[axis:]), axis=axis, epsilon=epsilon)
    if not ctx.wants(1):
        return y
    mean = (x * x).mean(axes=list(range(axis, x.rank)))
    return y, (mean + epsilon).rsqrt()


@converter("MeanVarianceNormalization")
def _mean_variance(ctx: Context) -> Results:
    x = ctx.input(0)
    axes = ctx.axes(ctx.attr("axes", [0, 2, 3]), x.rank)
    mean, var = moments(x, axes)
    return (x - mean) / (var.sqrt() + 1e-9)


@function("LRN")
def _lrn(x: TapeValue, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> TapeValue:
    return x.op("lrn", size=size, alpha=alpha, beta=beta, bias=bias)
