"""What elementwise functions of two tensors compute: BINARY."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ..wide import Wide

Body = Callable[..., Handle]


def _arithmetic(op: str) -> Body:
    """Floats as they are; integers wrap, as int32 of the same bits."""
    return lambda w, a, b: w(op, w.int32(a), w.int32(b))


def _swapped(body: Body) -> Body:
    return lambda w, a, b: body(w, b, a)


def _order(op: str) -> Body:
    return lambda w, a, b: w(op, w.ordered(a), w.ordered(b))


def _greater(op: str) -> Body:
    """maximum and minimum: of uint32 in the order of unsigned numbers."""

    def body(w: Wide, a: Handle, b: Handle) -> Handle:
        made = w(op, w.ordered(a), w.ordered(b))
        return w.flip(kernels.reinterpret(made, "uint32")) if a.dtype == "uint32" else made

    return body


def _logical(op: str) -> Body:
    return lambda w, a, b: w(op, w.true(a), w.true(b))


def _bits(op: str, unsigned: bool = False) -> Body:
    def body(w: Wide, a: Handle, b: Handle) -> Handle:
        if a.dtype == "float32":
            raise Unsupported(f"{op} takes integers, not floats", op=op)
        if unsigned and a.dtype == "int32":
            a, b = (kernels.reinterpret(x, "uint32") for x in (a, b))
            return kernels.reinterpret(kernels.run(op, [a, b]), "int32")
        return kernels.run(op, [a, b])

    return body


def _floats(op: str, **attrs: Any) -> Body:
    """An op of floats only."""

    def body(w: Wide, a: Handle, b: Handle) -> Handle:
        if a.dtype != "float32":
            raise Unsupported(f"{op} of integers is not supported", op=op)
        return w(op, a, b, **attrs)

    return body


def _quotient(w: Wide, a: Handle, b: Handle, rounding_mode: str | None = None) -> Handle:
    check(
        rounding_mode in (None, "None", "floor", "trunc"),
        "ttnn.divide",
        f"Incorrect rounding mode {rounding_mode}",
    )
    if a.dtype not in ("float32", "int32"):
        raise Unsupported(f"divide of {a.dtype} is not supported", op="ttnn.divide")
    if a.dtype == "float32":
        made = w("divide", a, b)
        return made if rounding_mode in (None, "None") else w(rounding_mode, made)
    if rounding_mode in (None, "None"):
        return w("divide", w.cast(a, "float32"), w.cast(b, "float32"))
    return _whole_quotient(w, a, b, rounding_mode == "floor")


def _turned_quotient(w: Wide, a: Handle, b: Handle, rounding_mode: str | None = None) -> Handle:
    """b / a; on a card b times the reciprocal."""
    if kernels.as_on_a_card() and a.dtype == "float32" and rounding_mode in (None, "None"):
        return w("multiply", w("reciprocal", a), b)
    return _quotient(w, b, a, rounding_mode)


def _whole_quotient(w: Wide, a: Handle, b: Handle, down: bool) -> Handle:
    """Of int32: without what is left, a is a multiple of b; what float32 loses of the quotient comes in a
    second step. ``down``: one less where the signs of b and of what is left differ."""
    left = _remainder(True)(w, a, b)
    whole, divisor = w("subtract", a, left), w.cast(b, "float32")
    made = w.cast(w("round", w("divide", w.cast(whole, "float32"), divisor)), "int32")
    rest = w("subtract", whole, w("multiply", made, b))
    made = w("add", made, w.cast(w("round", w("divide", w.cast(rest, "float32"), divisor)), "int32"))
    if not down:
        return made
    apart = w("not_equal", w("sign", left), w("sign", b))
    return w("subtract", made, w.cast(w("logical_and", w.true(left), apart), "int32"))


def _remainder(truncated: bool) -> Body:
    """What is left of the quotient: NaN for floats, 0 for integers where b is 0."""

    def body(w: Wide, a: Handle, b: Handle) -> Handle:
        if a.dtype == "float32":
            return w("mod", a, b, fmod=truncated)
        one = w.select(w.true(b), b, w.number(1, b.dtype))
        return kernels.run("mod", [a, one], {"fmod": truncated})

    return body


def _floor_div(w: Wide, a: Handle, b: Handle) -> Handle:
    if a.dtype != "float32":
        return _quotient(w, a, b, "floor")
    return w("floor", w("divide", a, b))


def _no_nan(w: Wide, a: Handle, b: Handle) -> Handle:
    """a / b, 0 where b is 0."""
    return w.select(w("equal", b, 0.0), 0.0, w("divide", a, b))


def _xlogy(w: Wide, a: Handle, b: Handle) -> Handle:
    """a log(b): 0 where a is 0 and b is a number."""
    made = w.select(w("equal", a, 0.0), 0.0, w("multiply", a, w("log", b)))
    return w.select(w("isnan", b), math.nan, made)


def _power(w: Wide, a: Handle, b: Handle) -> Handle:
    if a.dtype == "float32":
        return w("power", a, b)
    made = w("power", w.cast(a, "float32"), w.cast(b, "float32"))
    return w.cast(made, a.dtype)


def _atan2(w: Wide, y: Handle, x: Handle) -> Handle:
    """By atan of the smaller part over the larger one, so that no quotient overflows."""
    ay, ax = w("abs", y), w("abs", x)
    low, high = w("minimum", ay, ax), w("maximum", ay, ax)
    both = w("logical_and", w("equal", low, high), w("greater", low, 0.0))  # inf / inf, too
    ratio = w.select(both, 1.0, w.select(w("equal", high, 0.0), 0.0, w("divide", low, high)))
    angle = w("atan", ratio)
    angle = w.select(w("greater", ay, ax), w("subtract", math.pi / 2, angle), angle)
    angle = w.select(_negative(w, x), w("subtract", math.pi, angle), angle)
    angle = w.select(_negative(w, y), w("negative", angle), angle)
    return w(
        "add",
        angle,
        w("multiply", w("add", w.select(w("isnan", y), y, 0.0), w.select(w("isnan", x), x, 0.0)), 1.0),
    )


def _negative(w: Wide, x: Handle) -> Handle:
    """Where the sign bit is set."""
    return w("less", kernels.reinterpret(w.wide(x), "int32"), 0)


def _isclose(
    w: Wide, a: Handle, b: Handle, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Handle:
    near = w(
        "less_equal",
        w("abs", w("subtract", a, b)),
        w("add", w("multiply", w("abs", b), float(rtol)), float(atol)),
    )
    finite = w("less", w("abs", b), math.inf)
    made = w("logical_or", w("logical_and", near, finite), w("equal", a, b))
    return w("logical_or", made, w("logical_and", w("isnan", a), w("isnan", b))) if equal_nan else made


def _scaled(op: str) -> Body:
    def body(w: Wide, a: Handle, b: Handle, alpha: float = 1.0) -> Handle:
        return w(op, a, w("multiply", b, float(alpha)))

    return body


def _squared_difference(w: Wide, a: Handle, b: Handle) -> Handle:
    made = w("subtract", w.int32(a), w.int32(b))
    return w("multiply", made, made)


def _gcd(w: Wide, a: Handle, b: Handle) -> Handle:
    """Euclid's algorithm: 45 steps are enough for any two numbers of 32 bits."""
    a, b = w("abs", a), w("abs", b)
    for _ in range(45):
        rest = kernels.run("mod", [a, w.select(w.true(b), b, w.number(1, b.dtype))], {"fmod": True})
        going = w.true(b)
        a, b = w.select(going, b, a), w.select(going, rest, b)
    return a


