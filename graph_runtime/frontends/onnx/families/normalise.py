"""Normalisations: by batch, layer, group, instance; root mean square; across channels."""

from __future__ import annotations

import math

import numpy as np

from ....base import dtypes
from ....ir.model import Constant
from ..context import Context, Results, converter
from ..read import DTYPES
from ..tape import TapeValue


@converter("BatchNormalization")
def _batch(ctx: Context) -> Results:
    """x * scale + shift by channel. Of constants both are derived when they are read, so that a rewrite can
    fold them into the weights of a convolution."""
    x, *given = (ctx.input(i) for i in range(5))
    epsilon, training = ctx.attr("epsilon", 1e-5), ctx.opset >= 14 and ctx.attr("training_mode", 0)
    momentum = ctx.attr("momentum", 0.9)
    each = not ctx.attr("spatial", 1)  # opsets 7 and 8: each element of an image has its own statistics
    for i, value in enumerate(given, 1):
        if each and value.shape != x.shape[1:]:
            ctx.fail(f"spatial is 0: input {i} is {value.type}, it has the shape {list(x.shape[1:])} then")
    if training:
        return _batch_training(ctx, x, given, epsilon, momentum)
    if all(v.constant is not None for v in given):
        scale, shift = _derived(ctx, x, given, epsilon)
    else:
        gamma, beta, mean, var = given
        scale = ctx.op("divide", _as(ctx, gamma, x), _deviation(ctx, _as(ctx, var, x), epsilon))
        shift = ctx.op("subtract", _as(ctx, beta, x), ctx.op("multiply", _as(ctx, mean, x), scale))
    if not each:
        scale, shift = _by_channel(ctx, x, scale), _by_channel(ctx, x, shift)
    return ctx.op("add", ctx.op("multiply", x, scale), shift)


def _as(ctx: Context, value: TapeValue, x: TapeValue) -> TapeValue:
    return ctx.cast(value, x.dtype)


def _deviation(ctx: Context, var: TapeValue, epsilon: float) -> TapeValue:
    return ctx.op("sqrt", ctx.op("add", var, ctx.scalar(epsilon, var)))


def _by_channel(ctx: Context, x: TapeValue, value: TapeValue) -> TapeValue:
    """[channels] in a shape that broadcasts to x [batch, channels, ...]."""
    return ctx.reshape(value, (value.shape[0], *(1,) * (x.rank - 2)))


