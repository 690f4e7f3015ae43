"""The moreh functions of softmax's family, the loss that follows them, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check, fatal
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..movement.shapes import axis_of
from ..operation import Operation, operation
from ..results import device_tensor, float_tensor, handle_as, target
from ..wide import Wide
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

_SMALL = 512 * 1024  # bytes of circular buffers up to which ttnn's SMALL programs take a row or column


def _check_strategy(op: str, x: Tensor, axis: int, strategy: Any) -> None:
    """Raise RuntimeError for a way of cutting that does not fit the dimension."""
    name, rank = getattr(strategy, "name", "NONE"), len(x.shape)
    place = {rank - 1: "W", rank - 2: "H"}.get(axis, "C")
    if name == "NONE":
        return
    check(name.endswith(place), op, f"Invalid parallelization strategy. {name} is not for dim {axis}")
    if name.startswith("SMALL"):
        tiles = -(-x.shape[axis] // 32)
        fits = tiles * 32 * 32 * (4 if x.dtype.stored[1] == "f32" else 2) * 2 <= _SMALL
        check(fits, op, f"not enough circular buffer memory for {name} of {x.shape}")


Forward = Callable[[Wide, Handle, int], Handle]
Backward = Callable[[Wide, Handle, Handle, int], Handle]


def _least(w: Wide, x: Handle, axis: int) -> Handle:
    return w("softmax", w("negative", x), axis=axis)


def _soft_gradient(w: Wide, y: Handle, g: Handle, axis: int) -> Handle:
    total = w("sum", w("multiply", y, g), axes=(axis,), keepdims=True)
    return w("multiply", y, w("subtract", g, total))


def _least_gradient(w: Wide, y: Handle, g: Handle, axis: int) -> Handle:
    return w("negative", _soft_gradient(w, y, g, axis))


def _log_gradient(w: Wide, y: Handle, g: Handle, axis: int) -> Handle:
    total = w("sum", g, axes=(axis,), keepdims=True)
    return w("subtract", g, w("multiply", w("exp", y), total))


_FAMILY: dict[str, tuple[Forward, str, Backward, str]] = {
    "softmax": (
        lambda w, x, axis: w("softmax", x, axis=axis),
        "softmax",
        _soft_gradient,
        "multiply, sum, subtract",
    ),
    "softmin": (_least, "negative, softmax", _least_gradient, "multiply, sum, subtract, negative"),
    "logsoftmax": (
        lambda w, x, axis: w("log_softmax", x, axis=axis),
        "log_softmax",
        _log_gradient,
        "sum, exp, multiply, subtract",
    ),
}


def _forward(name: str, body: Forward, served: str) -> None:
    op = f"ttnn.moreh_{name}"

    def function(
        input_tensor: Tensor,
        dim: int,
        *,
        output_tensor: Tensor | None = None,
        strategy: Any = None,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
    ) -> Tensor:
        x = float_tensor(op, input_tensor)
        axis, w = axis_of(op, dim, len(x.shape)), Wide(x._handle.device)
        _check_strategy(op, x, axis, strategy)
        return target(op, x, memory_config, output_tensor).wrap(body(w, x._handle, axis))

    function.__doc__ = f"The {name} along a dimension."
    Operation(f"moreh_{name}", function, served)


def _backward(name: str, body: Backward, served: str) -> None:
    op = f"ttnn.moreh_{name}_backward"

    def function(
        output_tensor: Tensor,
        output_grad_tensor: Tensor,
        dim: int,
        *,
        input_grad_tensor: Tensor | None = None,
        strategy: Any = None,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
    ) -> Tensor:
        y, grad = float_tensor(op, output_tensor), float_tensor(op, output_grad_tensor)
        axis, w = axis_of(op, dim, len(y.shape)), Wide(y._handle.device)
        _check_strategy(op, y, axis, strategy)
        made = body(w, y._handle, grad._handle, axis)
        return target(op, y, memory_config, input_grad_tensor).wrap(made)

    function.__doc__ = f"The gradient of {name}, by its result and the gradient of that."
    Operation(f"moreh_{name}_backward", function, served)


for _name, (_one, _served, _back, _served_back) in _FAMILY.items():
    _forward(_name, _one, _served)
    _backward(_name, _back, _served_back)


# **************** negative log likelihood ****************


class _Chosen:
    """Of a loss over classes: ``index`` [N, 1, ...], the class of each element as int32, 0 where it is not
    counted; ``weight`` of the same shape, 0 there."""

    def __init__(self, op: str, w: Wide, target_tensor: Tensor, weight: Tensor | None, ignored: int):
        places = device_tensor(op, target_tensor, "target tensor")
        given = handle_as(places, "int32")
        shape = (places.shape[0], 1, *tuple(places.shape)[1:])
        given = w.reshape(w.rows(given), shape)
        counted = w("not_equal", given, int(ignored))
        self.index = w.select(counted, given, w.number(0, "int32"))
        self.weight = w.select(counted, 1.0, 0.0)
        if weight is not None:
            row = device_tensor(op, weight)._handle
            row = w.reshape(w.rows(row), (row.size,))
            self.weight = w("multiply", self.weight, kernels.run("take", [row, self.index], {"axis": 0}))

    def total(self, w: Wide) -> Handle:
        """The sum of the weights, one element."""
        return w("sum", self.weight, axes=tuple(range(len(self.weight.shape))), keepdims=True)


@operation("moreh_nll_loss", "take_along_axis, take, multiply, sum, divide")
def moreh_nll_loss(
    input_tensor: Tensor,
    target_tensor: Tensor,
    reduction: str,
    *,
    weight_tensor: Tensor | None = None,
    divisor_tensor: Tensor | None = None,
    output_tensor: Tensor | None = None,
    ignore_index: int = -100,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Minus the chosen element along dimension 1, times the weight of its class; their sum, or that divided
    by the sum of the weights, which goes to ``divisor_tensor``."""
    op = "ttnn.moreh_nll_loss"
    x = float_tensor(op, input_tensor)
    w = Wide(x._handle.device)
    chosen = _Chosen(op, w, target_tensor, weight_tensor, ignore_index)
    made = kernels.run("take_along_axis", [w.wide(x._handle), chosen.index], {"axis": 1})
    made = w("negative", w("multiply", made, chosen.weight))
    if reduction not in ("mean", "sum", "none"):
        raise fatal(op, f"reduction must be mean, sum or none, got {reduction!r}")
    goal = target(op, x, memory_config, output_tensor, layout=Layout.TILE)
    rank = len(x.shape)
    if reduction == "none":
        sizes = (x.shape[0], *tuple(x.shape)[2:])
        return goal.wrap(w.reshape(w.rows(made), sizes if rank > 2 else (1, *sizes)))
    made = w("sum", made, axes=tuple(range(rank)), keepdims=True)
    if reduction == "mean":
        check(divisor_tensor is not None, op, "Divisor tensor must not be empty")
        assert divisor_tensor is not None
        total = chosen.total(w)
        into = target(op, divisor_tensor, None, divisor_tensor)
        into.wrap(fitted(w, total, divisor_tensor.shape))
        made = w("divide", made, total)
    shape = (
        summed(x.shape, tuple(range(rank)), False) if output_tensor is None else tuple(output_tensor.shape)
    )
    return goal.wrap(fitted(w, made, shape))


