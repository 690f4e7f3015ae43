"""Elementwise functions of three tensors, gated halves, and products of coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import Operation, operation
from ..results import Target, device_tensor, target
from ..wide import Wide
from .binary import broadcast_shape
from .unary import finish

__all__: list[str] = []


def _operand(w: Wide, x: Any, dtype: str) -> Handle:
    if isinstance(x, Tensor):
        return w.cast(x._handle, dtype)
    return w.number(float(x) if dtype == "float32" else int(x), dtype)


def _layout(*operands: Any) -> Layout:
    rows = all(x.layout is Layout.ROW_MAJOR for x in operands if isinstance(x, Tensor))
    return Layout.ROW_MAJOR if rows else Layout.TILE


def _goal(
    name: str, first: Tensor, operands: Any, memory_config: Any, output_tensor: Any, dtype: Any
) -> Target:
    for x in operands:
        if isinstance(x, Tensor):
            device_tensor(name, x)
    broadcast_shape(name, *(tuple(x.shape) for x in operands if isinstance(x, Tensor)))
    return target(name, first, memory_config, output_tensor, dtype, _layout(*operands))


def _function(name: str, body: Callable[..., Handle], served: str, doc: str) -> Operation:
    full = f"ttnn.{name}"

    def function(
        input_tensor_a: Any,
        input_tensor_b: Any,
        input_tensor_c: Any,
        *,
        dtype: DataType | None = None,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        sub_core_grids: Any = None,
        **given: Any,
    ) -> Tensor:
        operands = (input_tensor_a, input_tensor_b, input_tensor_c)
        first = device_tensor(full, input_tensor_a)
        goal = _goal(full, first, operands, memory_config, output_tensor, dtype)
        w = Wide(first._handle.device)
        kind = first._handle.dtype
        return finish(goal, w, body(w, *(_operand(w, x, kind) for x in operands), **given))

    function.__doc__ = f"{doc}."
    return Operation(name, function, served)


def _addcmul(w: Wide, a: Handle, b: Handle, c: Handle, *, value: float = 1) -> Handle:
    if a.dtype == "float32":
        return w("addcmul", a, b, c, value=float(value))
    product = w("multiply", w.int32(b), w.int32(c))
    return w("add", w.int32(a), product if value == 1 else w("multiply", product, int(value)))


def _addcdiv(w: Wide, a: Handle, b: Handle, c: Handle, *, value: float = 1) -> Handle:
    if a.dtype != "float32":
        raise Unsupported("addcdiv of integers is not supported", op="ttnn.addcdiv")
    return w("addcdiv", a, b, c, value=float(value))


def _mac(w: Wide, a: Handle, b: Handle, c: Handle) -> Handle:
    return w("add", w("multiply", w.int32(a), w.int32(b)), w.int32(c))


_function("addcmul", _addcmul, "addcmul", "a + value b c")
_function("addcdiv", _addcdiv, "addcdiv", "a + value b / c")
_function("lerp", lambda w, a, b, c: w("lerp", a, b, c), "lerp", "a + c (b - a)")
_function("mac", _mac, "multiply, add", "a b + c")


@operation("where", "where")
def where(
    predicate: Tensor,
    true_value: Any,
    false_value: Any,
    *,
    memory_config: Any = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """true_value where the predicate is not 0, else false_value: tensors or numbers."""
    condition = device_tensor("ttnn.where", predicate)
    operands = (predicate, true_value, false_value)
    first = next((x for x in operands[1:] if isinstance(x, Tensor)), condition)
    goal = _goal("ttnn.where", first, operands, memory_config, output_tensor, None)
    if memory_config is None and output_tensor is None:
        goal.config = condition.memory_config()
        goal.like = condition._config
    w = Wide(condition._handle.device)
    dtype = first._handle.dtype
    chosen = [_operand(w, x, dtype) for x in operands[1:]]
    return finish(goal, w, w.select(w.true(condition._handle), *chosen))


@operation("prelu", "greater, multiply, where")
def prelu(input_tensor_a: Tensor, weight: Any, *, memory_config: Any = None, **_: Any) -> Tensor:
    """x, below 0 weight x: weight a number, or a tensor of one element or one a channel (dimension 1)."""
    x = device_tensor("ttnn.prelu", input_tensor_a)
    goal = target("ttnn.prelu", x, memory_config)
    w = Wide(x._handle.device)
    slope = _operand(w, weight[0] if isinstance(weight, list) else weight, "float32")
    if isinstance(weight, Tensor) and weight.logical_volume() > 1 and len(weight.shape) == 1:
        text = f"the weight has {weight.shape[0]} elements, the input {x.shape[1]} channels"
        check(len(x.shape) >= 2 and weight.shape[0] == x.shape[1], "ttnn.prelu", text)
        slope = w.reshape(w.rows(slope), (1, weight.shape[0], *(1,) * (len(x.shape) - 2)))
    below = w("multiply", x._handle, slope)
    return finish(goal, w, w.select(w("less", x._handle, 0.0), below, w.wide(x._handle)))


def halves(w: Wide, x: Handle, dim: int = -1) -> tuple[Handle, Handle]:
    """The two halves along a dimension."""
    at, size = dim % len(x.shape), x.shape[dim]
    check(size % 2 == 0, "ttnn.glu", f"dimension {dim} of {x.shape} cannot be split in two")
    cuts = ((0, size // 2), (size // 2, size))
    first, second = (w("slice", x, starts=(a,), ends=(b,), axes=(at,)) for a, b in cuts)
    return first, second


def _gated(name: str, gate: str) -> Operation:
    def function(input_tensor: Tensor, dim: int = -1, *, memory_config: Any = None, **_: Any) -> Tensor:
        x = device_tensor(f"ttnn.{name}", input_tensor)
        text = "last dim GLU supported only at this time"
        check(dim in (-1, 3, len(x.shape) - 1), f"ttnn.{name}", text)
        w = Wide(x._handle.device)
        a, b = halves(w, x._handle, dim)
        return finish(target(f"ttnn.{name}", x, memory_config), w, w("multiply", a, w(gate, b)))

    function.__doc__ = f"The first half of the last dimension times {gate} of the second."
    return Operation(name, function, f"slice, {gate}, multiply")


for _name, _gate in {"glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "swiglu": "silu"}.items():
    _gated(_name, _gate)


@operation("outer", "multiply")
def outer(input_tensor_a: Tensor, input_tensor_b: Tensor, *, memory_config: Any = None, **_: Any) -> Tensor:
    """The product of each element of a with each of b, [1, 1, n, m]."""
    a, b = device_tensor("ttnn.outer", input_tensor_a), device_tensor("ttnn.outer", input_tensor_b)
    w = Wide(a._handle.device)
    n, m = a.logical_volume(), b.logical_volume()
    column, row = w.reshape(w.rows(a._handle), (1, 1, n, 1)), w.reshape(w.rows(b._handle), (1, 1, 1, m))
    goal = target("ttnn.outer", a, memory_config, layout=Layout.TILE)
    return finish(goal, w, w("multiply", column, row))


def _triangle(name: str, below: bool) -> Operation:
    def function(
        input_tensor: Tensor,
        diagonal: int = 0,
        *,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        x = device_tensor(f"ttnn.{name}", input_tensor)
        w = Wide(x._handle.device)
        rows, cols = tuple(x.shape)[-2:]
        row, col = _numbers(w, rows, (rows, 1)), _numbers(w, cols, (1, cols))
        edge = w("subtract", col, row)
        kept = w("less_equal" if below else "greater_equal", edge, int(diagonal))
        zero = w.number(0, x._handle.dtype)
        goal = target(f"ttnn.{name}", x, memory_config, output_tensor)
        return finish(goal, w, kernels.run("where", [kept, x._handle, zero]))

    side = "below" if below else "above"
    function.__doc__ = f"x on the diagonal and {side} it, 0 elsewhere."
    return Operation(name, function, "cumsum, subtract, less_equal, where")


def _numbers(w: Wide, count: int, shape: tuple[int, int]) -> Handle:
    """0 .. count - 1 as int32, made on the device: a running sum of ones."""
    ones = kernels.run("broadcast_to", [w.number(1, "int32")], {"shape": (count,)})
    made = kernels.run("cumsum", [ones], {"axis": 0, "exclusive": True})
    return w.reshape(w.rows(made), shape)


_triangle("tril", True)
_triangle("triu", False)
