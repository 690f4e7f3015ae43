"""Gradients that are operations of their own, and losses."""

from __future__ import annotations

import math
from typing import Any

from ..counters import Unsupported
from .layers import each, windows_of
from .operands import cast, reshape, scalar_like
from .table import rule


@rule("threshold_backward")
def threshold_backward(e: Any, grad: Any, x: Any, threshold: Any) -> Any:
    """Selected, as all gradients of pieces: a product with 0 keeps what is no number."""
    below = e.op("less_equal", x, scalar_like(e, threshold, x))
    return e.op("where", below, scalar_like(e, 0, grad), grad)


@rule("tanh_backward")
def tanh_backward(e: Any, grad: Any, made: Any) -> Any:
    slope = e.op("subtract", scalar_like(e, 1.0, made), e.op("multiply", made, made))
    return e.op("multiply", grad, slope)


@rule("sigmoid_backward")
def sigmoid_backward(e: Any, grad: Any, made: Any) -> Any:
    slope = e.op("multiply", made, e.op("subtract", scalar_like(e, 1.0, made), made))
    return e.op("multiply", grad, slope)


@rule("log_sigmoid_backward")
def log_sigmoid_backward(e: Any, grad: Any, x: Any, buffer: Any) -> Any:
    return e.op("multiply", grad, e.op("sigmoid", e.op("negative", x)))


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
    below = e.op("less_equal", x, scalar_like(e, min_val, x))
    above = e.op("greater_equal", x, scalar_like(e, max_val, x))
    return e.op("where", e.op("logical_or", below, above), scalar_like(e, 0, grad), grad)


# **************** losses ****************


@rule("mse_loss")
def mse_loss(e: Any, x: Any, target: Any, reduction: int = 1) -> Any:
    square = e.op("squared_difference", x, target)
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


def hits(e: Any, target: Any, classes: int) -> Any:
    """bool [n, classes]: where the target [n] int32 says so."""
    numbers = e.array(list(range(classes)), "int32")
    return e.op("equal", reshape(e, target, (target.shape[0], 1)), reshape(e, numbers, (1, classes)))


def _rows(e: Any, x: Any) -> Any:
    """Scores [classes] or [n, classes, ...] as [rows, classes]."""
    if len(x.shape) <= 2:
        return reshape(e, x, (math.prod(x.shape[:-1]), x.shape[-1]))
    perm = (0, *range(2, len(x.shape)), 1)
    return reshape(e, e.op("transpose", x, perm=perm), (math.prod(x.shape) // x.shape[1], x.shape[1]))


def _known(e: Any, target: Any, classes: int, ignore: int) -> tuple[Any, Any]:
    """(a class that there is, bool: whether the target is that one, and not ``ignore``), of each row."""
    lowest = e.op("maximum", target, scalar_like(e, 0, target))
    chosen = e.op("minimum", lowest, scalar_like(e, classes - 1, target))
    known = e.op("equal", chosen, target)
    if 0 <= ignore < classes:
        known = e.op("logical_and", known, e.op("not_equal", target, scalar_like(e, ignore, target)))
    return chosen, known


def _weights(e: Any, chosen: Any, known: Any, weight: Any, dtype: str) -> Any:
    """[rows] of the weight of each row, 0 where its target does not count."""
    if weight is None:
        return cast(e, known, dtype)
    picked = e.op("take", weight, chosen, axis=0)
    return e.op("where", known, picked, scalar_like(e, 0.0, picked))


@rule("nll_loss_forward", "nll_loss2d_forward", indices=(1,))
def nll_loss_forward(e: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    rows = _rows(e, x)
    count, classes = rows.shape
    chosen, known = _known(e, reshape(e, target, (count,)), classes, ignore_index)
    picked = e.op("take_along_axis", rows, reshape(e, chosen, (count, 1)), axis=1)
    weights = _weights(e, chosen, known, weight, x.dtype)
    loss = e.op("negative", e.op("multiply", reshape(e, picked, (count,)), weights))
    loss = e.op(
        "where", known, loss, scalar_like(e, 0.0, loss)
    )  # a score that does not count may be infinite
    if reduction == 0:
        return reshape(e, loss, target.shape), scalar_like(e, 0.0, x)
    total_weight = e.op("sum", weights, axes=(0,), keepdims=False)
    total = e.op("sum", loss, axes=(0,), keepdims=False)
    return (e.op("divide", total, total_weight) if reduction == 1 else total), total_weight


@rule("nll_loss_backward", "nll_loss2d_backward", indices=(2,))
def nll_loss_backward(
    e: Any, grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    classes = x.shape[0] if len(x.shape) == 1 else x.shape[1]
    rows = math.prod(x.shape) // classes
    target = reshape(e, target, (rows,))
    chosen, known = _known(e, target, classes, ignore_index)
    scale = e.op("negative", e.op("divide", grad, total) if reduction == 1 else grad)
    scale = reshape(e, scale, (rows,)) if reduction == 0 else scale
    slope = e.op("multiply", _weights(e, chosen, known, weight, x.dtype), scale)
    slope = e.op(
        "where", known, slope, scalar_like(e, 0.0, x)
    )  # where no target counts the scale is infinite
    hit = hits(e, target, classes)
    made = e.op("where", hit, reshape(e, slope, (rows, 1)), scalar_like(e, 0.0, x))
    if len(x.shape) <= 2:
        return reshape(e, made, x.shape)
    made = reshape(e, made, (x.shape[0], *x.shape[2:], classes))
    return e.op("transpose", made, perm=(0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))


# **************** embedding, pooling ****************


@rule("embedding_dense_backward", indices=(1,))
def embedding_dense_backward(
    e: Any, grad: Any, indices: Any, count: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if scale_grad_by_freq:
        raise Unsupported("embedding gradients by frequency are the host's")
    rows, columns = math.prod(indices.shape), grad.shape[-1]
    chosen, grad = reshape(e, indices, (rows, 1)), reshape(e, grad, (rows, columns))
    if 0 <= padding_idx < count:
        padded = e.op("equal", chosen, scalar_like(e, padding_idx, chosen))
        grad = e.op("where", padded, scalar_like(e, 0, grad), grad)
    zeros = e.filled((count, columns), 0, grad.dtype)
    return e.op("scatter_nd", zeros, chosen, grad, reduction="add")


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


@rule("max_pool2d_with_indices_backward", indices=(7,))
def max_pool2d_with_indices_backward(
    e: Any,
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """x itself says which element a window's gradient goes to: the one that the indices name."""
    windows = windows_of(2, kernel, stride, padding, ceil_mode) | {"dilations": each(dilation, 2)}
    if len(x.shape) == 3:
        x, grad = (reshape(e, value, (1, *value.shape)) for value in (x, grad))
        made = e.op("max_pool2d_backward", x, grad, **windows)
        return reshape(e, made, made.shape[1:])
    return e.op("max_pool2d_backward", x, grad, **windows)
