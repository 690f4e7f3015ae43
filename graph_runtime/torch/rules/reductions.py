"""Reductions, and what is normalised along axes."""

from __future__ import annotations

import math
from typing import Any

from ..counters import Unsupported
from .operands import axes_of, axis_of, broadcast, cast, is_float, is_value, name_of, reshape, scalar_like
from .table import rule


@rule("sum")
def sum_(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not is_float(x):
        if not e.graph or dtype is not None:
            raise Unsupported("sums of integers are 64-bit, which the device has not")
        x = cast(e, x, "int32")
    if dtype is not None:
        x = cast(e, x, name_of(dtype))
    return _over(e, "sum", x, dim, keepdim)


@rule("mean")
def mean(e: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is not None:
        x = cast(e, x, name_of(dtype))
    if not is_float(x):
        raise Unsupported("means are of floats")
    return _over(e, "mean", x, dim, keepdim)


@rule("amax")
def amax(e: Any, x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return _over(e, "max", x, dim, keepdim)


@rule("amin")
def amin(e: Any, x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return _over(e, "min", x, dim, keepdim)


@rule("max", wide=(1,))
def max_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(e, "max", x, dim, keepdim)


@rule("min", wide=(1,))
def min_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(e, "min", x, dim, keepdim)


def _extreme(e: Any, op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    """The greatest or least of all elements; along an axis, with its index."""
    if is_value(dim):  # the greater of two
        raise Unsupported("of two tensors there is maximum and minimum")
    if dim is None:
        return _over(e, op, x, None, False)
    return _over(e, op, x, dim, keepdim), _arg(e, f"arg{op}", x, dim, keepdim)


def _over(e: Any, op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    if not x.shape:
        return x
    return e.op(op, x, axes=axes_of(dim, len(x.shape)), keepdims=bool(keepdim))


@rule("any")
def any_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _over(e, "any", _truth(e, x), dim, keepdim)


@rule("all")
def all_(e: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _over(e, "all", _truth(e, x), dim, keepdim)


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
    if not is_float(x) or not x.shape or (dim is None and keepdim):
        raise Unsupported("indices of integers, and all dimensions kept, are the host's")
    if dim is None:
        x, dim = reshape(e, x, (math.prod(x.shape),)), 0
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
    return _spread(e, x, dim, correction, keepdim)[1], _over(e, "mean", x, dim, keepdim)


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
    axis = axis_of(dim, len(x.shape))
    if e.has("log_softmax", x):
        return e.op("log_softmax", x, axis=axis)
    shifted = e.op("subtract", x, e.op("max", x, axes=(axis,), keepdims=True))
    total = e.op("sum", e.op("exp", shifted), axes=(axis,), keepdims=True)
    return e.op("subtract", shifted, e.op("log", total))


@rule("_softmax_backward_data")
def softmax_backward(e: Any, grad: Any, made: Any, dim: int, input_dtype: Any) -> Any:
    axis = axis_of(dim, len(made.shape))
    product = e.op("multiply", grad, made)
    return e.op(
        "subtract", product, e.op("multiply", made, e.op("sum", product, axes=(axis,), keepdims=True))
    )


@rule("_log_softmax_backward_data")
def log_softmax_backward(e: Any, grad: Any, made: Any, dim: int, input_dtype: Any) -> Any:
    axis = axis_of(dim, len(made.shape))
    total = e.op("sum", grad, axes=(axis,), keepdims=True)
    return e.op("subtract", grad, e.op("multiply", e.op("exp", made), total))


@rule("linalg_vector_norm")
def vector_norm(
    e: Any, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if ord not in (1, 2) or dtype is not None or not is_float(x):
        raise Unsupported("norms other than the first two are the host's")
    if not x.shape:
        return e.op("abs", x)
    return (
        _over(e, "sum_abs", x, dim, keepdim)
        if ord == 1
        else e.op("sqrt", _over(e, "sum_squares", x, dim, keepdim))
    )


@rule("norm")
def norm(e: Any, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return vector_norm(e, x, 2 if p is None else p, dim, keepdim, dtype=dtype)


@rule("cumsum")
def cumsum(e: Any, x: Any, dim: int, *, dtype: Any = None) -> Any:
    if not is_float(x) or dtype is not None:
        raise Unsupported("running sums of integers are 64-bit, which the device has not")
    return e.op("cumsum", x, axis=axis_of(dim, len(x.shape)))