def _loss_gradient(
    op: str,
    target_tensor: Tensor,
    grad: Tensor,
    weight: Tensor | None,
    into: Tensor | None,
    ignored: int,
    divisor: Tensor | None,
    memory_config: Any,
) -> Tensor:
    g = float_tensor(op, grad)
    check(into is not None or weight is not None, op, "input_grad_tensor says how many classes there are")
    w = Wide(g._handle.device)
    chosen = _Chosen(op, w, target_tensor, weight, ignored)
    places = tuple(target_tensor.shape)
    classes = into.shape[1] if into is not None else weight.logical_volume()  # type: ignore[union-attr]
    shape = (places[0], classes, *places[1:])
    each = g._handle
    one = (1,) * len(shape)
    each = w.reshape(w.rows(each), one if g.logical_volume() == 1 else tuple(chosen.index.shape))
    made = w("negative", w("multiply", chosen.weight, each))
    if divisor is not None:
        made = w("divide", made, w.reshape(w.rows(device_tensor(op, divisor)._handle), one))
    made = kernels.run("broadcast_to", [made], {"shape": tuple(chosen.index.shape)})
    empty = kernels.run("broadcast_to", [w.number(0.0)], {"shape": shape}, kernels.WIDE)
    made = w("scatter_elements", empty, chosen.index, made, axis=1)
    return target(op, g, memory_config, into, layout=Layout.TILE if into is None else None).wrap(made)


@operation("moreh_nll_loss_backward", "take, multiply, divide, scatter_elements")
def moreh_nll_loss_backward(
    target_tensor: Tensor,
    output_grad_tensor: Tensor,
    reduction_mean: bool,
    *,
    weight_tensor: Tensor | None = None,
    input_grad_tensor: Tensor | None = None,
    divisor_tensor: Tensor | None = None,
    ignore_index: int = -100,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of nll_loss with a sum or a mean."""
    op = "ttnn.moreh_nll_loss_backward"
    check(not reduction_mean or divisor_tensor is not None, op, "Divisor tensor must not be empty")
    divisor = divisor_tensor if reduction_mean else None
    return _loss_gradient(
        op,
        target_tensor,
        output_grad_tensor,
        weight_tensor,
        input_grad_tensor,
        ignore_index,
        divisor,
        memory_config,
    )


@operation("moreh_nll_loss_unreduced_backward", "take, multiply, scatter_elements")
def moreh_nll_loss_unreduced_backward(
    target_tensor: Tensor,
    output_grad_tensor: Tensor,
    *,
    weight_tensor: Tensor | None = None,
    input_grad_tensor: Tensor | None = None,
    ignore_index: int = -100,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of nll_loss without a sum."""
    op = "ttnn.moreh_nll_loss_unreduced_backward"
    return _loss_gradient(
        op,
        target_tensor,
        output_grad_tensor,
        weight_tensor,
        input_grad_tensor,
        ignore_index,
        None,
        memory_config,
    )
