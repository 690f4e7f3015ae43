"""Products of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from .operands import axis_of, broadcast, is_float, pair, reshape
from .table import rule


@rule("mv")
def mv(a: Any, b: Any) -> Any:
    return reshape(a @ reshape(b, (*b.shape, 1)), (a.shape[0],))


@rule("dot", "vdot")
def dot(a: Any, b: Any) -> Any:
    n = a.shape[0]
    return reshape(reshape(a, (1, n)) @ reshape(b, (n, 1)), ())


@rule("addmm", "baddbmm")
def addmm(bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(bias, a @ b, beta, alpha)


def _added(bias: Any, made: Any, beta: Any, alpha: Any) -> Any:
    made = made if alpha == 1 else made * alpha
    if beta == 0:
        return made
    return made + (bias if beta == 1 else bias * beta)


@rule("_int_mm")
def int_mm(e: Any, a: Any, b: Any) -> Any:
    """int8 @ int8 with an int32 result, on hosts only; torchao's dynamically quantized layers use it. On CPUs
    that multiply uint8 faster, these layers add 128 to the first operand and correct the sums."""
    if a.dtype not in ("int8", "uint8") or b.dtype != "int8":
        raise Unsupported(f"_int_mm takes int8 or uint8 times int8, not {a.dtype} times {b.dtype}")
    weight = b.op("transpose", perm=(1, 0)).cast("int16")
    return a.op("quantized_dense", weight, e.array(np.zeros((), a.dtype), a.dtype), to="int32")


@rule("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if not is_float(x) or len(weight.shape) != 2:
        raise Unsupported("a linear layer takes floats and a matrix of weights")
    rows = reshape(x, (-1 if 0 in x.shape else math.prod(x.shape[:-1]), x.shape[-1]))
    made = rows.op("dense", weight, *([] if bias is None else [bias]))
    return reshape(made, (*x.shape[:-1], weight.shape[0]))


@rule("addbmm")
def addbmm(bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(bias, (a @ b).sum(0, keepdims=False), beta, alpha)


@rule("linalg_cross")
def cross(e: Any, a: Any, b: Any, *, dim: int = -1) -> Any:
    a, b = pair(e, a, b)
    if len(a.shape) != len(b.shape) or {x.shape[axis_of(dim, len(x.shape))] for x in (a, b)} != {3}:
        raise Unsupported("its vectors are not of three elements each")  # torch raises its own error
    shape = tuple(map(max, a.shape, b.shape))
    a, b, axis = broadcast(a, shape), broadcast(b, shape), axis_of(dim, len(shape))

    def turned(x: Any, order: tuple[int, ...]) -> Any:
        return x.op("take", e.array(order, "int32"), axis=axis)

    first = turned(a, (1, 2, 0)) * turned(b, (2, 0, 1))
    return first - turned(a, (2, 0, 1)) * turned(b, (1, 2, 0))


@rule("outer")
def outer(e: Any, a: Any, b: Any) -> Any:
    a, b = pair(e, a, b)
    return reshape(a, (*a.shape, 1)) * b
