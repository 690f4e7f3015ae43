"""Operations that the op table names for torch (``Op.torch``), and elementwise ones made of some ops."""

from __future__ import annotations

import math
from typing import Any

from ...ir.graph import TensorType
from ...ir.ops import Op, all_ops
from ..counters import Unsupported
from .operands import cast, float_of, in_float32, is_float, is_value, pair, scalar_like
from .table import rule


def _one(op: Op) -> Any:
    """Integers become floats where torch makes floats of them; what is not 0 is true. Arguments that torch
    takes by name alone have the names of the op's attributes."""
    if op.promotes:
        return lambda e, x, **attrs: e.op(op.name, float_of(e, x), **attrs)
    if op.bodies["cpu"].dtypes == ("bool",):
        return lambda e, x: e.op(op.name, _truth(e, x))
    return lambda e, x: e.op(op.name, x)


def _two(op: Op) -> Any:
    """Of bools: what is not 0. Else of the common type, which for a comparison may be one that only the host
    stores. Torch wants inputs of a product to be of one type."""
    if op.kind != "elementwise":
        return lambda e, a, b: e.op(op.name, a, b)
    dtypes = op.bodies["cpu"].dtypes
    if dtypes == ("bool",):
        return lambda e, a, b: e.op(op.name, _truth(e, a), _truth(e, b))
    if op.name == "multiply":
        return _multiply
    (made,) = op.infer([TensorType(dtypes[0], ())] * 2, op.decode({}))
    return lambda e, a, b: e.op(op.name, *pair(e, a, b, stored=made.dtype != "bool"))


def _multiply(e: Any, a: Any, b: Any) -> Any:
    """Of bools both."""
    a, b = pair(e, a, b)
    return e.op("logical_and" if a.dtype == "bool" else "multiply", a, b)


def _three(op: Op) -> Any:
    """By what is not 0, one of two of a common type."""

    def rule_of(e: Any, condition: Any, a: Any = None, b: Any = None) -> Any:
        if a is None:
            raise Unsupported("the shape of the result depends on values")
        return e.op(op.name, _truth(e, condition), *pair(e, a, b))

    return rule_of


def _truth(e: Any, x: Any) -> Any:
    return cast(e, x, "bool") if is_value(x) else e.scalar(bool(x), "bool")


for _op in all_ops().values():
    if _op.torch:
        rule(*_op.torch)((_one, _two, _three)[_op.arity[0] - 1](_op))


