"""Elementwise functions: numpy's names over the registry's ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..run.single.apply import Refused, apply
from ..run.single.elementwise import binary
from ..run.single.fallback import NumpyLike, device_first, only
from ..run.single.operands import cast, device_of, dtype_key, dtype_name, on_device, tensor, together
from ..run.single.promotion import common, floating
from ..run.tensors.tensor import Tensor

__all__ = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "astype",
    "cbrt",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "deg2rad",
    "divide",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmod",
    "hypot",
    "i0",
    "ldexp",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "positive",
    "power",
    "rad2deg",
    "reciprocal",
    "remainder",
    "rint",
    "round",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "unary",
]

add: NumpyLike = binary("add", np.add, "a + b")
subtract: NumpyLike = binary("subtract", np.subtract, "a - b")
multiply: NumpyLike = binary("multiply", np.multiply, "a * b")
divide: NumpyLike = binary("divide", np.true_divide, "a / b; integers are divided as floats", floats=True)
maximum: NumpyLike = binary("maximum", np.maximum, "The greater of a and b, NaN if either is.")
minimum: NumpyLike = binary("minimum", np.minimum, "The lesser of a and b, NaN if either is.")
hypot: NumpyLike = binary(
    "hypot", np.hypot, "sqrt(a^2 + b^2), which overflows only where the result does.", floats=True
)
logaddexp2: NumpyLike = binary(
    "logaddexp2", np.logaddexp2, "The logarithm to base 2 of 2^a + 2^b.", floats=True
)
logaddexp: NumpyLike = binary("logaddexp", np.logaddexp, "The logarithm of exp(a) + exp(b).", floats=True)


def unary(op: str, host: Any, doc: str) -> Any:
    """A float function of one input; integers are computed as floats."""

    def body(x: Tensor, *, dtype: Any = None, **more: Any) -> Tensor:
        only(more)
        device = tensor(x).device
        to = dtype_name(dtype) if dtype is not None else floating(device, x.dtype)
        return apply(op, (), on_device(x, device, common(device, to)))

    return device_first(host, doc)(body)


exp: NumpyLike = unary("exp", np.exp, "e to the x.")
expm1: NumpyLike = unary("expm1", np.expm1, "e to the x, less 1.")
exp2: NumpyLike = unary("exp2", np.exp2, "2 to the x.")
log: NumpyLike = unary("log", np.log, "The natural logarithm, NaN below 0.")
log1p: NumpyLike = unary("log1p", np.log1p, "The logarithm of 1 + x.")
log2: NumpyLike = unary("log2", np.log2, "The logarithm to base 2.")
log10: NumpyLike = unary("log10", np.log10, "The logarithm to base 10.")
sqrt: NumpyLike = unary("sqrt", np.sqrt, "The square root, NaN below 0.")
cbrt: NumpyLike = unary("cbrt", np.cbrt, "The cube root.")
i0: NumpyLike = unary("i0", np.i0, "The modified Bessel function of order 0.")
sin: NumpyLike = unary("sin", np.sin, "The sine of radians.")
cos: NumpyLike = unary("cos", np.cos, "The cosine of radians.")
tan: NumpyLike = unary("tan", np.tan, "The tangent of radians.")
rad2deg: NumpyLike = unary("rad2deg", np.rad2deg, "Radians as degrees.")
deg2rad: NumpyLike = unary("deg2rad", np.deg2rad, "Degrees as radians.")
arcsin: NumpyLike = unary("asin", np.arcsin, "The inverse sine.")
arccos: NumpyLike = unary("acos", np.arccos, "The inverse cosine.")
arctan: NumpyLike = unary("atan", np.arctan, "The inverse tangent.")
sinh: NumpyLike = unary("sinh", np.sinh, "The hyperbolic sine.")
cosh: NumpyLike = unary("cosh", np.cosh, "The hyperbolic cosine.")
tanh: NumpyLike = unary("tanh", np.tanh, "The hyperbolic tangent.")
arcsinh: NumpyLike = unary("asinh", np.arcsinh, "The inverse hyperbolic sine.")
arccosh: NumpyLike = unary("acosh", np.arccosh, "The inverse hyperbolic cosine.")
arctanh: NumpyLike = unary("atanh", np.arctanh, "The inverse hyperbolic tangent.")


def _rounding(op: str, host: Any, doc: str) -> Any:
    """A function that rounds floats; what numpy makes of integers is its own."""

    def body(x: Tensor, **more: Any) -> Tensor:
        only(more)
        if not _is_float(x):
            raise Refused("integers are rounded by numpy")
        return apply(op, (), x)

    return device_first(host, doc)(body)


ceil: NumpyLike = _rounding("ceil", np.ceil, "The least integer not below x.")
floor: NumpyLike = _rounding("floor", np.floor, "The greatest integer not above x.")
rint: NumpyLike = _rounding("round", np.rint, "The nearest integer, halves to the even one.")
trunc: NumpyLike = _rounding("trunc", np.trunc, "The integer part.")


@device_first(np.round)
def round(a: Tensor, decimals: int = 0, **more: Any) -> Tensor:
    """Floats to the nearest integers; other decimals, and integers, are numpy's."""
    only(more)
    if decimals != 0:
        raise Refused("rounding to decimals has no kernel")
    return rint.body(a)


