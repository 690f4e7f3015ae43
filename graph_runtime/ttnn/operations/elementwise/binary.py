"""Elementwise functions of two tensors, or of a tensor and a number. Results have the dtype of the first
tensor."""

from __future__ import annotations

from typing import Any

from ...accepted.pairs import place_of_pair
from ...devices.wide_value import WideValue
from ...errors import expect, mistaken
from ...memory.values import BcastOpDim, BcastOpMath, DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import Operation, operation
from ..results import Target, device_tensor, finish, target
from .binary_bodies import BINARY, Body, whole_power
from .unary import chain


def broadcast_shape(*shapes: Any) -> tuple[int, ...]:
    """The shape that numpy's broadcasting gives. Raises RuntimeError, which names the dimension that does not
    fit."""
    rank = max(map(len, shapes))
    made = []
    for at in range(-rank, 0):
        sizes = [s[at] for s in shapes if len(s) >= -at]
        wide = {size for size in sizes if size != 1}
        expect(
            len(wide) <= 1,
            f"Broadcasting rule violation at dimension index {at} (output rank {rank}), dim a: {sizes[0]}, "
            f"dim b: {sizes[-1]}",
        )
        made.append(wide.pop() if wide else 1)
    return tuple(made)


class Pair:
    """Two operands on one device; ``first``: the tensor whose dtype the result has; ``swapped``: whether the
    first operand is a number."""

    def __init__(self, a: Any, b: Any):
        self.swapped = not isinstance(a, Tensor)
        self.first = device_tensor(b if self.swapped else a)
        operands: tuple[Any, Any] = (self.first, a) if self.swapped else (a, b)
        self.a, self.b = operands
        if isinstance(self.b, Tensor):
            device_tensor(self.b)
        elif isinstance(self.b, bool) or not isinstance(self.b, (int, float)):
            if not isinstance(self.b, bool) and not hasattr(self.b, "__float__"):
                raise mistaken(f"{type(self.b).__name__} is neither a tensor nor a number")
            self.b = float(self.b)
        other = self.b.shape if isinstance(self.b, Tensor) else ()
        self.shape = broadcast_shape(tuple(self.first.shape), tuple(other))

    def layout(self) -> Layout:
        """ROW_MAJOR if all tensors are in ROW_MAJOR, else TILE."""
        rows = all(x.layout is Layout.ROW_MAJOR for x in (self.a, self.b) if isinstance(x, Tensor))
        return Layout.ROW_MAJOR if rows else Layout.TILE

    def operands(self, wide: bool) -> tuple[WideValue, WideValue]:
        """Both operands in the order of the call, as floats if ``wide`` is True, else as floats or integers
        of the first tensor's dtype."""
        a = self.first._value.cast("float32") if wide else self.first._value
        if isinstance(self.b, Tensor):
            b = self.b._value.cast(a.dtype)
        else:
            b = a.scalar(float(self.b) if a.dtype == "float32" else int(self.b))
        return (b, a) if self.swapped else (a, b)

    def result_type(self, name: str, rounded: bool) -> DataType | None:
        """The result's default type, where that is not the first tensor's. ``rounded``: whether the quotient
        is rounded."""
        a, words = self.first.dtype, (DataType.INT32, DataType.UINT32)
        if name in COMPARISONS and a is DataType.UINT8:
            return DataType.UINT16
        if name not in _RAISED or a not in words:
            return None
        if name == "isclose":
            return DataType.FLOAT32
        if not isinstance(self.b, Tensor):
            word = isinstance(self.b, int) and -(2**31) <= self.b < 2**32
            return DataType.FLOAT32 if not word or (name in _QUOTIENTS and not rounded) else None
        if self.b.dtype.is_float:
            return DataType.BFLOAT16 if self.b.dtype.is_block else self.b.dtype
        return DataType.FLOAT32 if name in _QUOTIENTS and not rounded else None

    def wide(self, name: str, dtype: DataType) -> bool:
        """Whether a function computes integers as floats: where its result has floats, and where a comparison
        is with a number that is not whole."""
        if name in COMPARISONS:
            return isinstance(self.b, float) and not self.b.is_integer()
        return name == "div_no_nan" or (name in _RAISED and dtype.is_float)


COMPARISONS = frozenset("eq ne lt le gt ge".split())
IN_PLACE = (
    "add subtract multiply divide rsub eq ne lt le gt ge logical_and logical_or logical_xor ldexp logaddexp "
    "logaddexp2 squared_difference bias_gelu"
).split()
_DIRECT = {"add", "subtract", "multiply", "maximum", "minimum", "logaddexp", "logaddexp2", "hypot", "ldexp"}
_PACKED = {"div", "divide", "rdiv"}  # quotients, whose NaN silicon's packer makes infinity
_QUOTIENTS = {"div", "divide", "floor_div", "div_no_nan"}
_RAISED = _QUOTIENTS | {
    "multiply",
    "fmod",
    "remainder",
    "isclose",
}  # functions that make floats of some words
_NUMBER_FIRST = {"add", "subtract", "multiply", "div", "divide", "pow"}
_OF_TENSORS = {"atan2", "hypot", "gcd", "lcm", "isclose", "addalpha", "subalpha"}  # a number is no operand
_NAMED = {"alpha", "rtol", "atol", "equal_nan", "rounding_mode"}  # the keywords that any body takes


