"""Ops on each element: of one input, of two and more with numpy's broadcasting, activations, casts."""

from __future__ import annotations

import math

from ..context import FLOATS, Context, Results, converter
from ..read import dtype_name
from ..tape import TapeValue

_UNARY = {
    "Abs": "abs",
    "Neg": "negative",
    "Sign": "sign",
    "Ceil": "ceil",
    "Floor": "floor",
    "Round": "round",
    "Log": "log",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Erf": "erf",
    "Reciprocal": "reciprocal",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Mish": "mish",
    "HardSwish": "hard_swish",
    "IsNaN": "isnan",
    "Not": "logical_not",
    "BitwiseNot": "bitwise_not",
    "Exp": "exp",
    "Sqrt": "sqrt",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Relu": "relu",
}
_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}
# ONNX op -> registry op, {attribute: ONNX's default}
_SCALED = {
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Celu": ("celu", {"alpha": 1.0}),
    "Selu": ("selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
}
_FOLDS = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


@converter(*_UNARY)
def _unary(ctx: Context) -> Results:
    return ctx.op(_UNARY[ctx.node.op_type], ctx.input(0))


@converter(*_BINARY)
def _binary(ctx: Context) -> Results:
    return ctx.op(_BINARY[ctx.node.op_type], ctx.input(0), ctx.input(1))


@converter(*_SCALED)
def _scaled(ctx: Context) -> Results:
    op, defaults = _SCALED[ctx.node.op_type]
    return ctx.op(op, ctx.input(0), **{name: ctx.attr(name, value) for name, value in defaults.items()})


@converter(*_FOLDS)
def _fold(ctx: Context) -> Results:
    return ctx.each(_FOLDS[ctx.node.op_type], *(ctx.input(i) for i in range(len(ctx.inputs))))


@converter("Mean")
def _mean(ctx: Context) -> Results:
    total = ctx.each("add", *(ctx.input(i) for i in range(len(ctx.inputs))))
    return ctx.op("divide", total, ctx.scalar(len(ctx.inputs), total))


@converter("Identity")
def _identity(ctx: Context) -> Results:
    return ctx.input(0)


@converter("Where")
def _where(ctx: Context) -> Results:
    return ctx.op("where", *(ctx.input(i) for i in range(3)))


@converter("Pow")
def _pow(ctx: Context) -> Results:
    base, exponent = ctx.input(0), ctx.input(1)
    if base.dtype == exponent.dtype:
        return ctx.op("power", base, exponent)
    if base.dtype in FLOATS:
        return ctx.op("power", base, ctx.cast(exponent, base.dtype))
    wide = ctx.op("power", ctx.cast(base, "float64"), ctx.cast(exponent, "float64"))
    return ctx.cast(wide, base.dtype)


@converter("Mod")
def _mod(ctx: Context) -> Results:
    return ctx.op("mod", ctx.input(0), ctx.input(1), fmod=bool(ctx.attr("fmod", 0)))


@converter("BitShift")
def _shift(ctx: Context) -> Results:
    way = ctx.attr("direction")
    if way not in ("LEFT", "RIGHT"):
        ctx.fail(f"direction is {way!r}, it must be LEFT or RIGHT")
    return ctx.op(f"shift_{way.lower()}", ctx.input(0), ctx.input(1))


@converter("PRelu")
def _prelu(ctx: Context) -> Results:
    x, slope = ctx.input(0), ctx.input(1)
    return ctx.op("where", ctx.op("less", x, ctx.scalar(0, x)), ctx.op("multiply", x, slope), x)


@converter("Clip")
def _clip(ctx: Context) -> Results:
    x = ctx.input(0)
    if ctx.opset < 11:
        return _bounded(ctx, x, ctx.attr("min", None), ctx.attr("max", None))
    low, high = ctx.optional(1), ctx.optional(2)
    for value in (low, high):
        if value is not None and value.type.size != 1:
            ctx.fail(f"a bound is {value.type}, it must have one element")
    known = [None if v is None else v.known() for v in (low, high)]
    if all(v is None or k is not None for v, k in zip((low, high), known, strict=True)):
        return _bounded(ctx, x, *(None if k is None else k.reshape(-1)[0] for k in known))
    if low is not None:
        x = ctx.op("maximum", x, low)
    return x if high is None else ctx.op("minimum", x, high)


def _bounded(ctx: Context, x: TapeValue, low: float | None, high: float | None) -> TapeValue:
    """clip with bounds that are known; integers by maximum and minimum, which are exact."""
    if x.dtype in FLOATS:  # a bound at infinity is none
        low = None if low is None or low == -math.inf else low
        high = None if high is None or high == math.inf else high
    if low is None and high is None:
        return x
    if x.dtype in FLOATS and all(v is None or math.isfinite(v) for v in (low, high)):
        return ctx.op(
            "clip", x, min=None if low is None else float(low), max=None if high is None else float(high)
        )
    if low is not None:
        x = ctx.op("maximum", x, ctx.scalar(low, x))
    return x if high is None else ctx.op("minimum", x, ctx.scalar(high, x))


@converter("Shrink")
def _shrink(ctx: Context) -> Results:
    x = ctx.input(0)
    wide = ctx.cast(x, x.dtype if x.dtype in FLOATS else "float64")
    made = ctx.op("shrink", wide, lambd=ctx.attr("lambd", 0.5), bias=ctx.attr("bias", 0.0))
    return ctx.cast(made, x.dtype)


@converter("Gelu")
def _gelu(ctx: Context) -> Results:
    return ctx.op("gelu", ctx.input(0), approximate=ctx.attr("approximate", "none"))


_STEEP = (1e-3, 1e3)  # slopes that any float can be multiplied with and divided by


@converter("Swish")
def _swish(ctx: Context) -> Results:
    x, alpha = ctx.input(0), ctx.attr("alpha", 1.0)
    if alpha == 1.0:
        return ctx.op("silu", x)
    if _STEEP[0] <= abs(alpha) <= _STEEP[1]:  # right also where the sigmoid alone leaves the normal numbers
        slope = ctx.scalar(alpha, x)
        return ctx.op("divide", ctx.op("silu", ctx.op("multiply", x, slope)), slope)
    return ctx.op("multiply", x, ctx.op("sigmoid", ctx.op("multiply", x, ctx.scalar(alpha, x))))


@converter("IsInf")
def _isinf(ctx: Context) -> Results:
    return ctx.op(
        "isinf",
        ctx.input(0),
        detect_positive=bool(ctx.attr("detect_positive", 1)),
        detect_negative=bool(ctx.attr("detect_negative", 1)),
    )


@converter("Cast", limits="float32, float64, float16, bfloat16, integers of 8 to 64 bits, bool")
def _cast(ctx: Context) -> Results:
    ctx.ignore("saturate", "round_mode")  # of float8 and smaller
    return ctx.cast(ctx.input(0), dtype_name(ctx.attr("to"), "the result"))


@converter("CastLike", limits="as Cast")
def _cast_like(ctx: Context) -> Results:
    ctx.ignore("saturate", "round_mode")
    return ctx.cast(ctx.input(0), ctx.input(1).dtype)


@converter("Dropout", limits="as in inference; a training_mode that is true needs a ratio of 0")
def _dropout(ctx: Context) -> Results:
    x = ctx.input(0)
    ctx.ignore("seed")
    ratio = ctx.attr("ratio", 0.5) if ctx.opset < 12 else 0.5
    training = bool(ctx.opset >= 12 and ctx.single(2, False))
    if training and float(ctx.single(1, ratio)) != 0.0:
        ctx.fail("it drops elements at random (training_mode is true)")
    mask = None
    if ctx.wants(1):
        mask = ctx.full(x.shape, True, "bool" if ctx.opset >= 10 else x.dtype)
    return x, mask
