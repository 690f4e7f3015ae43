"""Sums, means, extremes, variances, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target, empty_result, row_of_indices


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions that are reduced, in order; all dimensions if ``dim`` is None or []. Raises RuntimeError
    for a dimension that the tensor does not have."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank))
    dims = [dim] if isinstance(dim, int) else list(dim)
    for at, one in enumerate(dims):
        moved = one + rank if one < 0 else one
        expect(
            0 <= moved < rank or (rank == 0 and one in (0, -1)),
            f"Unsupported dim {one} at index {at}. After possible adjustment, needs to be at least 0 and "
            f"less than rank {rank}, or exactly 0 for a rank 0 tensor.",
        )
    return tuple(sorted({one % rank for one in dims})) if rank else ()


def _shape(x: Tensor, axes: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if at in axes else size for at, size in enumerate(x.shape))
    return tuple(size for at, size in enumerate(x.shape) if at not in axes)


Body = Callable[[WideValue, tuple[int, ...], bool, bool], WideValue]


def _direct(name: str) -> Body:
    return lambda x, axes, keepdim, correction: x.op(name, axes=axes, keepdims=keepdim)


def _variance(x: WideValue, axes: tuple[int, ...], keepdim: bool, correction: bool) -> WideValue:
    count = math.prod(x.shape[at] for at in axes)
    middle = x.mean(axes=axes)
    away = x - middle
    total = away.op("sum_squares", axes=axes, keepdims=keepdim)
    return total / float(count - 1 if correction else count)


def _deviation(x: WideValue, axes: tuple[int, ...], keepdim: bool, correction: bool) -> WideValue:
    return _variance(x, axes, keepdim, correction).sqrt()


# name -> (body, the registry ops that serve it, its value for no elements)
_REDUCTIONS: dict[str, tuple[Body, str, float]] = {
    "sum": (_direct("sum"), "sum", 0.0),
    "mean": (_direct("mean"), "mean", math.nan),
    "max": (_direct("max"), "max", -math.inf),
    "min": (_direct("min"), "min", math.inf),
    "var": (_variance, "mean, subtract, sum_squares, divide", math.nan),
    "std": (_deviation, "mean, subtract, sum_squares, divide, sqrt", math.nan),
}
_OF_INT32 = ("sum", "max", "min")


def _reduction(name: str, body: Body, served: str, empty: float) -> None:
    more = ", with Bessel's correction unless ``correction`` is False" if name in ("std", "var") else ""
    doc = f"The {name} over dimensions{more}, in tiles; ``scalar`` is a factor of the result."

    @operation(name, served, doc=doc, takes="memory_config, ...", layout=Layout.TILE)
    def function(
        input_tensor: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        scalar: float = 1.0,
        correction: bool = True,
        goal: Target,
    ) -> Tensor:
        x, goal = input_tensor, goal.resharded()
        axes = axes_of(dim, len(x.shape))
        if not math.prod(x.shape):
            return empty_result(goal, _shape(x, axes, keepdim), empty)
        if x.dtype is DataType.INT32 and name not in _OF_INT32:
            raise Unsupported(f"{called()} of INT32 is not supported")
        made = body(x._value, axes, keepdim, correction)
        return goal.wrap(made if scalar == 1.0 else made * float(scalar))


for _name, _row in _REDUCTIONS.items():
    _reduction(_name, *_row)


_GLOBAL = {
    "std_hw": "The standard deviation of the last two dimensions.",
    "var_hw": "The variance of the last two dimensions.",
    "normalize_hw": "x minus its mean, over its standard deviation, of the last two dimensions.",
    "normalize_global": "x minus its mean, over its standard deviation, of all dimensions.",
}


def _global(name: str, doc: str) -> None:
    served = "mean, subtract, sum_squares, divide, sqrt"

    @operation(name, served, doc=doc, takes="memory_config", layout=Layout.TILE)
    def function(input_tensor: WideValue) -> WideValue:
        x = input_tensor
        over = tuple(range(len(x.shape)))[-2 if name.endswith("_hw") else 0 :]
        made = _variance(x, over, True, False)
        if not name.startswith("var"):
            made = made.sqrt()
        return (x - x.mean(axes=over)) / made if name.startswith("normalize") else made


for _name, _doc in _GLOBAL.items():
    _global(_name, _doc)


@operation("experimental.fast_reduce_nc", "sum", takes="..., output, memory_config")
def fast_reduce_nc(input: WideValue, *, dims: Any) -> WideValue:
    """The sum over leading dimensions, each of which keeps size 1."""
    axes = axes_of(list(dims), len(input.shape))
    expect(all(at < len(input.shape) - 2 for at in axes), f"dims {list(dims)} must be leading ones")
    return input.sum(axes=axes)


@operation("prod", "prod", takes="memory_config, ...", layout=Layout.TILE)
def prod(
    input_tensor: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dims: Any = None,
    output_tensor: Tensor | None = None,
    goal: Target,
) -> Tensor:
    """The product over dimensions, by default over all."""
    x = input_tensor
    if isinstance(dim, Tensor) or output_tensor is not None:
        raise Unsupported("ttnn.prod into a tensor is not supported")
    axes = axes_of(dim if dims is None else dims, len(x.shape))
    attrs = {"axes": axes, "keepdims": keepdim}
    return goal.resharded().run("prod", [x._value], attrs, _shape(x, axes, keepdim))


@operation("argmax", "argmax, cast", takes="memory_config, output_tensor")
def argmax(input_tensor: WideValue, dim: int | None = None, keepdim: bool = False, *, goal: Target) -> Tensor:
    """The index, uint32, of the greatest element along the last dimension or in the whole tensor; of equal
    elements the first counts."""
    handle, rank = input_tensor, len(input_tensor.shape)
    if dim is not None:
        expect(-rank <= dim < max(rank, 1), f"dim {dim} is out of range for a tensor of rank {rank}")
        expect(rank == 0 or dim % rank == rank - 1, "Only argmax on last dim is supported!")
    if dim is None or rank == 0:
        handle = handle.reshape((handle.size,))
    axis = len(handle.shape) - 1
    made = handle.op("argmax", axis=axis, keepdims=keepdim and dim is not None, dtype="int32")
    if dim is None and keepdim:
        made = made.reshape((1,) * rank)
    return row_of_indices(made.reinterpret("uint32"), goal)


_RUNNING = "dtype, ..., out, memory_config"


@operation("cumsum", "cumsum", takes=_RUNNING, into_wins=True)
def cumsum(input: WideValue, dim: int, *, reverse_order: bool = False) -> WideValue:
    """The running sum along a dimension, which runs from the end of the dimension if ``reverse_order`` is
    True."""
    if not _can_run(input, dim):
        return input.copied()
    return input.int32().op("cumsum", axis=dim % len(input.shape), reverse=reverse_order)


def _can_run(x: WideValue, dim: int) -> bool:
    """Whether the tensor has elements to run over along a dimension. Raises RuntimeError if it has no such
    dimension."""
    rank = len(x.shape)
    text = f"The requested cumulation axis is {dim}, while the input tensor has rank {rank}"
    expect(-rank <= dim < max(rank, 1), text)
    return bool(x.shape) and x.size > 0


@operation("cumprod", "slice, multiply, concatenate", takes=_RUNNING, into_wins=True)
def cumprod(input: WideValue, dim: int, *, reverse_order: bool = False) -> WideValue:
    """The running product along a dimension. It takes log2(n) steps; each step multiplies by products that
    lie twice as far back as those of the step before."""
    made = input.int32()
    if not _can_run(input, dim):
        return made.copied()
    axis, size, back = dim % len(made.shape), made.shape[dim], 1
    while back < size:
        cut = size - back if reverse_order else back
        head, tail = (made.part(axis, a, b) for a, b in ((0, cut), (cut, size)))
        if reverse_order:
            others = made.part(axis, back, size)
            parts = [head * others, tail]
        else:
            others = made.part(axis, 0, size - back)
            parts = [head, tail * others]
        made = parts[0].op("concatenate", parts[1], axis=axis)
        back *= 2
    return made


def _loss(name: str, of: str, doc: str) -> None:
    served = f"subtract, {of}, mean, sum"

    @operation(name, served, doc=doc, takes="..., memory_config", layout=Layout.TILE)
    def function(prediction: WideValue, label: WideValue, *, reduction: Any = None) -> WideValue:
        a, b = prediction, label
        expect(a.shape == b.shape, f"the shapes {list(a.shape)} and {list(b.shape)} differ")
        made = (a - b).op(of)
        kind = str(getattr(reduction, "name", reduction or "NONE")).lower()
        if kind not in ("mean", "sum"):
            return made
        return made.op(kind, axes=tuple(range(len(a.shape))), keepdims=True)


_loss("mse_loss", "square", "(prediction - label)^2, or the mean or sum of it.")
_loss("l1_loss", "abs", "|prediction - label|, or the mean or sum of it.")
