"""BINARY: the bodies of the elementwise functions of two tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....ir.value import where
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import expect

Body = Callable[..., WideValue]


def _arithmetic(op: str) -> Body:
    """An op that runs on floats as they are, and on integers as int32, with wrapping."""
    return lambda a, b: a.int32().op(op, b.int32())


def _swapped(body: Body) -> Body:
    return lambda a, b: body(b, a)


def _order(op: str) -> Body:
    return lambda a, b: a.ordered().op(op, b.ordered())


def _greater(op: str) -> Body:
    """maximum or minimum; uint32 values are compared as unsigned numbers."""

    def body(a: WideValue, b: WideValue) -> WideValue:
        made = a.ordered().op(op, b.ordered())
        return made.reinterpret("uint32").flip() if a.dtype == "uint32" else made

    return body


def _logical(op: str) -> Body:
    return lambda a, b: a.true().op(op, b.true())


def _bits(op: str, unsigned: bool = False) -> Body:
    def body(a: WideValue, b: WideValue) -> WideValue:
        if unsigned and a.dtype == "int32":
            a, b = (x.reinterpret("uint32") for x in (a, b))
            return a.run(op, b).reinterpret("int32")
        return a.run(op, b)

    return body


def _op(op: str) -> Body:
    return lambda a, b: a.op(op, b)


def _quotient(a: WideValue, b: WideValue, rounding_mode: str | None = None) -> WideValue:
    expect(rounding_mode in (None, "None", "floor", "trunc"), f"Incorrect rounding mode {rounding_mode}")
    if a.dtype == "float32":
        made = a / b
        return made if rounding_mode in (None, "None") else made.op(rounding_mode)
    if rounding_mode in (None, "None"):
        return a.cast("float32") / b.cast("float32")
    return _whole_quotient(a, b, rounding_mode == "floor")


def _turned_quotient(a: WideValue, b: WideValue, rounding_mode: str | None = None) -> WideValue:
    """b / a; a card multiplies b by the reciprocal of a."""
    if kernels.as_on_a_card() and a.dtype == "float32" and rounding_mode in (None, "None"):
        return a.reciprocal() * b
    return _quotient(b, a, rounding_mode)


def _whole_quotient(a: WideValue, b: WideValue, down: bool) -> WideValue:
    """The quotient of int32 values: (a - remainder) / b, a whole number. float32 rounds that division; a
    second division corrects the error. ``down``: whether to subtract 1 where the signs of b and of the
    remainder differ."""
    left = _remainder(True)(a, b)
    whole, divisor = a - left, b.cast("float32")
    made = (whole.cast("float32") / divisor).round().cast("int32")
    rest = whole - made * b
    made = made + (rest.cast("float32") / divisor).round().cast("int32")
    if not down:
        return made
    apart = left.sign().not_equal(b.sign())
    return made - (left.true() & apart).cast("int32")


def _remainder(truncated: bool) -> Body:
    """The remainder of a / b. Where b is 0, the result is NaN for floats and 0 for integers."""

    def body(a: WideValue, b: WideValue) -> WideValue:
        if a.dtype == "float32":
            return a.op("mod", b, fmod=truncated)
        one = where(b.true(), b, b.scalar(1))
        return a.run("mod", one, fmod=truncated)

    return body


def _floor_div(a: WideValue, b: WideValue) -> WideValue:
    if a.dtype != "float32":
        return _quotient(a, b, "floor")
    return (a / b).floor()


def _no_nan(a: WideValue, b: WideValue) -> WideValue:
    """a / b, but 0 where b is 0."""
    return where(b.equal(0.0), 0.0, a / b)


def _xlogy(a: WideValue, b: WideValue) -> WideValue:
    """a log(b), but 0 where a is 0 and b is not NaN."""
    made = where(a.equal(0.0), 0.0, a * b.log())
    return where(b.isnan(), math.nan, made)


def whole_power(a: WideValue, exponent: int) -> WideValue:
    """Integers to the power of a whole number of 0 or above, with wrapping: products of squares."""
    made, square = None, a.int32()
    while exponent:
        if exponent & 1:
            made = square if made is None else made * square
        exponent >>= 1
        square = square * square if exponent else square
    return a.scalar(1).run("broadcast_to", shape=a.shape) if made is None else made


def _atan2(y: WideValue, x: WideValue) -> WideValue:
    """The angle of (x, y), from atan of (smaller size / larger size), a quotient that cannot overflow."""
    ay, ax = abs(y), abs(x)
    low, high = ay.minimum(ax), ay.maximum(ax)
    both = low.equal(high) & (low > 0.0)  # true for inf / inf, too
    ratio = where(both, 1.0, where(high.equal(0.0), 0.0, low / high))
    angle = ratio.op("atan")
    angle = where(ay > ax, math.pi / 2 - angle, angle)
    angle = where(_negative(x), math.pi - angle, angle)
    angle = where(_negative(y), -angle, angle)
    return angle + (where(y.isnan(), y, 0.0) + where(x.isnan(), x, 0.0)) * 1.0


def _negative(x: WideValue) -> WideValue:
    """True where the sign bit is set."""
    return x.wide().reinterpret("int32") < 0


def _isclose(
    a: WideValue, b: WideValue, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> WideValue:
    near = abs(a - b) <= abs(b) * float(rtol) + float(atol)
    finite = abs(b) < math.inf
    made = near & finite | a.equal(b)
    return (made | a.isnan() & b.isnan()) if equal_nan else made


def _scaled(op: str) -> Body:
    def body(a: WideValue, b: WideValue, alpha: float = 1.0) -> WideValue:
        if a.dtype == "float32":
            return a.op(op, b * float(alpha))
        return a.int32().op(op, b.int32() * int(alpha))

    return body


def _squared_difference(a: WideValue, b: WideValue) -> WideValue:
    made = a.int32() - b.int32()
    return made * made


def _gcd(a: WideValue, b: WideValue) -> WideValue:
    """Euclid's algorithm; 45 steps are enough for any two numbers of 32 bits."""
    a, b = abs(a), abs(b)
    for _ in range(45):
        rest = a.run("mod", where(b.true(), b, b.scalar(1)), fmod=True)
        going = b.true()
        a, b = where(going, b, a), where(going, rest, b)
    return a


