"""Gradients that are operations of their own, and losses."""

from __future__ import annotations

import math
from typing import Any

from ..journal import Refused
from .network import two
from .operands import broadcast, cast, reshape, scalar_like
from .table import rule


@rule("threshold_backward")
def threshold_backward(e: Any, grad: Any, x: Any, threshold: Any) -> Any:
    mask = e.op("greater", x, scalar_like(e, threshold, x))
    return e.op("multiply", grad, cast(e, mask, grad.dtype))


@rule("tanh_backward")
def tanh_backward(e: Any, grad: Any, made: Any) -> Any:
    slope = e.op("subtract", scalar_like(e, 1.0, made), e.op("multiply", made, made))
    return e.op("multiply", grad, slope)


@rule("sigmoid_backward")
def sigmoid_backward(e: Any, grad: Any, made: Any) -> Any:
    slope = e.op("multiply", made, e.op("subtract", scalar_like(e, 1.0, made), made))
    return e.op("multiply", grad, slope)


@rule("silu_backward")
def silu_backward(e: Any, grad: Any, x: Any) -> Any:
    gate, one = e.op("sigmoid", x), scalar_like(e, 1.0, x)
    slope = e.op("add", one, e.op("multiply", x, e.op("subtract", one, gate)))
    return e.op("multiply", grad, e.op("multiply", gate, slope))


@rule("gelu_backward")
def gelu_backward(e: Any, grad: Any, x: Any, *, approximate: str = "none") -> Any:
    def number(value: float) -> Any:
        return scalar_like(e, value, x)

    if approximate == "none":
        cdf = e.op(
            "multiply",
            number(0.5),
            e.op("add", number(1.0), e.op("erf", e.op("multiply", x, number(math.sqrt(0.5))))),
        )
        bell = e.op("exp", e.op("multiply", e.op("multiply", x, x), number(-0.5)))
        slope = e.op(
            "add", cdf, e.op("multiply", x, e.op("multiply", bell, number(1 / math.sqrt(2 * math.pi))))
        )
        return e.op("multiply", grad, slope)
    square = e.op("multiply", x, x)
    inner = e.op(
        "multiply",
        e.op("multiply", x, number(math.sqrt(2 / math.pi))),
        e.op("add", number(1.0), e.op("multiply", square, number(0.044715))),
    )
    bent = e.op("tanh", inner)
    left = e.op("multiply", number(0.5), e.op("add", number(1.0), bent))
    turn = e.op("subtract", number(1.0), e.op("multiply", bent, bent))
    rate = e.op(
        "multiply",
        number(math.sqrt(2 / math.pi)),
        e.op("add", number(1.0), e.op("multiply", square, number(3 * 0.044715))),
    )
    right = e.op("multiply", e.op("multiply", e.op("multiply", x, number(0.5)), turn), rate)
    return e.op("multiply", grad, e.op("add", left, right))


@rule("leaky_relu_backward")
def leaky_relu_backward(e: Any, grad: Any, x: Any, slope: Any, self_is_result: bool) -> Any:
    mask = e.op("greater", x, scalar_like(e, 0.0, x))
    return e.op("where", mask, grad, e.op("multiply", grad, scalar_like(e, slope, grad)))


@rule("hardtanh_backward")
def hardtanh_backward(e: Any, grad: Any, x: Any, min_val: Any, max_val: Any) -> Any:
    above = cast(e, e.op("greater", x, scalar_like(e, min_val, x)), grad.dtype)
    below = cast(e, e.op("less", x, scalar_like(e, max_val, x)), grad.dtype)
    return e.op("multiply", grad, e.op("multiply", above, below))


# **************** losses ****************


@rule("mse_loss")
def mse_loss(e: Any, x: Any, target: Any, reduction: int = 1) -> Any:
    off = e.op("subtract", x, target)
    square = e.op("multiply", off, off)
    if reduction == 0 or not square.shape:
        return square
    return e.op(
        "mean" if reduction == 1 else "sum", square, axes=tuple(range(len(square.shape))), keepdims=False
    )


@rule("mse_loss_backward")
def mse_loss_backward(e: Any, grad: Any, x: Any, target: Any, reduction: int) -> Any:
    scale = 2.0 / math.prod(x.shape) if reduction == 1 else 2.0
    off = e.op("subtract", x, target)
    return e.op("multiply", e.op("multiply", off, grad), scalar_like(e, scale, x))


def one_hot(e: Any, target: Any, classes: int, dtype: str, ignore: int | None = None) -> Any:
    """[n, classes] of ones where the target [n] int32 says so; rows of target ``ignore`` have none."""
    numbers = e.array([-1 if i == ignore else i for i in range(classes)], "int32")
    hit = e.op("equal", reshape(e, target, (target.shape[0], 1)), reshape(e, numbers, (1, classes)))
    return cast(e, hit, dtype)


@rule("nll_loss_forward", indices=(1,))
def nll_loss_forward(e: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    _check_loss(x, weight, reduction)
    hot = one_hot(e, target, x.shape[1], x.dtype, ignore_index)
    total = e.op("negative", e.op("sum", e.op("multiply", x, hot), axes=(0, 1), keepdims=False))
    count = e.op("sum", hot, axes=(0, 1), keepdims=False)
    return (e.op("divide", total, count) if reduction == 1 else total), count


@rule("nll_loss_backward", indices=(2,))
def nll_loss_backward(
    e: Any, grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    _check_loss(x, weight, reduction)
    hot = one_hot(e, target, x.shape[1], x.dtype, ignore_index)
    scale = e.op("negative", e.op("divide", grad, total) if reduction == 1 else grad)
    return e.op("multiply", hot, scale)


def _check_loss(x: Any, weight: Any, reduction: int) -> None:
    if weight is not None or len(x.shape) != 2 or reduction == 0:
        raise Refused("losses of images, weighted ones and those that are not reduced are the host's")


# **************** pooling, embedding ****************


@rule("avg_pool2d_backward")
def avg_pool2d_backward(
    e: Any,
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any:
    kernel = two(kernel)
    even = all(n % k == 0 for n, k in zip(x.shape[2:], kernel, strict=True))
    if (
        (two(stride) if stride else kernel) != kernel
        or two(padding) != (0, 0)
        or not even
        or len(x.shape) != 4
    ):
        raise Refused("gradients of overlapping windows are the host's")
    n, c, h, w = grad.shape
    spread = broadcast(e, reshape(e, grad, (n, c, h, 1, w, 1)), (n, c, h, kernel[0], w, kernel[1]))
    return e.op("multiply", reshape(e, spread, x.shape), scalar_like(e, 1 / math.prod(kernel), grad))


@rule("embedding_dense_backward", indices=(1,))
def embedding_dense_backward(
    e: Any, grad: Any, indices: Any, count: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if scale_grad_by_freq or padding_idx >= 0:
        raise Refused("this kind of embedding gradient is the host's")
    rows = math.prod(indices.shape)
    hot = one_hot(e, reshape(e, indices, (rows,)), count, grad.dtype)
    return e.op("matmul", e.op("transpose", hot, perm=(1, 0)), reshape(e, grad, (rows, grad.shape[-1])))


@rule("max_pool2d_backward")
def max_pool2d_backward(
    e: Any, grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool
) -> Any:
    return e.op(
        "max_pool2d_backward",
        x,
        grad,
        kernel_shape=tuple(kernel),
        strides=tuple(stride),
        pads=(*padding, *padding),
        ceil_mode=ceil_mode,
    )
