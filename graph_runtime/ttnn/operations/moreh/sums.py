"""The moreh functions that sum: sum, mean, norm, cumsum, abs_pow, and their gradients."""

from __future__ import annotations

import math
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..movement.shapes import axis_of
from ..operation import operation
from ..reduction.reductions import axes_of
from ..results import device_tensor, float_tensor, fresh_target, target
from ..wide import Wide


def summed(shape: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape of a sum: of the last two dimensions 1 stays, whatever ``keepdim`` says: they are tiles."""
    rank = max(len(shape), 2)
    sizes, shift = (1,) * (rank - len(shape)) + tuple(shape), rank - len(shape)
    over = {at + shift for at in axes}
    kept = range(rank) if keepdim else [at for at in range(rank) if at not in over or at >= rank - 2]
    return tuple(1 if at in over else sizes[at] for at in kept)


def restored(w: Wide, x: Handle, shape: Any, axes: tuple[int, ...]) -> Handle:
    """A reduced tensor with 1 for the dimensions of ``shape`` that were reduced: it broadcasts to that."""
    return w.reshape(w.rows(x), tuple(1 if at in axes else size for at, size in enumerate(shape)))


def fitted(w: Wide, x: Handle, shape: Any) -> Handle:
    """The values in another shape of the same size."""
    return x if tuple(x.shape) == tuple(shape) else w.reshape(w.rows(x), tuple(shape))


def raised(w: Wide, x: Handle, p: float) -> Handle:
    """|x|^p."""
    size = w("abs", x)
    if p in (1.0, 2.0):
        return size if p == 1.0 else w("multiply", size, size)
    return w("sqrt", size) if p == 0.5 else w("power", size, float(p))


def _axes(op: str, dim: Any, rank: int) -> tuple[int, ...]:
    return axes_of(op, None if dim is None or (isinstance(dim, (list, tuple)) and not dim) else dim, rank)


@operation("moreh_sum", "sum")
def moreh_sum(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    output: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The sum over dimensions, all of them by default; of the last two 1 stays."""
    op = "ttnn.moreh_sum"
    x = device_tensor(op, input)
    axes, w = _axes(op, dim, len(x.shape)), Wide(x._handle.device)
    made = fitted(w, w("sum", x._handle, axes=axes, keepdims=True), summed(x.shape, axes, keepdim))
    return target(op, x, memory_config, output).wrap(made)


@operation("moreh_sum_backward", "broadcast_to")
def moreh_sum_backward(
    output_grad: Tensor,
    *,
    input: Tensor | None = None,
    dim: Any = None,
    keepdim: bool = False,
    input_grad: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of a sum: that of its result for each element of ``input``."""
    op = "ttnn.moreh_sum_backward"
    given = input if input_grad is None else input_grad
    check(given is not None, op, "either input or input_grad must be given")
    assert given is not None
    return _spread(op, output_grad, tuple(given.shape), dim, 1.0, input_grad, memory_config)


def _spread(
    op: str, output_grad: Tensor, shape: Any, dim: Any, factor: float, into: Any, memory_config: Any
) -> Tensor:
    """A reduced gradient, ``factor`` times, for each element of a shape."""
    grad = device_tensor(op, output_grad)
    w = Wide(grad._handle.device)
    made = restored(w, grad._handle, shape, _axes(op, dim, len(shape)))
    if factor != 1.0:
        made = w("multiply", made, factor)
    made = kernels.run("broadcast_to", [made], {"shape": tuple(shape)})
    return target(op, grad, memory_config, into).wrap(made)


@operation("moreh_mean", "sum, multiply")
def moreh_mean(
    input: Tensor,
    *,
    dim: Any = None,
    keepdim: bool = False,
    divisor: int | None = None,
    output: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The mean over dimensions, or their sum divided by ``divisor`` for each of them."""
    op = "ttnn.moreh_mean"
    x = float_tensor(op, input)
    axes, w = _axes(op, dim, len(x.shape)), Wide(x._handle.device)
    count = math.prod(x.shape[at] for at in axes) if divisor is None else divisor ** len(axes)
    made = w("multiply", w("sum", x._handle, axes=axes, keepdims=True), 1.0 / count)
    return target(op, x, memory_config, output).wrap(fitted(w, made, summed(x.shape, axes, keepdim)))


@operation("moreh_mean_backward", "multiply, broadcast_to")
def moreh_mean_backward(
    output_grad: Tensor,
    *,
    dim: Any = None,
    keepdim: bool = False,
    input_grad_shape: Any = None,
    input_grad: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of a mean over a tensor of ``input_grad_shape``."""
    op = "ttnn.moreh_mean_backward"
    found = input_grad_shape if input_grad is None else input_grad.shape
    check(found is not None, op, "input_grad_shape or input_grad must be given")
    shape = tuple(found)
    count = math.prod(shape[at] for at in _axes(op, dim, len(shape)))
    return _spread(op, output_grad, shape, dim, 1.0 / count, input_grad, memory_config)


# **************** norms ****************


@operation("moreh_abs_pow", "abs, power")
def moreh_abs_pow(
    input: Tensor,
    p: float,
    *,
    output: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """|x|^p."""
    x = float_tensor("ttnn.moreh_abs_pow", input)
    w = Wide(x._handle.device)
    return target("ttnn.moreh_abs_pow", x, memory_config, output).wrap(raised(w, x._handle, float(p)))


def _norm(w: Wide, x: Handle, p: float, axes: tuple[int, ...]) -> Handle:
    if math.isinf(p):
        return w("max" if p > 0 else "min", w("abs", x), axes=axes, keepdims=True)
    if p == 0:
        return w("sum", w.select(w.true(x), 1.0, 0.0), axes=axes, keepdims=True)
    return raised(w, w("sum", raised(w, x, p), axes=axes, keepdims=True), 1.0 / p)


@operation("moreh_norm", "abs, power, sum, max, min")
def moreh_norm(
    input: Tensor,
    p: float,
    *,
    dim: Any = None,
    keepdim: bool = False,
    output: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The p-norm over dimensions: (sum |x|^p)^(1/p); the number of others than 0 for 0, the greatest or
    least size for an infinite p."""
    op = "ttnn.moreh_norm"
    x = float_tensor(op, input)
    axes, w = _axes(op, dim, len(x.shape)), Wide(x._handle.device)
    made = fitted(w, _norm(w, x._handle, float(p), axes), summed(x.shape, axes, keepdim))
    return target(op, x, memory_config, output).wrap(made)


@operation("moreh_norm_backward", "abs, power, sign, multiply, divide, where")
def moreh_norm_backward(
    input: Tensor,
    output: Tensor,
    output_grad: Tensor,
    p: float,
    *,
    dim: Any = None,
    keepdim: bool = False,
    input_grad: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of a p-norm: sign(x) (|x| / norm)^(p - 1) of its result's, 0 where the norm is 0; of an
    infinite p shared by the elements that are equal to it."""
    op = "ttnn.moreh_norm_backward"
    x, y, grad = (float_tensor(op, t) for t in (input, output, output_grad))
    axes, w, p = _axes(op, dim, len(x.shape)), Wide(x._handle.device), float(p)
    norm, g = (restored(w, t._handle, x.shape, axes) for t in (y, grad))
    signed = w("multiply", w("sign", x._handle), g)
    if p == 0:
        made = w("multiply", signed, 0.0)
    elif math.isinf(p):
        hit = w.select(w("equal", w("abs", x._handle), w("abs", norm)), 1.0, 0.0)
        made = w("divide", w("multiply", signed, hit), w("sum", hit, axes=axes, keepdims=True))
    else:
        safe = w.select(w("equal", norm, 0.0), 1.0, norm)
        made = w("multiply", signed, raised(w, w("divide", x._handle, safe), p - 1.0) if p != 1 else 1.0)
        made = w.select(w("equal", norm, 0.0), 0.0, made)
    return target(op, x, memory_config, input_grad).wrap(made)


# **************** running sums ****************


def _running(op: str, x: Tensor, dim: int, back: bool, into: Any, memory_config: Any) -> Tensor:
    x = device_tensor(op, x)
    w = Wide(x._handle.device)
    made = w("cumsum", w.int32(x._handle), axis=axis_of(op, dim, len(x.shape)), reverse=back)
    goal = target(op, x, memory_config, into)
    if goal.dtype is DataType.UINT32 and made.dtype == "int32":
        made = kernels.reinterpret(made, "uint32")
    return goal.wrap(made)


@operation("moreh_cumsum", "cumsum")
def moreh_cumsum(
    input: Tensor, dim: int, *, output: Tensor | None = None, memory_config: Any = None
) -> Tensor:
    """The running sum along a dimension."""
    return _running("ttnn.moreh_cumsum", input, dim, False, output, memory_config)


@operation("moreh_cumsum_backward", "cumsum")
def moreh_cumsum_backward(
    output_grad: Tensor, dim: int, *, input_grad: Tensor | None = None, memory_config: Any = None
) -> Tensor:
    """The gradient of a running sum: the one from the end."""
    return _running("ttnn.moreh_cumsum_backward", output_grad, dim, True, input_grad, memory_config)


@operation("moreh_arange", "cumsum, multiply, add")
def moreh_arange(
    start: float = 0,
    end: float = 0,
    step: float = 1,
    device: Any = None,
    *,
    output: Tensor | None = None,
    untilize_out: bool = False,
    dtype: DataType = DataType.BFLOAT16,
    memory_config: Any = None,
) -> Tensor:
    """start, start + step ... before end, [1, n], in tiles unless ``untilize_out``."""
    op = "ttnn.moreh_arange"
    check(step != 0 and (end - start) / step > 0, op, f"step {step} does not lead from {start} to {end}")
    count = math.ceil((end - start) / step)
    chip: Any = device if output is None else output._device
    w = Wide(chip.chip)
    made = kernels.run("broadcast_to", [w.number(1, "int32")], {"shape": (1, count)})
    made = kernels.run("cumsum", [made], {"axis": 1, "exclusive": True})
    if dtype.is_float:
        made = w("add", w("multiply", w.cast(made, "float32"), float(step)), float(start))
    else:
        made = w("add", w("multiply", made, int(step)), int(start))
    layout = Layout.ROW_MAJOR if untilize_out else Layout.TILE
    return fresh_target(op, chip, dtype, layout, memory_config, output).wrap(made)
