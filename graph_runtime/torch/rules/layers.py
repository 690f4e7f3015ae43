"""Layers of networks: normalisation, pooling, dropout."""

from __future__ import annotations

import math
from typing import Any

from ...base import dtypes
from ..counters import Unsupported
from .operands import cast, reshape, scalar_like
from .table import rule


@rule("native_layer_norm")
def native_layer_norm(e: Any, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axis, dtype = len(x.shape) - len(shape), x.dtype
    axes, x = tuple(range(axis, len(x.shape))), _precise(e, x, weight, bias)
    mean = e.op("mean", x, axes=axes, keepdims=True)
    centered = e.op("subtract", x, mean)
    variance = e.op("mean", e.op("multiply", centered, centered), axes=axes, keepdims=True)
    rstd = e.op("divide", scalar_like(e, 1.0, x), e.op("sqrt", e.op("add", variance, scalar_like(e, eps, x))))
    if weight is not None and bias is not None and eps >= 0:
        made = e.op("layer_norm", x, weight, bias, axis=axis, epsilon=eps)
    else:
        made = e.op("multiply", centered, rstd)
        made = made if weight is None else e.op("multiply", made, weight)
        made = made if bias is None else e.op("add", made, bias)
    return cast(e, made, dtype), mean, rstd


@rule("native_layer_norm_backward")
def native_layer_norm_backward(
    e: Any, grad: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
) -> Any:
    axis = len(x.shape) - len(shape)
    inner, outer = tuple(range(axis, len(x.shape))), tuple(range(axis))
    hat = e.op("multiply", e.op("subtract", x, mean), rstd)
    of_x = of_weight = of_bias = None
    if mask[0]:
        scaled = grad if weight is None else e.op("multiply", grad, weight)
        part = e.op("subtract", scaled, e.op("mean", scaled, axes=inner, keepdims=True))
        along = e.op("mean", e.op("multiply", scaled, hat), axes=inner, keepdims=True)
        of_x = e.op("multiply", e.op("subtract", part, e.op("multiply", hat, along)), rstd)
    if mask[1]:
        product = e.op("multiply", grad, hat)
        of_weight = e.op("sum", product, axes=outer, keepdims=False) if outer else product
    if mask[2]:
        of_bias = e.op("sum", grad, axes=outer, keepdims=False) if outer else grad
    return of_x, of_weight, of_bias


# **************** batch normalisation: four outputs or more, statistics functional ****************


def _channels(e: Any, value: Any, ndim: int) -> Any:
    return reshape(e, value, (1, math.prod(value.shape), *(1,) * (ndim - 2)))


def _precise(e: Any, x: Any, *statistics: Any) -> Any:
    """x in the dtype of weights and statistics, of which autocast makes it another."""
    dtype = next((s.dtype for s in statistics if s is not None), x.dtype)
    return cast(e, x, dtype)


def _normalised(e: Any, x: Any, weight: Any, bias: Any, mean: Any, rstd: Any) -> Any:
    n = len(x.shape)
    made = e.op("multiply", e.op("subtract", x, _channels(e, mean, n)), _channels(e, rstd, n))
    made = made if weight is None else e.op("multiply", made, _channels(e, weight, n))
    return made if bias is None else e.op("add", made, _channels(e, bias, n))


def _rstd(e: Any, variance: Any, eps: float) -> Any:
    one = scalar_like(e, 1.0, variance)
    return e.op("divide", one, e.op("sqrt", e.op("add", variance, scalar_like(e, eps, variance))))


@rule("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    e: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> Any:
    wide, rstd = _precise(e, x, mean), _rstd(e, variance, eps)
    return cast(e, _normalised(e, wide, weight, bias, mean, rstd), x.dtype), mean, rstd


@rule("_native_batch_norm_legit")
def batch_norm_without_running(
    e: Any, x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    """The overload that has no running statistics."""
    return batch_norm_training(e, x, weight, bias, None, None, True, momentum, eps)[:3]


@rule("_native_batch_norm_legit_functional")
def batch_norm_training(
    e: Any,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if not training:
        return *batch_norm_inference(e, x, weight, bias, mean, variance, momentum, eps), mean, variance
    axes = (0, *range(2, len(x.shape)))
    count = math.prod(x.shape[a] for a in axes)
    wide = _precise(e, x, weight, mean)
    now = e.op("mean", wide, axes=axes, keepdims=False)
    centered = e.op("subtract", wide, _channels(e, now, len(x.shape)))
    spread = e.op("mean", e.op("multiply", centered, centered), axes=axes, keepdims=False)
    rstd = _rstd(e, spread, eps)
    unbiased = e.op("multiply", spread, scalar_like(e, count / max(count - 1, 1), spread))
    return (
        cast(e, _normalised(e, wide, weight, bias, now, rstd), x.dtype),
        now,
        rstd,
        _moved(e, mean, now, momentum),
        _moved(e, variance, unbiased, momentum),
    )


def _moved(e: Any, old: Any, new: Any, momentum: float) -> Any:
    if old is None:
        return None
    return e.op(
        "add",
        e.op("multiply", old, scalar_like(e, 1 - momentum, old)),
        e.op("multiply", new, scalar_like(e, momentum, old)),
    )


@rule("native_batch_norm_backward")
def batch_norm_backward(
    e: Any,
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
        mean, rstd = running_mean, _rstd(e, running_var, eps)
    dtype, grad, x = x.dtype, _precise(e, grad, mean), _precise(e, x, mean)
    hat = e.op("multiply", e.op("subtract", x, _channels(e, mean, n)), _channels(e, rstd, n))
    of_bias = e.op("sum", grad, axes=axes, keepdims=False)
    of_weight = e.op("sum", e.op("multiply", grad, hat), axes=axes, keepdims=False)
    of_x = None
    if mask[0]:
        scale = _channels(e, rstd if weight is None else e.op("multiply", rstd, weight), n)
        part = grad
        if training:
            share = scalar_like(e, 1 / math.prod(x.shape[a] for a in axes), x)
            part = e.op("subtract", part, e.op("multiply", _channels(e, of_bias, n), share))
            along = e.op("multiply", _channels(e, of_weight, n), share)
            part = e.op("subtract", part, e.op("multiply", hat, along))
        of_x = cast(e, e.op("multiply", part, scale), dtype)
    return of_x, of_weight if mask[1] else None, of_bias if mask[2] else None


# **************** pooling ****************


def _averages(dims: int) -> None:
    """The rule of averages over windows of so many axes."""

    @rule(f"avg_pool{dims}d")
    def average(
        e: Any,
        x: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        batched = x if len(x.shape) == dims + 2 else reshape(e, x, (1, *x.shape))
        windows = windows_of(dims, kernel, stride, padding, ceil_mode)
        made = _averaged(e, f"avg_pool{dims}d", batched, windows, count_include_pad, divisor_override)
        return made if batched is x else reshape(e, made, made.shape[1:])


_averages(2)
_averages(3)


@rule("max_pool2d")
def max_pool2d(
    e: Any,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    image = x if len(x.shape) == 4 else reshape(e, x, (1, *x.shape))
    made = e.op(
        "max_pool2d", image, **windows_of(2, kernel, stride, padding, ceil_mode), dilations=each(dilation, 2)
    )
    return made if len(x.shape) == 4 else reshape(e, made, made.shape[1:])


def _averaged(
    e: Any, op: str, x: Any, windows: dict[str, Any], count_include_pad: bool, divisor: int | None
) -> Any:
    """Sums of windows by a divisor of their own are averages of as many elements, weighed."""
    if divisor is None:
        return e.op(op, x, **windows, count_include_pad=count_include_pad)
    if windows["ceil_mode"]:
        raise Unsupported("a divisor for windows beyond the border is the host's")
    made = e.op(op, x, **windows, count_include_pad=True)
    return e.op("multiply", made, scalar_like(e, math.prod(windows["kernel_shape"]) / divisor, made))


def windows_of(dims: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    """Attributes of a pooling op over so many axes; without strides the windows lie side by side."""
    kernel, padding = each(kernel, dims), each(padding, dims)
    strides = each(stride, dims) if stride else kernel
    return {"kernel_shape": kernel, "strides": strides, "pads": (*padding, *padding), "ceil_mode": ceil_mode}


def each(given: Any, dims: int) -> tuple[int, ...]:
    """A number, or one or ``dims`` of them, as ``dims``."""
    if isinstance(given, int):
        return (given,) * dims
    return (given[0],) * dims if len(given) == 1 else tuple(given)


@rule("max_pool2d_with_indices", wide=(1,))
def max_pool2d_with_indices(
    e: Any,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """Most graphs need no indices. Ours count from the beginning of x, torch's from that of a plane."""
    dilation = each(dilation, 2)
    if e.graph and 1 not in e.used:
        return max_pool2d(e, x, kernel, stride, padding, dilation, ceil_mode), None
    image = x if len(x.shape) == 4 else reshape(e, x, (1, *x.shape))
    windows = windows_of(2, kernel, stride, padding, ceil_mode) | {"dilations": dilation}
    if e.graph:
        y, at = e.op("max_pool2d_indices", image, **windows, dtype="int32")
        at = e.op("mod", at, e.scalar(math.prod(x.shape[-2:]), "int32"), fmod=False)
    else:  # one result an op
        y = e.op("max_pool2d", image, **windows)
        at = e.op("max_pool2d_argmax", image, **windows, dtype="int32")
    if len(x.shape) == 4:
        return y, at
    return reshape(e, y, y.shape[1:]), reshape(e, at, at.shape[1:])


# **************** dropout ****************


@rule("native_dropout_backward")
def native_dropout_backward(e: Any, grad: Any, mask: Any, scale: float) -> Any:
    grad = cast(e, grad, "float32") if dtypes.is_integer(grad.dtype) else grad
    made = e.op("multiply", grad, cast(e, mask, grad.dtype))
    return made if scale == 1 else e.op("multiply", made, scalar_like(e, scale, made))
