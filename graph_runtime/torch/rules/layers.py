"""Layers of networks: normalisation, pooling, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...base import dtypes
from ...compositions import norms
from ...ir.value import Value
from ..counters import Unsupported
from .operands import pair, reshape
from .table import rule


def _precise(x: Any, *statistics: Any) -> Any:
    """x, cast to the dtype of the weights and statistics. Under autocast the two dtypes may differ."""
    return x.cast(next((s.dtype for s in statistics if s is not None), x.dtype))


@rule("native_layer_norm")
def native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axis, dtype = len(x.shape) - len(shape), x.dtype
    x = _precise(x, weight, bias)
    mean, apart, variance = norms.centred(x, range(axis, len(x.shape)))
    rstd = norms.inverse_deviation(variance, eps)
    if weight is not None and bias is not None and eps >= 0:
        made = x.op("layer_norm", weight, bias, axis=axis, epsilon=eps)
    else:
        made = norms.scaled(apart * rstd, weight, bias)
    return made.cast(dtype), mean, rstd


@rule("native_layer_norm_backward")
def native_layer_norm_backward(
    grad: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
) -> Any:
    axis = len(x.shape) - len(shape)
    hat = (x - mean) * rstd
    of_x = of_weight = of_bias = None
    if mask[0]:
        of_x = norms.gradient(norms.scaled(grad, weight), hat, range(axis, len(x.shape))) * rstd
    if mask[1]:
        of_weight = _summed(grad * hat, axis)
    if mask[2]:
        of_bias = _summed(grad, axis)
    return of_x, of_weight, of_bias


@rule("native_group_norm")
def native_group_norm(
    e: Any, x: Any, weight: Any, bias: Any, batch: int, channels: int, inner: int, groups: int, eps: float
) -> Any:
    """(result, means [batch, groups], inverse deviations [batch, groups]) for x [batch, channels, ...]."""
    mean, apart, variance = norms.centred(reshape(x, (batch, groups, channels // groups * inner)), (2,))
    inverse = (variance + eps).rsqrt()
    made, n = reshape(apart * inverse, x.shape), len(x.shape)
    if weight is not None:
        made = Value.__mul__(*pair(e, made, _channels(weight, n)))
    if bias is not None:
        made = Value.__add__(*pair(e, made, _channels(bias, n)))
    return made, reshape(mean, (batch, groups)), reshape(inverse, (batch, groups))


def _summed(x: Any, axis: int) -> Any:
    """x summed over all dimensions before ``axis``."""
    return x.sum(tuple(range(axis)), keepdims=False) if axis else x


# **************** batch normalisation: four or more results, new statistics as results ****************


def _channels(value: Any, ndim: int) -> Any:
    """A value [channels] in a shape that broadcasts to [batch, channels, ...]; None for None."""
    return None if value is None else reshape(value, (1, math.prod(value.shape), *(1,) * (ndim - 2)))


@rule("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> Any:
    wide, rstd, n = _precise(x, mean), norms.inverse_deviation(variance, eps), len(x.shape)
    made = (wide - _channels(mean, n)) * _channels(rstd, n)
    return norms.scaled(made, _channels(weight, n), _channels(bias, n)).cast(x.dtype), mean, rstd


@rule("_native_batch_norm_legit")
def batch_norm_without_running(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    """The rule of the overload without running statistics."""
    return batch_norm_training(x, weight, bias, None, None, True, momentum, eps)[:3]


@rule("_native_batch_norm_legit_functional")
def batch_norm_training(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training:
        return *batch_norm_inference(x, weight, bias, mean, variance, momentum, eps), mean, variance
    n, count = len(x.shape), math.prod(x.shape) // x.shape[1]
    centre, apart, spread = norms.centred(_precise(x, weight, mean), (0, *range(2, n)))
    rstd = norms.inverse_deviation(spread, eps)
    made = norms.scaled(apart * rstd, _channels(weight, n), _channels(bias, n))
    now, rstd, spread = (reshape(value, (x.shape[1],)) for value in (centre, rstd, spread))
    found = (mean, now), (variance, spread * (count / max(count - 1, 1)))
    running = (None if old is None else old * (1 - momentum) + new * momentum for old, new in found)
    return made.cast(x.dtype), now, rstd, *running


@rule("native_batch_norm_backward")
def batch_norm_backward(
    grad: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    mean: Any,
    rstd: Any,
    training: bool,
    eps: float,
    mask: Any,
) -> Any:
    n, axes = len(x.shape), (0, *range(2, len(x.shape)))
    if not training:
        mean, rstd = running_mean, norms.inverse_deviation(running_var, eps)
    dtype, grad, x = x.dtype, _precise(grad, mean), _precise(x, mean)
    hat = (x - _channels(mean, n)) * _channels(rstd, n)
    of_bias, of_weight = (value.sum(axes, keepdims=False) for value in (grad, grad * hat))
    of_x = None
    if mask[0]:
        part = grad
        if training:
            share = x.shape[1] / math.prod(x.shape)
            part = part - _channels(of_bias, n) * share
            part = part - hat * (_channels(of_weight, n) * share)
        of_x = (part * _channels(norms.scaled(rstd, weight), n)).cast(dtype)
    return of_x, of_weight if mask[1] else None, of_bias if mask[2] else None


# **************** pooling ****************


def each(given: Any, dims: int) -> tuple[int, ...]:
    """``dims`` numbers, made from one number, a list of one number, or a list of ``dims`` numbers."""
    if isinstance(given, int):
        return (given,) * dims
    return (given[0],) * dims if len(given) == 1 else tuple(given)


def windows_of(
    dims: int, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False
) -> dict[str, Any]:
    """Attributes of a pooling op over ``dims`` axes; without a stride the windows lie side by side."""
    kernel, padding = each(kernel, dims), each(padding, dims)
    strides = each(stride, dims) if stride else kernel
    return {"kernel_shape": kernel, "strides": strides, "pads": (*padding, *padding), "ceil_mode": ceil_mode}


def spread_windows(
    dims: int, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> dict[str, Any]:
    """``windows_of`` with dilations, for max pooling."""
    return windows_of(dims, kernel, stride, padding, ceil_mode) | {"dilations": each(dilation, dims)}


def batched(dims: int, pool: Callable[..., Any], *values: Any) -> Any:
    """The results of ``pool``, which takes values [batch, channels, ...]. For values without a batch
    dimension the results have none, either."""
    if len(values[0].shape) == dims + 2:
        return pool(*values)
    made = pool(*(reshape(value, (1, *value.shape)) for value in values))
    if isinstance(made, tuple):
        return tuple(reshape(value, value.shape[1:]) for value in made)
    return reshape(made, made.shape[1:])


def _averages(dims: int) -> None:
    """Register the rule of averages over windows of ``dims`` axes."""

    @rule(f"avg_pool{dims}d")
    def average(
        x: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        """Averages of windows. With ``divisor_override`` they are averages of full windows, scaled to that
        divisor."""
        windows = windows_of(dims, kernel, stride, padding, ceil_mode)
        inside = count_include_pad or divisor_override is not None
        if divisor_override is not None and ceil_mode:
            raise Unsupported("a divisor for windows beyond the border runs on the host")
        made = batched(dims, lambda x: x.op(f"avg_pool{dims}d", **windows, count_include_pad=inside), x)
        if divisor_override is None:
            return made
        return made * (math.prod(windows["kernel_shape"]) / divisor_override)


_averages(2)
_averages(3)


@rule("max_pool2d")
def max_pool2d(x: Any, *how: Any, **more: Any) -> Any:
    windows = spread_windows(2, *how, **more)
    return batched(2, lambda image: image.op("max_pool2d", **windows), x)


@rule("max_pool2d_with_indices", wide=(1,))
def max_pool2d_with_indices(e: Any, x: Any, *how: Any, **more: Any) -> Any:
    """(maxima, their indices). The indices are None in a graph that does not read them, as most graphs do
    not. Indices of our op count from the beginning of x, torch's from the beginning of a plane."""
    if e.graph and 1 not in e.used:
        return max_pool2d(x, *how, **more), None
    windows = spread_windows(2, *how, **more)

    def pool(image: Any) -> Any:
        if not e.graph:  # an eager call runs an op for each result
            y = image.op("max_pool2d", **windows)
            return y, image.op("max_pool2d_argmax", **windows, dtype="int32")
        y, at = image.op("max_pool2d_indices", **windows, dtype="int32")
        return y, at.op("mod", math.prod(x.shape[-2:]), fmod=False)

    return batched(2, pool, x)


# **************** dropout ****************


@rule("native_dropout_backward")
def native_dropout_backward(grad: Any, mask: Any, scale: float) -> Any:
    grad = grad.cast("float32") if dtypes.is_integer(grad.dtype) else grad
    made = grad * mask.cast(grad.dtype)
    return made if scale == 1 else made * scale