def _function(name: str, body: Body, served: str, doc: str, in_place: bool) -> None:
    def function(
        input_tensor_a: Any,
        input_tensor_b: Any,
        *args: Any,
        dtype: DataType | None = None,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        activations: Any = (),
        input_tensor_a_activations: Any = (),
        input_tensor_b_activations: Any = (),
        use_legacy: bool | None = None,
        sub_core_grids: Any = None,
        fast_and_approximate_mode: bool = False,
        **given: Any,
    ) -> Tensor:
        unknown = given.keys() - _NAMED
        if unknown:
            raise mistaken(f"unexpected {sorted(unknown)[0]!r}")
        a, b = input_tensor_a, input_tensor_b
        _check_number(name, a, b)
        if input_tensor_a_activations and isinstance(a, Tensor):
            a = chain(a, input_tensor_a_activations)
        if input_tensor_b_activations and isinstance(b, Tensor):
            b = chain(b, input_tensor_b_activations)
        into = input_tensor_a if in_place else output_tensor
        pair = Pair(a, b)
        if dtype is None and into is None:
            modes = (*args, given.get("rounding_mode"))
            dtype = pair.result_type(name, any(mode not in (None, "None") for mode in modes))
        goal = _goal(pair, memory_config, into, dtype)
        made = _computed(name, body, pair, goal, args, given)
        return _activated(made, activations, goal, into)

    function.__doc__ = f"{doc}. The result has the first tensor's dtype."
    Operation(f"{name}_" if in_place else name, function, served).is_binary = True


def _check_number(name: str, a: Any, b: Any) -> None:
    """Raise TypeError for a number where the function takes a tensor."""
    if not isinstance(a, Tensor) and name not in _NUMBER_FIRST:
        raise mistaken(f"the first operand is a {type(a).__name__}, wanted a ttnn.Tensor")
    if name in _OF_TENSORS and not isinstance(b, Tensor):
        raise mistaken(f"the second operand is a {type(b).__name__}, wanted a ttnn.Tensor")


def _goal(pair: Pair, memory_config: Any, into: Tensor | None, dtype: DataType | None) -> Target:
    layout = pair.layout()
    first = pair.first
    kind = dtype or (None if into is None else into.dtype)
    goal = target(first, memory_config, into, kind, layout, place_of_pair(pair.first, pair.b))
    goal.like = place_of_pair(pair.first, pair.b)
    if into is not None and tuple(into.shape) != pair.shape:
        expect(
            tuple(into.shape)[-len(pair.shape) :] == pair.shape,
            f"Shape of Output tensor {tuple(into.shape)} provided does not match the broadcasted output "
            f"shape {pair.shape}",
        )
    return goal


def _computed(name: str, body: Body, pair: Pair, goal: Target, args: Any, given: Any) -> Tensor:
    a, b = pair.operands(pair.wide(name, goal.dtype))
    if name == "pow" and a.dtype != "float32" and not isinstance(pair.b, Tensor):
        return finish(goal, whole_power(a, int(pair.b)))
    if name in _DIRECT and a.dtype == "float32" and goal.dtype.is_float:
        return goal.run(name, [a, b], {}, pair.shape)
    extra = {key: value for key, value in given.items() if value is not None}
    made = body(a, b, *args, **extra)
    if name in _PACKED and made.dtype == "float32":
        made = made.packed(goal.dtype)
    return finish(goal, made)


def _activated(made: Tensor, activations: Any, goal: Target, into: Tensor | None) -> Tensor:
    if not activations:
        return made
    done = chain(made, activations)
    if into is None:
        return done
    into._value.overwrite(done._value)
    return into


for _name, (_body, _served, _doc) in BINARY.items():
    _function(_name, _body, _served, _doc, False)
for _name in IN_PLACE:
    _function(_name, *BINARY[_name], True)


_BROADCAST = {"height": (-2, "H"), "width": (-1, "W")}  # side -> (its dimension, its letter in BcastOpDim)


@operation("bcast", "add, subtract, multiply", takes="memory_config, output_tensor")
def bcast(input_a: Tensor, input_b: Tensor, math_op: BcastOpMath, dim: BcastOpDim, *, goal: Target) -> Tensor:
    """a + b, a - b or a b, where b has size 1 in the last dimension (W), in the one before it (H), or in
    both; in tiles."""
    a, b = input_a, input_b
    for side, (at, letter) in _BROADCAST.items():
        if letter in dim.name:
            expect(b.shape[at] == 1, f"Input tensor B {side} ({b.shape[at]}) must be 1 to be broadcast")
        else:
            text = f"Input tensor A {side} ({a.shape[at]}) must equal input tensor B {side} ({b.shape[at]})"
            expect(a.shape[at] == b.shape[at], text)
    goal.layout = Layout.TILE
    op = {BcastOpMath.ADD: "add", BcastOpMath.SUB: "subtract", BcastOpMath.MUL: "multiply"}[math_op]
    return goal.wrap(a._value.op(op, b._value))