def _lcm(a: WideValue, b: WideValue) -> WideValue:
    """|a / gcd(a, b) b|, but 0 where both are 0."""
    divisor = _gcd(a, b)
    safe = where(divisor.true(), divisor, divisor.scalar(1))
    return abs(_quotient(a, safe, "trunc") * b)


# name -> (body, the registry ops that serve it, its formula)
BINARY: dict[str, tuple[Body, str, str]] = {
    "add": (_arithmetic("add"), "add", "a + b"),
    "subtract": (_arithmetic("subtract"), "subtract", "a - b"),
    "multiply": (_arithmetic("multiply"), "multiply", "a b"),
    "rsub": (_swapped(_arithmetic("subtract")), "subtract", "b - a"),
    "divide": (_quotient, "divide", "a / b; rounding_mode None, floor or trunc"),
    "div": (_quotient, "divide", "a / b; rounding_mode None, floor or trunc"),
    "div_no_nan": (_no_nan, "divide, where", "a / b, but 0 where b is 0"),
    "floor_div": (_floor_div, "divide, floor", "the quotient, rounded down"),
    "rdiv": (_turned_quotient, "divide", "b / a"),
    "remainder": (_remainder(False), "mod", "the remainder of a / b, with the sign of b"),
    "fmod": (_remainder(True), "mod", "the remainder of a / b, with the sign of a"),
    "pow": (lambda a, b: a**b, "power, multiply", "a to the power of b"),
    "maximum": (_greater("maximum"), "maximum", "the greater one"),
    "minimum": (_greater("minimum"), "minimum", "the lesser one"),
    "eq": (lambda a, b: a.int32().equal(b.int32()), "equal", "1 where a == b"),
    "ne": (lambda a, b: a.int32().not_equal(b.int32()), "not_equal", "1 where a != b"),
    "lt": (_order("less"), "less", "1 where a < b"),
    "le": (_order("less_equal"), "less_equal", "1 where a <= b"),
    "gt": (_order("greater"), "greater", "1 where a > b"),
    "ge": (_order("greater_equal"), "greater_equal", "1 where a >= b"),
    "logical_and": (_logical("logical_and"), "logical_and", "1 where both are not 0"),
    "logical_or": (_logical("logical_or"), "logical_or", "1 where at least one is not 0"),
    "logical_xor": (_logical("logical_xor"), "logical_xor", "1 where exactly one is not 0"),
    "bitwise_and": (_bits("bitwise_and"), "bitwise_and", "the bits that are set in both"),
    "bitwise_or": (_bits("bitwise_or"), "bitwise_or", "the bits that are set in at least one"),
    "bitwise_xor": (_bits("bitwise_xor"), "bitwise_xor", "the bits that are set in exactly one"),
    "bitwise_left_shift": (_bits("shift_left"), "shift_left", "a 2^b"),
    "bitwise_right_shift": (_bits("shift_right"), "shift_right", "a over 2^b, rounded down"),
    "logical_left_shift": (_bits("shift_left"), "shift_left", "the bits shifted left"),
    "logical_right_shift": (
        _bits("shift_right", True),
        "shift_right",
        "the bits shifted right, with zeros in front",
    ),
    "ldexp": (_op("ldexp"), "ldexp", "a 2^b"),
    "logaddexp": (_op("logaddexp"), "logaddexp", "log(exp(a) + exp(b))"),
    "logaddexp2": (_op("logaddexp2"), "logaddexp2", "log2(2^a + 2^b)"),
    "hypot": (_op("hypot"), "hypot", "sqrt(a a + b b)"),
    "squared_difference": (_squared_difference, "subtract, multiply", "(a - b)^2"),
    "bias_gelu": (lambda a, b: (a + b).op("gelu"), "add, gelu", "gelu(a + b)"),
    "xlogy": (_xlogy, "log, multiply, where", "a log(b)"),
    "atan2": (_atan2, "divide, atan, where", "the angle of (b, a)"),
    "isclose": (_isclose, "subtract, abs, less_equal", "1 where |a - b| <= atol + rtol |b|"),
    "addalpha": (_scaled("add"), "multiply, add", "a + alpha b"),
    "subalpha": (_scaled("subtract"), "multiply, subtract", "a - alpha b"),
    "gcd": (_gcd, "mod, where", "the greatest common divisor"),
    "lcm": (_lcm, "mod, divide, multiply", "the least common multiple"),
}
