"""Complex tensors: a pair of tensors, real and imaginary parts, and what functions of ttnn make of them. Each
is made of functions of the parts, as ttnn makes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import check
from ..registry import OPERATIONS
from ..tensors.tensor import Tensor
from . import elementwise, gradients  # noqa: F401  (functions of theirs take complex tensors here)
from .operation import operation
from .results import device_tensor


class ComplexTensor:
    """``real`` and ``imag``: tensors of one shape and layout; also [0] and [1]."""

    def __init__(self, parts: Any):
        self.real, self.imag = parts

    def __getitem__(self, at: int) -> Tensor:
        return (self.real, self.imag)[at]

    def deallocate(self) -> None:
        """Free both parts."""
        self.real.deallocate()
        self.imag.deallocate()


def _call(name: str, *args: Any, **given: Any) -> Tensor:
    """A function of ttnn on parts; its memory_config is left out where it is None."""
    made: Tensor = OPERATIONS[name](
        *args, **{key: value for key, value in given.items() if value is not None}
    )
    return made


def _complex(op: str, x: Any) -> ComplexTensor:
    if not isinstance(x, ComplexTensor):
        kind = type(x).__name__
        text = f"{op}(): incompatible function arguments: the input is a {kind}, wanted a ttnn.ComplexTensor"
        raise TypeError(text)
    return x


@operation("complex_tensor", "-")
def complex_tensor(real: Tensor, imag: Tensor) -> ComplexTensor:
    """A complex tensor of its two parts."""
    op = "ttnn.complex_tensor"
    a, b = device_tensor(op, real), device_tensor(op, imag)
    check(a.shape == b.shape, op, f"the parts have the shapes {a.shape} and {b.shape}")
    check(a.layout is b.layout, op, f"the parts have the layouts {a.layout.name} and {b.layout.name}")
    return ComplexTensor((a, b))


# **************** functions ****************


def _multiplied(a: ComplexTensor, b: ComplexTensor, to: Any) -> ComplexTensor:
    def product(x: Tensor, y: Tensor) -> Tensor:
        return _call("multiply", x, y, memory_config=to)

    real = _call("subtract", product(a[0], b[0]), product(a[1], b[1]), memory_config=to)
    imag = _call("add", product(a[0], b[1]), product(a[1], b[0]), memory_config=to)
    return ComplexTensor((real, imag))


def _mapped(name: str, x: ComplexTensor, *args: Any, to: Any = None) -> ComplexTensor:
    """A function of each part."""
    real, imag = (_call(name, part, *args, memory_config=to) for part in (x[0], x[1]))
    return ComplexTensor((real, imag))


def _conjugate(x: ComplexTensor, to: Any) -> ComplexTensor:
    return ComplexTensor((x[0], _call("neg", x[1], memory_config=to)))


def _inverse(x: ComplexTensor, to: Any) -> ComplexTensor:
    squares = [_call("square", part, memory_config=to) for part in (x[0], x[1])]
    size = _call("reciprocal", _call("add", *squares, memory_config=to), memory_config=to)
    return _mapped("multiply", _conjugate(x, to), size, to=to)


def _polar(x: ComplexTensor, to: Any) -> ComplexTensor:
    parts = [_call(name, x[1], memory_config=to) for name in ("cos", "sin")]
    real, imag = (_call("multiply", x[0], part, memory_config=to) for part in parts)
    return ComplexTensor((real, imag))


def _absolute(x: ComplexTensor, to: Any) -> Tensor:
    return _call("hypot", x[0], x[1], memory_config=to)


def _nothing(x: ComplexTensor, to: Any) -> Tensor:
    """Where both parts are 0."""
    parts = (_call("eqz", part, memory_config=to) for part in (x[0], x[1]))
    return _call("logical_and", *parts, memory_config=to)


def _instead(where: Tensor, value: float, x: ComplexTensor, to: Any) -> ComplexTensor:
    """``value`` in both parts where a condition holds."""
    real, imag = (_call("where", where, value, part, memory_config=to) for part in (x[0], x[1]))
    return ComplexTensor((real, imag))


_OF_ONE: dict[str, tuple[Callable[[ComplexTensor, Any], Any], str, str]] = {
    "real": (lambda x, to: x[0], "-", "The real part."),
    "imag": (lambda x, to: x[1], "-", "The imaginary part."),
    "angle": (
        lambda x, to: _call("atan2", x[1], x[0], memory_config=to),
        "divide, atan, where",
        "The angle of each number.",
    ),
    "is_real": (lambda x, to: _call("eqz", x[1], memory_config=to), "equal", "Where numbers are real."),
    "is_imag": (lambda x, to: _call("eqz", x[0], memory_config=to), "equal", "Where real parts are 0."),
    "conj": (_conjugate, "negative", "The conjugate numbers."),
    "polar": (_polar, "cos, sin, multiply", "Complex numbers of sizes (real) and angles (imaginary part)."),
}


def _of_one(name: str, body: Callable[[ComplexTensor, Any], Any], served: str, doc: str) -> None:
    def function(input_tensor: ComplexTensor, *, memory_config: Any = None) -> Any:
        return body(_complex(f"ttnn.{name}", input_tensor), memory_config)

    function.__doc__ = doc
    operation(name, served)(function)


for _name, (_body, _served, _doc) in _OF_ONE.items():
    _of_one(_name, _body, _served, _doc)


# **************** gradients ****************


def _polar_bw(g: ComplexTensor, x: ComplexTensor, to: Any) -> ComplexTensor:
    made = _polar(x, to)
    size = _absolute(made, to)
    unit = _mapped("multiply", made, _call("reciprocal", size, memory_config=to), to=to)
    unit = _instead(_call("eqz", size, memory_config=to), 0.0, unit, to)
    back = _conjugate(g, to)
    turned = ComplexTensor((_call("neg", made[1], memory_config=to), made[0]))  # times i
    return ComplexTensor((_multiplied(back, unit, to)[0], _multiplied(back, turned, to)[0]))


def _angle_bw(g: Tensor, x: ComplexTensor, to: Any) -> ComplexTensor:
    squares = [_call("square", part, memory_config=to) for part in (x[0], x[1])]
    size = _call("reciprocal", _call("add", *squares, memory_config=to), memory_config=to)
    slope = ComplexTensor((_call("neg", x[1], memory_config=to), x[0]))
    made = _mapped("multiply", _mapped("multiply", slope, size, to=to), g, to=to)
    return _instead(_nothing(x, to), 0.0, made, to)


def _absolute_bw(g: Tensor, x: ComplexTensor, to: Any) -> ComplexTensor:
    size = _absolute(x, to)
    made = _mapped("multiply", x, _call("reciprocal", size, memory_config=to), to=to)
    return _instead(_call("eqz", size, memory_config=to), 0.0, _mapped("multiply", made, g, to=to), to)


def _inverse_bw(g: ComplexTensor, x: ComplexTensor, to: Any) -> ComplexTensor:
    inverse = _inverse(x, to)
    slope = _conjugate(_multiplied(inverse, inverse, to), to)
    return _instead(_nothing(x, to), math.nan, _multiplied(_mapped("neg", g, to=to), slope, to), to)


def _zeros(x: Tensor, to: Any) -> Tensor:
    return _call("multiply", x, 0.0, memory_config=to)


_BACKWARD: dict[str, tuple[Callable[[Any, ComplexTensor, Any], ComplexTensor], str]] = {
    "real": (lambda g, x, to: ComplexTensor((g, _zeros(g, to))), "multiply"),
    "imag": (lambda g, x, to: ComplexTensor((_zeros(g, to), g)), "multiply"),
    "conj": (lambda g, x, to: _conjugate(g, to), "negative"),
    "angle": (_angle_bw, "multiply, add, reciprocal, where"),
    "polar": (_polar_bw, "cos, sin, multiply, hypot, where"),
}


def _gradient(name: str, body: Callable[[Any, ComplexTensor, Any], ComplexTensor], served: str) -> None:
    def function(
        grad_tensor: Any, input_tensor: ComplexTensor, *, memory_config: Any = None
    ) -> list[ComplexTensor]:
        return [body(grad_tensor, _complex(f"ttnn.{name}_bw", input_tensor), memory_config)]

    function.__doc__ = f"The gradient of {name}, a complex tensor."
    operation(f"{name}_bw", served)(function)


for _name, (_back, _served) in _BACKWARD.items():
    _gradient(_name, _back, _served)


# **************** functions of tensors that take complex ones, too ****************


def _also(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What a function of tensors does where one of its arguments is complex."""

    def known(form: Callable[..., Any]) -> Callable[..., Any]:
        plain = OPERATIONS[name].function

        def either(*args: Any, **given: Any) -> Any:
            of_complex = any(isinstance(x, ComplexTensor) for x in (*args, *given.values()))
            return form(*args, **given) if of_complex else plain(*args, **given)

        either.__qualname__ = plain.__qualname__
        OPERATIONS[name].function = either
        return form

    return known


