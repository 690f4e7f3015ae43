"""Sums, means, extremes, variances, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...accepted.reduction import outside
from ...devices.wide_value import WideValue
from ...errors import Unsupported, expect
from ...memory.values import DataType, Layout, LossReductionMode
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target, empty_result, row_of_indices


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions that are reduced, in order; all dimensions if ``dim`` is None or []. Raises RuntimeError
    for a dimension that the tensor does not have."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank))
    dims, text = [dim] if isinstance(dim, int) else list(dim), outside(dim, rank)
    expect(not text, text)
    return tuple(sorted({one % rank for one in dims})) if rank else ()


def _shape(x: Tensor, axes: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if at in axes else size for at, size in enumerate(x.shape))
    return tuple(size for at, size in enumerate(x.shape) if at not in axes)


def _layout(name: str, x: Tensor, axes: Sequence[int]) -> Layout:
    """ROW_MAJOR for sums and means of bfloat16 and float32 in ROW_MAJOR, unless the last two dimensions are
    reduced at once, or a sum of bfloat16 is over others; for no elements the input's; else TILE."""
    if x.layout is Layout.TILE or not math.prod(x.shape):
        return x.layout
    rank = len(x.shape)
    at_once = len(axes) == 2 and tuple(axes) == (rank - 2, rank - 1)
    over_others = name == "sum" and x.dtype is DataType.BFLOAT16 and any(at < rank - 2 for at in axes)
    rows = name in ("sum", "mean") and x.dtype in (DataType.BFLOAT16, DataType.FLOAT32)
    return Layout.ROW_MAJOR if rows and not at_once and not over_others else Layout.TILE


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
        goal.layout = _layout(name, x, axes)
        if not math.prod(x.shape):
            return empty_result(goal, _shape(x, axes, keepdim), empty)
        if name in ("std", "var") and not x.dtype.is_float:  # of one element, which is no number
            return empty_result(goal, _shape(x, axes, keepdim))
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
    goal.layout = _layout("prod", x, axes)
    attrs = {"axes": axes, "keepdims": keepdim}
    return goal.resharded().run("prod", [x._value], attrs, _shape(x, axes, keepdim))


@operation("argmax", "argmax, cast", takes="memory_config, output_tensor")
def argmax(input_tensor: WideValue, dim: int | None = None, keepdim: bool = False, *, goal: Target) -> Tensor:
    """The index, uint32, of the greatest element along a dimension or in the whole tensor; of equal elements
    the first counts."""
    handle, rank = input_tensor, len(input_tensor.shape)
    if not handle.size and goal.into is None and dim is not None:
        sizes = [1 if at == dim % rank else size for at, size in enumerate(handle.shape)]
        goal.dtype = DataType.UINT32
        return empty_result(goal, sizes if keepdim else sizes[: dim % rank] + sizes[dim % rank + 1 :])
    if dim is None or rank == 0:
        made = _place_of_greatest(handle).reshape((1,) * rank if keepdim else ())
    else:
        made = handle.op("argmax", axis=dim % rank, keepdims=keepdim, dtype="int32")
    return row_of_indices(made.reinterpret("uint32"), goal)


def _place_of_greatest(x: WideValue) -> WideValue:
    """The index, [1, 1] of int32, of the greatest of all elements: of the greatest of each line. All in one
    line would need room for it in a core's L1."""
    width = x.shape[-1] if x.shape else 1
    lines = x.reshape((x.size // width, width))
    places = lines.op("argmax", axis=1, keepdims=True, dtype="int32")
    best = lines.op("take_along_axis", places, axis=1)
    line = best.op("argmax", axis=0, keepdims=True, dtype="int32")
    return line * width + places.op("take_along_axis", line, axis=0)


_RUNNING = "dtype, ..., out, memory_config"


@operation("cumsum", "cumsum", takes=_RUNNING, into_wins=True)
def cumsum(input: WideValue, dim: int, *, reverse_order: bool = False) -> WideValue:
    """The running sum along a dimension, which runs from the end of the dimension if ``reverse_order`` is
    True."""
    if not input.size or not input.shape:
        return input.copied()
    return input.int32().op("cumsum", axis=dim % len(input.shape), reverse=reverse_order)


@operation("cumprod", "slice, multiply, concatenate", takes=_RUNNING, into_wins=True)
def cumprod(input: WideValue, dim: int, *, reverse_order: bool = False) -> WideValue:
    """The running product along a dimension. It takes log2(n) steps; each step multiplies by products that
    lie twice as far back as those of the step before."""
    made = input.int32()
    if not made.size or not made.shape:
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

    @operation(name, served, doc=doc, takes="..., memory_config, output_tensor", layout=Layout.TILE)
    def function(
        input_reference: WideValue,
        input_prediction: WideValue,
        *,
        reduction: LossReductionMode = LossReductionMode.NONE,
    ) -> WideValue:
        a, b = input_reference, input_prediction
        expect(a.shape == b.shape, f"the shapes {list(a.shape)} and {list(b.shape)} differ")
        made = (a - b).op(of)
        if reduction is LossReductionMode.NONE:
            return made
        return made.op(reduction.name.lower(), axes=tuple(range(len(a.shape))), keepdims=False)


_loss("mse_loss", "square", "(reference - prediction)^2, or the mean or sum of it.")
_loss("l1_loss", "abs", "|reference - prediction|, or the mean or sum of it.")
