"""Special functions that are made of others: erf's inverse, the next number."""

from __future__ import annotations

import math

import numpy as np

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter

__all__ = ["erf_inverse"]

# Giles, "Approximating the erfinv function" (2010): coefficients of w - 2.5 and of sqrt(w) - 3
_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
         -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
        0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _polynomial(ctx: HloContext, x: TapeValue, coefficients: tuple[float, ...]) -> TapeValue:
    made = ctx.scalar(coefficients[0], x)
    for each in coefficients[1:]:
        made = ctx.op("add", ctx.op("multiply", made, x), ctx.scalar(each, x))
    return made


@converter("erf_inv")
def _erf_inv(ctx: HloContext) -> Results:
    y = ctx.input(0)
    if y.dtype not in ("float32", "float64"):
        return ctx.cast(erf_inverse(ctx, ctx.cast(y, "float32")), y.dtype)
    return erf_inverse(ctx, y)


def erf_inverse(ctx: HloContext, y: TapeValue) -> TapeValue:
    """erf's inverse: polynomials that are good for f32, two steps of Newton's more in f64."""
    one = ctx.scalar(1, y)
    w = ctx.op("negative", ctx.op("log1p", ctx.op("negative", ctx.op("multiply", y, y))))
    near = _polynomial(ctx, ctx.op("subtract", w, ctx.scalar(2.5, y)), _NEAR)
    far = _polynomial(ctx, ctx.op("subtract", ctx.op("sqrt", w), ctx.scalar(3, y)), _FAR)
    x = ctx.op("multiply", ctx.op("where", ctx.op("less", w, ctx.scalar(5, y)), near, far), y)
    if y.dtype == "float64":
        for _ in range(2):
            slope = ctx.op("exp", ctx.op("negative", ctx.op("multiply", x, x)))
            error = ctx.op("subtract", ctx.op("erf", x), y)
            error = ctx.op("divide", error, ctx.op("multiply", slope, ctx.scalar(2 / math.sqrt(math.pi), y)))
            x = ctx.op("subtract", x, error)
    at_end = ctx.op("equal", ctx.op("abs", y), one)
    return ctx.op("where", at_end, ctx.op("multiply", y, ctx.scalar(np.inf, y)), x)


@converter("next_after")
def _next_after(ctx: HloContext) -> Results:
    """The neighbour of x towards y: one more or less in the order of bits."""
    x, y = ctx.input(0), ctx.input(1)
    bits = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}.get(x.dtype) or ctx.fail(x.dtype)
    zero = ctx.scalar(0, x)
    whole = ctx.op("bitcast", x, to=f"int{bits}")
    outward = ctx.op("equal", ctx.op("greater", y, x), ctx.op("greater", x, zero))
    step = ctx.op("where", outward, ctx.scalar(1, whole), ctx.scalar(-1, whole))
    moved = ctx.op("bitcast", ctx.op("add", whole, step), to=x.dtype)
    least = ctx.op("bitcast", ctx.scalar(1, whole), to=x.dtype)
    least = ctx.op("where", ctx.op("less", y, zero), ctx.op("negative", least), least)
    moved = ctx.op("where", ctx.op("equal", x, zero), least, moved)
    made = ctx.op("where", ctx.op("equal", x, y), y, moved)
    nan = ctx.op("logical_or", ctx.op("isnan", x), ctx.op("isnan", y))
    return ctx.op("where", nan, ctx.op("add", x, y), made)


@converter("conj")
def _conj(ctx: HloContext) -> Results:
    return ctx.input(0)  # complex numbers are refused before it
