"""Elementwise functions of three tensors, products of gated halves, outer products and triangles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....ir.value import where as select
from ...accepted.pairs import place_of_pair
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import DRAM_MEMORY_CONFIG
from ...memory.enums import GeluVariant
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target, device_tensor, finish, target
from .binary import broadcast_shape


def _operand(like: WideValue, x: Any, dtype: str) -> WideValue:
    if isinstance(x, Tensor):
        return x._value.cast(dtype)
    return like.scalar(float(x) if dtype == "float32" else int(x), dtype)


def _layout(*operands: Any) -> Layout:
    rows = all(x.layout is Layout.ROW_MAJOR for x in operands if isinstance(x, Tensor))
    return Layout.ROW_MAJOR if rows else Layout.TILE


def _place(operands: Any) -> Any:
    """The default memory of a result: of three tensors that of the one that is sharded over most cores, else
    that of the first."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if len(tensors) < 3:
        return place_of_pair(*tensors) if len(tensors) == 2 else tensors[0]._config
    sharded = [x._config for x in tensors if x._config is not None and x._config.shard_spec is not None]
    return max(sharded, key=lambda config: config.shard_spec.num_cores(), default=tensors[0]._config)


def _goal(first: Tensor, operands: Any, memory_config: Any, output_tensor: Any, dtype: Any) -> Target:
    for x in operands:
        if isinstance(x, Tensor):
            device_tensor(x)
    broadcast_shape(*(tuple(x.shape) for x in operands if isinstance(x, Tensor)))
    goal = target(first, memory_config, output_tensor, dtype, _layout(*operands))
    if memory_config is None and output_tensor is None:
        place = _place(operands)
        goal.config, goal.like = place or DRAM_MEMORY_CONFIG, place
    return goal


def _function(name: str, body: Callable[..., WideValue], served: str, doc: str, numbers: int = 0) -> None:
    """Register a function of three tensors; the last ``numbers`` of them may be numbers."""

    @operation(name, served, doc=f"{doc}.")
    def function(
        input_tensor_a: Tensor,
        input_tensor_b: Any,
        input_tensor_c: Any,
        *,
        dtype: DataType | None = None,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        sub_core_grids: Any = None,
        **given: Any,
    ) -> Tensor:
        first, operands = input_tensor_a, (input_tensor_a, input_tensor_b, input_tensor_c)
        for x in operands[: 3 - numbers]:
            device_tensor(x)
        goal = _goal(first, operands, memory_config, output_tensor, dtype or _product_type(name, operands))
        kind = "float32" if name in _OF_FLOATS or goal.dtype.is_float else first._value.dtype
        return finish(goal, body(*(_operand(first._value, x, kind) for x in operands), **given))


_OF_FLOATS = ("lerp", "addcdiv")  # functions that compute integers as floats


def _product_type(name: str, operands: tuple[Any, ...]) -> DataType | None:
    """The result's type of mac of 32-bit integers and floats, else None for the first tensor's."""
    a, words = operands[0].dtype, (DataType.INT32, DataType.UINT32)
    if name != "mac" or a not in words:
        return None
    b = operands[1].dtype if isinstance(operands[1], Tensor) else DataType.FLOAT32
    return DataType.BFLOAT16 if b.is_block else b if b.is_float else None


def _addcmul(a: WideValue, b: WideValue, c: WideValue, *, value: float = 1) -> WideValue:
    if a.dtype == "float32":
        return a.op("addcmul", b, c, value=float(value))
    product = b.int32() * c.int32()
    return a.int32() + (product if value == 1 else product * int(value))


def _addcdiv(a: WideValue, b: WideValue, c: WideValue, *, value: float = 1) -> WideValue:
    return a.op("addcdiv", b, c, value=float(value))


def _mac(a: WideValue, b: WideValue, c: WideValue) -> WideValue:
    return a.int32() * b.int32() + c.int32()


_function("addcmul", _addcmul, "addcmul", "a + value b c")
_function("addcdiv", _addcdiv, "addcdiv", "a + value b / c")
_function("lerp", lambda a, b, c: a.op("lerp", b, c), "lerp", "a + c (b - a)", 1)
_function("mac", _mac, "multiply, add", "a b + c", 2)


