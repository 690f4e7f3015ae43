"""Sums, means, extremes, variances, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.configs import MemoryConfig
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import Operation, operation
from ..results import Target, device_tensor, empty_result, target
from ..wide import Wide


def axes_of(op: str, dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions that are reduced, in order; None and []: all. Raises RuntimeError."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank))
    dims = [dim] if isinstance(dim, int) else list(dim)
    for at, one in enumerate(dims):
        moved = one + rank if one < 0 else one
        check(
            0 <= moved < rank or (rank == 0 and one in (0, -1)),
            op,
            f"Unsupported dim {one} at index {at}. After possible adjustment, needs to be at least 0 and "
            f"less than rank {rank}, or exactly 0 for a rank 0 tensor.",
        )
    return tuple(sorted({one % rank for one in dims})) if rank else ()


def _shape(x: Tensor, axes: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if at in axes else size for at, size in enumerate(x.shape))
    return tuple(size for at, size in enumerate(x.shape) if at not in axes)


def _goal(op: str, x: Tensor, memory_config: MemoryConfig | None) -> Target:
    goal = target(op, x, memory_config, layout=Layout.TILE)
    if goal.config.is_sharded() and memory_config is None and goal.config.shard_spec is not None:
        goal.config = goal.config.with_shard_spec(None)
    return goal


Body = Callable[[Wide, Handle, tuple[int, ...], bool, bool], Handle]


def _direct(name: str) -> Body:
    return lambda w, x, axes, keepdim, correction: w(name, x, axes=axes, keepdims=keepdim)


def _variance(w: Wide, x: Handle, axes: tuple[int, ...], keepdim: bool, correction: bool) -> Handle:
    count = math.prod(x.shape[at] for at in axes)
    middle = w("mean", x, axes=axes, keepdims=True)
    away = w("subtract", x, middle)
    total = w("sum_squares", away, axes=axes, keepdims=keepdim)
    return w("divide", total, float(count - 1 if correction else count))


def _deviation(w: Wide, x: Handle, axes: tuple[int, ...], keepdim: bool, correction: bool) -> Handle:
    return w("sqrt", _variance(w, x, axes, keepdim, correction))


# name: (body, the ops that serve it, what it makes of nothing)
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
    full = f"ttnn.{name}"

    def function(
        input_tensor: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool = True,
        sub_core_grids: Any = None,
        **_: Any,
    ) -> Tensor:
        x = device_tensor(full, input_tensor)
        axes = axes_of(full, dim, len(x.shape))
        goal = _goal(full, x, memory_config)
        if not math.prod(x.shape):
            return empty_result(goal, _shape(x, axes, keepdim), empty)
        if x.dtype is DataType.INT32 and name not in _OF_INT32:
            raise Unsupported(f"{full} of INT32 is not supported", op=full)
        w = Wide(x._handle.device)
        made = body(w, x._handle, axes, keepdim, correction)
        return goal.wrap(made if scalar == 1.0 else w("multiply", made, float(scalar)))

    more = ", with Bessel's correction unless ``correction`` is False" if name in ("std", "var") else ""
    function.__doc__ = f"The {name} over dimensions{more}, in tiles; ``scalar`` is a factor of the result."
    Operation(name, function, served)


for _name, _row in _REDUCTIONS.items():
    _reduction(_name, *_row)


def _global(name: str, axes: int | None) -> Operation:
    """std_hw, var_hw, normalize_hw, normalize_global: of the last two, or all dimensions."""

    def function(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, **_: Any) -> Tensor:
        x = device_tensor(f"ttnn.{name}", input_tensor)
        rank, w = len(x.shape), Wide(x._handle.device)
        over = tuple(range(rank))[-axes:] if axes else tuple(range(rank))
        made = _variance(w, x._handle, over, True, False)
        if not name.startswith("var"):
            made = w("sqrt", made)
        if name.startswith("normalize"):
            away = w("subtract", x._handle, w("mean", x._handle, axes=over, keepdims=True))
            made = w("divide", away, made)
        return target(f"ttnn.{name}", x, memory_config, layout=Layout.TILE).wrap(made)

    function.__doc__ = "Of the last two dimensions." if axes else "Of all dimensions."
    return Operation(name, function, "mean, subtract, sum_squares, divide, sqrt")


for _name, _axes in {"std_hw": 2, "var_hw": 2, "normalize_hw": 2, "normalize_global": None}.items():
    _global(_name, _axes)


@operation("experimental.fast_reduce_nc", "sum")
def fast_reduce_nc(
    input: Tensor,
    *,
    dims: Any,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The sum over leading dimensions, which stay as 1."""
    op = "ttnn.experimental.fast_reduce_nc"
    x = device_tensor(op, input)
    axes = axes_of(op, list(dims), len(x.shape))
    check(all(at < len(x.shape) - 2 for at in axes), op, f"dims {list(dims)} must be leading ones")
    w = Wide(x._handle.device)
    return target(op, x, memory_config, output).wrap(w("sum", x._handle, axes=axes, keepdims=True))


