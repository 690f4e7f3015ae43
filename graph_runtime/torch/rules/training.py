"""Losses and their gradients; the gradients of embeddings and of max pooling."""

from __future__ import annotations

import math
from typing import Any

from ...ir.value import where
from ..counters import Unsupported
from .layers import batched, spread_windows, windows_of
from .operands import reshape
from .table import rule

# **************** losses ****************


@rule("mse_loss")
def mse_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    square = x.op("squared_difference", target)
    if reduction == 0 or not square.shape:
        return square
    return square.op(
        "mean" if reduction == 1 else "sum", axes=tuple(range(len(square.shape))), keepdims=False
    )


@rule("mse_loss_backward")
def mse_loss_backward(grad: Any, x: Any, target: Any, reduction: int) -> Any:
    scale = 2.0 / math.prod(x.shape) if reduction == 1 else 2.0
    return (x - target) * grad * scale


def hits(e: Any, target: Any, classes: int) -> Any:
    """bool [n, classes]: in each row of target [n] int32, true for its class."""
    numbers = e.array(list(range(classes)), "int32")
    return reshape(target, (target.shape[0], 1)).equal(reshape(numbers, (1, classes)))


def _rows(x: Any) -> Any:
    """Scores [classes] or [n, classes, ...], reshaped to [rows, classes]."""
    if len(x.shape) <= 2:
        return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    perm = (0, *range(2, len(x.shape)), 1)
    return reshape(x.op("transpose", perm=perm), (math.prod(x.shape) // x.shape[1], x.shape[1]))


def _known(target: Any, classes: int, ignore: int) -> tuple[Any, Any]:
    """For each row: (target limited to valid classes, whether the target is valid and not ``ignore``)."""
    chosen = target.maximum(0).minimum(classes - 1)
    known = chosen.equal(target)
    if 0 <= ignore < classes:
        known = known & target.not_equal(ignore)
    return chosen, known


def _weights(chosen: Any, known: Any, weight: Any, dtype: str) -> Any:
    """[rows]: the weight of each row's class; 0 if the row's target does not count."""
    if weight is None:
        return known.cast(dtype)
    return where(known, weight.op("take", chosen, axis=0), 0.0)


@rule("nll_loss_forward", "nll_loss2d_forward", indices=(1,))
def nll_loss_forward(x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    rows = _rows(x)
    count, classes = rows.shape
    chosen, known = _known(reshape(target, (count,)), classes, ignore_index)
    picked = rows.op("take_along_axis", reshape(chosen, (count, 1)), axis=1)
    weights = _weights(chosen, known, weight, x.dtype)
    loss = -(reshape(picked, (count,)) * weights)
    loss = where(known, loss, 0.0)  # the score of a row that does not count may be infinite
    if reduction == 0:
        return reshape(loss, target.shape), x.scalar(0.0)
    total_weight = weights.sum(axes=(0,), keepdims=False)
    total = loss.sum(axes=(0,), keepdims=False)
    return total / total_weight if reduction == 1 else total, total_weight


@rule("nll_loss_backward", "nll_loss2d_backward", indices=(2,))
def nll_loss_backward(
    e: Any, grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    classes = x.shape[0] if len(x.shape) == 1 else x.shape[1]
    rows = math.prod(x.shape) // classes
    target = reshape(target, (rows,))
    chosen, known = _known(target, classes, ignore_index)
    scale = -(grad / total if reduction == 1 else grad)
    scale = reshape(scale, (rows,)) if reduction == 0 else scale
    slope = _weights(chosen, known, weight, x.dtype) * scale
    slope = where(known, slope, 0.0)  # the scale is infinite if no row counts, so 0 * scale is NaN
    hit = hits(e, target, classes)
    made = where(hit, reshape(slope, (rows, 1)), 0.0)
    if len(x.shape) <= 2:
        return reshape(made, x.shape)
    made = reshape(made, (x.shape[0], *x.shape[2:], classes))
    return made.op("transpose", perm=(0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))


# **************** embedding, pooling ****************


@rule("embedding_dense_backward", indices=(1,))
def embedding_dense_backward(
    e: Any, grad: Any, indices: Any, count: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if scale_grad_by_freq:
        raise Unsupported("embedding gradients by frequency run on the host")
    rows, columns = math.prod(indices.shape), grad.shape[-1]
    chosen, grad = reshape(indices, (rows, 1)), reshape(grad, (rows, columns))
    if 0 <= padding_idx < count:
        grad = where(chosen.equal(padding_idx), 0, grad)
    zeros = e.filled((count, columns), 0, grad.dtype)
    return zeros.op("scatter_nd", chosen, grad, reduction="add")


@rule("graph_runtime::max_pool2d_backward")
def max_pool2d_backward(grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> Any:
    return x.op("max_pool2d_backward", grad, **windows_of(2, kernel, stride, padding, ceil_mode))


@rule("max_pool2d_with_indices_backward", indices=(7,))
def max_pool2d_with_indices_backward(
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """The gradient of max pooling. ``indices`` are not needed, because x shows the greatest element of each
    window."""
    windows = spread_windows(2, kernel, stride, padding, dilation, ceil_mode)
    return batched(2, lambda x, grad: x.op("max_pool2d_backward", grad, **windows), x, grad)
