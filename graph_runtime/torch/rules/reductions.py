"""Reductions, softmax and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.value import where
from ..counters import Unsupported
from .operands import (
    axes_of,
    axis_of,
    broadcast,
    dtype_of,
    is_float,
    is_value,
    name_of,
    pair,
    reshape,
)
from .table import rule


@rule("sum")
def sum_(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not is_float(x):
        if not e.narrow:
            raise Unsupported("sums of integers are 64-bit, which the device lacks")
        x = x.cast(e.integers) if dtype is None else x
    if dtype is not None:
        x = x.cast(dtype_of(e, dtype))
    return over("sum", x, dim, keepdim)


@rule("mean")
def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is not None:
        x = x.cast(name_of(dtype))
    if not is_float(x):
        raise Unsupported("a mean is defined for floats only")
    return over("mean", x, dim, keepdim)


def _extreme(e: Any, op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    """The extreme (min or max) of all elements. With an axis as ``dim``: (extremes, their indices) along it;
    with a value: the extreme of x and that value, elementwise."""
    if is_value(dim):  # ``dim`` is a value: the operation is elementwise
        a, b = pair(e, x, dim)
        return a.op(f"{op}imum", b)
    if dim is None:
        return over(op, x, None, False)
    return over(op, x, dim, keepdim), _arg(f"arg{op}", x, dim, keepdim)


def over(op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    if not x.shape:
        return x
    return x.op(op, axes=axes_of(dim, len(x.shape)), keepdims=bool(keepdim))


def _truth(x: Any) -> Any:
    if x.dtype == "uint8":
        raise Unsupported("for uint8 torch's result is uint8, not bool")
    return x.cast("bool")


def _arg(op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    if x.dtype == "bool":
        x = x.cast("int32")
    kept = (1,) * len(x.shape) if keepdim else ()
    if dim is None or not x.shape:
        axis_of(dim or 0, len(x.shape))
        made = reshape(x, (math.prod(x.shape),)).op(op, axis=0, keepdims=False, dtype="int32")
        return reshape(made, kept)
    return x.op(op, axis=axis_of(dim, len(x.shape)), keepdims=bool(keepdim), dtype="int32")


def _spread(
    x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Any, Any, bool]:
    """(variance, dim, keepdim) from the arguments of any overload, including the old (x, unbiased)."""
    if not is_float(x):
        raise Unsupported("a variance is defined for floats only")
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    axes = axes_of(dim, len(x.shape))
    count = math.prod(x.shape[a] for a in axes)
    if correction and count <= correction:
        raise Unsupported("the variance of too few elements runs on the host")
    centered = x - x.mean(axes)
    made = (centered * centered).mean(axes, keepdims=bool(keepdim))
    return made * (count / (count - correction)) if correction else made, dim, keepdim


@rule("var_mean")
def var_mean(x: Any, *how: Any, **more: Any) -> Any:
    variance, dim, keepdim = _spread(x, *how, **more)
    return variance, over("mean", x, dim, keepdim)


@rule("std_mean")
def std_mean(x: Any, *how: Any, **more: Any) -> Any:
    variance, mean_of = var_mean(x, *how, **more)
    return variance.sqrt(), mean_of


# **************** softmax and its gradients ****************


@rule("_softmax")
def softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    if not x.shape:
        return reshape(softmax(reshape(x, (1,)), 0), ())
    return x.op("softmax", axis=axis_of(dim, len(x.shape)))


@rule("_safe_softmax")
def safe_softmax(e: Any, x: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax that is 0 in rows whose elements are all -inf. Only a mask makes such rows; scores that come
    straight from a matrix product have none, so they take a plain softmax."""
    axis = axis_of(dim, len(x.shape))
    product = e.product_of(x) if e.graph else None
    if product is not None and axis == len(x.shape) - 1:  # directly on the product: attention is recognised
        return reshape(product.op("softmax", axis=len(product.shape) - 1), x.shape)
    made = x.op("softmax", axis=axis)
    hidden = x.max(axes=(axis,)).equal(-math.inf)
    return where(broadcast(hidden, x.shape), 0.0, made)


@rule("_log_softmax")
def log_softmax(e: Any, x: Any, dim: int, half_to_float: bool = False) -> Any:
    if not x.shape:
        return reshape(log_softmax(e, reshape(x, (1,)), 0), ())
    axis = axis_of(dim, len(x.shape))
    if e.has("log_softmax", x):
        return x.op("log_softmax", axis=axis)
    shifted = x - x.max(axes=(axis,))
    total = shifted.exp().sum(axes=(axis,))
    return shifted - total.log()


@rule("_softmax_backward_data")
def softmax_backward(grad: Any, made: Any, dim: int, input_dtype: Any) -> Any:
    axis = axis_of(dim, len(made.shape))
    total = (grad * made).sum(axes=(axis,))
    return (grad - total) * made


@rule("_log_softmax_backward_data")
def log_softmax_backward(grad: Any, made: Any, dim: int, input_dtype: Any) -> Any:
    axis = axis_of(dim, len(made.shape))
    total = grad.sum(axes=(axis,))
    return grad - made.exp() * total


@rule("prod")
def prod(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.cast(dtype_of(e, dtype))
    if not is_float(x) and not e.graph:
        raise Unsupported("products of integers are 64-bit, which the device lacks")
    return over("prod", x if is_float(x) or dtype is not None else x.cast(e.integers), dim, keepdim)


@rule("nansum")
def nansum(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if is_float(x):
        x = where(x.isnan(), 0, x)
    return sum_(e, x, dim, keepdim, dtype=dtype)


@rule("count_nonzero")
def count_nonzero(e: Any, x: Any, dim: Any = None) -> Any:
    if not e.narrow:
        raise Unsupported("counts are 64-bit, which the device lacks")
    some = x.not_equal(0) if x.dtype != "bool" else x
    return over("sum", some.cast(e.integers), dim, False)


@rule("aminmax")
def aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None and keepdim:
        dim = tuple(range(len(x.shape)))
    return over("min", x, dim, keepdim), over("max", x, dim, keepdim)


# {name of aten: function}
_ROWS: dict[str, Callable[..., Any]] = {
    "amax": lambda x, dim=(), keepdim=False: over("max", x, dim, keepdim),
    "amin": lambda x, dim=(), keepdim=False: over("min", x, dim, keepdim),
    "any": lambda x, dim=None, keepdim=False: over("any", _truth(x), dim, keepdim),
    "all": lambda x, dim=None, keepdim=False: over("all", _truth(x), dim, keepdim),
    "var": lambda x, *how, **more: _spread(x, *how, **more)[0],
    "std": lambda x, *how, **more: _spread(x, *how, **more)[0].sqrt(),
}
for _name, _function in _ROWS.items():
    rule(_name)(_function)
rule("max", wide=(1,))(lambda e, x, dim=None, keepdim=False: _extreme(e, "max", x, dim, keepdim))
rule("min", wide=(1,))(lambda e, x, dim=None, keepdim=False: _extreme(e, "min", x, dim, keepdim))
rule("argmax", wide=(0,))(lambda x, dim=None, keepdim=False: _arg("argmax", x, dim, keepdim))
rule("argmin", wide=(0,))(lambda x, dim=None, keepdim=False: _arg("argmin", x, dim, keepdim))
