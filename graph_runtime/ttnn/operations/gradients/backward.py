"""Gradients: NAME_bw(grad, inputs ...) gives a list with the gradient of each input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..movement.shapes import axis_of
from ..operation import Operation, operation
from ..results import device_tensor, float_tensor, handle_as, target
from ..wide import Wide
from .derivatives import DERIVATIVES, gelu_slope


def _fitted(w: Wide, gradient: Handle, shape: Any) -> Handle:
    """The gradient of an input that was broadcast: the sum over what was made of each element."""
    sizes = (1,) * (len(gradient.shape) - len(shape)) + tuple(shape)
    axes = tuple(at for at, (n, size) in enumerate(zip(gradient.shape, sizes, strict=True)) if n != size)
    if axes:
        gradient = w("sum", gradient, axes=axes, keepdims=True)
    return gradient if len(gradient.shape) == len(shape) else w.reshape(w.rows(gradient), tuple(shape))


def _placed(op: str, x: Tensor, w: Wide, made: Handle, memory_config: Any, into: Any = None) -> Tensor:
    return target(op, x, memory_config, into).wrap(_fitted(w, made, tuple(x.shape)))


def _of_one(name: str, slope: Callable[..., Handle], served: str, called: str = "") -> None:
    full = f"ttnn.{called or name}_bw"

    def function(
        grad_tensor: Tensor,
        input_tensor: Tensor,
        *args: Any,
        memory_config: Any = None,
        input_grad: Tensor | None = None,
        output_tensor: Tensor | None = None,
        are_required_outputs: Any = (True,),
        **given: Any,
    ) -> list[Tensor | None]:
        grad, x = float_tensor(full, grad_tensor), float_tensor(full, input_tensor)
        if not next(iter(are_required_outputs)):
            return [None]
        w = Wide(x._handle.device)
        made = w("multiply", grad._handle, slope(w, x._handle, *args, **given))
        into = output_tensor if input_grad is None else input_grad
        return [_placed(full, x, w, made, memory_config, into)]

    function.__doc__ = f"The gradient of {name} by its input, times ``grad_tensor``."
    Operation(f"{called or name}_bw", function, served if "multiply" in served else f"{served}, multiply")


for _name, (_slope, _served) in DERIVATIVES.items():
    _of_one(_name, _slope, _served)
_of_one("gelu", *DERIVATIVES["gelu"], "experimental.gelu")


# **************** of two tensors ****************

Pair = Callable[..., tuple[Any, Any]]


def _quotient(w: Wide, g: Handle, a: Handle, b: Any, rounding_mode: str | None = None) -> tuple[Any, Any]:
    if rounding_mode not in (None, "None"):
        zero = w("multiply", g, 0.0)
        return zero, zero
    first = w("divide", g, b)
    return first, lambda: w("negative", w("multiply", first, w("divide", a, b)))


def _product(w: Wide, g: Handle, a: Handle, b: Any) -> tuple[Any, Any]:
    return w("multiply", g, b), lambda: w("multiply", g, a)


def _atan2(w: Wide, g: Handle, y: Handle, x: Handle) -> tuple[Any, Any]:
    part = w("divide", g, w("add", w("multiply", x, x), w("multiply", y, y)))
    return w("multiply", part, x), w("negative", w("multiply", part, y))


def _hypot(w: Wide, g: Handle, a: Handle, b: Handle) -> tuple[Any, Any]:
    part = w("divide", g, w("hypot", a, b))
    return w("multiply", part, a), w("multiply", part, b)


def _xlogy(w: Wide, g: Handle, a: Handle, b: Handle) -> tuple[Any, Any]:
    free = w("logical_and", w("equal", a, 0.0), w("less_equal", b, 0.0))
    first = w.select(free, 0.0, w("multiply", g, w("log", b)))
    return first, w("multiply", g, w("divide", a, b))


def _ldexp(w: Wide, g: Handle, a: Handle, b: Handle) -> tuple[Any, Any]:
    first = w("multiply", g, w("exp2", b))
    return first, w("multiply", w("multiply", first, a), math.log(2))


def _shares(base: float) -> Pair:
    """Of log(base^a + base^b): each gets its share."""

    def pair(w: Wide, g: Handle, a: Handle, b: Handle) -> tuple[Any, Any]:
        away = w("multiply", w("subtract", a, b), math.log(base))
        share = w("sigmoid", away)
        return w("multiply", g, share), w("multiply", g, w("subtract", 1.0, share))

    return pair


def _squared_difference(w: Wide, g: Handle, a: Handle, b: Handle) -> tuple[Any, Any]:
    first = w("multiply", w("multiply", g, w("subtract", a, b)), 2.0)
    return first, w("negative", first)


def _extreme(op: str) -> Pair:
    """To the one that was taken; half to each of two that are equal."""

    def pair(w: Wide, g: Handle, a: Handle, b: Handle) -> tuple[Any, Any]:
        half = w.select(w("equal", a, b), 0.5, 0.0)
        share = w("add", half, w.select(w(op, a, b), 1.0, 0.0))
        return w("multiply", g, share), w("multiply", g, w("subtract", 1.0, share))

    return pair


def _rest(round_op: str) -> Pair:
    """Of what is left of a quotient."""

    def pair(w: Wide, g: Handle, a: Handle, b: Any) -> tuple[Any, Any]:
        return g, lambda: w("negative", w("multiply", g, w(round_op, w("divide", a, b))))

    return pair


def _bias_gelu(w: Wide, g: Handle, a: Handle, b: Any, approximate: str = "none") -> tuple[Any, Any]:
    made = w("multiply", g, gelu_slope(w, w("add", a, b), approximate))
    return made, made


def _linear(first: float, second: float) -> Pair:
    def pair(w: Wide, g: Handle, a: Handle, b: Any) -> tuple[Any, Any]:
        return tuple(g if by == 1 else w("multiply", g, by) for by in (first, second))  # type: ignore[return-value]

    return pair


def _alpha(sign: float) -> Pair:
    def pair(w: Wide, g: Handle, a: Handle, b: Any, alpha: float = 1.0) -> tuple[Any, Any]:
        return g, w("multiply", g, sign * float(alpha))

    return pair


PAIRS: dict[str, tuple[Pair, str]] = {
    "add": (_linear(1.0, 1.0), "copy"),
    "sub": (_linear(1.0, -1.0), "multiply"),
    "rsub": (_linear(-1.0, 1.0), "multiply"),
    "mul": (_product, "multiply"),
    "div": (_quotient, "divide, multiply"),
    "addalpha": (_alpha(1.0), "multiply"),
    "subalpha": (_alpha(-1.0), "multiply"),
    "atan2": (_atan2, "multiply, add, divide"),
    "hypot": (_hypot, "hypot, divide, multiply"),
    "xlogy": (_xlogy, "log, divide, multiply, where"),
    "ldexp": (_ldexp, "exp2, multiply"),
    "logaddexp": (_shares(math.e), "sigmoid, multiply"),
    "logaddexp2": (_shares(2.0), "sigmoid, multiply"),
    "squared_difference": (_squared_difference, "subtract, multiply"),
    "max": (_extreme("greater"), "greater, equal, where, multiply"),
    "min": (_extreme("less"), "less, equal, where, multiply"),
    "remainder": (_rest("floor"), "divide, floor, multiply"),
    "fmod": (_rest("trunc"), "divide, trunc, multiply"),
    "bias_gelu": (_bias_gelu, "add, erf, exp, multiply"),
    "assign": (_linear(1.0, 1.0), "copy"),
}


def _of_two(name: str, body: Pair, served: str) -> None:
    full = f"ttnn.{name}_bw"

    def function(
        grad_tensor: Tensor,
        input_tensor_a: Tensor,
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
        grad, a = float_tensor(full, grad_tensor), float_tensor(full, input_tensor_a)
        w = Wide(a._handle.device)
        both = isinstance(input_tensor_b, Tensor)
        b = float_tensor(full, input_tensor_b)._handle if both else input_tensor_b
        made = body(w, grad._handle, a._handle, b if both or b is None else float(b), *args, **given)
        needed = list(are_required_outputs)
        results: list[Tensor | None] = [None, None] if both else [None]
        if needed[0] or not both:
            into = input_grad if input_a_grad is None else input_a_grad
            results[0] = _placed(full, a, w, made[0], memory_config, into)
        if both and needed[-1]:
            second = made[1]() if callable(made[1]) else made[1]
            into = other_grad if input_b_grad is None else input_b_grad
            results[1] = _placed(full, input_tensor_b, w, second, memory_config, into)
        return results

    function.__doc__ = f"The gradients of {name} by its inputs; a number has none."
    Operation(f"{name}_bw", function, served)


for _name, (_pair, _served) in PAIRS.items():
    _of_two(_name, _pair, _served)


@operation("concat_bw", "slice")
def concat_bw(
    grad_tensor: Tensor,
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    dim: int = 0,
    are_required_outputs: Any = (True, True),
    *,
    memory_config: Any = None,
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
    **_: Any,
) -> list[Tensor | None]:
    """The part of the gradient that each input had, None where it is not required."""
    op = "ttnn.concat_bw"
    grad, start = float_tensor(op, grad_tensor), 0
    made: list[Tensor | None] = []
    w = Wide(grad._handle.device)
    both = (float_tensor(op, input_tensor_a), float_tensor(op, input_tensor_b))
    for x, wanted, into in zip(both, are_required_outputs, (input_a_grad, input_b_grad), strict=True):
        axis = axis_of(op, dim, len(x.shape))
        end = start + x.shape[axis]
        part = w("slice", grad._handle, starts=(start,), ends=(end,), axes=(axis,))
        made.append(_placed(op, x, w, part, memory_config, into) if wanted else None)
        start = end
    return made


@operation("repeat_bw", "reshape, sum")
def repeat_bw(
    grad_tensor: Tensor, input_tensor: Tensor, shape: Any, *, memory_config: Any = None, **_: Any
) -> list[Tensor]:
    """The sum over the repetitions; ``shape``: how often each dimension was repeated."""
    op = "ttnn.repeat_bw"
    grad, x = float_tensor(op, grad_tensor), float_tensor(op, input_tensor)
    w, sizes = Wide(x._handle.device), tuple(x.shape)
    check(len(shape) == len(sizes), op, f"{list(shape)} has another rank than {x.shape}")
    cut = [n for times, size in zip(shape, sizes, strict=True) for n in (int(times), size)]
    parts = w.reshape(w.rows(grad._handle), tuple(cut))
    made = w("sum", parts, axes=tuple(range(0, len(cut), 2)), keepdims=False)
    return [_placed(op, x, w, made, memory_config)]


@operation("prod_bw", "prod, divide, equal, where")
def prod_bw(
    grad_tensor: Tensor, input_tensor: Tensor, dim: int | None = None, *, memory_config: Any = None, **_: Any
) -> list[Tensor]:
    """The product of the other elements: where one is 0 it alone has a gradient, where two are none has."""
    op = "ttnn.prod_bw"
    grad, x = float_tensor(op, grad_tensor), float_tensor(op, input_tensor)
    w, rank = Wide(x._handle.device), len(x.shape)
    axes = tuple(range(rank)) if dim is None else (axis_of(op, dim, rank),)
    g = grad._handle
    kept = tuple(1 if at in axes else size for at, size in enumerate(x.shape))
    if tuple(g.shape) != kept:
        check(math.prod(g.shape) == math.prod(kept), op, f"grad {grad.shape} does not fit {x.shape}")
        g = w.reshape(w.rows(g), kept)
    none = w("equal", x._handle, 0.0)
    zeros = w("sum", w.select(none, 1.0, 0.0), axes=axes, keepdims=True)
    safe = w.select(none, 1.0, w.wide(x._handle))
    product = w("prod", safe, axes=axes, keepdims=True)
    others = w.select(w("equal", zeros, 0.0), w("divide", product, safe), 0.0)
    alone = w("logical_and", none, w("equal", zeros, 1.0))
    made = w("multiply", g, w.select(alone, product, others))
    return [_placed(op, x, w, made, memory_config)]


# **************** of three tensors ****************


def _three(name: str, served: str, body: Callable[..., tuple[Handle, ...]], doc: str) -> None:
    full = f"ttnn.{name}_bw"

    def function(
        grad_tensor: Tensor,
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        input_tensor_c: Any,
        *args: Any,
        are_required_outputs: Any = None,
        memory_config: Any = None,
        **given: Any,
    ) -> list[Tensor | None]:
        if unknown := sorted(given.keys() - {"alpha", "value", "scalar"}):
            raise Unsupported(f"{full}: {unknown[0]} is not supported", op=full)
        grad = float_tensor(full, grad_tensor)
        inputs = [input_tensor_a, input_tensor_b, input_tensor_c]
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        w = Wide(grad._handle.device)
        handles = [x._handle if isinstance(x, Tensor) else float(x) for x in inputs]
        number = [value for key, value in given.items() if key in ("alpha", "value", "scalar")]
        made = body(w, grad._handle, *handles, *args, *number)
        owners = tensors[-len(made) :] if name == "where" else tensors
        results: list[Tensor | None] = []
        for at, (x, part) in enumerate(zip(owners, made, strict=False)):
            wanted = are_required_outputs is None or list(are_required_outputs)[at]
            results.append(_placed(full, x, w, part, memory_config) if wanted else None)
        return results

    function.__doc__ = doc
    Operation(f"{name}_bw", function, served)


def _where(w: Wide, g: Handle, condition: Handle, a: Any, b: Any) -> tuple[Handle, ...]:
    chosen = w.true(condition)
    return w.select(chosen, w.wide(g), 0.0), w.select(chosen, 0.0, w.wide(g))


def _addcmul(w: Wide, g: Handle, a: Handle, b: Handle, c: Handle, value: float = 1.0) -> tuple[Handle, ...]:
    scaled = w("multiply", g, float(value))
    return g, w("multiply", scaled, c), w("multiply", scaled, b)


def _addcdiv(w: Wide, g: Handle, a: Handle, b: Handle, c: Handle, value: float = 1.0) -> tuple[Handle, ...]:
    first = w("divide", w("multiply", g, float(value)), c)
    return g, first, w("negative", w("multiply", first, w("divide", b, c)))


def _lerp(w: Wide, g: Handle, start: Handle, end: Handle, weight: Any) -> tuple[Handle, ...]:
    made = w("multiply", g, w("subtract", 1.0, weight) if isinstance(weight, Handle) else 1.0 - weight)
    return made, w("multiply", g, weight), w("multiply", g, w("subtract", end, start))


_three("where", "where", _where, "The gradient to the value that was chosen, 0 to the other.")
_three("addcmul", "multiply", _addcmul, "The gradients of a + value b c.")
_three("addcdiv", "multiply, divide", _addcdiv, "The gradients of a + value b / c.")
_three("lerp", "multiply, subtract", _lerp, "The gradients of start + weight (end - start).")


@operation("embedding_bw", "scatter_elements")
def embedding_bw(
    input_tensor: Tensor,
    weight: Tensor,
    output_gradient: Tensor,
    *,
    dtype: DataType | None = None,
    memory_config: Any = None,
    **_: Any,
) -> Tensor:
    """The gradient of a table: the rows of ``output_gradient`` added at their indices."""
    op = "ttnn.embedding_bw"
    index, table, grad = (
        device_tensor(op, input_tensor),
        float_tensor(op, weight),
        float_tensor(op, output_gradient),
    )
    w, width = Wide(table._handle.device), table.shape[-1]
    rows = grad.logical_volume() // width
    check(index.logical_volume() == rows, op, f"{index.shape} indices do not fit the gradient {grad.shape}")
    places = w.reshape(w.rows(handle_as(index, "int32")), (rows, 1))
    spread = kernels.run("broadcast_to", [places], {"shape": (rows, width)})
    updates = w.reshape(w.rows(grad._handle), (rows, width))
    size = math.prod(tuple(table.shape)[:-1])
    empty = kernels.run("broadcast_to", [w.number(0.0)], {"shape": (size, width)}, kernels.WIDE)
    made = w("scatter_elements", empty, spread, updates, axis=0, reduction="add")
    goal = target(op, table, memory_config, None, dtype or grad.dtype, Layout.TILE)
    return goal.wrap(w.reshape(w.rows(made), tuple(table.shape)))
