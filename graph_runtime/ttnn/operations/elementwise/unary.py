"""Elementwise functions of one tensor: those that are ops of the registry, and those made of several."""

from __future__ import annotations

import math
from typing import Any

from ....ir.ops.registry import all_ops, require
from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.values import DataType
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor
from ..operation import Operation, elementwise_key, operation
from ..results import Target, device_tensor, target
from ..wide import Wide
from .unary_bodies import COMPOSED, Body

_INTEGERS = {"relu", "abs", "negative", "square", "sign"}  # with an int32 kernel
_UNCHANGED = {"floor", "ceil", "trunc", "round"}  # of integers
# registry rows that need more than names and arguments
_OWN = {
    "logical_not",
    "bitwise_not",
    "clip",
    "round",
    "shrink",
    "isnan",
    "isinf",
    "gelu",
    "sigmoid",
    "softplus",
}
_HIDDEN_NAN = {"asin", "acos", "acosh", "atanh"}  # a 16-bit pack makes infinity of NaN


def plain_rows() -> dict[str, tuple[str, dict[str, str]]]:
    """Function of ttnn -> (op, {its argument: the op's attribute}) of the elementwise ops of one tensor."""
    return {
        name: (op.name, dict(arguments))
        for op in all_ops().values()
        if op.arity == (1, 1) and op.ttnn and op.name not in _OWN | _MOVEMENT
        for name, arguments in op.ttnn.items()
    }


_MOVEMENT = {"transpose", "softmax", "broadcast_to"}


def finish(goal: Target, w: Wide, made: Handle) -> Tensor:
    """A result, of whatever dtype the last step made, in its place: bool as 1 and 0, int32 wrapped."""
    if made.dtype == "int32" and goal.dtype is DataType.UINT32:
        made = kernels.reinterpret(made, "uint32")
    return goal.wrap(made)


def _defaults(op: str, arguments: dict[str, str]) -> dict[str, Any]:
    attrs = {attr.name: attr.default for attr in require(op).attrs}
    return {name: attrs[there] for name, there in arguments.items()}


def _plain(name: str, op: str, arguments: dict[str, str]) -> Operation:
    """A function that is one op: its arguments are the op's attributes."""
    defaults = _defaults(op, arguments)

    def function(
        input_tensor: Tensor,
        *args: Any,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        sub_core_grids: Any = None,
        fast_and_approximate_mode: bool = False,
        **given: Any,
    ) -> Tensor:
        x = device_tensor(f"ttnn.{name}", input_tensor)
        said = _arguments(name, defaults, args, given)
        goal = target(f"ttnn.{name}", x, memory_config, output_tensor)
        attrs = {arguments[key]: float(value) for key, value in said.items()}
        return _run_plain(name, op, x, attrs, goal)

    function.__doc__ = f"{require(op).doc}."
    made = Operation(name, function, op)
    made.program_key = elementwise_key
    return made