def _derived(
    ctx: Context, x: TapeValue, given: list[TapeValue], epsilon: float
) -> tuple[TapeValue, TapeValue]:
    kind = dtypes.to_numpy(x.dtype)

    def scale(gamma: np.ndarray, var: np.ndarray) -> np.ndarray:
        return np.asarray(gamma, np.float64) / np.sqrt(np.asarray(var, np.float64) + epsilon)

    def shift(gamma: np.ndarray, beta: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        return np.asarray(beta, np.float64) - np.asarray(mean, np.float64) * scale(gamma, var)

    gamma, beta, mean, var = (v.constant for v in given if v.constant is not None)  # all are
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
    gamma, beta, mean, var = (_as(ctx, v, x) for v in given)
    axes = [d for d in range(x.rank) if d != 1]
    centre, spread = _moments(ctx, x, axes)
    y = ctx.op("divide", ctx.op("subtract", x, centre), _deviation(ctx, spread, epsilon))
    y = ctx.op("add", ctx.op("multiply", y, _by_channel(ctx, x, gamma)), _by_channel(ctx, x, beta))

    def running(old: TapeValue, now: TapeValue, like: TapeValue) -> TapeValue:
        kept = ctx.op("multiply", old, ctx.scalar(momentum, old))
        new = ctx.op("multiply", ctx.reshape(now, old.shape), ctx.scalar(1 - momentum, old))
        return ctx.cast(ctx.op("add", kept, new), like.dtype)

    return y, running(mean, centre, given[2]), running(var, spread, given[3])


def _moments(ctx: Context, x: TapeValue, axes: list[int]) -> tuple[TapeValue, TapeValue]:
    """Mean and variance over axes, which stay with size 1."""
    mean = ctx.op("mean", x, axes=axes, keepdims=True)
    away = ctx.op("subtract", x, mean)
    return mean, ctx.op("mean", ctx.op("multiply", away, away), axes=axes, keepdims=True)


def _plain_layer_norm(ctx: Context, x: TapeValue, epsilon: float) -> TapeValue:
    """layer_norm over the last dimension, neither scaled nor shifted."""
    size = x.shape[-1:]
    ones = ctx.filled(size, lambda: np.ones(size), x.dtype, "a scale of 1")
    zeros = ctx.filled(size, lambda: np.zeros(size), x.dtype, "a shift of 0")
    return ctx.op("layer_norm", x, ones, zeros, axis=-1, epsilon=epsilon)


@converter("InstanceNormalization")
def _instance(ctx: Context) -> Results:
    x, scale, bias = (ctx.input(i) for i in range(3))
    flat = ctx.reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    y = ctx.reshape(_plain_layer_norm(ctx, flat, ctx.attr("epsilon", 1e-5)), x.shape)
    y = ctx.op("multiply", y, _by_channel(ctx, x, scale))
    return ctx.op("add", y, _by_channel(ctx, x, bias))


@converter("GroupNormalization")
def _group(ctx: Context) -> Results:
    x, scale, bias = (ctx.input(i) for i in range(3))
    groups, epsilon = ctx.attr("num_groups"), ctx.attr("epsilon", 1e-5)
    stash, dtype = DTYPES.get(ctx.attr("stash_type", 1), x.dtype), x.dtype
    n, c, *sizes = x.shape
    wide = x if stash == x.dtype or dtype == "float64" else ctx.cast(x, stash)
    flat = ctx.reshape(wide, (n, groups, c // groups * math.prod(sizes)))
    y = ctx.cast(ctx.reshape(_plain_layer_norm(ctx, flat, epsilon), x.shape), dtype)
    if scale.shape[0] == groups and groups != c:  # before opset 21 one value a group
        scale, bias = (
            ctx.reshape(ctx.expand(ctx.reshape(v, (groups, 1)), (groups, c // groups)), (c,))
            for v in (scale, bias)
        )
    y = ctx.op("multiply", y, _by_channel(ctx, x, scale))
    return ctx.op("add", y, _by_channel(ctx, x, bias))


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
    mean, var = _moments(ctx, ctx.cast(x, stash), list(range(axis, x.rank)))
    return y, mean, ctx.op("reciprocal", _deviation(ctx, var, epsilon))


@converter("RMSNormalization")
def _rms(ctx: Context) -> Results:
    x, scale = ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    ctx.ignore("stash_type")  # sums are kept in float32 at least
    return ctx.op(
        "rms_norm", x, ctx.expand(scale, x.shape[axis:]), axis=axis, epsilon=ctx.attr("epsilon", 1e-5)
    )


@converter("MeanVarianceNormalization")
def _mean_variance(ctx: Context) -> Results:
    x = ctx.input(0)
    axes = ctx.axes(ctx.attr("axes", [0, 2, 3]), x.rank)
    mean, var = _moments(ctx, x, axes)
    spread = ctx.op("add", ctx.op("sqrt", var), ctx.scalar(1e-9, x))
    return ctx.op("divide", ctx.op("subtract", x, mean), spread)


@converter("LRN")
def _lrn(ctx: Context) -> Results:
    return ctx.op(
        "lrn",
        ctx.input(0),
        size=ctx.attr("size"),
        alpha=ctx.attr("alpha", 1e-4),
        beta=ctx.attr("beta", 0.75),
        bias=ctx.attr("bias", 1.0),
    )
