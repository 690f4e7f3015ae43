"""Reductions, and what is normalised along axes."""

from __future__ import annotations

import math
from typing import Any

from ..counters import Unsupported
from .operands import (
    axes_of,
    axis_of,
    broadcast,
    cast,
    dtype_of,
    is_float,
    is_value,
    name_of,
    pair,
    reshape,
    scalar_like,
)
from .table import rule


@rule("sum")
def sum_(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not is_float(x):
        if not e.narrow:
            raise Unsupported("sums of integers are 64-bit, which the device has not")
        x = cast(e, x, e.integers) if dtype is None else x
    if dtype is not None:
        x = cast(e, x, dtype_of(e, dtype))
    return over(e, "sum", x, dim, keepdim)


@rule("mean")
def mean(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is not None:
        x = cast(e, x, name_of(dtype))
    if not is_float(x):
        raise Unsupported("means are of floats")
    return over(e, "mean", x, dim, keepdim)


@rule("amax")
def amax(e: Any, x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return over(e, "max", x, dim, keepdim)


@rule("amin")
def amin(e: Any, x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return over(e, "min", x, dim, keepdim)


@rule("max", wide=(1,))
def max_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(e, "max", x, dim, keepdim)


@rule("min", wide=(1,))
def min_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(e, "min", x, dim, keepdim)


def _extreme(e: Any, op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    """The greatest or least of all elements; along an axis, with its index."""
    if is_value(dim):  # the greater or the lesser of two
        return e.op(f"{op}imum", *pair(e, x, dim))
    if dim is None:
        return over(e, op, x, None, False)
    return over(e, op, x, dim, keepdim), _arg(e, f"arg{op}", x, dim, keepdim)


def over(e: Any, op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    if not x.shape:
        return x
    return e.op(op, x, axes=axes_of(dim, len(x.shape)), keepdims=bool(keepdim))


@rule("any")
def any_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return over(e, "any", _truth(e, x), dim, keepdim)


@rule("all")
def all_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return over(e, "all", _truth(e, x), dim, keepdim)


def _truth(e: Any, x: Any) -> Any:
    if x.dtype == "uint8":
        raise Unsupported("of uint8 torch makes uint8, not bool")
    return cast(e, x, "bool")


@rule("argmax", wide=(0,))
def argmax(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _arg(e, "argmax", x, dim, keepdim)


@rule("argmin", wide=(0,))
def argmin(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _arg(e, "argmin", x, dim, keepdim)


def _arg(e: Any, op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    if x.dtype == "bool":
        x = cast(e, x, "int32")
    kept = (1,) * len(x.shape) if keepdim else ()
    if dim is None or not x.shape:
        axis_of(dim or 0, len(x.shape))
        made = e.op(op, reshape(e, x, (math.prod(x.shape),)), axis=0, keepdims=False, dtype="int32")
        return reshape(e, made, kept)
    return e.op(op, x, axis=axis_of(dim, len(x.shape)), keepdims=bool(keepdim), dtype="int32")


@rule("var")
def var(e: Any, x: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    dim, correction, keepdim = _variance(x, dim, *args, **kwargs)
    return _spread(e, x, dim, correction, keepdim)[1]


@rule("std")
def std(e: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return e.op("sqrt", var(e, x, *args, **kwargs))


@rule("var_mean")
def var_mean(e: Any, x: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    dim, correction, keepdim = _variance(x, dim, *args, **kwargs)
    return _spread(e, x, dim, correction, keepdim)[1], over(e, "mean", x, dim, keepdim)


def _variance(
    x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """(dim, correction, keepdim) of the arguments of any overload; an old one is (x, unbiased)."""
    if not is_float(x):
        raise Unsupported("variances are of floats")
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, correction, keepdim


def _spread(e: Any, x: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    axes = axes_of(dim, len(x.shape))
    count = math.prod(x.shape[a] for a in axes)
    if correction and count <= correction:
        raise Unsupported("the variance of too few elements is the host's")
    centered = e.op("subtract", x, e.op("mean", x, axes=axes, keepdims=True))
    made = e.op("mean", e.op("multiply", centered, centered), axes=axes, keepdims=bool(keepdim))
    if correction:
        made = e.op("multiply", made, scalar_like(e, count / (count - correction), made))
    return centered, made


# **************** softmax and its gradients ****************


@rule("_softmax")
def softmax(e: Any, x: Any, dim: int, half_to_float: bool = False) -> Any:
    if not x.shape:
        return reshape(e, softmax(e, reshape(e, x, (1,)), 0), ())
    return e.op("softmax", x, axis=axis_of(dim, len(x.shape)))


@rule("_safe_softmax")
def safe_softmax(e: Any, x: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax that is 0 where a whole row is -inf: nothing but a mask makes it so, and scores that come
    straight from a product have none."""
    axis = axis_of(dim, len(x.shape))
    product = e.product_of(x) if e.graph else None
    if product is not None and axis == len(x.shape) - 1:  # before its reshape, where attention is recognised
        return reshape(e, e.op("softmax", product, axis=len(product.shape) - 1), x.shape)
    made = e.op("softmax", x, axis=axis)
    lowest = e.op("max", x, axes=(axis,), keepdims=True)
    hidden = e.op("equal", lowest, scalar_like(e, float("-inf"), x))
    return e.op("where", broadcast(e, hidden, x.shape), scalar_like(e, 0.0, x), made)


@rule("_log_softmax")
def log_softmax(e: Any, x: Any, dim: int, half_to_float: bool = False) -> Any:
    if not x.shape:
        return reshape(e, log_softmax(e, reshape(e, x, (1,)), 0), ())
    axis = axis_of(dim, len(x.shape))
    if e.has("log_softmax", x):
        return e.op("log_softmax", x, axis=axis)
    shifted = e.op("subtract", x, e.op("max", x, axes=(axis,), keepdims=True))
    total = e.op("sum", e.op("exp", shifted), axes=(axis,), keepdims=True)
    return e.op("subtract", shifted, e.op("log", total))


@rule("_softmax_backward_data")
def softmax_backward(e: Any, grad: Any, made: Any, dim: int, input_dtype: Any) -> Any:
    axis = axis_of(dim, len(made.shape))
    total = e.op("sum", e.op("multiply", grad, made), axes=(axis,), keepdims=True)
    return e.op("multiply", e.op("subtract", grad, total), made)


@rule("_log_softmax_backward_data")
def log_softmax_backward(e: Any, grad: Any, made: Any, dim: int, input_dtype: Any) -> Any:
    axis = axis_of(dim, len(made.shape))
    total = e.op("sum", grad, axes=(axis,), keepdims=True)
    return e.op("subtract", grad, e.op("multiply", e.op("exp", made), total))


@rule("prod")
def prod(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else cast(e, x, dtype_of(e, dtype))
    if not is_float(x) and not e.graph:
        raise Unsupported("products of integers are 64-bit, which the device has not")
    return over(e, "prod", x if is_float(x) or dtype is not None else cast(e, x, e.integers), dim, keepdim)


@rule("nansum")
def nansum(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if is_float(x):
        x = e.op("where", e.op("isnan", x), scalar_like(e, 0, x), x)
    return sum_(e, x, dim, keepdim, dtype=dtype)


@rule("count_nonzero")
def count_nonzero(e: Any, x: Any, dim: Any = None) -> Any:
    if not e.narrow:
        raise Unsupported("counts are 64-bit, which the device has not")
    some = e.op("not_equal", x, scalar_like(e, 0, x)) if x.dtype != "bool" else x
    return over(e, "sum", cast(e, some, e.integers), dim, False)


@rule("std_mean")
def std_mean(e: Any, x: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    spread, mean_of = var_mean(e, x, dim, *args, **kwargs)
    return e.op("sqrt", spread), mean_of


@rule("aminmax")
def aminmax(e: Any, x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None and keepdim:
        dim = tuple(range(len(x.shape)))
    return over(e, "min", x, dim, keepdim), over(e, "max", x, dim, keepdim)