@rule("add")
def add(e: Any, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    a, b = pair(e, a, b)
    return e.op("add", a, b if alpha == 1 else e.op("multiply", b, scalar_like(e, alpha, b)))


@rule("sub")
def sub(e: Any, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    a, b = pair(e, a, b)
    return e.op("subtract", a, b if alpha == 1 else e.op("multiply", b, scalar_like(e, alpha, b)))


@rule("rsub")
def rsub(e: Any, a: Any, b: Any, alpha: Any = 1) -> Any:
    if any(x.dtype == "bool" for x in (a, b) if is_value(x)):
        raise Unsupported("torch subtracts no bools")  # its kernel says so
    a, b = pair(e, a, b)
    return e.op("subtract", b, a if alpha == 1 else e.op("multiply", a, scalar_like(e, alpha, a)))


@rule("pow")
def power(e: Any, a: Any, b: Any) -> Any:
    if not is_value(b) and is_value(a) and a.dtype != "bool":
        if b == 2:
            return e.op("multiply", a, a)
        if b == 1:
            return a
        if is_float(a) and b == 0.5:
            return e.op("sqrt", a)
        if is_float(a) and b == -1:
            return e.op("divide", scalar_like(e, 1, a), a)
        if is_float(a) and b == 3:
            return e.op("multiply", e.op("multiply", a, a), a)
    a, b = pair(e, a, b)
    if not is_float(a):
        raise Unsupported("powers of integers are the host's")
    return e.op("power", a, b)


@rule("ldexp")
def ldexp(e: Any, a: Any, b: Any) -> Any:
    """Of graphs: of single operations torch makes powers and products. One of 2 may be 0 or infinite."""
    a, b = pair(e, a, float_of(e, b))
    return e.op("multiply", a, e.op("ldexp", scalar_like(e, 1.0, b), b))


@rule("square")
def square(e: Any, x: Any) -> Any:
    """As a product, which tt's matrix unit makes: faster than the op square on its vector unit, and with the
    numerics that are asked for."""
    return e.op("multiply", x, x)


@rule("addcmul")
def addcmul(e: Any, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    x, a, b = pair(e, x, a, b)
    if is_float(x):
        return e.op("addcmul", x, a, b, value=float(value))
    made = e.op("multiply", a, b)
    return e.op("add", x, made if value == 1 else e.op("multiply", made, scalar_like(e, value, made)))


@rule("addcdiv")
def addcdiv(e: Any, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    x, a, b = pair(e, x, a, b)
    if is_float(x):
        # a factor that changes in each step of an optimizer would be a call to be selected in each
        a = a if value == 1 else e.op("multiply", a, scalar_like(e, value, a))
        return e.op("addcdiv", x, a, b)
    made = e.op("divide", a, b)
    return e.op("add", x, made if value == 1 else e.op("multiply", made, scalar_like(e, value, made)))


@rule("lerp")
def lerp(e: Any, a: Any, b: Any, weight: Any) -> Any:
    weight = weight if is_value(weight) else scalar_like(e, weight, a)
    if is_float(a):
        return e.op("lerp", a, b, weight)
    return e.op("add", a, e.op("multiply", e.op("subtract", b, a), weight))


@rule("masked_fill")
def masked_fill(e: Any, x: Any, mask: Any, value: Any) -> Any:
    value = cast(e, value, x.dtype) if is_value(value) else scalar_like(e, value, x)
    return e.op("where", mask, value, x)


@rule("clamp")
def clamp(e: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    if is_value(min) or is_value(max):
        made = e.op("maximum", *pair(e, x, min)) if min is not None else x
        return e.op("minimum", *pair(e, made, max)) if max is not None else made
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (min, max)):
        return e.filled(tuple(x.shape), math.nan, x.dtype if is_float(x) else "float32")
    if is_float(x) and not any(isinstance(bound, float) and math.isinf(bound) for bound in (min, max)):
        return e.op(
            "clip", x, min=None if min is None else float(min), max=None if max is None else float(max)
        )
    if not is_float(x) and any(isinstance(bound, float) for bound in (min, max)):
        raise Unsupported("integers clamped by floats are the host's")
    made = e.op("maximum", x, scalar_like(e, min, x)) if min is not None else x
    return e.op("minimum", made, scalar_like(e, max, x)) if max is not None else made


@rule("clamp_min")
def clamp_min(e: Any, x: Any, min: Any) -> Any:
    return clamp(e, x, min)


@rule("clamp_max")
def clamp_max(e: Any, x: Any, max: Any) -> Any:
    return clamp(e, x, None, max)


@rule("hardtanh")
def hardtanh(e: Any, x: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    # relu6 of integers gives its bounds as floats; those that all types with a sign have
    if x.dtype.startswith("int") and all(v in range(-128, 128) for v in (min_val, max_val)):
        return clamp(e, x, int(min_val), int(max_val))
    return clamp(e, x, float(min_val), float(max_val))


@rule("leaky_relu")
def leaky_relu(e: Any, x: Any, negative_slope: float = 0.01) -> Any:
    return e.op("leaky_relu", x, alpha=float(negative_slope))


@rule("elu")
def elu(e: Any, x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if input_scale == 1:
        made = e.op("elu", x, alpha=float(alpha))
        return made if scale == 1 else e.op("multiply", made, scalar_like(e, scale, x))
    bent = e.op("expm1", e.op("multiply", x, scalar_like(e, input_scale, x)))
    below = e.op("multiply", bent, scalar_like(e, alpha * scale, x))
    above = x if scale == 1 else e.op("multiply", x, scalar_like(e, scale, x))
    return e.op("where", e.op("greater", x, scalar_like(e, 0, x)), above, below)


@rule("hardsigmoid")
def hardsigmoid(e: Any, x: Any) -> Any:
    return e.op("hard_sigmoid", x, alpha=1 / 6, beta=0.5)


@rule("softplus")
def softplus(e: Any, x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    if beta == 1 and threshold >= 20:  # from there on both are the same number
        return e.op("softplus", x)
    return _steep(e, x, beta, threshold)


@in_float32
def _steep(e: Any, x: Any, beta: Any, threshold: Any) -> Any:
    steep = e.op("multiply", x, scalar_like(e, beta, x))
    made = e.op("divide", e.op("softplus", steep), scalar_like(e, beta, x))
    if threshold >= 20:
        return made
    return e.op("where", e.op("greater", steep, scalar_like(e, threshold, x)), x, made)


@rule("threshold")
def threshold(e: Any, x: Any, threshold: Any, value: Any) -> Any:
    """What is no number stays."""
    below = e.op("less_equal", x, scalar_like(e, threshold, x))
    return e.op("where", below, scalar_like(e, value, x), x)


def _inside(e: Any, x: Any, bound: float) -> Any:
    return e.op("less_equal", e.op("abs", x), scalar_like(e, bound, x))


@rule("hardshrink")
def hardshrink(e: Any, x: Any, lambd: Any = 0.5) -> Any:
    return e.op("where", _inside(e, x, lambd), scalar_like(e, 0, x), x)


@rule("softshrink")
def softshrink(e: Any, x: Any, lambd: Any = 0.5) -> Any:
    return e.op("subtract", x, clamp(e, x, -float(lambd), float(lambd)))


@rule("hardshrink_backward", "softshrink_backward")
def shrink_backward(e: Any, grad: Any, x: Any, lambd: Any) -> Any:
    return e.op("where", _inside(e, x, lambd), scalar_like(e, 0, grad), grad)
