"""Elementwise functions: numpy's names over the registry's ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..single.apply import Refused, apply
from ..single.elementwise import binary
from ..single.operands import cast, dtype_name, on_device, tensor, together
from ..single.promotion import common, floating
from ..single.road import device_first, only
from ..tensor import Tensor

__all__ = [
    "absolute",
    "add",
    "astype",
    "clip",
    "divide",
    "exp",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "positive",
    "power",
    "reciprocal",
    "sqrt",
    "square",
    "subtract",
    "tanh",
    "unary",
]

add = binary("add", np.add, "a + b")
subtract = binary("subtract", np.subtract, "a - b")
multiply = binary("multiply", np.multiply, "a * b")
divide = binary("divide", np.true_divide, "a / b; integers are divided as floats", floats=True)
maximum = binary("maximum", np.maximum, "The greater of a and b, NaN if either is.")


def unary(op: str, host: Any, doc: str) -> Any:
    """A float function of one input; integers are computed as floats."""

    def body(x: Tensor, *, dtype: Any = None, **more: Any) -> Tensor:
        only(more)
        device = tensor(x).device
        to = dtype_name(dtype) if dtype is not None else floating(device, x.dtype)
        return apply(op, (), on_device(x, device, common(device, to)))

    body.__name__ = body.__qualname__ = op
    body.__doc__ = doc
    return device_first(host)(body)


exp = unary("exp", np.exp, "e to the x.")
sqrt = unary("sqrt", np.sqrt, "The square root, NaN below 0.")
tanh = unary("tanh", np.tanh, "The hyperbolic tangent.")


@device_first(np.negative)
def negative(x: Tensor, **more: Any) -> Tensor:
    """-x; exact, the sign of zero included."""
    only(more)
    if _numeric(x).dtype in ("float32", "float64", "float16", "bfloat16") or not x.dtype.startswith("u"):
        return multiply.body(x, -1)
    return subtract.body(0, x)  # unsigned: wraps


@device_first(np.positive)
def positive(x: Tensor, **more: Any) -> Tensor:
    """A copy of x."""
    only(more)
    return multiply.body(_numeric(x), 1)


@device_first(np.absolute)
def absolute(x: Tensor, **more: Any) -> Tensor:
    """|x|; the least integer stays itself, as in numpy."""
    only(more)
    return positive.body(x) if _numeric(x).dtype.startswith("u") else maximum.body(x, negative.body(x))


@device_first(np.square)
def square(x: Tensor, **more: Any) -> Tensor:
    """x * x"""
    only(more)
    return multiply.body(_numeric(x), x)


@device_first(np.reciprocal)
def reciprocal(x: Tensor, **more: Any) -> Tensor:
    """1 / x for floats; integers are numpy's own."""
    only(more)
    if not _is_float(x):
        raise Refused("an integer reciprocal has no kernel")
    return divide.body(1, x)


@device_first(np.minimum)
def minimum(a: Any, b: Any, **more: Any) -> Tensor:
    """The lesser of a and b, NaN if either is."""
    only(more)
    a, b = together("minimum", a, b)
    return mirrored(maximum.body(mirrored(a), mirrored(b)))


def mirrored(x: Tensor) -> Tensor:
    """An exact image of x in which greater is lesser, its own inverse: -x for floats, ~x for integers
    (-x would overflow)."""
    if _is_float(_numeric(x)):
        return multiply.body(x, -1)
    ones = -1 if x.dtype.startswith("int") else int(np.iinfo(dtypes.to_numpy(x.dtype)).max)
    return subtract.body(ones, x)


@device_first(np.power)
def power(a: Any, b: Any, **more: Any) -> Tensor:
    """a ** b on the device for the exponents 1, 2 and, of floats, 0.5; the rest is numpy's."""
    only(more)
    if isinstance(a, Tensor) and type(b) in (int, float) and not isinstance(b, bool):
        if b == 2 and (_is_float(a) or type(b) is int):
            return multiply.body(a, a)
        if b == 1 and (_is_float(a) or type(b) is int):
            return positive.body(a)
        if b == 0.5 and _is_float(a):
            return sqrt.body(a)
    raise Refused("power has a kernel for the exponents 1, 2 and 0.5 only")


@device_first(np.clip)
def clip(
    a: Tensor, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, **more: Any
) -> Tensor:
    """a, but at least ``a_min`` and at most ``a_max``."""
    only(more)
    low, high = a_min if min is None else min, a_max if max is None else max
    if low is not None:
        a = maximum.body(a, low)
    return a if high is None else minimum.body(a, high)


def astype(x: Tensor, dtype: Any, copy: bool = True) -> Tensor:
    """The values in another dtype: float to integer truncates toward zero. A new handle, but x itself
    where the dtype is the same and ``copy`` is False."""
    name = dtype if dtype == "bfloat16" else dtypes.from_numpy(dtype)
    if name == x.dtype and not copy:
        return x
    return _astype(x, name)


@device_first(lambda x, name: x.astype(dtypes.to_numpy(name)))
def _astype(x: Tensor, name: str) -> Tensor:
    return cast(x, name)


def _is_float(x: Any) -> bool:
    return tensor(x).dtype in ("float32", "float64", "float16", "bfloat16")


def _numeric(x: Any) -> Tensor:
    """A tensor that is no bool: numpy has rules of its own for those. Raises Refused."""
    if tensor(x).dtype == "bool":
        raise Refused("bool has no kernel for this")
    return x
