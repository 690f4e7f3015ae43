"""Elementwise functions of two tensors, or of a tensor and a number: results have the first one's dtype."""

from __future__ import annotations

from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check, fatal
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import Operation
from ..results import Target, device_tensor, target
from ..wide import Wide
from .binary_bodies import BINARY, Body
from .unary import chain, finish

_INTEGERS = (DataType.INT32, DataType.UINT32, DataType.UINT16, DataType.UINT8)


def broadcast_shape(op: str, *shapes: Any) -> tuple[int, ...]:
    """numpy's broadcasting. Raises RuntimeError that names the dimension."""
    rank = max(map(len, shapes))
    made = []
    for at in range(-rank, 0):
        sizes = [s[at] for s in shapes if len(s) >= -at]
        wide = {size for size in sizes if size != 1}
        check(
            len(wide) <= 1,
            op,
            f"Broadcasting rule violation at dimension index {at} (output rank {rank}), dim a: {sizes[0]}, "
            f"dim b: {sizes[-1]}",
        )
        made.append(wide.pop() if wide else 1)
    return tuple(made)


class Pair:
    """Two operands on one device; ``first``: the tensor whose type the result has, ``swapped``: the first
    operand is a number."""

    def __init__(self, name: str, a: Any, b: Any):
        self.name, self.swapped = name, not isinstance(a, Tensor)
        self.first = device_tensor(name, b if self.swapped else a)
        self.a: Any
        self.b: Any
        self.a, self.b = (self.first, a) if self.swapped else (a, b)
        if isinstance(self.b, Tensor):
            device_tensor(name, self.b)
        elif isinstance(self.b, bool) or not isinstance(self.b, (int, float)):
            if not isinstance(self.b, bool) and not hasattr(self.b, "__float__"):
                raise TypeError(
                    f"{name}(): incompatible function arguments: {type(self.b).__name__} is no tensor "
                    "or number"
                )
            self.b = float(self.b)
        other = self.b.shape if isinstance(self.b, Tensor) else ()
        self.shape = broadcast_shape(name, tuple(self.first.shape), tuple(other))

    def layout(self) -> Layout:
        """ROW_MAJOR where all tensors are."""
        given = [x for x in (self.a, self.b) if isinstance(x, Tensor)]
        rows = all(x.layout is Layout.ROW_MAJOR for x in given)
        return Layout.ROW_MAJOR if rows else Layout.TILE

    def memory(self) -> Any:
        """The default: the first one's memory, but the second's where that is sharded alone, or more."""
        a, b = self.first._config, self.b._config if isinstance(self.b, Tensor) else None
        if a is None or b is None or not b.is_sharded():
            return a
        if not a.is_sharded():
            return b
        if a.shard_spec is None or b.shard_spec is None:
            return a
        return b if b.shard_spec.num_cores() > a.shard_spec.num_cores() else a

    def operands(self, w: Wide) -> tuple[Handle, Handle]:
        """Both as tensors of one kind: floats, or integers of the first one's dtype."""
        a = self.first._handle
        if isinstance(self.b, Tensor):
            b = self.b._handle
            if b.dtype != a.dtype:
                b = w.cast(b, a.dtype)
        else:
            b = self._number(w, a.dtype)
        return (b, a) if self.swapped else (a, b)

    def _number(self, w: Wide, dtype: str) -> Handle:
        if dtype == "float32":
            return w.number(float(self.b))
        if isinstance(self.b, float) and not self.b.is_integer():
            text = f"{self.name}: a fraction with a tensor of {self.first.dtype.name} is not supported"
            raise Unsupported(text, op=self.name)
        return w.number(self.b, dtype)


IN_PLACE = (
    "add subtract multiply divide rsub eq ne lt le gt ge logical_and logical_or logical_xor ldexp logaddexp "
    "logaddexp2 squared_difference bias_gelu"
).split()
_DIRECT = {"add", "subtract", "multiply", "maximum", "minimum", "logaddexp", "logaddexp2", "hypot", "ldexp"}
_QUOTIENTS = {"div", "divide", "rdiv"}  # a 16-bit pack makes infinity of NaN
_NAMED = {"alpha", "rtol", "atol", "equal_nan", "rounding_mode"}  # arguments of bodies


def _function(name: str, body: Body, served: str, doc: str, in_place: bool) -> Operation:
    full = f"ttnn.{name}"

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
            raise TypeError(f"{full}(): incompatible function arguments: unexpected {sorted(unknown)[0]!r}")
        a, b = input_tensor_a, input_tensor_b
        if input_tensor_a_activations and isinstance(a, Tensor):
            a = chain(a, input_tensor_a_activations)
        if input_tensor_b_activations and isinstance(b, Tensor):
            b = chain(b, input_tensor_b_activations)
        into = input_tensor_a if in_place else output_tensor
        pair = Pair(full, a, b)
        if dtype is None and into is None:
            dtype = _quotient_type(name, pair, args, given)
        goal = _goal(full, pair, memory_config, into, dtype)
        made = _computed(name, body, pair, goal, args, given)
        return _activated(made, activations, goal, into)

    function.__doc__ = f"{doc}. The result has the first tensor's dtype."
    made = Operation(f"{name}_" if in_place else name, function, served)
    made.is_binary = True
    return made


def _quotient_type(name: str, pair: Pair, args: Any, given: Any) -> DataType | None:
    """float32 of two int32 that are divided, unless the quotient is rounded."""
    rounded = [x for x in (*args, given.get("rounding_mode")) if x not in (None, "None")]
    both = all(isinstance(x, Tensor) and x.dtype is DataType.INT32 for x in (pair.a, pair.b))
    return DataType.FLOAT32 if name in ("div", "divide") and both and not rounded else None


def _goal(name: str, pair: Pair, memory_config: Any, into: Tensor | None, dtype: DataType | None) -> Target:
    layout = pair.layout()
    if into is not None and layout is Layout.ROW_MAJOR and isinstance(pair.b, Tensor):
        raise fatal(
            name,
            "Optional output tensor with Row Major input is not supported right now for Elementwise "
            "operations",
        )
    first = pair.first
    kind = dtype or (None if into is None else into.dtype)
    goal = target(name, first, memory_config, into, kind, layout, pair.memory())
    goal.like = pair.memory()
    if into is not None and tuple(into.shape) != pair.shape:
        check(
            tuple(into.shape)[-len(pair.shape) :] == pair.shape,
            name,
            f"Shape of Output tensor {tuple(into.shape)} provided does not match the broadcasted output "
            f"shape {pair.shape}",
        )
    return goal


def _computed(name: str, body: Body, pair: Pair, goal: Target, args: Any, given: Any) -> Tensor:
    w = Wide(pair.first._handle.device)
    a, b = pair.operands(w)
    if name in _DIRECT and a.dtype == "float32" and goal.dtype.is_float:
        return goal.run(name, [a, b], {}, pair.shape)
    extra = {key: value for key, value in given.items() if value is not None}
    made = body(w, a, b, *args, **extra)
    if name in _QUOTIENTS and made.dtype == "float32":
        made = w.packed(made, goal.dtype)
    return finish(goal, w, made)


def _activated(made: Tensor, activations: Any, goal: Target, into: Tensor | None) -> Tensor:
    if not activations:
        return made
    done = chain(made, activations)
    if into is None:
        return done
    kernels.overwrite(into._handle, kernels.convert(done._handle, into._handle.layout))
    return into


for _name, (_body, _served, _doc) in BINARY.items():
    _function(_name, _body, _served, _doc, False)
for _name in IN_PLACE:
    _function(_name, *BINARY[_name], True)