@device_first(np.remainder)
def remainder(a: Any, b: Any, **more: Any) -> Tensor:
    """What is left of a / b, with the sign of b; of integers 0 where b is 0."""
    return _mod("remainder", a, b, False, more)


@device_first(np.fmod)
def fmod(a: Any, b: Any, **more: Any) -> Tensor:
    """What is left of a / b, with the sign of a; of integers 0 where b is 0."""
    return _mod("fmod", a, b, True, more)


def _mod(name: str, a: Any, b: Any, truncated: bool, more: dict[str, Any]) -> Tensor:
    only(more)
    known = type(b) is int and b != 0
    a, b = together(name, a, b)
    if not _is_float(_numeric(a)) and not known:  # the op refuses a divisor of 0; 1 leaves numpy's 0
        b = apply("where", (), cast(b, "bool"), b, on_device(1, b.device, b.dtype))
    return apply("mod", (("fmod", truncated),), a, b)


# integers that an int64 holds
_EXPONENTS = {int, *(t for t, f in dtypes.BY_DTYPE.items() if f.kind in ("int", "uint") and f.digits < 64)}


@device_first(np.ldexp)
def ldexp(x: Any, exponent: Any, **more: Any) -> Tensor:
    """x times 2 to an integer; of float32 and float64, which have all exponents as numbers."""
    only(more)
    device, by = device_of("ldexp", x, exponent), dtype_key(exponent)
    if by not in _EXPONENTS:
        raise Refused("an exponent is no integer")
    dtype = common(device, dtype_key(x))
    if dtype not in ("float32", "float64"):
        raise Refused("exponents of other dtypes are numpy's")
    return apply("ldexp", (), on_device(x, device, dtype), on_device(exponent, device, dtype))


@device_first(np.negative)
def negative(x: Tensor, **more: Any) -> Tensor:
    """-x; exact, the sign of zero included; unsigned integers wrap."""
    only(more)
    return apply("negative", (), _numeric(x))


@device_first(np.positive)
def positive(x: Tensor, **more: Any) -> Tensor:
    """A copy of x."""
    only(more)
    return multiply.body(_numeric(x), 1)


@device_first(np.absolute)
def absolute(x: Tensor, **more: Any) -> Tensor:
    """|x|; the least integer stays itself, as in numpy."""
    only(more)
    return apply("abs", (), _numeric(x))


@device_first(np.sign)
def sign(x: Tensor, **more: Any) -> Tensor:
    """-1, 0 or 1; NaN stays."""
    only(more)
    return apply("sign", (), _numeric(x))


@device_first(np.square)
def square(x: Tensor, **more: Any) -> Tensor:
    """x * x; integers wrap."""
    only(more)
    return apply("square", (), _numeric(x))


@device_first(np.reciprocal)
def reciprocal(x: Tensor, **more: Any) -> Tensor:
    """1 / x for floats; integers are numpy's own."""
    only(more)
    if not _is_float(x):
        raise Refused("an integer reciprocal has no kernel")
    return divide.body(1, x)


@device_first(np.power)
def power(a: Any, b: Any, **more: Any) -> Tensor:
    """a ** b of floats, of integers for the exponents 1 and 2; the rest is numpy's."""
    only(more)
    if isinstance(a, Tensor) and type(b) in (int, float) and not isinstance(b, bool):
        if b == 2 and (_is_float(a) or type(b) is int):
            return multiply.body(a, a)
        if b == 1 and (_is_float(a) or type(b) is int):
            return positive.body(a)
        if b == 0.5 and _is_float(a):
            return sqrt.body(a)
    a, b = together("power", a, b)
    if not _is_float(a):
        raise Refused("a power of integers is numpy's")
    return apply("power", (), a, b)


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
    name = dtypes.from_numpy(dtype)
    if name == x.dtype and not copy:
        return x
    return _astype(x, name)


@device_first(lambda x, name: x.astype(dtypes.to_numpy(name)))
def _astype(x: Tensor, name: str) -> Tensor:
    return cast(x, name)


def _is_float(x: Any) -> bool:
    return tensor(x).dtype in dtypes.FLOATS


def _numeric(x: Any) -> Tensor:
    """A tensor that is no bool: numpy has rules of its own for those. Raises Refused."""
    if tensor(x).dtype == "bool":
        raise Refused("bool has no kernel for this")
    return x
