"""Quantization of numbers to integer grids, dequantization, and products of quantized tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....base import dtypes
from ....base.dtypes import NARROW_FLOATS
from ....ir.value import where
from ..context import Context, Results, converter
from ..elements import ELEMENTS, Element
from ..read import DTYPES, dtype_name
from ..tape import TapeValue
from .casts import decoded, encoded
from .conv import convolve
from .linear import matmul
from .packed import few_bits

_GRID = ("int8", "uint8", "int16", "uint16", "int32")


def _along(ctx: Context, param: TapeValue, x: TapeValue, axis: int, block: int) -> TapeValue:
    """A scale or zero point in a shape that broadcasts to x. It has a single number, one number per index of
    an axis, or one number per ``block`` neighbours along the axis."""
    if param.type.size == 1 and param.rank <= 1:
        return ctx.reshape(param, ())
    if param.rank == 1 and x.rank >= 1 and not block:
        return ctx.reshape(param, (param.shape[0], *(1,) * (x.rank - axis - 1)))
    wanted = tuple(-(-n // block) if d == axis else n for d, n in enumerate(x.shape)) if block > 0 else ()
    if param.shape != wanted:
        ctx.fail(
            f"a scale or zero point of {param.type} does not fit {x.type} with axis {axis} and block_size "
            f"{block}; " + (f"give one of shape {list(wanted)}" if wanted else "block_size must be positive")
        )
    count = param.shape[axis]
    wide = ctx.op("unsqueeze", param, axes=[axis + 1])
    wide = ctx.expand(wide, (*param.shape[: axis + 1], block, *param.shape[axis + 1 :]))
    wide = ctx.reshape(wide, (*param.shape[:axis], count * block, *param.shape[axis + 1 :]))
    return ctx.slice(wide, axis, 0, x.shape[axis])


def _one_or_along(ctx: Context, param: TapeValue) -> TapeValue:
    """A scale or zero point in the shape that the ops quantize and dequantize accept."""
    return ctx.reshape(param, ()) if param.type.size == 1 else param


def _paired(ctx: Context, scale: TapeValue, zero: TapeValue) -> tuple[TapeValue, TapeValue]:
    """A scale and a zero point in equal shapes. The QLinear ops may give one of them as a single number and
    the other with a number per index; the single number is then repeated."""
    most = max(scale.type.size, zero.type.size)
    if most == 1 or {scale.type.size, zero.type.size} - {1, most}:
        return scale, zero
    flat = [ctx.reshape(value, (value.type.size,)) for value in (scale, zero)]
    one, other = (value if value.type.size == most else ctx.expand(value, (most,)) for value in flat)
    return one, other


def _finite(*scales: TapeValue) -> bool:
    """Whether no scale is known to be infinite or NaN. If a scale is infinite or NaN, each sum must be
    computed before the product with the scale, because a float32 product of 0 and the scale would turn the
    sum into NaN."""
    found = [scale.known() for scale in scales]
    return all(values is None or bool(np.isfinite(values).all()) for values in found)


def on_grid(
    ctx: Context, x: TapeValue, scale: TapeValue, zero: TapeValue | None, dtype: str, axis: int = 0
) -> TapeValue:
    """x, float32 or float64, quantized to integers of a graph dtype; a missing zero point is 0."""
    if dtype not in _GRID:
        ctx.fail(f"{dtype} is not a supported grid")
    scale = _one_or_along(ctx, scale.cast(x.dtype))
    if zero is None:
        zero = ctx.const(np.zeros(scale.shape, dtypes.to_numpy(dtype)))
    return ctx.op("quantize", x, scale, _one_or_along(ctx, zero), axis=axis)


def from_grid(
    ctx: Context, x: TapeValue, scale: TapeValue, zero: TapeValue | None, axis: int = 0
) -> TapeValue:
    """Quantized integers as float32; a missing zero point is 0."""
    scale = _one_or_along(ctx, scale.cast("float32"))
    if zero is None:
        zero = ctx.const(np.zeros(scale.shape, dtypes.to_numpy(x.dtype)))
    return ctx.op("dequantize", x, scale, _one_or_along(ctx, zero), axis=axis)


def _quantized(
    ctx: Context,
    x: TapeValue,
    scale: TapeValue,
    zero: TapeValue | None,
    dtype: str,
    element: Element | None = None,
    saturate: bool = True,
) -> TapeValue:
    """saturate(round(x / scale) + zero), with halves rounded to even. 16-bit integers are exact in float32,
    and casts saturate. For a small float only its encoding rounds."""
    if element is None and dtype not in _GRID:
        ctx.fail(f"{dtype} is not a supported grid")
    made = x / scale
    if element is None or element.kind == "int":
        made = made.round()
    if zero is not None:
        made = made + zero.cast(made.dtype)
    if element is None:
        return _without_nan(ctx, made, np.iinfo(dtypes.to_numpy(dtype)).min).cast(dtype)
    if element.kind == "int":
        low, high = element.range
        made = _without_nan(ctx, made, low).clip(min=float(low), max=float(high))
    return encoded(ctx, made, element, saturate)


def _without_nan(ctx: Context, made: TapeValue, least: int) -> TapeValue:
    """The least integer in place of NaN, as in ONNX Runtime. NaN occurs if calibration found an infinite
    scale, for example for a mask of -inf; the least integer keeps the mask a mask. Without an infinite scale
    the value is unchanged, to save time."""
    if not ctx.tape.has_infinite_grid:
        return made
    return where(made.equal(made), made, float(least))


@converter("QuantizeLinear", limits="to integers of 2 to 16 bits, int32, and floats of 8 and 4 bits")
def _quantize(ctx: Context) -> Results:
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional(2)
    ctx.tape.has_infinite_grid |= not _finite(scale)
    axis, block = ctx.attr("axis", 1), ctx.attr("block_size", 0)
    saturate = bool(ctx.attr("saturate", 1))
    precision = DTYPES.get(ctx.attr("precision", 0), scale.dtype)
    code = ctx.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else dtype_name(code, "the result") if code else "uint8"
    element = ELEMENTS.get(dtype)
    if element is not None and element.is_text:
        ctx.fail("a quantization to strings is not possible")
    axis = ctx.axis(axis, x.rank) if scale.type.size > 1 or block else 0
    x, scale = (v.cast("float32" if precision in NARROW_FLOATS else precision) for v in (x, scale))
    if element is None and not block:
        return on_grid(ctx, x, scale, zero, dtype, axis)
    scale = _along(ctx, scale, x, axis, block)
    zero = _zero(ctx, zero)
    zero = None if zero is None else _along(ctx, zero, x, axis, block)
    return _quantized(ctx, x, scale, zero, dtype, element, saturate)


def _zero(ctx: Context, zero: TapeValue | None) -> TapeValue | None:
    """A zero point as numbers; None if it is known to be 0."""
    if zero is None:
        return None
    if zero.element is not None and zero.element.is_text:
        ctx.fail("a zero point cannot be of strings")
    numbers = decoded(ctx, zero)
    known = numbers.known()
    return None if known is not None and not known.any() else numbers


def _check_types(ctx: Context, x: TapeValue, scale: TapeValue, zero: TapeValue | None) -> None:
    """Refuse a scale that is not a float, and a zero point whose type is not that of x."""
    if dtypes.BY_DTYPE[scale.dtype].kind != "float":
        ctx.fail(f"the scale is {scale.type}; it must be float32, float16 or bfloat16")
    if zero is not None and zero.dtype != x.dtype:
        ctx.fail(f"the zero point is {zero.type} and x is {x.type}; their types must be equal")
    if x.element is None and x.dtype not in _GRID:
        ctx.fail(f"{x.dtype} is not a supported grid")


_EXACT = 1 << 24  # integers up to this magnitude are exact in float32


@converter("DequantizeLinear", limits="from integers of 2 to 32 bits and floats of 8 and 4 bits")
def _dequantize(ctx: Context) -> Results:
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional(2)
    ctx.tape.has_infinite_grid |= not _finite(scale)
    axis, block = ctx.attr("axis", 1), ctx.attr("block_size", 0)
    dtype = DTYPES.get(ctx.attr("output_dtype", 0), scale.dtype)
    _check_types(ctx, x, scale, zero)
    if x.element is None and x.dtype in _GRID and not block:
        axis = ctx.axis(axis, x.rank) if scale.type.size > 1 else 0
        return from_grid(ctx, x, scale, zero, axis).cast(dtype)
    element = x.element
    is_matrix = x.rank == 2 and element is not None and (element.kind, element.bits) == ("int", 4)
    x, zero = decoded(ctx, x), _zero(ctx, zero)
    axis = ctx.axis(axis, x.rank) if scale.type.size > 1 or block else 0
    wide = x.cast("float32" if x.dtype == "float32" else "int32")
    if zero is not None:
        wide = wide - _along(ctx, zero, x, axis, block).cast(wide.dtype)
    few = few_bits(ctx, x, scale, zero, axis, block) if dtype == "float32" and is_matrix else None
    scale = _along(ctx, scale, x, axis, block).cast("float32")
    made = (wide.cast("float32") * scale).cast(dtype)
    if few is None or made.constant is None:
        return made
    return replace(made, constant=replace(made.constant, few_bits=few))


def dynamic_grid(ctx: Context, x: TapeValue) -> tuple[TapeValue, TapeValue, TapeValue]:
    """(x on the uint8 grid that fits its values, the grid's scale, the grid's zero point)."""
    made, scale, zero = ctx.op("dynamic_quantize", x)
    return made, scale, zero


converter("DynamicQuantizeLinear")(lambda ctx: dynamic_grid(ctx, ctx.input(0)))


# ---------------------------------------------------------------- products


def _centred(ctx: Context, x: TapeValue, zero: TapeValue | None, axis: int | None = None) -> TapeValue:
    """x minus its zero point, as int32. The zero point is one number, or one number per index of an axis."""
    wide = x.cast("int32")
    if zero is None:
        return wide
    zero = zero.cast("int32")
    if zero.rank == 1 and zero.shape[0] == 1:
        zero = ctx.reshape(zero, ())
    elif zero.rank == 1 and axis is not None:
        zero = ctx.reshape(zero, (zero.shape[0], *(1,) * (x.rank - axis % x.rank - 1)))
    return wide - zero


def _is_one(zero: TapeValue | None) -> bool:
    return zero is None or zero.type.size == 1


def numbers_of(ctx: Context, w: TapeValue, zero: TapeValue | None, axis: int) -> TapeValue:
    """w, in bytes, minus its zero point, as int16. The zero point is one number, or one number per index of
    an axis."""
    wide = w.cast("int16")
    if zero is None:
        return wide
    zero = zero.cast("int16")
    shape = () if zero.type.size == 1 else (zero.type.size, *(1,) * (w.rank - axis % w.rank - 1))
    return wide - ctx.reshape(zero, shape)


def _point(ctx: Context, x: TapeValue, zero: TapeValue | None) -> TapeValue:
    """The zero point of x as one number of its dtype."""
    if zero is None:
        return ctx.const(np.zeros((), dtypes.to_numpy(x.dtype)))
    return ctx.reshape(zero, ())


def product_of_integers(
    ctx: Context, a: TapeValue, a_zero: TapeValue | None, b: TapeValue, b_zero: TapeValue | None
) -> TapeValue:
    """int32 product of (a - its zero point) and (b - its zero point)."""
    if b.constant is not None and b.rank == 2 and a.rank >= 1 and _is_one(a_zero):
        return dense_of_integers(ctx, a, a_zero, ctx.transpose(numbers_of(ctx, b, b_zero, -1), [1, 0]))
    return matmul(ctx, _centred(ctx, a, a_zero, -2), _centred(ctx, b, b_zero, -1))


def dense_of_integers(ctx: Context, a: TapeValue, a_zero: TapeValue | None, numbers: TapeValue) -> TapeValue:
    """int32 product of (a - its zero point) and the transpose of ``numbers``, int16 [N, K]."""
    return ctx.op("quantized_dense", a, numbers, _point(ctx, a, a_zero), to="int32")


converter("MatMulInteger")(
    lambda ctx: product_of_integers(ctx, ctx.input(0), ctx.optional(2), ctx.input(1), ctx.optional(3))
)


@converter("ConvInteger", limits="1 and 2 spatial dimensions")
def _conv_integer(ctx: Context) -> Results:
    x, w, x_zero, w_zero = ctx.input(0), ctx.input(1), ctx.optional(2), ctx.optional(3)
    if w.constant is not None and x.rank == 4 and _is_one(x_zero):
        numbers, point = numbers_of(ctx, w, w_zero, 0), _point(ctx, x, x_zero)
        return convolve(ctx, x, numbers, None, "quantized_conv2d", point, to="int32")
    return convolve(ctx, _centred(ctx, x, x_zero), _centred(ctx, w, w_zero, 0), None)


def _requantized(product: TapeValue, scale: TapeValue, zero: TapeValue, dtype: str) -> TapeValue:
    """An int32 product multiplied by a scale and put on the result's grid, in float64, in which int32 is
    exact."""
    made = product.cast("float64") * scale
    made = made.round() + zero.cast("float64")
    return made.cast(dtype)


@converter("QLinearMatMul")
def _qlinear_matmul(ctx: Context) -> Results:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (ctx.input(i) for i in range(8))
    _check_result(ctx, y_zero)
    one = all(v.type.size == 1 for v in (a_scale, a_zero, y_scale, y_zero))
    if b.constant is not None and b.rank == 2 and one and _finite(a_scale, b_scale, y_scale):
        b_scale, b_zero = _paired(ctx, b_scale, b_zero)
        w = from_grid(ctx, b, b_scale, b_zero, 1)
        product = matmul(ctx, from_grid(ctx, a, a_scale, a_zero), w)
        return on_grid(ctx, product, y_scale, y_zero, y_zero.dtype)
    if one and b_scale.type.size == b_zero.type.size == 1 and a.rank and 255**2 * a.shape[-1] <= _EXACT:
        return _product_of_numbers(ctx, (a, a_zero, a_scale), (b, b_zero, b_scale), y_scale, y_zero)
    product = matmul(ctx, _centred(ctx, a, a_zero, -2), _centred(ctx, b, b_zero, -1))
    a_scale = _scale(ctx, a_scale, -2)
    scale = a_scale * _scale(ctx, b_scale, -1) / _scale(ctx, y_scale, -2)
    return _requantized(product, scale, _scale(ctx, y_zero, -2), y_zero.dtype)


def _product_of_numbers(
    ctx: Context,
    a: tuple[TapeValue, TapeValue, TapeValue],
    b: tuple[TapeValue, TapeValue, TapeValue],
    y_scale: TapeValue,
    y_zero: TapeValue,
) -> TapeValue:
    """Result of QLinearMatMul for two tensors with zero points and scales, computed in float32, which is
    faster than int32. All float32 sums must be exact."""
    unit = ctx.const(np.float32(1))
    whole = [from_grid(ctx, x, unit, zero) for x, zero, _ in (a, b)]
    of_a, of_b, of_y = (ctx.reshape(s, ()).cast("float32") for s in (a[2], b[2], y_scale))
    scale = of_a * of_b / of_y
    return on_grid(ctx, matmul(ctx, *whole) * scale, unit, y_zero, y_zero.dtype)


def _check_result(ctx: Context, zero: TapeValue) -> None:
    if zero.dtype not in ("uint8", "int8"):
        ctx.fail(f"the zero point of the result is {zero.type}; it must be uint8 or int8")


def _scale(ctx: Context, value: TapeValue, axis: int) -> TapeValue:
    """A scale as float64: one number, or one per row (axis -2) or column (axis -1)."""
    value = value.cast("float64")
    if value.type.size == 1:
        return ctx.reshape(value, ())
    return ctx.reshape(value, (value.shape[0], 1)) if value.rank == 1 and axis == -2 else value


@converter("QLinearConv", limits="1 and 2 spatial dimensions")
def _qlinear_conv(ctx: Context) -> Results:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (ctx.input(i) for i in range(8))
    _check_result(ctx, y_zero)
    images = w.constant is not None and x.rank == 4 and ctx.attr("group", 1) in (1, w.shape[0])
    if images and _finite(x_scale, w_scale, y_scale):
        bias = ctx.optional(8)
        if bias is not None:
            scales = ctx.reshape(x_scale, ()) * _one_or_along(ctx, w_scale)
            bias = from_grid(ctx, bias, ctx.expand(scales, bias.shape), bias.full_like(0))
        w_scale, w_zero = _paired(ctx, w_scale, w_zero)
        numbers = from_grid(ctx, w, w_scale, w_zero)
        product = convolve(ctx, from_grid(ctx, x, x_scale, x_zero), numbers, bias)
        return on_grid(ctx, product, y_scale, y_zero, y_zero.dtype)
    product = convolve(ctx, _centred(ctx, x, x_zero), _centred(ctx, w, w_zero, 0), ctx.optional(8))
    x_scale, y_scale, y_zero = (_scale(ctx, v, 0) for v in (x_scale, y_scale, y_zero))
    w_scale = w_scale.cast("float64")
    if w_scale.type.size == 1:
        w_scale = ctx.reshape(w_scale, ())
    else:
        w_scale = ctx.reshape(w_scale, (w_scale.shape[0], *(1,) * (x.rank - 2)))
    scale = x_scale * w_scale / y_scale
    return _requantized(product, scale, y_zero, ctx.input(7).dtype)
