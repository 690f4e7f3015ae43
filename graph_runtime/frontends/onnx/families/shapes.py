"""Ops of shapes, ops that make tensors (Constant, Range, ...), and ops that move dimensions."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ....base.dtypes import NARROW_FLOATS, is_integer
from ....ir.model import Constant
from ....ir.value import where
from ..context import Context, Results, converter
from ..read import dtype_name
from ..tape import TapeValue

MOST_RANGE = 2**24  # most elements that a Range may have


@converter("Shape")
def _shape(ctx: Context) -> Results:
    shape = ctx.input(0).shape
    start, end = ctx.attr("start", 0), ctx.attr("end", len(shape))
    return ctx.const(shape[start:end], "int64")


converter("Size")(lambda ctx: ctx.const(ctx.input(0).type.size, "int64"))


@converter("Constant")
def _constant(ctx: Context) -> Results:
    value = ctx.attr("value", None)
    if isinstance(value, TapeValue):
        return value
    sparse = ctx.attr("sparse_value", None)
    if isinstance(sparse, Constant):
        ctx.tape.budget.room(sparse.type.nbytes, "a sparse tensor made dense")
        value = sparse
    if isinstance(value, Constant):
        return TapeValue(value.type, constant=value)
    for name in ("value_string", "value_strings"):
        if (text := ctx.attr(name, None)) is not None:
            return ctx.const(np.array(text, object))
    for name, dtype in (
        ("value_float", "float32"),
        ("value_floats", "float32"),
        ("value_int", "int64"),
        ("value_ints", "int64"),
    ):
        given = ctx.attr(name, None)
        if given is not None:
            return ctx.const(given, dtype)
    return ctx.fail("it has none of the attributes for a value")


@converter("ConstantOfShape")
def _constant_of_shape(ctx: Context) -> Results:
    shape = tuple(ctx.ints(0))
    value = ctx.attr("value", None)
    if isinstance(value, TapeValue):  # graphs have no dtype for the elements
        if min(shape, default=0) < 0 or value.type.size != 1:
            ctx.fail(f"shape {list(shape)} is negative, or value {value.type} is not a single number")
        return ctx.expand(ctx.reshape(value, ()), shape)
    value = np.zeros(1, np.float32) if value is None else value.read()
    if min(shape, default=0) < 0 or value.size != 1:
        ctx.fail(f"shape {list(shape)} is negative, or value {value.tolist()} is not a single number")
    return ctx.expand(ctx.const(value.reshape(())), shape, weight=True)


@converter("Range")
def _range(ctx: Context) -> Results:
    start, limit, delta = (ctx.single(i) for i in range(3))
    dtype, stash = ctx.input(0).dtype, ctx.attr("stash_type", 1)
    if not delta or not np.isfinite([float(v) for v in (start, limit, delta)]).all():
        ctx.fail(f"a range from {start} to {limit} by {delta} does not end")
    if is_integer(dtype):
        count = -((int(start) - int(limit)) // int(delta))  # exact, but floats would round
    else:
        count = math.ceil((float(limit) - float(start)) / float(delta))
    if (count := max(count, 0)) > MOST_RANGE:
        ctx.fail(f"it has {count} elements, but at most {MOST_RANGE} are supported")
    ctx.fits(count)
    if dtype in NARROW_FLOATS:
        if stash != 1:
            ctx.fail(f"stash_type {stash} is not supported")
        start, delta = np.float32(start), np.float32(delta)
    return ctx.const(np.asarray(start + np.arange(count).astype(start.dtype) * delta), dtype)


@converter("EyeLike")
def _eye_like(ctx: Context) -> Results:
    x, code = ctx.input(0), ctx.attr("dtype", 0)
    dtype = dtype_name(code, "the result") if code else x.dtype
    (rows, columns), k = x.shape, ctx.attr("k", 0)
    return ctx.filled(x.shape, lambda: np.eye(rows, columns, k), dtype, "EyeLike")


@converter("Reshape")
def _reshape(ctx: Context) -> Results:
    x = ctx.input(0)
    wanted, keep = ctx.ints(1), not ctx.attr("allowzero", 0)
    wanted = ctx.batch.shape(x, wanted) if ctx.batch else wanted
    shape = [x.shape[d] if n == 0 and keep else n for d, n in enumerate(wanted)]
    known = math.prod(n for n in shape if n != -1)
    open_ = -1 in shape and (not known or x.type.size % known)
    if shape.count(-1) > 1 or min(shape, default=0) < -1 or open_:
        ctx.fail(f"{x.type} cannot take shape {wanted}")
    shape = [x.type.size // known if n == -1 else n for n in shape]
    if math.prod(shape) != x.type.size:
        ctx.fail(f"{x.type} cannot take shape {wanted}")
    return ctx.reshape(x, shape)


@converter("Flatten")
def _flatten(ctx: Context) -> Results:
    x, axis = ctx.input(0), ctx.attr("axis", 1)
    axis += x.rank if axis < 0 else 0
    return ctx.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@converter("Squeeze")
def _squeeze(ctx: Context) -> Results:
    x = ctx.input(0)
    axes = ctx.attr("axes", None) if ctx.opset < 13 else ctx.ints(1, None)
    return x if x.rank == 0 else ctx.op("squeeze", x, axes=axes)


@converter("Unsqueeze")
def _unsqueeze(ctx: Context) -> Results:
    return ctx.op("unsqueeze", ctx.input(0), axes=ctx.attr("axes") if ctx.opset < 13 else ctx.ints(1))


@converter("Transpose")
def _transpose(ctx: Context) -> Results:
    x = ctx.input(0)
    return ctx.transpose(x, ctx.attr("perm", list(range(x.rank))[::-1]))


@converter("Concat")
def _concat(ctx: Context) -> Results:
    inputs = [ctx.input(i) for i in range(len(ctx.inputs))]
    return joined(ctx, inputs, ctx.axis(ctx.attr("axis"), inputs[0].rank))


def joined(ctx: Context, parts: list[TapeValue], axis: int) -> TapeValue:
    return parts[0] if len(parts) == 1 else ctx.op("concatenate", *parts, axis=axis)


@converter("Split")
def _split(ctx: Context) -> Results:
    x = ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    sizes = ctx.attr("split", None) if ctx.opset < 13 else ctx.ints(1, None)
    if sizes is None:
        count = ctx.attr("num_outputs", ctx.num_outputs)
        each = -(-x.shape[axis] // count)
        sizes = [max(min(each, x.shape[axis] - i * each), 0) for i in range(count)]
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        ctx.fail(f"parts of sizes {sizes} do not fill axis {axis}, which has {x.shape[axis]} elements")
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(ctx.slice(x, axis, begin, end) for begin, end in pairwise(ends))


@converter("Slice")
def _slice(ctx: Context) -> Results:
    x = ctx.input(0)
    if ctx.opset < 10:
        starts, ends, axes, steps = ctx.attr("starts"), ctx.attr("ends"), ctx.attr("axes", None), None
    else:
        starts, ends, axes, steps = ctx.ints(1), ctx.ints(2), ctx.ints(3, None), ctx.ints(4, None)
    axes = ctx.axes(range(len(starts)) if axes is None else axes, x.rank)
    return ctx.op("slice", x, starts=starts, ends=ends, axes=axes, steps=steps)


@converter("Expand")
def _expand(ctx: Context) -> Results:
    x = ctx.input(0)
    return ctx.expand(x, np.broadcast_shapes(x.shape, tuple(ctx.ints(1))))


converter("Tile")(lambda ctx: ctx.op("tile", ctx.input(0), repeats=ctx.ints(1)))


@converter("Pad")
def _pad(ctx: Context) -> Results:
    x, mode = ctx.input(0), ctx.attr("mode", "constant")
    if ctx.opset < 11:
        given, value = ctx.attr("pads"), ctx.attr("value", 0.0)
    else:
        given, value = ctx.ints(1), ctx.single(2, 0)
    axes = ctx.ints(3, None) if ctx.opset >= 18 else None
    axes = list(range(x.rank)) if axes is None else ctx.axes(axes, x.rank)
    pads = [0] * (2 * x.rank)
    for i, axis in enumerate(axes):
        pads[axis], pads[axis + x.rank] = given[i], given[i + len(axes)]
    for d in range(x.rank):  # negative pads remove elements
        low, high = min(pads[d], 0), min(pads[d + x.rank], 0)
        x = ctx.slice(x, d, -low, x.shape[d] + high)
    pads = [max(p, 0) for p in pads]
    return pad(ctx, x, pads, value, mode)


def pad(ctx: Context, x: TapeValue, pads: list[int], value: float = 0, mode: str = "constant") -> TapeValue:
    """x with elements added before and after each dimension."""
    if not any(pads):
        return x
    inexact = mode == "constant" and x.dtype in ("int64", "uint64") and abs(int(value)) > 2**53
    if inexact:
        ctx.fail(f"padding of {x.dtype} with {value} is not supported")
    if mode == "constant" and not np.isfinite(float(value)):  # a graph's file cannot store such an attribute
        return _framed(ctx, x, pads, value)
    return ctx.op("pad", x, pads=pads, mode=mode, value=float(value) if mode == "constant" else 0.0)


def _framed(ctx: Context, x: TapeValue, pads: list[int], value: float) -> TapeValue:
    """x with tensors of one value before and after it, added in one dimension after another."""
    for axis in range(x.rank):
        sides = [
            ctx.full((*x.shape[:axis], count, *x.shape[axis + 1 :]), value, x.dtype)
            for count in (pads[axis], pads[axis + len(pads) // 2])
        ]
        parts = [part for part in (sides[0], x, sides[1]) if part.shape[axis]]
        x = joined(ctx, parts, axis)
    return x


@converter("CenterCropPad")
def _center(ctx: Context) -> Results:
    x, wanted = ctx.input(0), ctx.ints(1)
    axes = ctx.axes(ctx.attr("axes", list(range(x.rank))), x.rank)
    pads = [0] * (2 * x.rank)
    for axis, size in zip(axes, wanted, strict=True):
        have = x.shape[axis]
        if size < have:
            start = (have - size) // 2
            x = ctx.slice(x, axis, start, start + size)
        else:
            pads[axis] = (size - have) // 2
            pads[axis + x.rank] = size - have - pads[axis]
    return pad(ctx, x, pads)


@converter("DepthToSpace")
def _depth_to_space(ctx: Context) -> Results:
    x, b = ctx.input(0), ctx.attr("blocksize")
    n, c, h, w = x.shape
    if ctx.attr("mode", "DCR") == "DCR":
        shape, perm = (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)
    else:
        shape, perm = (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3)
    return ctx.reshape(ctx.transpose(ctx.reshape(x, shape), perm), (n, c // (b * b), h * b, w * b))


@converter("SpaceToDepth")
def _space_to_depth(ctx: Context) -> Results:
    x, b = ctx.input(0), ctx.attr("blocksize")
    n, c, h, w = x.shape
    perm = (0, 3, 5, 1, 2, 4) if ctx.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = ctx.reshape(x, (n, c, h // b, b, w // b, b))
    return ctx.reshape(ctx.transpose(parts, perm), (n, c * b * b, h // b, w // b))


@converter("Trilu")
def _trilu(ctx: Context) -> Results:
    x, k, upper = ctx.input(0), int(ctx.single(1, 0)), bool(ctx.attr("upper", 1))
    rows, columns = x.shape[-2:]
    k = max(min(k, columns + 1), -rows - 1)

    def mask() -> np.ndarray:
        return np.triu(np.ones((rows, columns), bool), k) if upper else np.tri(rows, columns, k, dtype=bool)

    keep = ctx.filled((rows, columns), mask, "bool", "the triangle of Trilu")
    return where(keep, x, 0)


@converter("AffineGrid")
def _affine_grid(ctx: Context) -> Results:
    theta, size = ctx.input(0), ctx.ints(1)
    ctx.fits(*size[2:], len(size))
    axes = []
    for n in size[2:]:
        steps = np.arange(n, dtype=np.float64)
        corners = ctx.attr("align_corners", 0)
        axes.append(2 * steps / max(n - 1, 1) - 1 if corners else (2 * steps + 1) / n - 1)
    grid = np.meshgrid(*axes, indexing="ij")[::-1]  # x runs along the last dimension
    points = np.stack([*grid, np.ones_like(grid[0])], -1).reshape(-1, len(axes) + 1)
    made = ctx.op("matmul", ctx.const(points, theta.dtype), theta, transpose_b=True)
    return ctx.reshape(made, (size[0], *size[2:], len(axes)))
