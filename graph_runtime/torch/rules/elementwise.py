"""Operations to which the op table assigns one op (``Op.torch``), and elementwise operations made of a few
ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...compositions import derivatives
from ...ir.graph import TensorType
from ...ir.ops import Op, all_ops
from ...ir.value import Value, where
from ..counters import Unsupported
from .operands import float_of, in_float32, is_float, is_value, pair
from .table import rule


def _one(op: Op) -> Any:
    """The rule of an op with one input. Integers become floats where torch's result is float; for logical
    ops, nonzero is true. torch's keyword-only arguments are named as the op's attributes."""
    if op.promotes:
        return lambda x, **attrs: float_of(x).op(op.name, **attrs)
    if op.bodies["cpu"].dtypes == ("bool",):
        return lambda e, x: _truth(e, x).op(op.name)
    return lambda x: x.op(op.name)


def _two(op: Op) -> Any:
    """The rule of an op with two inputs. For logical ops, nonzero is true. The inputs of other elementwise
    ops get a common dtype, which for comparisons may be one that only the host computes with. torch requires
    that the inputs of a matrix product already have one dtype."""
    if op.kind != "elementwise":
        return lambda a, b: a.op(op.name, b)
    dtypes = op.bodies["cpu"].dtypes
    if dtypes == ("bool",):
        return lambda e, a, b: _truth(e, a).op(op.name, _truth(e, b))
    if op.name == "multiply":
        return _multiply
    (made,) = op.infer([TensorType(dtypes[0], ())] * 2, op.decode({}))
    stored = made.dtype != "bool"

    def rule_of(e: Any, a: Any, b: Any) -> Any:
        a, b = pair(e, a, b, stored=stored)
        return a.op(op.name, b)

    return rule_of


def _multiply(e: Any, a: Any, b: Any) -> Any:
    """The product; for bools, the logical and."""
    a, b = pair(e, a, b)
    return a & b if a.dtype == "bool" else a * b


def _three(op: Op) -> Any:
    """The rule of a choice between two values of a common dtype by a condition, in which nonzero is true."""

    def rule_of(e: Any, condition: Any, a: Any = None, b: Any = None) -> Any:
        if a is None:
            raise Unsupported("the shape of the result depends on values")
        return _truth(e, condition).op(op.name, *pair(e, a, b))

    return rule_of


def _truth(e: Any, x: Any) -> Any:
    return x.cast("bool") if is_value(x) else e.scalar(bool(x), "bool")


for _op in all_ops().values():
    if _op.torch:
        rule(*_op.torch)((_one, _two, _three)[_op.arity[0] - 1](_op))


@rule("add")
def add(e: Any, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    a, b = pair(e, a, b)
    return a + (b if alpha == 1 else b * alpha)


@rule("sub")
def sub(e: Any, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    a, b = pair(e, a, b)
    return a - (b if alpha == 1 else b * alpha)


@rule("rsub")
def rsub(e: Any, a: Any, b: Any, alpha: Any = 1) -> Any:
    if any(x.dtype == "bool" for x in (a, b) if is_value(x)):
        raise Unsupported("torch subtracts no bools")  # torch's kernel on the host raises the error
    return sub(e, b, a, alpha=alpha)


@rule("pow")
def power(e: Any, a: Any, b: Any) -> Any:
    if not is_value(b) and is_value(a) and a.dtype != "bool":
        known = _POWERS.get(b)
        if known is not None and (is_float(a) or b in (1, 2)):
            return known(a)
    a, b = pair(e, a, b)
    if not is_float(a):
        raise Unsupported("powers of integers run on the host")
    return a**b


_POWERS: dict[float, Callable[[Any], Any]] = {
    2: lambda x: x * x,
    1: lambda x: x,
    0.5: Value.sqrt,
    -1: lambda x: 1 / x,
    3: lambda x: x * x * x,
}


@rule("ldexp")
def ldexp(e: Any, a: Any, b: Any) -> Any:
    """The rule of ldexp in graphs; in single calls torch itself calls pow and mul. As in torch, the power of
    2 may be 0 or infinite although a 2^b is not."""
    a, b = pair(e, a, float_of(b))
    return a * b.scalar(1.0).op("ldexp", b)


@rule("addcmul")
def addcmul(e: Any, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    x, a, b = pair(e, x, a, b)
    if is_float(x):
        return x.op("addcmul", a, b, value=float(value))
    made = a * b
    return x + (made if value == 1 else made * value)


@rule("addcdiv")
def addcdiv(e: Any, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    x, a, b = pair(e, x, a, b)
    if is_float(x):
        # the factor is no attribute: optimizers change it in each step, so each step would be a new signature
        a = a if value == 1 else a * value
        return x.op("addcdiv", a, b)
    made = a / b
    return x + (made if value == 1 else made * value)


@rule("lerp")
def lerp(a: Any, b: Any, weight: Any) -> Any:
    if is_float(a):
        return a.op("lerp", b, weight)
    return a + (b - a) * weight


@rule("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return where(mask, value.cast(x.dtype) if is_value(value) else value, x)


@rule("clamp")
def clamp(e: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    if is_value(min) or is_value(max):
        made = Value.maximum(*pair(e, x, min)) if min is not None else x
        return Value.minimum(*pair(e, made, max)) if max is not None else made
    floats = [bound for bound in (min, max) if isinstance(bound, float)]
    if any(map(math.isnan, floats)):
        return e.filled(tuple(x.shape), math.nan, x.dtype if is_float(x) else "float32")
    if is_float(x) and not any(map(math.isinf, floats)):
        return x.clip(min=None if min is None else float(min), max=None if max is None else float(max))
    if not is_float(x) and floats:
        raise Unsupported("integers clamped by floats run on the host")
    made = x.maximum(min) if min is not None else x
    return made.minimum(max) if max is not None else made


rule("clamp_min")(lambda e, x, min: clamp(e, x, min))
rule("clamp_max")(lambda e, x, max: clamp(e, x, None, max))


@rule("hardtanh")
def hardtanh(e: Any, x: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    # for integers, relu6 passes its bounds as floats; bounds within int8 fit all signed types
    if x.dtype.startswith("int") and all(v in range(-128, 128) for v in (min_val, max_val)):
        return clamp(e, x, int(min_val), int(max_val))
    return clamp(e, x, float(min_val), float(max_val))


@rule("elu")
def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if input_scale == 1:
        made = x.op("elu", alpha=float(alpha))
        return made if scale == 1 else made * scale
    below = (x * input_scale).op("expm1") * (alpha * scale)
    return where(x > 0, x if scale == 1 else x * scale, below)


@rule("softplus")
def softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    if beta == 1 and threshold >= 20:  # above the threshold both formulas give the same float
        return x.op("softplus")
    return _steep(x, beta, threshold)


@in_float32
def _steep(x: Any, beta: Any, threshold: Any) -> Any:
    steep = x * beta
    made = steep.op("softplus") / beta
    return made if threshold >= 20 else where(steep > threshold, x, made)


@rule("softshrink")
def softshrink(e: Any, x: Any, lambd: Any = 0.5) -> Any:
    return x - clamp(e, x, -float(lambd), float(lambd))


# {names of aten: function}. The gradient of a piecewise function selects a piece, because a product with 0
# would keep NaN.
_ROWS: dict[str, Callable[..., Any]] = {
    "leaky_relu": lambda x, negative_slope=0.01: x.op("leaky_relu", alpha=float(negative_slope)),
    "hardsigmoid": lambda x: x.op("hard_sigmoid", alpha=1 / 6, beta=0.5),
    "hardshrink": lambda x, lambd=0.5: where(abs(x) <= lambd, 0, x),
    "threshold": lambda x, threshold, value: where(x <= threshold, value, x),  # so that NaN stays NaN
    "tanh_backward": lambda grad, y: grad * derivatives.tanh_of(y),
    "sigmoid_backward": lambda grad, y: grad * derivatives.sigmoid_of(y),
    "silu_backward": lambda grad, x: grad * derivatives.silu(x),
    "log_sigmoid_backward": lambda grad, x, buffer: grad * derivatives.log_sigmoid(x),
    "gelu_backward": lambda grad, x, approximate="none": grad * derivatives.gelu(x, approximate, True),
    "threshold_backward": lambda grad, x, threshold: where(x <= threshold, 0, grad),
    "hardshrink_backward softshrink_backward": lambda grad, x, lambd: where(abs(x) <= lambd, 0, grad),
    "leaky_relu_backward": lambda grad, x, slope, of_result: where(x > 0.0, grad, grad * slope),
    "hardtanh_backward": lambda grad, x, low, high: where((x <= low) | (x >= high), 0, grad),
}
for _names, _function in _ROWS.items():
    rule(*_names.split())(_function)


@rule("square")
def square(x: Any) -> Any:
    """The product x * x, which tt's matrix unit computes: faster than its vector unit, and with the numerics
    that the user chose."""
    return x * x
