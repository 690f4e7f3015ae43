"""The moreh functions of training: steps of optimizers, the clipping of gradients, and getitem."""

from __future__ import annotations

import math
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check, fatal
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..operation import Operation, operation
from ..results import device_tensor, float_tensor, target
from ..wide import Wide
from .sums import raised

__all__: list[str] = []


def _placed(op: str, like: Tensor, made: Handle, into: Tensor | None, memory_config: Any) -> Tensor:
    return target(op, like, memory_config, into, layout=Layout.TILE if into is None else None).wrap(made)


def _mixed(w: Wide, old: Handle, new: Handle, kept: float) -> Handle:
    """kept old + (1 - kept) new."""
    return w("add", w("multiply", old, kept), w("multiply", new, 1.0 - kept))


def _adam(name: str, apart: bool, decay: float) -> None:
    op = f"ttnn.{name}"

    def function(
        param_in: Tensor,
        grad: Tensor,
        exp_avg_in: Tensor,
        exp_avg_sq_in: Tensor,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = decay,
        step: int = 0,
        amsgrad: bool = False,
        *,
        max_exp_avg_sq_in: Tensor | None = None,
        param_out: Tensor | None = None,
        exp_avg_out: Tensor | None = None,
        exp_avg_sq_out: Tensor | None = None,
        max_exp_avg_sq_out: Tensor | None = None,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
    ) -> list[Tensor | None]:
        p, g, first, second = (float_tensor(op, t) for t in (param_in, grad, exp_avg_in, exp_avg_sq_in))
        w = Wide(p._handle.device)
        weight, slope = p._handle, g._handle
        if apart:
            weight = w("multiply", weight, 1.0 - lr * weight_decay)
        elif weight_decay:
            slope = w("add", slope, w("multiply", weight, float(weight_decay)))
        average = _mixed(w, first._handle, slope, beta1)
        squares = _mixed(w, second._handle, w("multiply", slope, slope), beta2)
        greatest = None
        if amsgrad:
            check(max_exp_avg_sq_in is not None, op, "amsgrad needs max_exp_avg_sq_in")
            greatest = w("maximum", float_tensor(op, max_exp_avg_sq_in)._handle, squares)
        spread = squares if greatest is None else greatest
        below = w("add", w("sqrt", w("multiply", spread, 1.0 / (1.0 - beta2**step))), float(eps))
        move = w("divide", w("multiply", average, lr / (1.0 - beta1**step)), below)
        made = [w("subtract", weight, move), average, squares, greatest]
        into = [param_out, exp_avg_out, exp_avg_sq_out, max_exp_avg_sq_out]
        pairs = zip(made, into, strict=True)
        return [None if x is None else _placed(op, p, x, to, memory_config) for x, to in pairs]

    how = "taken off the parameter" if apart else "added to the gradient"
    function.__doc__ = f"A step of Adam, the decay of weights {how}: parameter and averages after it."
    Operation(name, function, "multiply, add, sqrt, divide, subtract, maximum")


_adam("moreh_adam", False, 0.0)
_adam("moreh_adamw", True, 1e-2)


