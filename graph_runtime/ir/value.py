"""Value: a tensor to be computed, with Python's operators, and methods with the names that array libraries
use.

    y = (x - x.mean([-1])) * scale + 1e-5
    z = where(x > 0, x, alpha * x.op("expm1"))

Each operator or method is one op of the registry, which the subclass's ``emit`` records into a graph or runs
at once. A Python number becomes a constant with the dtype of the value beside it. ``<``, ``<=``, ``>`` and
``>=`` compare elements and give values; ``==`` and ``!=`` ask whether both sides are the same object, so
``equal`` and ``not_equal`` compare elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.errors import InputError

if TYPE_CHECKING:
    from typing import Self

Axes = Sequence[int] | int | None
_V = TypeVar("_V", bound="Value")
_NUMBERS = (float, int, complex, list, tuple)
_CONVERTS = ("__array__", "__float__", "__index__")  # methods that numbers of numpy and torch have


# ---------------------------------------------------------------- makers of methods


def _unary(op: str) -> Callable[[_V], _V]:
    def method(self: _V) -> _V:
        return self.emit(op, self)

    return method


def _binary(op: str) -> Callable[[_V, Any], _V]:
    def method(self: _V, other: Any, /) -> _V:
        return self.emit(op, self, other)

    return method


def _reflected(op: str) -> Callable[[_V, Any], _V]:
    """The operator's method for a number on the left, as in ``2 - x``."""

    def method(self: _V, other: Any, /) -> _V:
        return self.emit(op, other, self)

    return method


def _logic(word: str) -> Callable[[_V, Any], _V]:
    """The method that is the logical op for bools, the bitwise op for integers."""

    def method(self: _V, other: Any, /) -> _V:
        return self.emit(f"{'logical' if self.dtype == 'bool' else 'bitwise'}_{word}", self, other)

    return method


class Value:
    """A tensor from which ops make further tensors. A subclass has ``dtype``, ``shape``, ``emit`` and
    ``scalar``."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's scalars then leave `2 * x` to x

    if TYPE_CHECKING:

        @property
        def dtype(self) -> str: ...
        @property
        def shape(self) -> tuple[int, ...]: ...

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Any:
        """The result of a registry op, or a tuple of its results. ``self`` is among the operands; other
        operands may be numbers."""
        raise NotImplementedError

    def scalar(self, number: Any, dtype: str | None = None) -> Self:
        """A constant without dimensions, of this value's dtype unless another is given."""
        raise NotImplementedError

    def full_like(self, number: Any) -> Self:
        """A tensor of one number, with this value's shape and dtype."""
        return self.scalar(number).op("broadcast_to", shape=self.shape)

    def op(self, op: str, /, *others: Any, **attrs: Any) -> Any:
        """The result of any registry op whose first input is this value."""
        return self.emit(op, self, *others, **attrs)

    # ---------------------------------------------------------------- operators

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __pow__, __rpow__ = _binary("power"), _reflected("power")
    __matmul__ = _binary("matmul")
    __neg__ = _unary("negative")
    __abs__ = _unary("abs")

    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")

    __and__ = _logic("and")
    __or__ = _logic("or")
    __xor__ = _logic("xor")
    __lshift__ = _binary("shift_left")
    __rshift__ = _binary("shift_right")

    def __invert__(self) -> Self:
        return self.emit("logical_not" if self.dtype == "bool" else "bitwise_not", self)

    # ---------------------------------------------------------------- functions of an element

    exp = _unary("exp")
    log = _unary("log")
    sqrt = _unary("sqrt")
    rsqrt = _unary("rsqrt")
    reciprocal = _unary("reciprocal")
    square = _unary("square")
    sigmoid = _unary("sigmoid")
    tanh = _unary("tanh")
    erf = _unary("erf")
    sin = _unary("sin")
    cos = _unary("cos")
    sign = _unary("sign")
    floor = _unary("floor")
    ceil = _unary("ceil")
    round = _unary("round")
    trunc = _unary("trunc")
    isnan = _unary("isnan")
    isinf = _unary("isinf")

    equal = _binary("equal")
    not_equal = _binary("not_equal")
    maximum = _binary("maximum")
    minimum = _binary("minimum")

    def clip(self, min: float | None = None, max: float | None = None) -> Self:
        return self.emit("clip", self, min=min, max=max)

    def cast(self, dtype: str) -> Self:
        """The elements converted to another dtype; the value itself if it already has the dtype."""
        return self if self.dtype == dtype else self.emit("cast", self, to=dtype)

    # ---------------------------------------------------------------- reductions

    def sum(self, axes: Axes = None, keepdims: bool = True) -> Self:
        """Sum over axes, which stay with size 1 unless ``keepdims`` is False."""
        return self._reduced("sum", axes, keepdims)

    def mean(self, axes: Axes = None, keepdims: bool = True) -> Self:
        return self._reduced("mean", axes, keepdims)

    def max(self, axes: Axes = None, keepdims: bool = True) -> Self:
        return self._reduced("max", axes, keepdims)

    def min(self, axes: Axes = None, keepdims: bool = True) -> Self:
        return self._reduced("min", axes, keepdims)

    def prod(self, axes: Axes = None, keepdims: bool = True) -> Self:
        return self._reduced("prod", axes, keepdims)

    def any(self, axes: Axes = None, keepdims: bool = True) -> Self:
        return self._reduced("any", axes, keepdims)

    def all(self, axes: Axes = None, keepdims: bool = True) -> Self:
        return self._reduced("all", axes, keepdims)

    def _reduced(self, op: str, axes: Axes, keepdims: bool) -> Self:
        axes = (axes,) if isinstance(axes, int) else axes
        return self.emit(op, self, axes=axes, keepdims=None if keepdims else False)

    # ---------------------------------------------------------------- parts

    def __getitem__(self, key: Any) -> Self:
        """A part selected by integers, slices and one ``...``, as in numpy; integers drop their axis. Raises
        IndexError for other keys; for arrays of indices use ``op("take", ...)``."""
        keys = key if isinstance(key, tuple) else (key,)
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        rest = len(self.shape) - len(keys) + (at < len(keys))
        keys = (*keys[:at], *(slice(None),) * rest, *keys[at + 1 :])
        if rest < 0 or not all(isinstance(k, (int, slice)) for k in keys):
            raise IndexError(f"{key!r} is no key of integers and slices for {len(self.shape)} dimensions")
        axes, starts, ends, steps, dropped = [], [], [], [], []
        for axis, (k, size) in enumerate(zip(keys, self.shape, strict=True)):
            if isinstance(k, int):
                if not -size <= k < size:
                    raise IndexError(f"index {k} is out of bounds for axis {axis} of size {size}")
                dropped.append(axis)
                k = slice(k % size, k % size + 1)
            start, end, step = k.indices(size)
            if (start, end, step) != (0, size, 1):
                axes.append(axis)
                starts.append(start)
                ends.append(end if end >= 0 else -size - 1)
                steps.append(step)
        plain = all(step == 1 for step in steps)
        made = self
        if axes:
            given = None if plain else steps
            made = self.emit("slice", self, starts=starts, ends=ends, axes=axes, steps=given)
        return made.emit("squeeze", made, axes=dropped) if dropped else made