@operation("where", "where")
def where(
    predicate: Tensor,
    true_value: Any,
    false_value: Any,
    *,
    memory_config: Any = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """true_value where the predicate is not 0, else false_value; each of the three is a tensor or a
    number."""
    operands = (predicate, true_value, false_value)
    first = next((x for x in operands[1:] if isinstance(x, Tensor)), predicate)
    numbers = not any(isinstance(x, Tensor) for x in operands[1:]) and not first.dtype.is_float
    kind = DataType.FLOAT32 if numbers and output_tensor is None else None
    goal = _goal(first, operands, memory_config, output_tensor, kind)
    if predicate.is_sharded() and output_tensor is None:
        goal.layout = predicate.layout
    dtype = "float32" if kind else first._value.dtype
    chosen = [_operand(first._value, x, dtype) for x in operands[1:]]
    return finish(goal, select(predicate._value.true(), *chosen))


@operation("prelu", "greater, multiply, where", takes="memory_config")
def prelu(input_tensor_a: WideValue, weight: Any) -> WideValue:
    """x, or weight x where x is below 0; weight is a number, or a tensor of one element or of one for each
    channel (dimension 1)."""
    x = input_tensor_a
    slope = _operand(x, weight[0] if isinstance(weight, list) else weight, "float32")
    if isinstance(weight, Tensor) and weight.logical_volume() > 1 and len(weight.shape) == 1:
        text = f"the weight has {weight.shape[0]} elements, the input {x.shape[1]} channels"
        expect(len(x.shape) >= 2 and weight.shape[0] == x.shape[1], text)
        slope = slope.reshape((1, weight.shape[0], *(1,) * (len(x.shape) - 2)))
    return select(x < 0.0, x * slope, x.wide())


def halves(x: WideValue, dim: int = -1) -> tuple[WideValue, WideValue]:
    """The two halves of a tensor along a dimension."""
    at, size = dim % len(x.shape), x.shape[dim]
    expect(size % 2 == 0, f"dimension {dim} of {x.shape} cannot be split in two")
    return x.part(at, 0, size // 2), x.part(at, size // 2, size)


def _gated(name: str, gate: str) -> None:
    doc = f"The first half of the last dimension times {gate} of the second."

    @operation(name, f"slice, {gate}, multiply", doc=doc, takes="memory_config")
    def function(input_tensor: WideValue, dim: int = -1) -> WideValue:
        a, b = _halves_of_the_last(input_tensor, dim)
        return a * b.op(gate)


for _name, _gate in {"glu": "sigmoid", "reglu": "relu", "swiglu": "silu"}.items():
    _gated(_name, _gate)


def _halves_of_the_last(x: WideValue, dim: int) -> tuple[WideValue, WideValue]:
    expect(dim in (-1, 3, len(x.shape) - 1), "last dim GLU supported only at this time")
    a, b = halves(x, dim)
    return a, b


@operation("geglu", "slice, gelu, multiply", takes="memory_config, ...")
def geglu(
    input_tensor: WideValue, dim: int = -1, *, variant: GeluVariant = GeluVariant.Accurate
) -> WideValue:
    """The first half of the last dimension times gelu of the second, by erf or, as ``variant`` says, tanh."""
    a, b = _halves_of_the_last(input_tensor, dim)
    return a * b.op("gelu", approximate="tanh" if variant is GeluVariant.Tanh else "none")


@operation("outer", "multiply", takes="memory_config", layout=Layout.TILE)
def outer(input_tensor_a: WideValue, input_tensor_b: WideValue) -> WideValue:
    """The products of each of the n elements of a with each of the m elements of b, [1, 1, n, m]."""
    a, b = input_tensor_a, input_tensor_b
    return a.int32().reshape((1, 1, a.size, 1)) * b.int32().reshape((1, 1, 1, b.size))


def _triangle(name: str, compared: str, side: str) -> None:
    served, doc = "cumsum, subtract, less_equal, where", f"x on the diagonal and {side} it, 0 elsewhere."

    @operation(name, served, doc=doc, takes="memory_config, output_tensor", layout=Layout.TILE)
    def function(input_tensor: WideValue, diagonal: int = 0) -> WideValue:
        x, rows = input_tensor, (1, *input_tensor.shape)[-2]
        edge = _numbers(x, (1, x.shape[-1])) - _numbers(x, (rows, 1))
        edge = edge if len(x.shape) > 1 else edge.reshape(x.shape)
        return edge.op(compared, int(diagonal)).run("where", x, x.scalar(0))


def _numbers(like: WideValue, shape: tuple[int, int]) -> WideValue:
    """The numbers 0 .. count - 1 as int32 in a shape of count elements; the device makes them by a running
    sum of ones."""
    ones = like.scalar(1, "int32").run("broadcast_to", shape=(math.prod(shape),))
    made = ones.run("cumsum", axis=0, exclusive=True)
    return made.reshape(shape)


_triangle("tril", "less_equal", "below")
_triangle("triu", "greater_equal", "above")
