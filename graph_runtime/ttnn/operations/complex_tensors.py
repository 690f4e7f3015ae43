"""Complex tensors, which are pairs of a real and an imaginary part, and ttnn's functions of complex tensors.
Each function is made of the same functions of the parts as in ttnn."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..errors import expect, mistaken
from ..memory.configs import MemoryConfig
from ..registry import OPERATIONS
from ..tensors.tensor import Tensor
from . import elementwise, gradients  # noqa: F401  (functions of theirs take complex tensors here)
from .operation import operation


class ComplexTensor:
    """``real`` and ``imag``, or [0] and [1]: tensors of one shape and layout."""

    def __init__(self, parts: Any):
        self.real, self.imag = parts

    def __getitem__(self, at: int) -> Tensor:
        return (self.real, self.imag)[at]

    def deallocate(self) -> None:
        """Free both parts."""
        self.real.deallocate()
        self.imag.deallocate()


class _Parts:
    """Functions of ttnn on tensors, and on both parts of complex tensors. Results are in the memory ``to``,
    or, if that is None, in the memory that each function chooses."""

    def __init__(self, to: Any):
        self.given = {} if to is None else {"memory_config": to}

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        return functools.partial(OPERATIONS[name], **self.given)

    def each(self, name: str, x: ComplexTensor, *args: Any) -> ComplexTensor:
        """The function ``name`` applied to each part."""
        return ComplexTensor([getattr(self, name)(part, *args) for part in (x.real, x.imag)])

    def product(self, a: ComplexTensor, b: ComplexTensor) -> ComplexTensor:
        real = self.subtract(self.multiply(a.real, b.real), self.multiply(a.imag, b.imag))
        return ComplexTensor((real, self.add(self.multiply(a.real, b.imag), self.multiply(a.imag, b.real))))

    def conjugate(self, x: ComplexTensor) -> ComplexTensor:
        return ComplexTensor((x.real, self.neg(x.imag)))

    def times_i(self, x: ComplexTensor) -> ComplexTensor:
        return ComplexTensor((self.neg(x.imag), x.real))

    def by_square(self, x: ComplexTensor) -> Tensor:
        """1 / |x|^2."""
        return self.reciprocal(self.add(self.square(x.real), self.square(x.imag)))

    def inverse(self, x: ComplexTensor) -> ComplexTensor:
        return self.each("multiply", self.conjugate(x), self.by_square(x))

    def from_polar(self, x: ComplexTensor) -> ComplexTensor:
        parts = [getattr(self, name)(x.imag) for name in ("cos", "sin")]
        return ComplexTensor([self.multiply(x.real, part) for part in parts])

    def size(self, x: ComplexTensor) -> Tensor:
        return self.hypot(x.real, x.imag)

    def zero(self, x: ComplexTensor) -> Tensor:
        """True where both parts are 0."""
        return self.logical_and(self.eqz(x.real), self.eqz(x.imag))

    def instead(self, where: Tensor, value: float, x: ComplexTensor) -> ComplexTensor:
        """``value`` in both parts where ``where`` holds, else ``x``."""
        return ComplexTensor([self.where(where, value, part) for part in (x.real, x.imag)])


def _complex(x: Any) -> ComplexTensor:
    if not isinstance(x, ComplexTensor):
        raise mistaken(f"the input is a {type(x).__name__}, wanted a ttnn.ComplexTensor")
    return x


@operation("complex_tensor", "-")
def complex_tensor(real: Tensor, imag: Tensor) -> ComplexTensor:
    """The complex tensor of a real and an imaginary part."""
    expect(real.shape == imag.shape, f"the parts have the shapes {real.shape} and {imag.shape}")
    text = f"the parts have the layouts {real.layout.name} and {imag.layout.name}"
    expect(real.layout is imag.layout, text)
    return ComplexTensor((real, imag))


# **************** functions ****************

_OF_ONE: dict[str, tuple[Callable[[_Parts, ComplexTensor], Any], str, str]] = {
    "real": (lambda p, x: x.real, "-", "The real part."),
    "imag": (lambda p, x: x.imag, "-", "The imaginary part."),
    "angle": (lambda p, x: p.atan2(x.imag, x.real), "divide, atan, where", "The angle of each number."),
    "is_real": (lambda p, x: p.eqz(x.imag), "equal", "1 where numbers are real."),
    "is_imag": (lambda p, x: p.eqz(x.real), "equal", "1 where real parts are 0."),
    "conj": (_Parts.conjugate, "negative", "The conjugate numbers."),
    "polar": (
        _Parts.from_polar,
        "cos, sin, multiply",
        "Complex numbers of sizes (real) and angles (imaginary part).",
    ),
}


def _of_one(name: str, body: Callable[[_Parts, ComplexTensor], Any], served: str, doc: str) -> None:
    @operation(name, served, doc=doc)
    def function(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> Any:
        return body(_Parts(memory_config), _complex(input_tensor))


for _name, _row in _OF_ONE.items():
    _of_one(_name, *_row)


# **************** gradients ****************


def _polar_bw(p: _Parts, g: ComplexTensor, x: ComplexTensor) -> ComplexTensor:
    made = p.from_polar(x)
    size = p.size(made)
    unit = p.instead(p.eqz(size), 0.0, p.each("multiply", made, p.reciprocal(size)))
    back = p.conjugate(g)
    return ComplexTensor((p.product(back, unit).real, p.product(back, p.times_i(made)).real))


def _angle_bw(p: _Parts, g: Tensor, x: ComplexTensor) -> ComplexTensor:
    made = p.each("multiply", p.each("multiply", p.times_i(x), p.by_square(x)), g)
    return p.instead(p.zero(x), 0.0, made)


def _absolute_bw(p: _Parts, g: Tensor, x: ComplexTensor) -> ComplexTensor:
    size = p.size(x)
    made = p.each("multiply", x, p.reciprocal(size))
    return p.instead(p.eqz(size), 0.0, p.each("multiply", made, g))


def _inverse_bw(p: _Parts, g: ComplexTensor, x: ComplexTensor) -> ComplexTensor:
    inverse = p.inverse(x)
    slope = p.conjugate(p.product(inverse, inverse))
    return p.instead(p.zero(x), math.nan, p.product(p.each("neg", g), slope))


_BACKWARD: dict[str, tuple[Callable[[_Parts, Any, ComplexTensor], ComplexTensor], str]] = {
    "real": (lambda p, g, x: ComplexTensor((g, p.multiply(g, 0.0))), "multiply"),
    "imag": (lambda p, g, x: ComplexTensor((p.multiply(g, 0.0), g)), "multiply"),
    "conj": (lambda p, g, x: p.conjugate(g), "negative"),
    "angle": (_angle_bw, "multiply, add, reciprocal, where"),
    "polar": (_polar_bw, "cos, sin, multiply, hypot, where"),
}


def _gradient(name: str, body: Callable[[_Parts, Any, ComplexTensor], ComplexTensor], served: str) -> None:
    @operation(f"{name}_bw", served, doc=f"The gradient of {name}, a complex tensor.")
    def function(
        grad_tensor: Any, input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None
    ) -> list[ComplexTensor]:
        return [body(_Parts(memory_config), grad_tensor, _complex(input_tensor))]


for _name, (_back, _served) in _BACKWARD.items():
    _gradient(_name, _back, _served)


# **************** functions of tensors that take complex tensors, too ****************


def _also(name: str, form: Callable[..., Any]) -> None:
    """Add ``form(parts, *arguments)``, the function for complex arguments, to the function ``name`` of
    tensors."""
    plain = OPERATIONS[name].function

    def either(*args: Any, **given: Any) -> Any:
        if not any(isinstance(x, ComplexTensor) for x in (*args, *given.values())):
            return plain(*args, **given)
        parts = _Parts(given.pop("memory_config", None))
        return form(parts, *args, **given)

    either.__qualname__ = plain.__qualname__
    OPERATIONS[name].function = either


def _sum_bw(sign: float) -> Callable[..., list[ComplexTensor]]:
    def form(
        p: _Parts, grad_tensor: ComplexTensor, a: Any, b: Any, alpha: float = 1.0, **_: Any
    ) -> list[ComplexTensor]:
        return [grad_tensor, p.each("multiply", grad_tensor, sign * float(alpha))]

    return form


def _product_bw(
    p: _Parts, grad_tensor: ComplexTensor, a: ComplexTensor, b: ComplexTensor, **_: Any
) -> list[ComplexTensor]:
    return [p.product(grad_tensor, p.conjugate(other)) for other in (b, a)]


def _quotient_bw(
    p: _Parts, grad_tensor: ComplexTensor, a: ComplexTensor, b: ComplexTensor, **_: Any
) -> list[ComplexTensor]:
    inverse = p.inverse(b)
    first = p.product(grad_tensor, p.conjugate(inverse))
    slope = p.product(p.product(a, inverse), inverse)
    second = p.product(p.each("neg", grad_tensor), p.conjugate(slope))
    none = p.zero(b)
    return [p.instead(none, math.nan, made) for made in (first, second)]


_also("abs", lambda p, input_tensor, **_: p.size(input_tensor))
_also("reciprocal", lambda p, input_tensor, **_: p.inverse(input_tensor))
_also("abs_bw", lambda p, grad_tensor, input_tensor, **_: [_absolute_bw(p, grad_tensor, input_tensor)])
_also("reciprocal_bw", lambda p, grad_tensor, input_tensor, **_: [_inverse_bw(p, grad_tensor, input_tensor)])
_also("add_bw", _sum_bw(1.0))
_also("sub_bw", _sum_bw(-1.0))
_also("mul_bw", _product_bw)
_also("div_bw", _quotient_bw)