def where(condition: Value, a: Any, b: Any) -> Any:
    """Elements of a where the condition (bool) is true, of b elsewhere; a number becomes a constant of the
    other operand's dtype. Raises InputError for a condition that is no Value."""
    if not isinstance(condition, Value):
        raise InputError(
            f"where: operand 0, the condition, is {_shown(condition)}: give a Value of bools, such as x > 0; "
            "Python's `a if c else b` chooses by a bool, and a builder's param() makes a Value of an array",
            got=condition,
        )
    return condition.emit("where", condition, a, b)


def with_constants(op: str, operands: Sequence[Any], constant: Callable[[Any, str], Any]) -> Sequence[Any]:
    """The operands, with ``constant(number, dtype)`` in place of each number. The dtype is that of the last
    Value among the operands, float32 if there is none. Raises InputError for an operand that is neither a
    Value nor a number."""
    last, numbers = None, False
    for x in operands[1:] if op == "where" else operands:
        if isinstance(x, Value):
            last = x
        else:
            numbers = True
    if not numbers:
        return operands
    dtype = "float32" if last is None else last.dtype
    return [
        x if isinstance(x, Value) else _constant(op, at, x, dtype, constant) for at, x in enumerate(operands)
    ]


def _constant(op: str, at: int, number: Any, dtype: str, constant: Callable[[Any, str], Any]) -> Any:
    is_number = isinstance(number, _NUMBERS) or any(hasattr(number, name) for name in _CONVERTS)
    if is_number or (isinstance(number, str) and dtype == "string"):  # for ONNX, a text is a constant, too
        return constant(number, dtype)
    text = f"{op}: operand {at} is {_shown(number)}: give a Value, or a number for a constant of {dtype}"
    raise InputError(text, got=number)


def _shown(operand: Any) -> str:
    kind = type(operand).__name__
    return f"an array ({kind})" if hasattr(operand, "shape") else f"{str(operand)[:40]!r} ({kind})"
