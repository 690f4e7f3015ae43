"""Functions of one or two numbers that are made of others, by where their arguments are."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..counters import Unsupported
from .operands import cast, float_of, in_float32, is_float, pair, scalar_like
from .table import rule


def _is(e: Any, relation: str, x: Any, number: float) -> Any:
    return e.op(relation, x, scalar_like(e, number, x))


def _choose(e: Any, condition: Any, then: Any, other: Any, like: Any) -> Any:
    """``where``, of values or numbers."""
    given = [scalar_like(e, v, like) if isinstance(v, (int, float)) else v for v in (then, other)]
    return e.op("where", condition, *given)


@rule("sinc", "special_sinc")
def sinc(e: Any, x: Any) -> Any:
    x = float_of(e, x)
    turned = e.op("multiply", x, scalar_like(e, math.pi, x))
    return _choose(e, _is(e, "equal", x, 0), 1.0, e.op("divide", e.op("sin", turned), turned), x)


@rule("xlogy")
def xlogy(e: Any, a: Any, b: Any) -> Any:
    return _times_log(e, "log", a, b)


@rule("special_xlog1py")
def xlog1py(e: Any, a: Any, b: Any) -> Any:
    return _times_log(e, "log1p", a, b)


def _times_log(e: Any, op: str, a: Any, b: Any) -> Any:
    """0 where a is 0, but for b that is no number."""
    a, b = (float_of(e, x) for x in pair(e, a, b, stored=False))
    made = e.op("multiply", a, e.op(op, b))
    plain = e.op("logical_or", _is(e, "not_equal", a, 0), e.op("isnan", b))
    return _choose(e, plain, made, 0.0, made)


@rule("special_entr")
def entr(e: Any, x: Any) -> Any:
    x = float_of(e, x)
    made = e.op("negative", e.op("multiply", x, e.op("log", x)))
    made = _choose(e, _is(e, "equal", x, 0), 0.0, made, x)
    return _choose(e, _is(e, "less", x, 0), -math.inf, made, x)


@rule("logit")
def logit(e: Any, x: Any, eps: float | None = None) -> Any:
    x = float_of(e, x)
    x = x if eps is None else e.op("clip", x, min=float(eps), max=float(1 - eps))
    return e.op("log", e.op("divide", x, e.op("subtract", scalar_like(e, 1.0, x), x)))


@rule("sign", "sgn")
def sign(e: Any, x: Any) -> Any:
    """0 of what is no number."""
    made = e.op("sign", x)
    return _choose(e, e.op("isnan", x), 0.0, made, made) if is_float(x) else made


@rule("heaviside")
def heaviside(e: Any, x: Any, at_zero: Any) -> Any:
    x, at_zero = pair(e, x, at_zero)
    return e.op("where", _is(e, "equal", x, 0), at_zero, cast(e, _is(e, "greater", x, 0), x.dtype))


@rule("nan_to_num")
def nan_to_num(e: Any, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not is_float(x):
        return x
    limits = torch.finfo(getattr(torch, x.dtype))
    made = _choose(e, e.op("isnan", x), 0.0 if nan is None else float(nan), x, x)
    made = _choose(e, _is(e, "equal", x, math.inf), limits.max if posinf is None else float(posinf), made, x)
    return _choose(e, _is(e, "equal", x, -math.inf), limits.min if neginf is None else float(neginf), made, x)


@rule("isposinf")
def isposinf(e: Any, x: Any) -> Any:
    return _is(e, "equal", float_of(e, x), math.inf)


@rule("isneginf")
def isneginf(e: Any, x: Any) -> Any:
    return _is(e, "equal", float_of(e, x), -math.inf)


@rule("signbit")
def signbit(e: Any, x: Any) -> Any:
    """A zero has the sign of what it divides; of what is no number the sign is not told."""
    if not is_float(x):
        return e.op("less", x, scalar_like(e, 0, x))
    inverse = e.op("divide", scalar_like(e, 1.0, x), x)
    return e.op("less", _choose(e, _is(e, "equal", x, 0), inverse, x, x), scalar_like(e, 0, x))


@rule("copysign")
def copysign(e: Any, a: Any, b: Any) -> Any:
    a, b = (float_of(e, x) for x in pair(e, a, b, stored=False))
    size = e.op("abs", a)
    return e.op("where", signbit(e, b), e.op("negative", size), size)


@rule("fmax")
def fmax(e: Any, a: Any, b: Any) -> Any:
    return _number_of_two(e, "maximum", a, b)


@rule("fmin")
def fmin(e: Any, a: Any, b: Any) -> Any:
    return _number_of_two(e, "minimum", a, b)


def _number_of_two(e: Any, op: str, a: Any, b: Any) -> Any:
    """Of a number and what is none the number."""
    a, b = pair(e, a, b)
    made = e.op(op, a, b)
    if not is_float(a):
        return made
    return e.op("where", e.op("isnan", a), b, e.op("where", e.op("isnan", b), a, made))


@rule("atan2")
@in_float32
def atan2(e: Any, y: Any, x: Any) -> Any:
    y, x = (float_of(e, v) for v in pair(e, y, x, stored=False))
    ratio = e.op("divide", y, x)
    none = e.op("logical_and", _is(e, "equal", y, 0), _is(e, "equal", x, 0))
    both = e.op("logical_and", e.op("isinf", y), e.op("isinf", x))
    ratio = e.op("where", both, e.op("multiply", e.op("sign", y), e.op("sign", x)), ratio)
    ratio = e.op("where", none, e.op("multiply", y, scalar_like(e, 0, y)), ratio)
    half = _choose(e, signbit(e, y), -math.pi, math.pi, y)
    # a ratio of zeros has no sign of its own: that of y
    ratio = e.op("where", none, copysign(e, ratio, y), ratio)
    far = e.op("add", e.op("atan", ratio), half)
    far = e.op("where", none, half, far)
    return e.op("where", signbit(e, x), far, e.op("atan", ratio))


@rule("angle")
def angle(e: Any, x: Any) -> Any:
    x = float_of(e, x)
    made = _choose(e, _is(e, "less", x, 0), math.pi, 0.0, x)
    return e.op("where", e.op("isnan", x), x, made)


@rule("special_i0e")
@in_float32
def i0e(e: Any, x: Any) -> Any:
    """exp(-|x|) I0(x); where I0 overflows the first terms of its asymptotic series (Abramowitz and Stegun,
    9.7.1), whose rest is below 1e-8 there."""
    x = e.op("abs", float_of(e, x))
    near = e.op("multiply", e.op("i0", x), e.op("exp", e.op("negative", x)))
    small = e.op("divide", scalar_like(e, 0.125, x), x)
    series = scalar_like(e, 37.5, x)
    for term in (4.5, 1.0, 1.0):
        series = e.op("add", e.op("multiply", series, small), scalar_like(e, term, x))
    far = e.op("multiply", series, e.op("rsqrt", x))
    far = e.op("multiply", far, scalar_like(e, (2 * math.pi) ** -0.5, x))
    return e.op("where", _is(e, "greater", x, 60), far, near)


# coefficients of M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), in powers of
# w - 2.5 below w = 5, of sqrt(w) - 3 beyond, w = -log(1 - x^2)
_CENTRE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def polynomial(e: Any, x: Any, coefficients: tuple[float, ...]) -> Any:
    """The sum of powers of x, the coefficient of the highest first."""
    made = scalar_like(e, coefficients[0], x)
    for coefficient in coefficients[1:]:
        made = e.op("add", e.op("multiply", made, x), scalar_like(e, coefficient, x))
    return made


@rule("erfinv")
def erfinv(e: Any, x: Any) -> Any:
    x = float_of(e, x)
    one = scalar_like(e, 1.0, x)
    return inverse_of_erf(e, x, e.op("multiply", e.op("subtract", one, x), e.op("add", one, x)))


def inverse_of_erf(e: Any, x: Any, inside: Any) -> Any:
    """Giles' polynomials, and a step of Newton's where erf is not flat. ``inside``: 1 - x^2."""
    w = e.op("negative", e.op("log", inside))
    centre = polynomial(e, e.op("subtract", w, scalar_like(e, 2.5, x)), _CENTRE)
    tail = polynomial(e, e.op("subtract", e.op("sqrt", w), scalar_like(e, 3.0, x)), _TAIL)
    made = e.op("multiply", e.op("where", _is(e, "less", w, 5), centre, tail), x)
    error = e.op("subtract", e.op("erf", made), x)
    slope = e.op("exp", e.op("multiply", made, made))
    better = e.op("multiply", e.op("multiply", error, slope), scalar_like(e, math.sqrt(math.pi) / 2, x))
    made = e.op("where", _is(e, "less", w, 5), e.op("subtract", made, better), made)
    infinite = e.op("multiply", x, scalar_like(e, math.inf, x))
    return e.op("where", _is(e, "equal", inside, 0), infinite, made)


@rule("round")
def round_(e: Any, x: Any, *, decimals: int = 0) -> Any:
    if not is_float(x):
        if decimals < 0:
            raise Unsupported("integers rounded to tens are the host's")
        return x
    if not decimals:
        return e.op("round", x)
    scale = scalar_like(e, float(10 ** abs(decimals)), x)
    ops = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return e.op(ops[1], e.op("round", e.op(ops[0], x, scale)), scale)
