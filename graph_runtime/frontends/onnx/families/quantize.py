"""Numbers on an integer grid: to it, from it, and products of tensors that are on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....base import dtypes
from ....base.dtypes import NARROW_FLOATS
from ..context import Context, Results, converter
from ..elements import ELEMENTS, Element
from ..read import DTYPES, dtype_name
from ..tape import TapeValue
from .conv import convolve
from .linear import matmul
from .packed import few_bits
from .small_elements import decoded, encoded

_GRID = ("int8", "uint8", "int16", "uint16", "int32")


def _along(ctx: Context, param: TapeValue, x: TapeValue, axis: int, block: int) -> TapeValue:
    """A scale or zero point in a shape that broadcasts to x: one for all, one of each index of an axis, or
    one for each ``block`` neighbours along it."""
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
    """A scale or a zero point of quantize and dequantize."""
    return ctx.reshape(param, ()) if param.type.size == 1 else param


def _paired(ctx: Context, scale: TapeValue, zero: TapeValue) -> tuple[TapeValue, TapeValue]:
    """A scale and a zero point in one shape: one number each, or as many as the one of them that is many. The
    QLinear ops say them apart."""
    most = max(scale.type.size, zero.type.size)
    if most == 1 or {scale.type.size, zero.type.size} - {1, most}:
        return scale, zero
    flat = [ctx.reshape(value, (value.type.size,)) for value in (scale, zero)]
    one, other = (value if value.type.size == most else ctx.expand(value, (most,)) for value in flat)
    return one, other


def _finite(*scales: TapeValue) -> bool:
    """Whether no scale is known to be infinite or NaN: with such a one sums must be made before they meet it,
    as in float32 a number that is 0 would make NaN of them."""
    found = [scale.known() for scale in scales]
    return all(values is None or bool(np.isfinite(values).all()) for values in found)


def on_grid(
    ctx: Context, x: TapeValue, scale: TapeValue, zero: TapeValue | None, dtype: str, axis: int = 0
) -> TapeValue:
    """x, float32 or float64, on a grid of integers of a graph's own dtypes; a zero point that is absent is
    0."""
    if dtype not in _GRID:
        ctx.fail(f"{dtype} is no grid that is supported")
    scale = _one_or_along(ctx, ctx.cast(scale, x.dtype))
    if zero is None:
        zero = ctx.const(np.zeros(scale.shape, dtypes.to_numpy(dtype)))
    return ctx.op("quantize", x, scale, _one_or_along(ctx, zero), axis=axis)


def from_grid(
    ctx: Context, x: TapeValue, scale: TapeValue, zero: TapeValue | None, axis: int = 0
) -> TapeValue:
    """Integers of a grid as float32; a zero point that is absent is 0."""
    scale = _one_or_along(ctx, ctx.cast(scale, "float32"))
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
    """saturate(round(x / scale) + zero), halves to even. In float32 integers of 16 bits are exact, and the
    cast saturates, as do those of fewer bits. To a small float it is rounded once."""
    if element is None and dtype not in _GRID:
        ctx.fail(f"{dtype} is no grid that is supported")
    made = ctx.op("divide", x, scale)
    if element is None or element.kind == "int":
        made = ctx.op("round", made)
    if zero is not None:
        made = ctx.op("add", made, ctx.cast(zero, made.dtype))
    if element is None:
        return ctx.cast(_without_nan(ctx, made, np.iinfo(dtypes.to_numpy(dtype)).min), dtype)
    if element.kind == "int":
        low, high = element.range
        made = ctx.op("clip", _without_nan(ctx, made, low), min=float(low), max=float(high))
    return encoded(ctx, made, element, saturate)


def _without_nan(ctx: Context, made: TapeValue, least: int) -> TapeValue:
    """ONNX Runtime makes the least number of NaN. It matters where calibration found an infinite scale, as
    that of a mask of -inf: the mask stays one. Without such a scale it would cost time for nothing."""
    if not ctx.tape.has_infinite_grid:
        return made
    return ctx.op("where", ctx.op("equal", made, made), made, ctx.scalar(float(least), made))


def _look_at_scale(ctx: Context, scale: TapeValue) -> None:
    values = scale.known()
    if values is not None and not np.isfinite(values).all():
        ctx.tape.has_infinite_grid = True


@converter("QuantizeLinear", limits="to integers of 2 to 16 bits, int32, and floats of 8 and 4 bits")
def _quantize(ctx: Context) -> Results:
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional(2)
    _look_at_scale(ctx, scale)
    axis, block = ctx.attr("axis", 1), ctx.attr("block_size", 0)
    saturate = bool(ctx.attr("saturate", 1))
    precision = DTYPES.get(ctx.attr("precision", 0), scale.dtype)
    code = ctx.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else dtype_name(code, "the result") if code else "uint8"
    element = ELEMENTS.get(dtype)
    if element is not None and element.is_text:
        ctx.fail("strings are no grid")
    axis = ctx.axis(axis, x.rank) if scale.type.size > 1 or block else 0
    x, scale = (ctx.cast(v, "float32" if precision in NARROW_FLOATS else precision) for v in (x, scale))
    if element is None and not block:
        return on_grid(ctx, x, scale, zero, dtype, axis)
    scale = _along(ctx, scale, x, axis, block)
    zero = _zero(ctx, zero)
    zero = None if zero is None else _along(ctx, zero, x, axis, block)
    return _quantized(ctx, x, scale, zero, dtype, element, saturate)


def _zero(ctx: Context, zero: TapeValue | None) -> TapeValue | None:
    """A zero point as numbers; None where it is known to be 0."""
    if zero is None:
        return None
    if zero.element is not None and zero.element.is_text:
        ctx.fail("a zero point of strings")
    numbers = decoded(ctx, zero)
    known = numbers.known()
    return None if known is not None and not known.any() else numbers


def _check_types(ctx: Context, x: TapeValue, scale: TapeValue, zero: TapeValue | None) -> None:
    """Refuse a scale that is no float, and a zero point of another type than x."""
    if dtypes.BY_DTYPE[scale.dtype].kind != "float":
        ctx.fail(f"the scale is {scale.type}; it must be float32, float16 or bfloat16")
    if zero is not None and zero.dtype != x.dtype:
        ctx.fail(f"the zero point is {zero.type}, x is {x.type}; both must have one type")
    if x.element is None and x.dtype not in _GRID:
        ctx.fail(f"{x.dtype} is no grid that is supported")


_EXACT = 1 << 24  # whole numbers up to this are float32


@converter("DequantizeLinear", limits="of integers of 2 to 32 bits and floats of 8 and 4 bits")
def _dequantize(ctx: Context) -> Results:
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional(2)
    _look_at_scale(ctx, scale)
    axis, block = ctx.attr("axis", 1), ctx.attr("block_size", 0)
    dtype = DTYPES.get(ctx.attr("output_dtype", 0), scale.dtype)
    _check_types(ctx, x, scale, zero)
    if x.element is None and x.dtype in _GRID and not block:
        axis = ctx.axis(axis, x.rank) if scale.type.size > 1 else 0
        return ctx.cast(from_grid(ctx, x, scale, zero, axis), dtype)
    x, zero = decoded(ctx, x), _zero(ctx, zero)
    axis = ctx.axis(axis, x.rank) if scale.type.size > 1 or block else 0
    wide = ctx.cast(x, "float32" if x.dtype == "float32" else "int32")
    if zero is not None:
        wide = ctx.op("subtract", wide, ctx.cast(_along(ctx, zero, x, axis, block), wide.dtype))
    few = (
        few_bits(ctx, x, scale, zero, axis, block)
        if dtype == "float32" and _is_matrix(ctx.input(0))
        else None
    )
    scale = ctx.cast(_along(ctx, scale, x, axis, block), "float32")
    made = ctx.cast(ctx.op("multiply", ctx.cast(wide, "float32"), scale), dtype)
    if few is None or made.constant is None:
        return made
    return replace(made, constant=replace(made.constant, few_bits=few))


def _is_matrix(x: TapeValue) -> bool:
    """A matrix of 4 bits an element."""
    return x.rank == 2 and x.element is not None and x.element.kind == "int" and x.element.bits == 4


@converter("DynamicQuantizeLinear")
def _dynamic(ctx: Context) -> Results:
    return dynamic_grid(ctx, ctx.input(0))


def dynamic_grid(ctx: Context, x: TapeValue) -> tuple[TapeValue, TapeValue, TapeValue]:
    """(x on the uint8 grid that fits its values, the grid's scale, its zero point)."""
    made, scale, zero = ctx.op("dynamic_quantize", x)
    return made, scale, zero


# ---------------------------------------------------------------- products


def _centred(ctx: Context, x: TapeValue, zero: TapeValue | None, axis: int | None = None) -> TapeValue:
    """int32 x - zero point, which is one for all or one of each index of an axis."""
    wide = ctx.cast(x, "int32")
    if zero is None:
        return wide
    zero = ctx.cast(zero, "int32")
    if zero.rank == 1 and zero.shape[0] == 1:
        zero = ctx.reshape(zero, ())
    elif zero.rank == 1 and axis is not None:
        zero = ctx.reshape(zero, (zero.shape[0], *(1,) * (x.rank - axis % x.rank - 1)))
    return ctx.op("subtract", wide, zero)


def _is_one(zero: TapeValue | None) -> bool:
    return zero is None or zero.type.size == 1


def numbers_of(ctx: Context, w: TapeValue, zero: TapeValue | None, axis: int) -> TapeValue:
    """int16 w - zero point, of bytes; of one zero point each index of an axis where there are several."""
    wide = ctx.cast(w, "int16")
    if zero is None:
        return wide
    zero = ctx.cast(zero, "int16")
    shape = () if zero.type.size == 1 else (zero.type.size, *(1,) * (w.rank - axis % w.rank - 1))
    return ctx.op("subtract", wide, ctx.reshape(zero, shape))


def _point(ctx: Context, x: TapeValue, zero: TapeValue | None) -> TapeValue:
    """The zero point of x as one number of its dtype."""
    if zero is None:
        return ctx.const(np.zeros((), dtypes.to_numpy(x.dtype)))
    return ctx.reshape(zero, ())


def product_of_integers(
    ctx: Context, a: TapeValue, a_zero: TapeValue | None, b: TapeValue, b_zero: TapeValue | None
) -> TapeValue:
    """int32 (a - its zero point) (b - its zero point)."""
    if b.constant is not None and b.rank == 2 and a.rank >= 1 and _is_one(a_zero):
        return dense_of_integers(ctx, a, a_zero, ctx.transpose(numbers_of(ctx, b, b_zero, -1), [1, 0]))
    return matmul(ctx, _centred(ctx, a, a_zero, -2), _centred(ctx, b, b_zero, -1))


def dense_of_integers(ctx: Context, a: TapeValue, a_zero: TapeValue | None, numbers: TapeValue) -> TapeValue:
    """int32 (a - its zero point) numbers^T, of int16 [N, K]."""
    return ctx.op("quantized_dense", a, numbers, _point(ctx, a, a_zero), to="int32")


@converter("MatMulInteger")
def _matmul_integer(ctx: Context) -> Results:
    return product_of_integers(ctx, ctx.input(0), ctx.optional(2), ctx.input(1), ctx.optional(3))


@converter("ConvInteger", limits="1 and 2 spatial dimensions")
def _conv_integer(ctx: Context) -> Results:
    x, w, x_zero, w_zero = ctx.input(0), ctx.input(1), ctx.optional(2), ctx.optional(3)
    if w.constant is not None and x.rank == 4 and _is_one(x_zero):
        numbers, point = numbers_of(ctx, w, w_zero, 0), _point(ctx, x, x_zero)
        return convolve(ctx, x, numbers, None, "quantized_conv2d", point, to="int32")
    return convolve(ctx, _centred(ctx, x, x_zero), _centred(ctx, w, w_zero, 0), None)


def _requantized(
    ctx: Context, product: TapeValue, scale: TapeValue, zero: TapeValue, dtype: str
) -> TapeValue:
    """int32 * scale on the result's grid. In float64, in which int32 is exact."""
    made = ctx.op("multiply", ctx.cast(product, "float64"), scale)
    made = ctx.op("add", ctx.op("round", made), ctx.cast(zero, "float64"))
    return ctx.cast(made, dtype)


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
    scale = ctx.op("divide", ctx.op("multiply", a_scale, _scale(ctx, b_scale, -1)), _scale(ctx, y_scale, -2))
    return _requantized(ctx, product, scale, _scale(ctx, y_zero, -2), y_zero.dtype)


def _product_of_numbers(
    ctx: Context,
    a: tuple[TapeValue, TapeValue, TapeValue],
    b: tuple[TapeValue, TapeValue, TapeValue],
    y_scale: TapeValue,
    y_zero: TapeValue,
) -> TapeValue:
    """The result of QLinearMatMul, of two tensors with their zero point and scale, where float32 sums are
    exact: a product of floats is faster than one of int32."""
    unit = ctx.const(np.float32(1))
    whole = [from_grid(ctx, x, unit, zero) for x, zero, _ in (a, b)]
    of_a, of_b, of_y = (ctx.cast(ctx.reshape(s, ()), "float32") for s in (a[2], b[2], y_scale))
    scale = ctx.op("divide", ctx.op("multiply", of_a, of_b), of_y)
    return on_grid(ctx, ctx.op("multiply", matmul(ctx, *whole), scale), unit, y_zero, y_zero.dtype)


def _check_result(ctx: Context, zero: TapeValue) -> None:
    if zero.dtype not in ("uint8", "int8"):
        ctx.fail(f"the zero point of the result is {zero.type}; it must be uint8 or int8")


def _scale(ctx: Context, value: TapeValue, axis: int) -> TapeValue:
    """float64, one for all, or one a row (axis -2) or column (axis -1)."""
    value = ctx.cast(value, "float64")
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
            scales = ctx.op("multiply", ctx.reshape(x_scale, ()), _one_or_along(ctx, w_scale))
            bias = from_grid(
                ctx, bias, ctx.expand(scales, bias.shape), ctx.expand(ctx.scalar(0, bias), bias.shape)
            )
        w_scale, w_zero = _paired(ctx, w_scale, w_zero)
        numbers = from_grid(ctx, w, w_scale, w_zero)
        product = convolve(ctx, from_grid(ctx, x, x_scale, x_zero), numbers, bias)
        return on_grid(ctx, product, y_scale, y_zero, y_zero.dtype)
    product = convolve(ctx, _centred(ctx, x, x_zero), _centred(ctx, w, w_zero, 0), ctx.optional(8))
    x_scale, y_scale, y_zero = (_scale(ctx, v, 0) for v in (x_scale, y_scale, y_zero))
    w_scale = ctx.cast(w_scale, "float64")
    if w_scale.type.size == 1:
        w_scale = ctx.reshape(w_scale, ())
    else:
        w_scale = ctx.reshape(w_scale, (w_scale.shape[0], *(1,) * (x.rank - 2)))
    scale = ctx.op("divide", ctx.op("multiply", x_scale, w_scale), y_scale)
    return _requantized(ctx, product, scale, y_zero, ctx.input(7).dtype)
