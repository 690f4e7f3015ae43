"""Casts to and from integers of 4 and 2 bits and floats of 8 and 4, and of the same bits."""

from __future__ import annotations

from ....base import dtypes
from ....ir.ops.elements.codes import CODES
from ..context import Context, Results, UnknownValueError, converter
from ..elements import ELEMENTS, STRING, Element
from ..read import dtype_name
from ..tape import TapeValue


def decoded(ctx: Context, x: TapeValue) -> TapeValue:
    """The numbers that stand for small elements: integers as they are held, floats as float32. Anything else
    as it is."""
    if x.element is None or x.element.is_text:
        return x
    stored = ctx.stored(x)
    if x.element.kind == "int":
        return stored
    table = ctx.const(CODES[x.element.name].values())
    return ctx.op("take", table, ctx.cast(stored, "int32"), axis=0)


def encoded(
    ctx: Context, x: TapeValue, element: Element, saturate: bool = True, rounding: str = "up"
) -> TapeValue:
    """Numbers as small elements: to integers they go toward zero, and lose their upper bits. ``rounding``: to
    powers of two."""
    if element.kind == "float":
        wide = x if dtypes.BY_DTYPE[x.dtype].kind == "float" else ctx.cast(x, "float32")
        how = rounding if CODES[element.name].sign < 0 else "nearest"
        codes = ctx.op("encode", wide, format=element.name, saturate=saturate, rounding=how)
        return ctx.of_element(codes, element)
    low, _ = element.range
    wide = ctx.op("bitwise_and", ctx.cast(x, "int32"), ctx.const((1 << element.bits) - 1, "int32"))
    if low < 0:
        half = ctx.const(-low, "int32")
        wide = ctx.op("subtract", ctx.op("bitwise_xor", wide, half), half)
    return ctx.of_element(ctx.cast(wide, element.stored), element)


def cast_to(ctx: Context, x: TapeValue, dtype: str) -> TapeValue:
    """x as elements of ``dtype``, which may be small ones; the attributes are Cast's."""
    saturate, rounding = bool(ctx.attr("saturate", 1)), ctx.attr("round_mode", "up")
    if x.dtype == dtype:
        return x
    if STRING.name in (x.dtype, dtype):
        raise UnknownValueError(f"a cast from {x.dtype} to {dtype} is done while it runs", op=ctx.onnx_op)
    wide = decoded(ctx, x)
    element = ELEMENTS.get(dtype)
    return ctx.cast(wide, dtype) if element is None else encoded(ctx, wide, element, saturate, rounding)


@converter("Cast", limits="to and from strings a model runs as a flow")
def _cast(ctx: Context) -> Results:
    return cast_to(ctx, ctx.input(0), dtype_name(ctx.attr("to"), "the result"))


@converter("CastLike", limits="as Cast")
def _cast_like(ctx: Context) -> Results:
    return cast_to(ctx, ctx.input(0), ctx.input(1).dtype)


@converter("BitCast", limits="not of strings, and of equal bits")
def _bit_cast(ctx: Context) -> Results:
    x, to = ctx.input(0), dtype_name(ctx.attr("to"), "the result")
    if STRING.name in (x.dtype, to):
        ctx.fail(f"the bits of {x.dtype} are not those of {to}")
    bits = [8 * dtypes.parse(d).itemsize if d not in ELEMENTS else ELEMENTS[d].bits for d in (x.dtype, to)]
    if bits[0] != bits[1]:
        ctx.fail(f"{x.dtype} has {bits[0]} bits, {to} has {bits[1]}")
    held = ctx.stored(x)
    if min(bits) < 8:
        ctx.fail("bits of elements smaller than a byte are not cast")
    element = ELEMENTS.get(to)
    stored = to if element is None else element.stored
    made = held if held.dtype == stored else ctx.op("bitcast", held, to=stored)
    return made if element is None else ctx.of_element(made, element)
