"""Weighted sums of elements of any type: in which type they are made, and what becomes of fractions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....base import dtypes
from ....base.dtypes import NARROW_FLOATS
from ..context import FLOATS, Context
from ..tape import TapeValue

__all__ = ["from_zero", "narrow", "to_even", "towards_zero", "wide"]

_NEAR_INTEGER = 2.0**-46  # of its size, by which a sum of float64 that would be an integer may lie below it


def wide(ctx: Context, x: TapeValue) -> TapeValue:
    """x as what its elements are weighted in: float32, float64 for that and for integers."""
    if x.dtype == "bool":
        ctx.fail("a mix of bools is none; mode nearest takes them")
    return ctx.cast(x, "float32" if x.dtype in NARROW_FLOATS else x.dtype if x.dtype in FLOATS else "float64")


def narrow(ctx: Context, x: TapeValue, dtype: str, cut: Callable[..., TapeValue]) -> TapeValue:
    """Weighted sums as elements of ``dtype``: integers by ``cut``, and at its ends what leaves it."""
    if x.dtype == dtype or dtype in FLOATS:
        return ctx.cast(x, dtype)
    info = np.iinfo(dtypes.to_numpy(dtype))
    x = cut(ctx, x)
    most = float(info.max) if info.bits < 64 else np.nextafter(float(info.max), 0)
    return ctx.cast(ctx.op("clip", x, min=float(info.min), max=float(most)), dtype)


def to_even(ctx: Context, x: TapeValue) -> TapeValue:
    return ctx.op("round", x)


def towards_zero(ctx: Context, x: TapeValue) -> TapeValue:
    return ctx.op("multiply", x, ctx.scalar(1 + _NEAR_INTEGER, x))  # a cast does the rest


def from_zero(ctx: Context, x: TapeValue) -> TapeValue:
    half = ctx.op("where", ctx.op("less", x, ctx.scalar(0, x)), ctx.scalar(-0.5, x), ctx.scalar(0.5, x))
    return ctx.op("add", towards_zero(ctx, x), half)
