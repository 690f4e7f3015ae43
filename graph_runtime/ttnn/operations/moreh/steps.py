"""The moreh functions of training: steps of optimizers, the clipping of gradients, and getitem."""

from __future__ import annotations

import math
from typing import Any

from ....ir.value import where
from ...devices.wide_value import WideValue
from ...errors import expect, failed
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..bodies import FloatTensor, FloatValue
from ..operation import operation
from ..results import device_tensor, float_tensor, target
from .sums import raised


def _placed(like: Tensor, made: WideValue, into: Tensor | None, memory_config: Any) -> Tensor:
    return target(like, memory_config, into, layout=Layout.TILE).wrap(made)


def _mixed(old: WideValue, new: WideValue, kept: float) -> WideValue:
    """kept old + (1 - kept) new."""
    return old * kept + new * (1.0 - kept)


def _adam(name: str, apart: bool, decay: float) -> None:
    def function(
        param_in: FloatTensor,
        grad: FloatValue,
        exp_avg_in: FloatValue,
        exp_avg_sq_in: FloatValue,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = decay,
        step: int = 0,
        amsgrad: bool = False,
        *,
        max_exp_avg_sq_in: FloatValue | None = None,
        param_out: Tensor | None = None,
        exp_avg_out: Tensor | None = None,
        exp_avg_sq_out: Tensor | None = None,
        max_exp_avg_sq_out: Tensor | None = None,
        memory_config: Any = None,
    ) -> list[Tensor | None]:
        weight, slope = param_in._value, grad
        if apart:
            weight = weight * (1.0 - lr * weight_decay)
        elif weight_decay:
            slope = slope + weight * float(weight_decay)
        average = _mixed(exp_avg_in, slope, beta1)
        squares = _mixed(exp_avg_sq_in, slope * slope, beta2)
        greatest = None
        if amsgrad:
            expect(max_exp_avg_sq_in is not None, "amsgrad needs max_exp_avg_sq_in")
            assert max_exp_avg_sq_in is not None
            greatest = max_exp_avg_sq_in.maximum(squares)
        spread = squares if greatest is None else greatest
        below = (spread * (1.0 / (1.0 - beta2**step))).sqrt() + float(eps)
        move = average * (lr / (1.0 - beta1**step)) / below
        made = [weight - move, average, squares, greatest]
        into = [param_out, exp_avg_out, exp_avg_sq_out, max_exp_avg_sq_out]
        pairs = zip(made, into, strict=True)
        return [None if x is None else _placed(param_in, x, to, memory_config) for x, to in pairs]

    how = "taken off the parameter" if apart else "added to the gradient"
    function.__doc__ = (
        f"A step of Adam, with the decay of weights {how}: the new parameter and the new averages."
    )
    operation(name, "multiply, add, sqrt, divide, subtract, maximum")(function)


_adam("moreh_adam", False, 0.0)
_adam("moreh_adamw", True, 1e-2)


@operation("moreh_sgd", "multiply, add, subtract")
def moreh_sgd(
    param_in: FloatTensor,
    grad: FloatValue,
    momentum_buffer_in: FloatValue | None = None,
    param_out: Tensor | None = None,
    momentum_buffer_out: Tensor | None = None,
    lr: float = 1e-3,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    *,
    momentum_initialized: bool,
    param_out_memory_config: Any = None,
    momentum_buffer_out_memory_config: Any = None,
) -> list[Tensor | None]:
    """A step of stochastic gradient descent; the results are [new parameter, new momentum]."""
    weight, slope, moving = param_in._value, grad, None
    if weight_decay:
        slope = slope + weight * float(weight_decay)
    if momentum:
        moving = slope
        if momentum_initialized:
            expect(momentum_buffer_in is not None, "momentum_buffer_in must be given")
            assert momentum_buffer_in is not None
            moving = momentum_buffer_in * float(momentum) + slope * (1.0 - dampening)
        slope = (slope + moving * float(momentum)) if nesterov else moving
    made = _placed(param_in, weight - slope * float(lr), param_out, param_out_memory_config)
    if moving is None:
        return [made, None]
    return [made, _placed(param_in, moving, momentum_buffer_out, momentum_buffer_out_memory_config)]


@operation("moreh_clip_grad_norm", "abs, power, sum, divide, minimum, multiply")
def moreh_clip_grad_norm(
    inputs: list[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    *,
    total_norm: Tensor | None = None,
    memory_config: Any = None,
) -> Tensor:
    """The norm of all inputs together; each input is multiplied, in place, by max_norm / norm if this factor
    is below 1."""
    tensors = [float_tensor(x) for x in inputs]
    expect(bool(tensors), "there must be an input")
    p = float(norm_type)
    total: Any = None
    for x in tensors:
        every = tuple(range(len(x.shape)))
        if math.isinf(p):
            part = abs(x._value).op("max" if p > 0 else "min", axes=every, keepdims=True)
        else:
            part = raised(x._value, p).sum(axes=every)
        part = part.reshape((1, 1))
        joined = "add" if not math.isinf(p) else "maximum" if p > 0 else "minimum"
        total = part if total is None else total.op(joined, part)
    norm = total if math.isinf(p) else raised(total, 1.0 / p)
    if error_if_nonfinite and not math.isfinite(float(norm.handle.numpy().item())):
        text = (
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
            "anyway, set `error_if_nonfinite=False`"
        )
        raise failed(text)
    factor = (float(max_norm) / (norm + 1e-6)).minimum(1.0)
    for x in tensors:
        target(x, None, x).wrap(x._value * factor)
    sizes = (1, 1) if total_norm is None else tuple(total_norm.shape)
    return _placed(tensors[0], norm.reshape(sizes), total_norm, memory_config)


@operation(
    "moreh_getitem",
    "where, add, multiply, reshape, transpose, take",
    takes="output, memory_config",
)
def moreh_getitem(input: Tensor, index_tensors: list[Tensor], index_dims: list[int]) -> WideValue:
    """x[..., i, j, ...] for indices along neighbouring dimensions. If x is in tiles, all of these dimensions
    but the last keep size 1."""
    dims, sizes = [int(at) for at in index_dims], tuple(input.shape)
    rank = len(sizes)
    fits = dims == list(range(dims[0], dims[0] + len(dims))) and dims[-1] < rank
    expect(bool(dims) and fits, f"index_dims must be neighbours below {rank}, got {index_dims}")
    expect(len(index_tensors) == len(dims), f"{len(index_tensors)} index tensors for {len(dims)} dimensions")
    place: Any = None
    for index, at in zip(index_tensors, dims, strict=True):
        one = device_tensor(index, "index tensor")._value.int32()
        one = one.reshape((one.size,))
        one = where(one < 0, one + sizes[at], one)
        place = one if place is None else place * sizes[at] + one
    outer, inner = sizes[: dims[0]], sizes[dims[-1] + 1 :]
    joined = (*outer, math.prod(sizes[at] for at in dims), *inner)
    made = input._value.reshape(joined).run("take", place, axis=dims[0])
    if input.layout is Layout.TILE:
        made = made.reshape((*outer, *(1,) * (len(dims) - 1), place.size, *inner))
    return made