@_also("abs")
def _abs(input_tensor: ComplexTensor, *, memory_config: Any = None, **_: Any) -> Tensor:
    return _absolute(input_tensor, memory_config)


@_also("reciprocal")
def _reciprocal(input_tensor: ComplexTensor, *, memory_config: Any = None, **_: Any) -> ComplexTensor:
    return _inverse(input_tensor, memory_config)


@_also("abs_bw")
def _abs_gradient(
    grad_tensor: Tensor, input_tensor: ComplexTensor, *, memory_config: Any = None, **_: Any
) -> list[ComplexTensor]:
    return [_absolute_bw(grad_tensor, input_tensor, memory_config)]


@_also("reciprocal_bw")
def _reciprocal_gradient(
    grad_tensor: ComplexTensor, input_tensor: ComplexTensor, *, memory_config: Any = None, **_: Any
) -> list[ComplexTensor]:
    return [_inverse_bw(grad_tensor, input_tensor, memory_config)]


def _sum_gradient(name: str, sign: float) -> None:
    @_also(f"{name}_bw")
    def form(
        grad_tensor: ComplexTensor, a: Any, b: Any, alpha: float = 1.0, *, memory_config: Any = None, **_: Any
    ) -> list[ComplexTensor]:
        second = _mapped("multiply", grad_tensor, sign * float(alpha), to=memory_config)
        return [grad_tensor, second]


_sum_gradient("add", 1.0)
_sum_gradient("sub", -1.0)


@_also("mul_bw")
def _product_gradient(
    grad_tensor: ComplexTensor, a: ComplexTensor, b: ComplexTensor, *, memory_config: Any = None, **_: Any
) -> list[ComplexTensor]:
    to = memory_config
    return [_multiplied(grad_tensor, _conjugate(other, to), to) for other in (b, a)]


@_also("div_bw")
def _quotient_gradient(
    grad_tensor: ComplexTensor, a: ComplexTensor, b: ComplexTensor, *, memory_config: Any = None, **_: Any
) -> list[ComplexTensor]:
    to, inverse = memory_config, _inverse(b, memory_config)
    first = _multiplied(grad_tensor, _conjugate(inverse, to), to)
    slope = _multiplied(_multiplied(a, inverse, to), inverse, to)
    second = _multiplied(_mapped("neg", grad_tensor, to=to), _conjugate(slope, to), to)
    none = _nothing(b, to)
    return [_instead(none, math.nan, made, to) for made in (first, second)]
