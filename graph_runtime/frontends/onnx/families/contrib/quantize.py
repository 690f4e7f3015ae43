"""com.microsoft's ops on integer grids, as ONNX Runtime's quantizer writes them. As ONNX Runtime documents,
each op dequantizes its inputs, computes in float32 and quantizes the result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .....base import dtypes
from .....ir.graph import TensorType
from .....ir.model import Constant
from ...context import Context, Results, converter
from ...tape import TapeValue
from ..gather import taken
from ..packed import centred_rows
from ..quantize import (
    _centred,
    _dequantize,
    _quantize,
    dense_of_integers,
    dynamic_grid,
    from_grid,
    numbers_of,
    on_grid,
    product_of_integers,
)
from .ops import CONTRIB

converter("QuantizeLinear", domain=CONTRIB, limits="to integers of 4 to 16 bits and int32")(_quantize)
converter("DequantizeLinear", domain=CONTRIB, limits="from integers of 4 to 32 bits")(_dequantize)


def _of_one(ctx: Context, compute: Callable[[TapeValue], TapeValue]) -> Results:
    """Result of an op that has one tensor input, X; the other inputs are scales and zero points for X and for
    the result."""
    x, zero = ctx.input(0), ctx.optional(4)
    y = compute(from_grid(ctx, x, ctx.input(1), ctx.optional(2)))
    return on_grid(ctx, y, ctx.input(3), zero, x.dtype if zero is None else zero.dtype)


@converter("QLinearAdd", "QLinearMul", domain=CONTRIB)
def _pair(ctx: Context) -> Results:
    op = "add" if ctx.node.op_type == "QLinearAdd" else "multiply"
    a, b = (from_grid(ctx, ctx.input(i), ctx.input(i + 1), ctx.optional(i + 2)) for i in (0, 3))
    return on_grid(ctx, ctx.op(op, a, b), ctx.input(6), ctx.optional(7), ctx.input(0).dtype)


@converter("QLinearConcat", domain=CONTRIB)
def _concat(ctx: Context) -> Results:
    scale, zero = ctx.input(0), ctx.input(1)
    if len(ctx.inputs) % 3 != 2 or len(ctx.inputs) < 5:
        ctx.fail(f"it has {len(ctx.inputs)} inputs instead of a scale, a zero point and three for each part")
    parts = [
        from_grid(ctx, ctx.input(i), ctx.input(i + 1), ctx.input(i + 2)) for i in range(2, len(ctx.inputs), 3)
    ]
    axis = ctx.axis(ctx.attr("axis", int), parts[0].rank)
    return on_grid(ctx, ctx.op("concatenate", *parts, axis=axis), scale, zero, zero.dtype)


converter("QLinearSigmoid", domain=CONTRIB)(lambda ctx: _of_one(ctx, TapeValue.sigmoid))


@converter("QLinearLeakyRelu", domain=CONTRIB)
def _leaky_relu(ctx: Context) -> Results:
    return _of_one(ctx, lambda x: x.op("leaky_relu", alpha=ctx.attr("alpha", 0.01)))


@converter("QLinearSoftmax", domain=CONTRIB, limits="before opset 13 only along the last axis")
def _softmax(ctx: Context) -> Results:
    rank = ctx.input(0).rank
    axis, version = ctx.axis(ctx.attr("axis", -1), rank), ctx.attr("opset", 13)
    if version < 13 and axis != rank - 1:
        ctx.fail(f"before opset 13 only the last axis is supported, not axis {axis} of {rank}")
    return _of_one(ctx, lambda x: x.op("softmax", axis=axis))


@converter("QLinearGlobalAveragePool", domain=CONTRIB)
def _global_average(ctx: Context) -> Results:
    rank = ctx.input(0).rank
    axes = list(range(1, rank - 1) if ctx.attr("channels_last", 0) else range(2, rank))
    return _of_one(ctx, lambda x: x.mean(axes=axes))


@converter("QLinearAveragePool", domain=CONTRIB, limits="1 to 3 spatial dimensions")
def _average(ctx: Context) -> Results:
    from ..pool import average_pool

    rank = ctx.input(0).rank
    if not ctx.attr("channels_last", 0):
        return _of_one(ctx, lambda x: average_pool(ctx, x))
    front, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return _of_one(ctx, lambda x: ctx.transpose(average_pool(ctx, ctx.transpose(x, front)), back))


# ---------------------------------------------------------------- products


def _scaled(
    ctx: Context, product: TapeValue, a_scale: TapeValue, b_scale: TapeValue, bias: TapeValue | None
) -> TapeValue:
    """An int32 product scaled to float32; factor b may have one scale per column."""
    a_scale, b_scale = (ctx.reshape(s, ()) if s.type.size == 1 else s for s in (a_scale, b_scale))
    y = product.cast("float32") * (a_scale * b_scale)
    return y if bias is None else y + bias


@converter("MatMulIntegerToFloat", domain=CONTRIB)
def _matmul_to_float(ctx: Context) -> Results:
    product = product_of_integers(ctx, ctx.input(0), ctx.optional(4), ctx.input(1), ctx.optional(5))
    return _scaled(ctx, product, ctx.input(2), ctx.input(3), ctx.optional(6))


@converter("DynamicQuantizeMatMul", domain=CONTRIB)
def _dynamic_matmul(ctx: Context) -> Results:
    a, a_scale, a_zero = dynamic_grid(ctx, ctx.input(0))
    product = product_of_integers(ctx, a, a_zero, ctx.input(1), ctx.optional(3))
    return _scaled(ctx, product, a_scale, ctx.input(2), ctx.optional(4))


@converter("QGemm", domain=CONTRIB)
def _gemm(ctx: Context) -> Results:
    c = ctx.optional(6)
    product = _integer_gemm(ctx, bool(ctx.attr("transA", 0)), bool(ctx.attr("transB", 0)))
    product = product if c is None else product + c
    alpha = ctx.const(np.float32(ctx.attr("alpha", 1.0)))
    a_scale = ctx.reshape(ctx.input(1), ()) * alpha
    y, scale, zero = _scaled(ctx, product, a_scale, ctx.input(4), None), ctx.optional(7), ctx.optional(8)
    return y if scale is None else on_grid(ctx, y, scale, zero, "uint8" if zero is None else zero.dtype)


def _integer_gemm(ctx: Context, swap_a: bool, swap: bool) -> TapeValue:
    """int32 product of (a - its zero point) and (b - its zero point)."""
    a, a_zero, b, b_zero = (ctx.input(i) for i in (0, 2, 3, 5))
    if b.constant is not None and a_zero.type.size == 1 and not swap_a:
        numbers = numbers_of(ctx, b, b_zero, -2 if swap else -1)
        return dense_of_integers(ctx, a, a_zero, numbers if swap else ctx.transpose(numbers, [1, 0]))
    a, b = _centred(ctx, a, a_zero), _centred(ctx, b, b_zero, -2 if swap else -1)
    return ctx.op("matmul", a, b, transpose_a=swap_a, transpose_b=swap)


@converter("GatherBlockQuantized", domain=CONTRIB, limits="constant data; rows only")
def _gather_block_quantized(ctx: Context) -> Results:
    """Rows at the indices, dequantized with a scale and an optional zero point per block of a row."""
    data, scales, zeros = ctx.input(0), ctx.input(2), ctx.optional(3)
    block, bits = ctx.attr("block_size", 128), ctx.attr("bits", 4)
    packed = data.element is None and dtypes.to_numpy(data.dtype).kind == "u" and bits < 8
    rows, columns = data.shape[0], data.shape[-1] * (8 // bits if packed else 1)
    if ctx.attr("gather_axis", 0) != 0 or ctx.axis(ctx.attr("quantize_axis", 1), data.rank) != data.rank - 1:
        ctx.fail("gather_axis must be the first axis, and quantize_axis the last")
    if bits not in (4, 8) or data.rank != 2 or scales.shape != (rows, -(-columns // block)):
        ctx.fail(
            f"data of {data.type} in {bits} bits and scales of {scales.type} do not fit block_size {block}"
        )
    parts = [part.constant for part in (data, zeros) if part is not None]
    if any(part is None for part in parts):
        ctx.fail("its data and zero points must be constants")
    whole = Constant.derived(
        TensorType("float32", (rows, columns)),
        lambda *arrays: centred_rows(arrays, columns, block, bits, packed),
        *(part for part in parts if part is not None),
        source=f"data of {ctx.node.name or ctx.onnx_op}",
        recipe=("centred_rows", block, bits, packed),
    )
    indices = ctx.input(1)
    wide = taken(ctx, TapeValue(whole.type, "data", whole), indices, 0)
    scale = taken(ctx, scales, indices, 0)
    last = ctx.reshape(scale, (*scale.shape, 1))
    last = ctx.expand(last, (*scale.shape, block))
    last = ctx.slice(
        ctx.reshape(last, (*indices.shape, scale.shape[-1] * block)), len(indices.shape), 0, columns
    )
    return wide.cast(scales.dtype) * last
