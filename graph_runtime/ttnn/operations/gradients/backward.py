"""Gradients: NAME_bw(grad, inputs ...) returns a list with the gradient of each input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ....compositions import gradients
from ....ir.value import Value, where
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.values import DataType, Layout, Shape
from ...tensors.tensor import Tensor
from ..bodies import FloatTensor, FloatValue
from ..movement.shapes import axis_of
from ..operation import operation
from ..results import float_tensor, target
from .derivatives import DERIVATIVES


def _fitted(gradient: WideValue, shape: Any) -> WideValue:
    """The gradient of an input of the shape ``shape`` that was broadcast: the sum of ``gradient`` over the
    copies of each element."""
    sizes = (1,) * (len(gradient.shape) - len(shape)) + tuple(shape)
    axes = tuple(at for at, (n, size) in enumerate(zip(gradient.shape, sizes, strict=True)) if n != size)
    gradient = gradient.sum(axes=axes) if axes else gradient
    return gradient if gradient.shape == tuple(shape) else gradient.reshape(tuple(shape))


def gradient_of(x: Tensor, made: WideValue, memory_config: Any, into: Any = None) -> Tensor:
    """The gradient of ``x`` as a tensor, placed like ``x`` unless the caller says otherwise; ``x`` may have
    been broadcast."""
    return target(x, memory_config, into).wrap(_fitted(made, tuple(x.shape)))


def _of_one(name: str, slope: Callable[..., Any], served: str, called: str = "") -> None:
    def function(
        grad_tensor: FloatValue,
        input_tensor: FloatValue,
        *args: Any,
        are_required_outputs: Any = (True,),
        **given: Any,
    ) -> list[WideValue | None]:
        if not next(iter(are_required_outputs)):
            return [None]
        return [_fitted(grad_tensor * slope(input_tensor, *args, **given), input_tensor.shape)]

    function.__doc__ = f"The gradient of {name} by its input, times ``grad_tensor``."
    served = served if "multiply" in served else f"{served}, multiply"
    takes = "memory_config, input_grad, output_tensor, ..."
    operation(f"{called or name}_bw", served, takes=takes, like="input_tensor")(function)


for _name, (_slope, _served) in DERIVATIVES.items():
    _of_one(_name, _slope, _served)
_of_one("gelu", *DERIVATIVES["gelu"], "experimental.gelu")


def _quotient(g: WideValue, a: WideValue, b: WideValue, rounding_mode: str | None = None) -> Iterator[Value]:
    if rounding_mode in (None, "None"):
        return gradients.quotient(g, a, b)
    return iter([g * 0.0] * 2)


PAIRS: dict[str, tuple[gradients.Gradients, str]] = {
    "add": (gradients.linear(1.0, 1.0), "copy"),
    "sub": (gradients.linear(1.0, -1.0), "multiply"),
    "rsub": (gradients.linear(-1.0, 1.0), "multiply"),
    "mul": (gradients.product, "multiply"),
    "div": (_quotient, "divide, multiply"),
    "addalpha": (gradients.scaled_sum(1.0), "multiply"),
    "subalpha": (gradients.scaled_sum(-1.0), "multiply"),
    "atan2": (gradients.atan2, "multiply, add, divide"),
    "hypot": (gradients.hypot, "hypot, divide, multiply"),
    "xlogy": (gradients.xlogy, "log, divide, multiply, where"),
    "ldexp": (gradients.ldexp, "exp2, multiply"),
    "logaddexp": (gradients.logaddexp(math.e), "sigmoid, multiply"),
    "logaddexp2": (gradients.logaddexp(2.0), "sigmoid, multiply"),
    "squared_difference": (gradients.squared_difference, "subtract, multiply"),
    "max": (gradients.extreme("greater"), "greater, equal, where, multiply"),
    "min": (gradients.extreme("less"), "less, equal, where, multiply"),
    "remainder": (gradients.remainder("floor"), "divide, floor, multiply"),
    "fmod": (gradients.remainder("trunc"), "divide, trunc, multiply"),
    "bias_gelu": (gradients.bias_gelu, "add, erf, exp, multiply"),
    "assign": (gradients.linear(1.0, 1.0), "copy"),
}


def _of_two(name: str, body: gradients.Gradients, served: str) -> None:
    def function(
        grad_tensor: FloatValue,
        input_tensor_a: FloatTensor,
        input_tensor_b: Any = None,
        *args: Any,
        are_required_outputs: Any = (True, True),
        memory_config: Any = None,
        input_grad: Tensor | None = None,
        input_a_grad: Tensor | None = None,
        input_b_grad: Tensor | None = None,
        other_grad: Tensor | None = None,
        **given: Any,
    ) -> list[Tensor | None]:
        b: Any = input_tensor_b
        both = isinstance(b, Tensor)
        if b is not None:
            b = float_tensor(b)._value if both else grad_tensor.scalar(float(b))
        made: Iterator[Any] = body(grad_tensor, input_tensor_a._value, b, *args, **given)
        first, needed = next(made), list(are_required_outputs)
        results: list[Tensor | None] = [None, None] if both else [None]
        if needed[0] or not both:
            into = input_grad if input_a_grad is None else input_a_grad
            results[0] = gradient_of(input_tensor_a, first, memory_config, into)
        if both and needed[-1]:
            into = other_grad if input_b_grad is None else input_b_grad
            results[1] = gradient_of(input_tensor_b, next(made), memory_config, into)
        return results

    function.__doc__ = f"The gradients of {name} by its inputs; a number has none."
    operation(f"{name}_bw", served)(function)


for _name, (_pair, _served) in PAIRS.items():
    _of_two(_name, _pair, _served)


@operation("concat_bw", "slice")
def concat_bw(
    grad_tensor: FloatValue,
    input_tensor_a: FloatTensor,
    input_tensor_b: FloatTensor,
    dim: int = 0,
    are_required_outputs: Any = (True, True),
    *,
    memory_config: Any = None,
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
    **_: Any,
) -> list[Tensor | None]:
    """For each input, the part of the gradient that belongs to it; None for a part that is not required."""
    start, made = 0, []
    both, into = (input_tensor_a, input_tensor_b), (input_a_grad, input_b_grad)
    for x, wanted, to in zip(both, are_required_outputs, into, strict=True):
        axis = axis_of(dim, len(x.shape))
        end = start + x.shape[axis]
        part = grad_tensor.part(axis, start, end)
        made.append(gradient_of(x, part, memory_config, to) if wanted else None)
        start = end
    return made


@operation("repeat_bw", "reshape, sum", takes="memory_config", like="input_tensor")
def repeat_bw(grad_tensor: FloatValue, input_tensor: FloatValue, shape: Any, **_: Any) -> list[WideValue]:
    """The sum of the gradient over the repetitions; ``shape`` says how often each dimension was repeated."""
    sizes = input_tensor.shape
    expect(len(shape) == len(sizes), f"{list(shape)} has another rank than {Shape(sizes)}")
    cut = [n for times, size in zip(shape, sizes, strict=True) for n in (int(times), size)]
    parts = grad_tensor.reshape(cut)
    return [_fitted(parts.sum(axes=tuple(range(0, len(cut), 2)), keepdims=False), sizes)]


@operation("prod_bw", "prod, divide, equal, where", takes="memory_config", like="input_tensor")
def prod_bw(
    grad_tensor: FloatValue, input_tensor: FloatValue, dim: int | None = None, **_: Any
) -> list[WideValue]:
    """The gradient times the product of the other elements. If one element is 0, only its own gradient can
    differ from 0; if two elements are 0, all gradients are 0."""
    g, x, sizes = grad_tensor, input_tensor, input_tensor.shape
    axes = tuple(range(len(sizes))) if dim is None else (axis_of(dim, len(sizes)),)
    kept = tuple(1 if at in axes else size for at, size in enumerate(sizes))
    if g.shape != kept:
        text = f"grad {Shape(g.shape)} does not fit {Shape(sizes)}"
        expect(math.prod(g.shape) == math.prod(kept), text)
        g = g.reshape(kept)
    none = x.equal(0.0)
    zeros = where(none, 1.0, 0.0).sum(axes=axes)
    safe = where(none, 1.0, x.wide())
    product = safe.prod(axes=axes)
    others = where(zeros.equal(0.0), product / safe, 0.0)
    return [_fitted(g * where(none & zeros.equal(1.0), product, others), sizes)]


def _where(g: WideValue, condition: WideValue, a: Any, b: Any) -> Iterator[Value]:
    chosen = condition.true()
    yield where(chosen, g.wide(), 0.0)
    yield where(chosen, 0.0, g.wide())


def _of_three(name: str, served: str, body: gradients.Gradients, doc: str) -> None:
    def function(
        grad_tensor: FloatValue,
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        input_tensor_c: Any,
        *args: Any,
        are_required_outputs: Any = None,
        memory_config: Any = None,
        **given: Any,
    ) -> list[Tensor | None]:
        if unknown := sorted(given.keys() - {"alpha", "value", "scalar"}):
            raise Unsupported(f"{called()}: {unknown[0]} is not supported")
        inputs = [input_tensor_a, input_tensor_b, input_tensor_c]
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        handles = [x._value if isinstance(x, Tensor) else float(x) for x in inputs]
        made: list[Any] = list(body(grad_tensor, *handles, *args, *given.values()))
        owners = tensors[-len(made) :] if name == "where" else tensors
        results: list[Tensor | None] = []
        for at, (x, part) in enumerate(zip(owners, made, strict=False)):
            wanted = are_required_outputs is None or list(are_required_outputs)[at]
            results.append(gradient_of(x, part, memory_config) if wanted else None)
        return results

    function.__doc__ = doc
    operation(f"{name}_bw", served)(function)


_of_three("where", "where", _where, "The gradient for the value that was chosen, 0 for the other.")
_of_three("addcmul", "multiply", gradients.addcmul, "The gradients of a + value b c.")
_of_three("addcdiv", "multiply, divide", gradients.addcdiv, "The gradients of a + value b / c.")
_of_three("lerp", "multiply, subtract", gradients.lerp, "The gradients of start + weight (end - start).")


@operation("embedding_bw", "scatter_elements")
def embedding_bw(
    input_tensor: Tensor,
    weight: FloatTensor,
    output_gradient: FloatTensor,
    *,
    dtype: DataType | None = None,
    memory_config: Any = None,
    **_: Any,
) -> Tensor:
    """The gradient of a table: each row of ``output_gradient`` is added to the row of the table that its
    index names."""
    sizes = tuple(weight.shape)
    rows = output_gradient.logical_volume() // sizes[-1]
    text = f"{input_tensor.shape} indices do not fit a gradient of shape {output_gradient.shape}"
    expect(input_tensor.logical_volume() == rows, text)
    places = input_tensor._value.cast("int32").reshape((rows, 1))
    spread = places.run("broadcast_to", shape=(rows, sizes[-1]))
    updates = output_gradient._value.reshape((rows, sizes[-1]))
    table = (math.prod(sizes[:-1]), sizes[-1])
    empty = updates.scalar(0.0).run("broadcast_to", to=kernels.WIDE, shape=table)
    made = empty.op("scatter_elements", spread, updates, axis=0, reduction="add")
    goal = target(weight, memory_config, None, dtype or output_gradient.dtype, Layout.TILE)
    return goal.wrap(made.reshape((1, 1, *table)))