@operation("prod", "prod")
def prod(
    input_tensor: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    memory_config: MemoryConfig | None = None,
    dims: Any = None,
    output_tensor: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """The product over a dimension, or over all."""
    x = device_tensor("ttnn.prod", input_tensor)
    if isinstance(dim, Tensor) or output_tensor is not None:
        raise Unsupported("ttnn.prod into a tensor is not supported", op="ttnn.prod")
    axes = axes_of("ttnn.prod", dim if dims is None else dims, len(x.shape))
    attrs = {"axes": axes, "keepdims": keepdim}
    goal = _goal("ttnn.prod", x, memory_config)
    return goal.run("prod", [x._handle], attrs, _shape(x, axes, keepdim))


@operation("argmax", "argmax, cast")
def argmax(
    input_tensor: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    sub_core_grids: Any = None,
    use_multicore: bool = False,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """Where the greatest element along the last dimension is, or in all: the first of equals, uint32."""
    name = "ttnn.argmax"
    x = device_tensor(name, input_tensor)
    rank = len(x.shape)
    handle = x._handle
    if dim is not None:
        check(-rank <= dim < max(rank, 1), name, f"dim {dim} is out of range for a tensor of rank {rank}")
        check(rank == 0 or dim % rank == rank - 1, name, "Only argmax on last dim is supported!")
    goal = target(name, x, memory_config, output_tensor, DataType.UINT32 if output_tensor is None else None)
    goal.layout = Layout.ROW_MAJOR if output_tensor is None else goal.layout
    w = Wide(handle.device)
    if dim is None:
        handle = w.reshape(w.rows(handle), (x.logical_volume(),))
    if rank == 0:
        handle = w.reshape(w.rows(handle), (1,))
    axis = len(handle.shape) - 1
    made = w("argmax", handle, axis=axis, keepdims=keepdim and dim is not None, dtype="int32")
    if dim is None and keepdim:
        made = w.reshape(w.rows(made), (1,) * rank)
    return goal.wrap(kernels.reinterpret(made, "uint32"))


@operation("cumsum", "cumsum")
def cumsum(
    input: Tensor,
    dim: int,
    *,
    dtype: DataType | None = None,
    reverse_order: bool = False,
    out: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> Tensor:
    """The running sum along a dimension, from its end with ``reverse_order``."""
    x = device_tensor("ttnn.cumsum", input)
    w, goal = _running("ttnn.cumsum", x, dim, dtype, out, memory_config)
    if not x.shape or not math.prod(x.shape):
        return goal.wrap(kernels.copied(x._handle))
    source = w.int32(x._handle)
    attrs = {"axis": dim % len(x.shape), "reverse": reverse_order}
    return _as_said(goal, kernels.run("cumsum", [source], attrs, w._to("cumsum", [source])))


def _running(
    op: str, x: Tensor, dim: int, dtype: DataType | None, out: Tensor | None, config: MemoryConfig | None
) -> tuple[Wide, Target]:
    """What a running sum or product is made with, and where it goes."""
    rank = len(x.shape)
    text = f"The requested cumulation axis is {dim}, while the input tensor has rank {rank}"
    check(-rank <= dim < max(rank, 1), op, text)
    return Wide(x._handle.device), target(op, x, config, out, None if out is not None else dtype)


def _as_said(goal: Target, made: Handle) -> Tensor:
    """The result of sums or products that ran as int32."""
    if goal.dtype is DataType.UINT32 and made.dtype == "int32":
        made = kernels.reinterpret(made, "uint32")
    return goal.wrap(made)


@operation("cumprod", "slice, multiply, concatenate")
def cumprod(
    input: Tensor,
    dim: int,
    *,
    dtype: DataType | None = None,
    reverse_order: bool = False,
    out: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> Tensor:
    """The running product along a dimension: each of log2(n) steps multiplies by what lies twice as far
    back."""
    x = device_tensor("ttnn.cumprod", input)
    w, goal = _running("ttnn.cumprod", x, dim, dtype, out, memory_config)
    made = w.int32(x._handle)
    if not x.shape or not math.prod(x.shape):
        return goal.wrap(kernels.copied(made))
    axis, size, back = dim % len(x.shape), x.shape[dim], 1
    while back < size:
        cut = size - back if reverse_order else back
        head, tail = (_between(w, made, axis, a, b) for a, b in ((0, cut), (cut, size)))
        if reverse_order:
            others = _between(w, made, axis, back, size)
            parts = [w("multiply", head, others), tail]
        else:
            others = _between(w, made, axis, 0, size - back)
            parts = [head, w("multiply", tail, others)]
        made = w("concatenate", *parts, axis=axis)
        back *= 2
    return _as_said(goal, made)


def _between(w: Wide, x: Handle, axis: int, start: int, end: int) -> Handle:
    return w("slice", x, starts=(start,), ends=(end,), axes=(axis,))


@operation("mse_loss", "squared_difference, mean, sum")
def mse_loss(
    prediction: Tensor, label: Tensor, *, reduction: Any = None, memory_config: Any = None
) -> Tensor:
    """(prediction - label)^2, its mean or sum."""
    return _loss("ttnn.mse_loss", "square", prediction, label, reduction, memory_config)


@operation("l1_loss", "subtract, abs, mean, sum")
def l1_loss(prediction: Tensor, label: Tensor, *, reduction: Any = None, memory_config: Any = None) -> Tensor:
    """|prediction - label|, its mean or sum."""
    return _loss("ttnn.l1_loss", "abs", prediction, label, reduction, memory_config)


def _loss(op: str, of: str, prediction: Tensor, label: Tensor, reduction: Any, memory_config: Any) -> Tensor:
    a, b = device_tensor(op, prediction), device_tensor(op, label)
    check(a.shape == b.shape, op, f"the shapes {a.shape} and {b.shape} differ")
    w = Wide(a._handle.device)
    made = w(of, w("subtract", a._handle, b._handle))
    kind = str(getattr(reduction, "name", reduction or "NONE")).lower()
    if kind in ("mean", "sum"):
        made = w(kind, made, axes=tuple(range(len(a.shape))), keepdims=True)
    return target(op, a, memory_config, layout=Layout.TILE).wrap(made)
