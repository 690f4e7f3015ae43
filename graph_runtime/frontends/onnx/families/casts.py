"""Casts and bit casts, also of integers of 4 and 2 bits and of floats of 8 and 4 bits. Also the types in
which weighted sums are computed for elements of any type, and the rounding of fractions in these sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....base import dtypes
from ....base.dtypes import FLOATS, NARROW_FLOATS
from ....ir.ops.elements.codes import CODES
from ....ir.value import where
from ..context import Context, Results, UnknownValueError, converter
from ..elements import ELEMENTS, STRING, Element
from ..read import dtype_name
from ..tape import TapeValue


def decoded(ctx: Context, x: TapeValue) -> TapeValue:
    """Numbers of x: small integers in their stored dtype, small floats as float32. Values of other types are
    unchanged."""
    if x.element is None or x.element.is_text:
        return x
    stored = ctx.stored(x)
    if x.element.kind == "int":
        return stored
    table = ctx.const(CODES[x.element.name].values())
    return ctx.op("take", table, stored.cast("int32"), axis=0)


def encoded(
    ctx: Context, x: TapeValue, element: Element, saturate: bool = True, rounding: str = "up"
) -> TapeValue:
    """Numbers encoded as small elements. For integer elements, fractions are truncated and the excess high
    bits dropped. ``rounding``: direction of rounding for the format whose values are powers of 2."""
    if element.kind == "float":
        wide = x if dtypes.BY_DTYPE[x.dtype].kind == "float" else x.cast("float32")
        how = rounding if CODES[element.name].sign < 0 else "nearest"
        codes = ctx.op("encode", wide, format=element.name, saturate=saturate, rounding=how)
        return ctx.of_element(codes, element)
    low, _ = element.range
    wide = x.cast("int32") & ctx.const((1 << element.bits) - 1, "int32")
    if low < 0:
        half = ctx.const(-low, "int32")
        wide = (wide ^ half) - half
    return ctx.of_element(wide.cast(element.stored), element)


def _cast_to(ctx: Context, x: TapeValue, dtype: str) -> TapeValue:
    """x cast to ``dtype``, which may be a small Element; other attributes are those of Cast."""
    saturate, rounding = bool(ctx.attr("saturate", 1)), ctx.attr("round_mode", "up")
    if x.dtype == dtype:
        return x
    if STRING.name in (x.dtype, dtype):
        raise UnknownValueError(f"a cast from {x.dtype} to {dtype} is done while it runs", op=ctx.onnx_op)
    wide = decoded(ctx, x)
    element = ELEMENTS.get(dtype)
    return wide.cast(dtype) if element is None else encoded(ctx, wide, element, saturate, rounding)


converter("Cast", limits="with a cast to or from strings the model runs as a flow")(
    lambda ctx: _cast_to(ctx, ctx.input(0), dtype_name(ctx.attr("to"), "the result"))
)
converter("CastLike", limits="as for Cast")(lambda ctx: _cast_to(ctx, ctx.input(0), ctx.input(1).dtype))


@converter("BitCast", limits="not for strings; both types must have equally many bits")
def _bit_cast(ctx: Context) -> Results:
    x, to = ctx.input(0), dtype_name(ctx.attr("to"), "the result")
    if STRING.name in (x.dtype, to):
        ctx.fail(f"a cast of bits from {x.dtype} to {to} is not possible: strings have none")
    bits = [8 * dtypes.parse(d).itemsize if d not in ELEMENTS else ELEMENTS[d].bits for d in (x.dtype, to)]
    if bits[0] != bits[1]:
        ctx.fail(f"{x.dtype} has {bits[0]} bits, {to} has {bits[1]}")
    held = ctx.stored(x)
    if min(bits) < 8:
        ctx.fail("only elements of whole bytes can be cast by their bits")
    element = ELEMENTS.get(to)
    stored = to if element is None else element.stored
    made = held if held.dtype == stored else ctx.op("bitcast", held, to=stored)
    return made if element is None else ctx.of_element(made, element)


# ---------------------------------------------------------------- weighted sums

_NEAR_INTEGER = 2.0**-46  # relative error by which float64 may fall short of an exact integer sum


def wide(ctx: Context, x: TapeValue) -> TapeValue:
    """x in the type in which its elements are weighted: float32 for floats up to 32 bits, float64 for float64
    and for integers."""
    if x.dtype == "bool":
        ctx.fail("bools cannot be interpolated; use mode nearest")
    return x.cast("float32" if x.dtype in NARROW_FLOATS else x.dtype if x.dtype in FLOATS else "float64")


def narrow(x: TapeValue, dtype: str, cut: Callable[..., TapeValue]) -> TapeValue:
    """Weighted sums cast to ``dtype``; for an integer dtype the sums are first rounded by the function
    ``cut`` and clipped to the dtype's range."""
    if x.dtype == dtype or dtype in FLOATS:
        return x.cast(dtype)
    info = np.iinfo(dtypes.to_numpy(dtype))
    x = cut(x)
    most = float(info.max) if info.bits < 64 else np.nextafter(float(info.max), 0)
    return x.clip(min=float(info.min), max=float(most)).cast(dtype)


def to_even(x: TapeValue) -> TapeValue:
    return x.round()


def towards_zero(x: TapeValue) -> TapeValue:
    return x * (1 + _NEAR_INTEGER)  # the cast that follows truncates


def from_zero(x: TapeValue) -> TapeValue:
    return towards_zero(x) + where(x < 0, x.scalar(-0.5), 0.5)
