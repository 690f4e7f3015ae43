"""Elementwise functions of one tensor: those that are one op of the registry, and those made of several
ops."""

from __future__ import annotations

import math
from typing import Any

from ....ir.ops.registry import all_ops, require
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, expect, mistaken
from ...memory.configs import MemoryConfig
from ...memory.enums import GeluVariant
from ...memory.values import DataType, Layout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor
from ..operation import Operation, elementwise_key, operation
from ..results import Target, device_tensor, finish, target
from .unary_bodies import COMPOSED, OF_INTEGERS, Body

_INTEGERS = {"relu", "abs", "negative", "square", "sign"}  # ops with an int32 kernel
_UNSIGNED = {"relu", "abs", "leaky_relu"}  # ops that leave unsigned integers as they are
# ops whose ttnn functions need more than a name and arguments: COMPOSED has these functions
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
_HIDDEN_NAN = {"asin", "acos", "acosh", "atanh"}  # functions whose NaN becomes infinity in silicon's packer


def plain_rows() -> dict[str, tuple[str, dict[str, str]]]:
    """ttnn's function -> (op, {the function's argument: the op's attribute}) for the elementwise ops of one
    tensor."""
    return {
        name: (op.name, dict(arguments))
        for op in all_ops().values()
        if op.arity == (1, 1) and op.ttnn and op.name not in _OWN | _MOVEMENT
        for name, arguments in op.ttnn.items()
    }


_MOVEMENT = {"transpose", "softmax", "broadcast_to"}


def _defaults(op: str, arguments: dict[str, str]) -> dict[str, Any]:
    attrs = {attr.name: attr.default for attr in require(op).attrs}
    return {name: attrs[there] for name, there in arguments.items()}


def _plain(name: str, op: str, arguments: dict[str, str]) -> None:
    """Register a function that is one op; its arguments are attributes of the op."""
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
        x = device_tensor(input_tensor)
        said = _arguments(name, defaults, args, given)
        goal = target(x, memory_config, output_tensor)
        attrs = {arguments[key]: float(value) for key, value in said.items()}
        return _run_plain(name, op, x, attrs, goal)

    function.__doc__ = f"{require(op).doc}."
    Operation(name, function, op).program_key = elementwise_key


def _arguments(name: str, defaults: dict[str, Any], args: Any, given: dict[str, Any]) -> dict[str, Any]:
    """{name: value} of positional and named arguments, completed by defaults. Raises TypeError as a Python
    function does."""
    positional = [value for value in args if not isinstance(value, bool)]
    if len(positional) > len(defaults):
        raise mistaken(f"{len(args) + 1} were given")
    said = defaults | dict(zip(defaults, positional, strict=False))
    for key, value in given.items():
        if key in defaults:
            said[key] = value
        elif key not in ("vector_mode", "approximate", "approx"):
            raise mistaken(f"unexpected {key!r}")
    return said


def _run_plain(name: str, op: str, x: Tensor, attrs: dict[str, Any], goal: Target) -> Tensor:
    if x.dtype.is_float:
        if op in _HIDDEN_NAN:
            return goal.wrap(x._value.op(op, **attrs).packed(goal.dtype))
        if goal.dtype.is_float:
            return goal.run(op, [x._value], attrs, x.shape)
        return goal.wrap(x._value.run(op, to=kernels.between([x._handle]), **attrs))
    if x.dtype is not DataType.INT32 and op in _UNSIGNED:
        return goal.wrap(x._value.copied())
    if op not in _INTEGERS:
        raise Unsupported(f"ttnn.{name} of {x.dtype.name} is not supported: it takes floats")
    return finish(goal, x._value.int32().op(op))


def _composed(name: str, body: Body, served: str, doc: str) -> None:
    """Register a function made of several ops: body(x, *arguments) computes its values."""

    def function(
        input_tensor: Tensor,
        *args: Any,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        dtype: Any = None,
        sub_core_grids: Any = None,
        fast_and_approximate_mode: bool = False,
        **given: Any,
    ) -> Tensor:
        x = device_tensor(input_tensor)
        if not x.dtype.is_float and name not in OF_INTEGERS:
            raise Unsupported(f"ttnn.{name} of {x.dtype.name} is not supported: it takes floats")
        goal = target(x, memory_config, output_tensor, dtype)
        return finish(goal, body(x._value, *args, **given))

    function.__doc__ = f"{doc}."
    Operation(name, function, served).program_key = elementwise_key


