"""Functions that depend on signs, on zeros of both signs, and on NaN."""

from __future__ import annotations

import math
from typing import TypeVar

from ..base import dtypes
from ..ir.value import Value, where

V = TypeVar("V", bound=Value)


def is_float(x: Value) -> bool:
    return x.dtype in dtypes.FLOATS


def sign(x: V) -> V:
    """The sign: 1, -1 or 0; 0 for NaN."""
    return where(x.isnan(), 0.0, x.sign()) if is_float(x) else x.sign()


def heaviside(x: V, at_zero: V) -> V:
    return where(x.equal(0), at_zero, (x > 0).cast(x.dtype))


def signbit(x: V) -> V:
    """Whether the sign bit is set. The sign of a zero is that of its reciprocal; NaN counts as positive."""
    return where(x.equal(0), 1.0 / x, x) < 0 if is_float(x) else x < 0


def copysign(a: V, b: Value) -> V:
    size = abs(a)
    return where(signbit(b), -size, size)


def numeric(op: str, a: V, b: V) -> V:
    """The op "maximum" or "minimum" of two values. If one value is NaN, the result is the other value."""
    made = a.op(op, b)
    return where(a.isnan(), b, where(b.isnan(), a, made)) if is_float(a) else made


def angle(x: V) -> V:
    """The angle of a real number in the complex plane: 0 or pi."""
    return where(x.isnan(), x, where(x < 0, x.scalar(math.pi), 0.0))


def atan2(y: V, x: V) -> V:
    """The angle of (x, y), from -pi to pi."""
    none = y.equal(0) & x.equal(0)
    ratio = where(y.isinf() & x.isinf(), y.sign() * x.sign(), y / x)
    # the ratio of two zeros has no sign of its own, so it gets the sign of y
    ratio = where(none, copysign(where(none, y * 0, ratio), y), ratio)
    half = where(signbit(y), y.scalar(-math.pi), math.pi)
    far = where(none, half, ratio.op("atan") + half)
    return where(signbit(x), far, ratio.op("atan"))


def nan_to_num(x: V, nan: float, posinf: float, neginf: float) -> V:
    """x with NaN and the infinities replaced by numbers."""
    made = where(x.isnan(), nan, x)
    made = where(x.equal(math.inf), posinf, made)
    return where(x.equal(-math.inf), neginf, made)
