"""The moreh functions softmax, softmin and logsoftmax, the negative log likelihood, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ....ir.value import where
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import expect, failed
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..bodies import FloatTensor, FloatValue
from ..movement.shapes import axis_of
from ..operation import operation
from ..results import Target, target
from .sums import fitted, summed

__all__ = [
    "MorehSoftmaxBackwardOp",
    "MorehSoftmaxBackwardOpParallelizationStrategy",
    "MorehSoftmaxOp",
    "MorehSoftmaxOpParallelizationStrategy",
]

MorehSoftmaxOp = Enum("MorehSoftmaxOp", "SOFTMAX SOFTMIN LOGSOFTMAX", start=0)
MorehSoftmaxBackwardOp = Enum("MorehSoftmaxBackwardOp", "SOFTMAX SOFTMIN LOGSOFTMAX", start=0)
MorehSoftmaxOpParallelizationStrategy = Enum(
    "MorehSoftmaxOpParallelizationStrategy", "NONE SMALL_W SMALL_H LARGE_W LARGE_H LARGE_C", start=0
)
MorehSoftmaxBackwardOpParallelizationStrategy = Enum(
    "MorehSoftmaxBackwardOpParallelizationStrategy", "NONE SMALL_W SMALL_H LARGE_W LARGE_H LARGE_C", start=0
)

_SMALL = 512 * 1024  # most bytes of the circular buffers that hold a row or column in a SMALL ttnn program


def _check_strategy(x: Tensor, axis: int, strategy: Any) -> None:
    """Raise RuntimeError for a strategy that is for another dimension, or whose circular buffers are too
    small."""
    name, rank = getattr(strategy, "name", "NONE"), len(x.shape)
    place = {rank - 1: "W", rank - 2: "H"}.get(axis, "C")
    if name == "NONE":
        return
    expect(name.endswith(place), f"Invalid parallelization strategy. {name} is not for dim {axis}")
    if name.startswith("SMALL"):
        tiles = -(-x.shape[axis] // 32)
        fits = tiles * 32 * 32 * (4 if x.dtype.stored[1] == "f32" else 2) * 2 <= _SMALL
        expect(fits, f"not enough circular buffer memory for {name} of {x.shape}")


def _soft_gradient(y: WideValue, g: WideValue, axis: int) -> WideValue:
    return y * (g - (y * g).sum(axes=(axis,)))


# name -> (function of (x, axis), its ops, gradient as a function of (result, gradient of the result, axis),
# its ops)
_FAMILY: dict[str, tuple[Callable[..., WideValue], str, Callable[..., WideValue], str]] = {
    "softmax": (
        lambda x, axis: x.op("softmax", axis=axis),
        "softmax",
        _soft_gradient,
        "multiply, sum, subtract",
    ),
    "softmin": (
        lambda x, axis: (-x).op("softmax", axis=axis),
        "negative, softmax",
        lambda y, g, axis: -_soft_gradient(y, g, axis),
        "multiply, sum, subtract, negative",
    ),
    "logsoftmax": (
        lambda x, axis: x.op("log_softmax", axis=axis),
        "log_softmax",
        lambda y, g, axis: g - y.exp() * g.sum(axes=(axis,)),
        "sum, exp, multiply, subtract",
    ),
}


def _forward(name: str, body: Callable[..., WideValue], served: str) -> None:
    def function(input_tensor: FloatTensor, dim: int, *, strategy: Any = None) -> WideValue:
        axis = axis_of(dim, len(input_tensor.shape))
        _check_strategy(input_tensor, axis, strategy)
        return body(input_tensor._value, axis)

    function.__doc__ = f"The {name} along a dimension."
    operation(f"moreh_{name}", served, takes="output_tensor, ..., memory_config")(function)


def _backward(name: str, body: Callable[..., WideValue], served: str) -> None:
    def function(
        output_tensor: FloatTensor, output_grad_tensor: FloatValue, dim: int, *, strategy: Any = None
    ) -> WideValue:
        axis = axis_of(dim, len(output_tensor.shape))
        _check_strategy(output_tensor, axis, strategy)
        return body(output_tensor._value, output_grad_tensor, axis)

    function.__doc__ = f"The gradient of {name}, from the result and the result's gradient."
    operation(f"moreh_{name}_backward", served, takes="input_grad_tensor, ..., memory_config")(function)


for _name, (_one, _served, _back, _served_back) in _FAMILY.items():
    _forward(_name, _one, _served)
    _backward(_name, _back, _served_back)


def _chosen(target_tensor: Tensor, weight: WideValue | None, ignored: int) -> tuple[WideValue, WideValue]:
    """(class of each element, weight of that class); the classes are int32 [N, 1, ...]. Class and weight are
    0 where the element is ignored."""
    given = target_tensor._value.cast("int32")
    given = given.reshape((given.shape[0], 1, *given.shape[1:]))
    counted = given.not_equal(int(ignored))
    index = where(counted, given, given.scalar(0))
    weights = where(counted, 1.0, 0.0)
    if weight is not None:
        weights = weights * weight.reshape((weight.size,)).run("take", index, axis=0)
    return index, weights


@operation(
    "moreh_nll_loss",
    "take_along_axis, take, multiply, sum, divide",
    takes="..., output_tensor, ignore_index, memory_config",
    layout=Layout.TILE,
)
def moreh_nll_loss(
    input_tensor: FloatValue,
    target_tensor: Tensor,
    reduction: str,
    *,
    weight_tensor: WideValue | None = None,
    divisor_tensor: Tensor | None = None,
    ignore_index: int = -100,
    goal: Target,
) -> WideValue:
    """Minus the element of the target's class along dimension 1, times the weight of the class. The reduction
    "sum" gives the sum; "mean" gives the sum divided by the sum of the weights, which is written into
    ``divisor_tensor``."""
    index, weights = _chosen(target_tensor, weight_tensor, ignore_index)
    made = -(input_tensor.wide().run("take_along_axis", index, axis=1) * weights)
    if reduction not in ("mean", "sum", "none"):
        raise failed(f"reduction must be mean, sum or none, got {reduction!r}")
    shape = input_tensor.shape
    if reduction == "none":
        sizes = (shape[0], *shape[2:])
        return made.reshape(sizes if len(shape) > 2 else (1, *sizes))
    every = tuple(range(len(shape)))
    made = made.sum(axes=every)
    if reduction == "mean":
        expect(divisor_tensor is not None, "Divisor tensor must not be empty")
        assert divisor_tensor is not None
        total = weights.sum(axes=tuple(range(len(weights.shape))))
        target(divisor_tensor, None, divisor_tensor).wrap(fitted(total, divisor_tensor.shape))
        made = made / total
    return fitted(made, summed(shape, every, False) if goal.into is None else goal.into.shape)


def _loss_gradient(
    places: Tensor,
    each: WideValue,
    weight: WideValue | None,
    ignored: int,
    goal: Target,
    divisor: WideValue | None = None,
) -> WideValue:
    text = "input_grad_tensor says how many classes there are"
    expect(goal.into is not None or weight is not None, text)
    index, weights = _chosen(places, weight, ignored)
    classes = goal.into.shape[1] if goal.into is not None else weight.size  # type: ignore[union-attr]
    shape = (places.shape[0], classes, *places.shape[1:])
    one = (1,) * len(shape)
    made = -(weights * each.reshape(one if each.size == 1 else index.shape))
    if divisor is not None:
        made = made / divisor.reshape(one)
    made = made.run("broadcast_to", shape=index.shape)
    empty = made.scalar(0.0).run("broadcast_to", to=kernels.WIDE, shape=shape)
    return empty.op("scatter_elements", index, made, axis=1)


_PLACED: dict[str, Any] = {
    "takes": "weight_tensor, input_grad_tensor, ..., memory_config",
    "like": "output_grad_tensor",
    "layout": Layout.TILE,
}


@operation("moreh_nll_loss_backward", "take, multiply, divide, scatter_elements", **_PLACED)
def moreh_nll_loss_backward(
    target_tensor: Tensor,
    output_grad_tensor: FloatValue,
    reduction_mean: bool,
    *,
    weight_tensor: WideValue | None = None,
    divisor_tensor: WideValue | None = None,
    ignore_index: int = -100,
    goal: Target,
) -> WideValue:
    """The gradient of moreh_nll_loss with the reduction "sum" or "mean"."""
    expect(not reduction_mean or divisor_tensor is not None, "Divisor tensor must not be empty")
    divisor = divisor_tensor if reduction_mean else None
    return _loss_gradient(target_tensor, output_grad_tensor, weight_tensor, ignore_index, goal, divisor)


@operation("moreh_nll_loss_unreduced_backward", "take, multiply, scatter_elements", **_PLACED)
def moreh_nll_loss_unreduced_backward(
    target_tensor: Tensor,
    output_grad_tensor: FloatValue,
    *,
    weight_tensor: WideValue | None = None,
    ignore_index: int = -100,
    goal: Target,
) -> WideValue:
    """The gradient of moreh_nll_loss with the reduction "none"."""
    return _loss_gradient(target_tensor, output_grad_tensor, weight_tensor, ignore_index, goal)
