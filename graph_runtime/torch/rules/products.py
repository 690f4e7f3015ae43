"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..counters import Unsupported
from .operands import axis_of, broadcast, is_float, pair, reshape, scalar_like
from .table import rule


@rule("mv")
def mv(e: Any, a: Any, b: Any) -> Any:
    return reshape(e, e.op("matmul", a, reshape(e, b, (*b.shape, 1))), (a.shape[0],))


@rule("dot", "vdot")
def dot(e: Any, a: Any, b: Any) -> Any:
    n = a.shape[0]
    return reshape(e, e.op("matmul", reshape(e, a, (1, n)), reshape(e, b, (n, 1))), ())


@rule("addmm", "baddbmm")
def addmm(e: Any, bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    made = e.op("matmul", a, b)
    if alpha != 1:
        made = e.op("multiply", made, scalar_like(e, alpha, made))
    if beta == 0:
        return made
    if beta != 1:
        bias = e.op("multiply", bias, scalar_like(e, beta, bias))
    return e.op("add", made, bias)


@rule("_int_mm")
def int_mm(e: Any, a: Any, b: Any) -> Any:
    """int8 @ int8 in int32, as torchao's layers of dynamic quantization multiply: on hosts. Where the CPU
    multiplies uint8 faster, they add 128 to the first and take it off the sums."""
    if a.dtype not in ("int8", "uint8") or b.dtype != "int8":
        raise Unsupported(f"_int_mm takes int8 or uint8 times int8, not {a.dtype} times {b.dtype}")
    weight = e.op("cast", e.op("transpose", b, perm=(1, 0)), to="int16")
    return e.op("quantized_dense", a, weight, e.array(np.zeros((), a.dtype), a.dtype), to="int32")


@rule("linear")
def linear(e: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    if not is_float(x) or len(weight.shape) != 2:
        raise Unsupported("a linear layer takes floats and a matrix of weights")
    rows = reshape(e, x, (-1 if 0 in x.shape else _rows(x.shape), x.shape[-1]))
    made = e.op("dense", rows, weight, *([] if bias is None else [bias]))
    return reshape(e, made, (*x.shape[:-1], weight.shape[0]))


def _rows(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape[:-1]:
        count *= size
    return count


@rule("addbmm")
def addbmm(e: Any, bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    made = e.op("sum", e.op("matmul", a, b), axes=(0,), keepdims=False)
    made = made if alpha == 1 else e.op("multiply", made, scalar_like(e, alpha, made))
    if beta == 0:
        return made
    return e.op("add", made, bias if beta == 1 else e.op("multiply", bias, scalar_like(e, beta, bias)))


@rule("linalg_cross")
def cross(e: Any, a: Any, b: Any, *, dim: int = -1) -> Any:
    a, b = pair(e, a, b)
    if len(a.shape) != len(b.shape) or {x.shape[axis_of(dim, len(x.shape))] for x in (a, b)} != {3}:
        raise Unsupported("its vectors are not of three elements each")  # torch's own error follows
    shape = tuple(map(max, a.shape, b.shape))
    a, b, axis = broadcast(e, a, shape), broadcast(e, b, shape), axis_of(dim, len(shape))

    def turned(x: Any, order: tuple[int, ...]) -> Any:
        return e.op("take", x, e.array(order, "int32"), axis=axis)

    first = e.op("multiply", turned(a, (1, 2, 0)), turned(b, (2, 0, 1)))
    return e.op("subtract", first, e.op("multiply", turned(a, (2, 0, 1)), turned(b, (1, 2, 0))))


@rule("outer")
def outer(e: Any, a: Any, b: Any) -> Any:
    a, b = pair(e, a, b)
    return e.op("multiply", reshape(e, a, (*a.shape, 1)), b)
