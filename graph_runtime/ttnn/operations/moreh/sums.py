"""The moreh functions sum, mean, norm, cumsum, abs_pow, with their gradients, and arange."""

from __future__ import annotations

import math
from typing import Any

from ....ir.value import where
from ...devices.wide_value import WideValue, constant
from ...errors import expect
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..bodies import AnyTensor, FloatValue
from ..movement.shapes import axis_of
from ..operation import operation
from ..reduction.reductions import axes_of
from ..results import Target, fresh_target


def summed(shape: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape of a sum. A summed dimension that is one of the last two, which are those of tiles, keeps
    size 1 even without ``keepdim``."""
    rank = max(len(shape), 2)
    sizes, shift = (1,) * (rank - len(shape)) + tuple(shape), rank - len(shape)
    over = {at + shift for at in axes}
    kept = range(rank) if keepdim else [at for at in range(rank) if at not in over or at >= rank - 2]
    return tuple(1 if at in over else sizes[at] for at in kept)


def restored(x: WideValue, shape: Any, axes: tuple[int, ...]) -> WideValue:
    """A reduced tensor with size 1 for each reduced dimension, so that it broadcasts with ``shape``."""
    return x.reshape(tuple(1 if at in axes else size for at, size in enumerate(shape)))


def fitted(x: WideValue, shape: Any) -> WideValue:
    """The values in the shape ``shape``, which has the same number of elements."""
    return x if tuple(x.shape) == tuple(shape) else x.reshape(tuple(shape))


def raised(x: WideValue, p: float) -> WideValue:
    """|x|^p."""
    size = abs(x)
    if p in (1.0, 2.0):
        return size if p == 1.0 else size * size
    return size.sqrt() if p == 0.5 else size ** float(p)


def _axes(dim: Any, rank: int) -> tuple[int, ...]:
    return axes_of(None if dim is None or (isinstance(dim, (list, tuple)) and not dim) else dim, rank)


@operation("moreh_sum", "sum", takes="..., output, memory_config")
def moreh_sum(input: WideValue, dim: Any = None, *, keepdim: bool = False) -> WideValue:
    """The sum over dimensions, by default over all. A summed dimension that is one of the last two keeps size
    1."""
    axes = _axes(dim, len(input.shape))
    return fitted(input.sum(axes=axes), summed(input.shape, axes, keepdim))


@operation("moreh_sum_backward", "broadcast_to", takes="..., input_grad, memory_config")
def moreh_sum_backward(
    output_grad: WideValue,
    *,
    input: AnyTensor | None = None,
    dim: Any = None,
    keepdim: bool = False,
    goal: Target,
) -> WideValue:
    """The gradient of a sum: the result's gradient, repeated for each element of ``input``."""
    given = input if goal.into is None else goal.into
    expect(given is not None, "either input or input_grad must be given")
    assert given is not None
    return _spread(output_grad, tuple(given.shape), dim)


def _spread(grad: WideValue, shape: tuple[int, ...], dim: Any, factor: float = 1.0) -> WideValue:
    """``factor`` times the gradient of a reduced tensor, repeated for each element of ``shape``."""
    made = restored(grad, shape, _axes(dim, len(shape)))
    return (made if factor == 1.0 else made * factor).run("broadcast_to", shape=shape)


@operation("moreh_mean", "sum, multiply", takes="..., output, memory_config")
def moreh_mean(
    input: FloatValue, *, dim: Any = None, keepdim: bool = False, divisor: int | None = None
) -> WideValue:
    """The mean over dimensions; with ``divisor``, the sum divided by ``divisor`` once for each of the
    dimensions."""
    axes = _axes(dim, len(input.shape))
    count = math.prod(input.shape[at] for at in axes) if divisor is None else divisor ** len(axes)
    return fitted(input.sum(axes=axes) * (1.0 / count), summed(input.shape, axes, keepdim))


@operation("moreh_mean_backward", "multiply, broadcast_to", takes="..., input_grad, memory_config")
def moreh_mean_backward(
    output_grad: WideValue,
    *,
    dim: Any = None,
    keepdim: bool = False,
    input_grad_shape: Any = None,
    goal: Target,
) -> WideValue:
    """The gradient of a mean; the input of the mean had the shape ``input_grad_shape``."""
    found = input_grad_shape if goal.into is None else goal.into.shape
    expect(found is not None, "input_grad_shape or input_grad must be given")
    shape = tuple(found)
    count = math.prod(shape[at] for at in _axes(dim, len(shape)))
    return _spread(output_grad, shape, dim, 1.0 / count)


@operation("moreh_abs_pow", "abs, power", takes="output, memory_config")
def moreh_abs_pow(input: FloatValue, p: float) -> WideValue:
    """|x|^p."""
    return raised(input, float(p))


def _norm(x: WideValue, p: float, axes: tuple[int, ...]) -> WideValue:
    if math.isinf(p):
        return abs(x).op("max" if p > 0 else "min", axes=axes, keepdims=True)
    if p == 0:
        return where(x.true(), 1.0, 0.0).sum(axes=axes)
    return raised(raised(x, p).sum(axes=axes), 1.0 / p)


@operation("moreh_norm", "abs, power, sum, max, min", takes="..., output, memory_config")
def moreh_norm(input: FloatValue, p: float, *, dim: Any = None, keepdim: bool = False) -> WideValue:
    """The p-norm over dimensions: (sum |x|^p)^(1/p). For p = 0 it is the number of nonzero elements, for
    infinite p the greatest or the least size."""
    axes = _axes(dim, len(input.shape))
    return fitted(_norm(input, float(p), axes), summed(input.shape, axes, keepdim))


@operation(
    "moreh_norm_backward",
    "abs, power, sign, multiply, divide, where",
    takes="..., input_grad, memory_config",
)
def moreh_norm_backward(
    input: FloatValue,
    output: FloatValue,
    output_grad: FloatValue,
    p: float,
    *,
    dim: Any = None,
    keepdim: bool = False,
) -> WideValue:
    """The gradient of a p-norm: sign(x) (|x| / norm)^(p - 1) times the result's gradient, and 0 where the
    norm is 0. For infinite p, the elements whose size is the norm share the gradient."""
    axes, p = _axes(dim, len(input.shape)), float(p)
    norm, g = (restored(x, input.shape, axes) for x in (output, output_grad))
    signed = input.sign() * g
    if p == 0:
        return signed * 0.0
    if math.isinf(p):
        hit = where(abs(input).equal(abs(norm)), 1.0, 0.0)
        return signed * hit / hit.sum(axes=axes)
    safe = where(norm.equal(0.0), 1.0, norm)
    made = signed * (raised(input / safe, p - 1.0) if p != 1 else 1.0)
    return where(norm.equal(0.0), 0.0, made)


@operation("moreh_cumsum", "cumsum", takes="output, memory_config")
def moreh_cumsum(input: WideValue, dim: int) -> WideValue:
    """The cumulative sum along a dimension."""
    return input.int32().op("cumsum", axis=axis_of(dim, len(input.shape)))


@operation("moreh_cumsum_backward", "cumsum", takes="input_grad, memory_config")
def moreh_cumsum_backward(output_grad: WideValue, dim: int) -> WideValue:
    """The gradient of a cumulative sum, which is the cumulative sum of the result's gradient from the end."""
    return output_grad.int32().op("cumsum", axis=axis_of(dim, len(output_grad.shape)), reverse=True)


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
    """The numbers start, start + step, ... before end, [1, n], in tiles unless ``untilize_out`` is True."""
    expect(step != 0 and (end - start) / step > 0, f"step {step} does not lead from {start} to {end}")
    count = math.ceil((end - start) / step)
    chip: Any = device if output is None else output._device
    made = constant(1, chip.chip, "int32").run("broadcast_to", shape=(1, count))
    made = made.run("cumsum", axis=1, exclusive=True)
    if dtype.is_float:
        made = made.cast("float32") * float(step) + float(start)
    else:
        made = made * int(step) + int(start)
    layout = Layout.ROW_MAJOR if untilize_out else Layout.TILE
    return fresh_target(chip, dtype, layout, memory_config, output).wrap(made)