def _arguments(name: str, defaults: dict[str, Any], args: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Positional and named arguments with defaults. Raises TypeError as a Python function does."""
    positional = [value for value in args if not isinstance(value, bool)]
    if len(positional) > len(defaults):
        raise TypeError(f"ttnn.{name}(): incompatible function arguments: {len(args) + 1} were given")
    said = defaults | dict(zip(defaults, positional, strict=False))
    for key, value in given.items():
        if key in defaults:
            said[key] = value
        elif key not in ("vector_mode", "approximate", "approx"):
            raise TypeError(f"ttnn.{name}(): incompatible function arguments: unexpected {key!r}")
    return said


def _run_plain(name: str, op: str, x: Tensor, attrs: dict[str, Any], goal: Target) -> Tensor:
    if x.dtype.is_float:
        if op in _HIDDEN_NAN:
            w = Wide(x._handle.device)
            return goal.wrap(w.packed(w(op, x._handle, **attrs), goal.dtype))
        if goal.dtype.is_float:
            return goal.run(op, [x._handle], attrs, x.shape)
        return goal.wrap(kernels.run(op, [x._handle], attrs, kernels.between([x._handle])))
    if op in _UNCHANGED:
        return goal.wrap(kernels.copied(x._handle))
    if op not in _INTEGERS:
        raise Unsupported(
            f"ttnn.{name} of {x.dtype.name} is not supported: it takes floats", op=f"ttnn.{name}"
        )
    w = Wide(x._handle.device)
    if x.dtype is not DataType.INT32 and op in ("abs", "relu"):
        return goal.wrap(kernels.copied(x._handle))  # unsigned
    return finish(goal, w, w(op, w.int32(x._handle)))


def _composed(name: str, body: Body, served: str, doc: str, integers: bool = False) -> Operation:
    """A function made of several ops: body(w, x, arguments) makes its values."""

    def function(
        input_tensor: Tensor,
        *args: Any,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        sub_core_grids: Any = None,
        fast_and_approximate_mode: bool = False,
        dtype: Any = None,
        **given: Any,
    ) -> Tensor:
        x = device_tensor(f"ttnn.{name}", input_tensor)
        if not x.dtype.is_float and not integers:
            text = f"ttnn.{name} of {x.dtype.name} is not supported: it takes floats"
            raise Unsupported(text, op=f"ttnn.{name}")
        goal = target(f"ttnn.{name}", x, memory_config, output_tensor, dtype)
        w = Wide(x._handle.device)
        return finish(goal, w, body(w, x._handle, *args, **given))

    function.__doc__ = f"{doc}."
    made = Operation(name, function, served)
    made.program_key = elementwise_key
    return made


def chain(tensor: Tensor, activations: Any) -> Tensor:
    """A tensor after activations: UnaryOpType, UnaryWithParam, pairs of a type and a number, or names."""
    for activation in activations or ():
        tensor = _activated(tensor, activation)
    return tensor


def _activated(tensor: Tensor, activation: Any) -> Tensor:
    name, parameters = activation, ()
    if isinstance(activation, (tuple, list)):
        name, parameters = activation[0], tuple(activation[1:])
    elif hasattr(activation, "op_type"):
        name, parameters = activation.op_type, tuple(activation.params)
    key = _ACTIVATIONS.get(str(getattr(name, "name", name)).lower(), str(getattr(name, "name", name)).lower())
    function = OPERATIONS.get(key)
    if function is None:
        raise Unsupported(f"the activation {key} is not supported", op=key)
    memory = tensor._config
    return function.function(tensor, *parameters, memory_config=memory)


_ACTIVATIONS = {
    "gelu_approx": "gelu",
    "sigmoid_approx": "sigmoid",
    "mish_approx": "mish",
    "recip": "reciprocal",
    "power": "pow",
    "power_iterative": "pow",
    "relu_max": "relu_max",
    "add_unary_sfpu": "add",
    "mul_unary_sfpu": "multiply",
    "sub_unary_sfpu": "subtract",
    "div_unary_sfpu": "divide",
}

for _name, (_op, _args) in plain_rows().items():
    _plain(_name, _op, _args)
for _name, (_body, _served, _doc, _takes) in COMPOSED.items():
    _composed(_name, _body, _served, _doc, _takes)


@operation("unary_chain", "the ops of its functions")
def unary_chain(
    input_tensor: Tensor,
    ops_chain: Any,
    *,
    memory_config: Any = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """Functions of one tensor after each other."""
    op = "ttnn.unary_chain"
    x = device_tensor(op, input_tensor)
    check(len(ops_chain) > 0, op, "Op chain cannot be empty")
    return target(op, x, memory_config, output_tensor).wrap(chain(x, ops_chain)._handle)


@operation("logical_not_", "not_equal, logical_not")
def logical_not_(input_tensor: Tensor, *, memory_config: Any = None, **_: Any) -> Tensor:
    """1 where x is 0, else 0, written into x."""
    x = device_tensor("ttnn.logical_not_", input_tensor)
    text = f"the result is written into the input, whose memory is {x.memory_config()}, not {memory_config}"
    check(memory_config in (None, x.memory_config()), "ttnn.logical_not_", text)
    made: Tensor = OPERATIONS["logical_not"].function(x, output_tensor=x)
    return made


def _clamp(name: str) -> Operation:
    def function(
        input_tensor: Tensor,
        min: Any = None,
        max: Any = None,
        *,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        sub_core_grids: Any = None,
    ) -> Tensor:
        """At least min, at most max: numbers or tensors."""
        x = device_tensor(f"ttnn.{name}", input_tensor)
        text = "Only one of 'min' or 'max' can be None. Please provide one value"
        check(min is not None or max is not None, f"ttnn.{name}", text)
        goal = target(f"ttnn.{name}", x, memory_config, output_tensor)
        w = Wide(x._handle.device)
        made = w.ordered(x._handle)
        for op, bound in (("maximum", min), ("minimum", max)):
            if bound is not None:
                made = w(op, made, _bound(w, bound, x))
        if x.dtype is DataType.UINT32:
            made = w.flip(kernels.reinterpret(made, "uint32"))
        return finish(goal, w, made)

    return Operation(name, function, "maximum, minimum")


def _bound(w: Wide, bound: Any, x: Tensor) -> Handle:
    dtype = x._handle.dtype
    if isinstance(bound, Tensor):
        return w.ordered(w.cast(bound._handle, dtype))
    if dtype == "float32":
        return w.number(float(bound))
    value = 2**31 - 1 if bound == math.inf else -(2**31) if bound == -math.inf else int(bound)
    return w.ordered(w.number(value, dtype))


for _name in ("clamp", "clip"):
    _clamp(_name)