def _lcm(w: Wide, a: Handle, b: Handle) -> Handle:
    """|a / gcd(a, b) b|, 0 where both are 0."""
    divisor = _gcd(w, a, b)
    safe = w.select(w.true(divisor), divisor, w.number(1, divisor.dtype))
    return w("abs", w("multiply", _quotient(w, a, safe, "trunc"), b))


# name: (body, the ops that serve it, what it is)
BINARY: dict[str, tuple[Body, str, str]] = {
    "add": (_arithmetic("add"), "add", "a + b"),
    "subtract": (_arithmetic("subtract"), "subtract", "a - b"),
    "multiply": (_arithmetic("multiply"), "multiply", "a b"),
    "rsub": (_swapped(_arithmetic("subtract")), "subtract", "b - a"),
    "divide": (_quotient, "divide", "a / b; rounding_mode None, floor or trunc"),
    "div": (_quotient, "divide", "a / b; rounding_mode None, floor or trunc"),
    "div_no_nan": (_no_nan, "divide, where", "a / b, 0 where b is 0"),
    "floor_div": (_floor_div, "divide, floor", "the quotient, rounded down"),
    "rdiv": (
        _turned_quotient,
        "divide",
        "b / a",
    ),
    "remainder": (_remainder(False), "mod", "what is left of a / b, with the sign of b"),
    "fmod": (_remainder(True), "mod", "what is left of a / b, with the sign of a"),
    "pow": (_power, "power", "a to the b"),
    "maximum": (_greater("maximum"), "maximum", "the greater one"),
    "minimum": (_greater("minimum"), "minimum", "the lesser one"),
    "eq": (lambda w, a, b: w("equal", *w.same(a, b)), "equal", "1 where a == b"),
    "ne": (lambda w, a, b: w("not_equal", *w.same(a, b)), "not_equal", "1 where a != b"),
    "lt": (_order("less"), "less", "1 where a < b"),
    "le": (_order("less_equal"), "less_equal", "1 where a <= b"),
    "gt": (_order("greater"), "greater", "1 where a > b"),
    "ge": (_order("greater_equal"), "greater_equal", "1 where a >= b"),
    "logical_and": (_logical("logical_and"), "logical_and", "1 where both are not 0"),
    "logical_or": (_logical("logical_or"), "logical_or", "1 where one is not 0"),
    "logical_xor": (_logical("logical_xor"), "logical_xor", "1 where exactly one is not 0"),
    "bitwise_and": (_bits("bitwise_and"), "bitwise_and", "the bits of both"),
    "bitwise_or": (_bits("bitwise_or"), "bitwise_or", "the bits of one"),
    "bitwise_xor": (_bits("bitwise_xor"), "bitwise_xor", "the bits of exactly one"),
    "bitwise_left_shift": (_bits("shift_left"), "shift_left", "a 2^b"),
    "bitwise_right_shift": (_bits("shift_right"), "shift_right", "a over 2^b, rounded down"),
    "logical_left_shift": (_bits("shift_left"), "shift_left", "the bits moved up"),
    "logical_right_shift": (_bits("shift_right", True), "shift_right", "the bits moved down, zeros in front"),
    "ldexp": (_floats("ldexp"), "ldexp", "a 2^b"),
    "logaddexp": (_floats("logaddexp"), "logaddexp", "log(exp(a) + exp(b))"),
    "logaddexp2": (_floats("logaddexp2"), "logaddexp2", "log2(2^a + 2^b)"),
    "hypot": (_floats("hypot"), "hypot", "sqrt(a a + b b)"),
    "squared_difference": (_squared_difference, "subtract, multiply", "(a - b)^2"),
    "bias_gelu": (lambda w, a, b: w("gelu", w("add", a, b)), "add, gelu", "gelu(a + b)"),
    "xlogy": (_xlogy, "log, multiply, where", "a log(b)"),
    "atan2": (_atan2, "divide, atan, where", "the angle of (b, a)"),
    "isclose": (_isclose, "subtract, abs, less_equal", "1 where |a - b| <= atol + rtol |b|"),
    "addalpha": (_scaled("add"), "multiply, add", "a + alpha b"),
    "subalpha": (_scaled("subtract"), "multiply, subtract", "a - alpha b"),
    "gcd": (_gcd, "mod, where", "the greatest common divisor"),
    "lcm": (_lcm, "mod, divide, multiply", "the least common multiple"),
}