def chain(tensor: Tensor, activations: Any) -> Tensor:
    """The tensor after activations, applied one after another. Each is a UnaryOpType, a UnaryWithParam, a
    pair of a type and a number, or a name."""
    for activation in activations or ():
        tensor = _activated(tensor, activation)
    return tensor


def _activated(tensor: Tensor, activation: Any) -> Tensor:
    name, parameters = activation, ()
    if isinstance(activation, (tuple, list)):
        name, parameters = activation[0], tuple(activation[1:])
    elif hasattr(activation, "op_type"):
        name, parameters = activation.op_type, tuple(activation.params)
    key = str(getattr(name, "name", name)).lower()
    key = _ACTIVATIONS.get(key, key)
    if key in _PRECISE:
        parameters = ()
    if key == "gelu_tanh":
        given = {"variant": GeluVariant.Tanh, "memory_config": tensor._config}
        made: Tensor = OPERATIONS["gelu"].function(tensor, **given)
        return made
    function = OPERATIONS.get(key)
    if function is None:
        raise Unsupported(f"the activation {key} is not supported", op=key)
    return function.function(tensor, *parameters, memory_config=tensor._config)


# functions whose parameters, as an activation, choose among algorithms of silicon; the result is the precise
# one (unary_op_utils.cpp)
_PRECISE = "gelu sigmoid exp erf erfc log log1p log2 log10 rsqrt sqrt tanh reciprocal mish".split()
_ACTIVATIONS = {
    "logical_not_unary": "logical_not",
    "gelu_approx": "gelu",
    "sigmoid_approx": "sigmoid",
    "mish_approx": "mish",
    "recip": "reciprocal",
    "power": "pow",
    "power_iterative": "pow",
    "add_unary_sfpu": "add",
    "mul_unary_sfpu": "multiply",
    "sub_unary_sfpu": "subtract",
    "div_unary_sfpu": "divide",
}

for _name, (_op, _args) in plain_rows().items():
    _plain(_name, _op, _args)
for _name, _row in COMPOSED.items():
    _composed(_name, *_row)


@operation("unary_chain", "the ops of its functions", takes="memory_config, output_tensor")
def unary_chain(input_tensor: Tensor, ops_chain: Any) -> WideValue:
    """Functions of one tensor, applied one after another."""
    expect(len(ops_chain) > 0, "Op chain cannot be empty")
    return chain(input_tensor, ops_chain)._value


@operation("logical_not_", "not_equal, logical_not")
def logical_not_(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """1 where x is 0, else 0, written into x."""
    x = input_tensor
    text = f"the result is written into the input, whose memory is {x.memory_config()}, not {memory_config}"
    expect(memory_config in (None, x.memory_config()), text)
    made: Tensor = OPERATIONS["logical_not"].function(x, output_tensor=x)
    return made


def _clamp(name: str) -> None:
    @operation(name, "maximum, minimum", takes="memory_config, output_tensor")
    def function(input_tensor: Tensor, min: Any = None, max: Any = None, *, goal: Target) -> Tensor:
        """x, raised to at least ``min`` and lowered to at most ``max``; both are numbers or both tensors. The
        result of int32 has float32 if a bound is a float."""
        bounds = [bound for bound in (min, max) if bound is not None]
        if len({isinstance(bound, Tensor) for bound in bounds}) > 1:
            raise mistaken("min and max must both be tensors, or both numbers")
        x, floats = input_tensor._value, name == "clip" or any(isinstance(bound, float) for bound in bounds)
        if floats and not isinstance(bounds[0], Tensor) and x.dtype == "int32":
            x = x.cast("float32")
            goal.dtype = DataType.FLOAT32 if goal.into is None else goal.dtype
        if any(isinstance(bound, Tensor) and bound.layout is Layout.TILE for bound in bounds):
            goal.layout = goal.layout if goal.into else Layout.TILE
        made = x.ordered()
        for op, bound in (("maximum", min), ("minimum", max)):
            if bound is not None:
                made = made.op(op, _bound(bound, x))
        return goal.wrap(made.reinterpret("uint32").flip() if x.dtype == "uint32" else made)


def _bound(bound: Any, x: WideValue) -> WideValue:
    if isinstance(bound, Tensor):
        return bound._value.cast(x.dtype).ordered()
    if x.dtype == "float32":
        return x.scalar(float(bound))
    value = 2**31 - 1 if bound == math.inf else -(2**31) if bound == -math.inf else int(bound)
    return x.scalar(value).ordered()


for _name in ("clamp", "clip"):
    _clamp(_name)