@operation("moreh_sgd", "multiply, add, subtract")
def moreh_sgd(
    param_in: Tensor,
    grad: Tensor,
    momentum_buffer_in: Tensor | None = None,
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
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """A step of gradient descent: the parameter and the momentum after it."""
    op = "ttnn.moreh_sgd"
    p, g = float_tensor(op, param_in), float_tensor(op, grad)
    w = Wide(p._handle.device)
    slope, moving = g._handle, None
    if weight_decay:
        slope = w("add", slope, w("multiply", p._handle, float(weight_decay)))
    if momentum:
        moving = slope
        if momentum_initialized:
            old = float_tensor(op, momentum_buffer_in)._handle
            moving = w("add", w("multiply", old, float(momentum)), w("multiply", slope, 1.0 - dampening))
        slope = w("add", slope, w("multiply", moving, float(momentum))) if nesterov else moving
    made = w("subtract", p._handle, w("multiply", slope, float(lr)))
    results: list[Tensor | None] = [_placed(op, p, made, param_out, param_out_memory_config)]
    into, to = momentum_buffer_out, momentum_buffer_out_memory_config
    return [*results, None if moving is None else _placed(op, p, moving, into, to)]


@operation("moreh_clip_grad_norm", "abs, power, sum, divide, minimum, multiply")
def moreh_clip_grad_norm(
    inputs: list[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    *,
    total_norm: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The norm of all inputs together; each of them is multiplied, in its place, by max_norm / norm where
    that is below 1."""
    op = "ttnn.moreh_clip_grad_norm"
    tensors = [float_tensor(op, x) for x in inputs]
    check(bool(tensors), op, "there must be an input")
    w, p = Wide(tensors[0]._handle.device), float(norm_type)
    total: Any = None
    for x in tensors:
        every = tuple(range(len(x.shape)))
        if math.isinf(p):
            part = w("max" if p > 0 else "min", w("abs", x._handle), axes=every, keepdims=True)
        else:
            part = w("sum", raised(w, x._handle, p), axes=every, keepdims=True)
        part = w.reshape(w.rows(part), (1, 1))
        joined = "add" if not math.isinf(p) else "maximum" if p > 0 else "minimum"
        total = part if total is None else w(joined, total, part)
    norm = total if math.isinf(p) else raised(w, total, 1.0 / p)
    if error_if_nonfinite and not math.isfinite(float(norm.numpy().item())):
        text = (
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
            "anyway, set `error_if_nonfinite=False`"
        )
        raise fatal(op, text)
    factor = w("minimum", w("divide", float(max_norm), w("add", norm, 1e-6)), 1.0)
    for x in tensors:
        target(op, x, None, x).wrap(w("multiply", x._handle, factor))
    sizes = (1, 1) if total_norm is None else tuple(total_norm.shape)
    return _placed(op, tensors[0], w.reshape(w.rows(norm), sizes), total_norm, memory_config)


@operation("moreh_getitem", "where, add, multiply, reshape, transpose, take")
def moreh_getitem(
    input: Tensor,
    index_tensors: list[Tensor],
    index_dims: list[int],
    *,
    output: Tensor | None = None,
    memory_config: Any = None,
) -> Tensor:
    """x[..., i, j, ...] for indices along neighbouring dimensions; in tiles 1 stays for all of these but the
    last."""
    op = "ttnn.moreh_getitem"
    x = device_tensor(op, input)
    dims, rank = [int(at) for at in index_dims], len(x.shape)
    fits = dims == list(range(dims[0], dims[0] + len(dims))) and dims[-1] < rank
    check(bool(dims) and fits, op, f"index_dims must be neighbours below {rank}, got {index_dims}")
    check(
        len(index_tensors) == len(dims), op, f"{len(index_tensors)} index tensors for {len(dims)} dimensions"
    )
    w, sizes = Wide(x._handle.device), tuple(x.shape)
    place: Any = None
    for index, at in zip(index_tensors, dims, strict=True):
        one = w.int32(device_tensor(op, index, "index tensor")._handle)
        one = w.reshape(w.rows(one), (one.size,))
        one = w.select(w("less", one, 0), w("add", one, sizes[at]), one)
        place = one if place is None else w("add", w("multiply", place, sizes[at]), one)
    joined = (*sizes[: dims[0]], math.prod(sizes[at] for at in dims), *sizes[dims[-1] + 1 :])
    made = kernels.run("take", [w.reshape(w.rows(x._handle), joined), place], {"axis": dims[0]})
    if x.layout is Layout.TILE:
        shape = (*sizes[: dims[0]], *(1,) * (len(dims) - 1), place.size, *sizes[dims[-1] + 1 :])
        made = w.reshape(w.rows(made), shape)
    return target(op, x, memory_config, output).wrap(made)
