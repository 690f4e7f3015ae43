"""What the cores of a tt board do for a node: a product, or passes over tiles, and the tiles that they
move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Func, TensorType
from ..ir.ops import registry
from ..ir.ops.epilogue import own_inputs
from ..ir.ops.steps import Step

__all__ = ["Pass", "Product", "Work", "tiles_of", "vector_op", "work_of"]


@dataclass(frozen=True, slots=True)
class Pass:
    """``tiles`` tiles through an op of costs.op_cycles, one core's kernel for each."""

    op: str
    tiles: int


@dataclass(frozen=True, slots=True)
class Product:
    """``batch`` products of m x k by k x n elements. ``gathered``: rows of the left side are windows of an
    image, read tap by tap."""

    batch: int
    m: int
    k: int
    n: int
    gathered: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A product, or passes; both where a core makes tiles of windows before, or adds a bias after."""

    product: Product | None = None
    passes: tuple[Pass, ...] = ()
    known: bool = True


def tiles_of(shape: tuple[int, ...]) -> int:
    """Tiles of a tensor. An image [N, C, H, W] is counted with its channels last, [N*H*W, C], where that
    takes fewer: so both software stacks keep activations of convolutions."""
    rows, columns = (1, 1, *shape)[-2:]
    planes = math.prod(shape[:-2]) * math.ceil(rows / 32) * math.ceil(columns / 32)
    if len(shape) != 4:
        return planes
    n, c, h, w = shape
    return min(planes, math.ceil(n * h * w / 32) * math.ceil(c / 32))


def work_of(func: Func, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
    """The work of a node. Of a function that only a library knows, or an op registered from outside: its
    tensors pass through the cores once, ``known`` False."""
    op, out = func.op or "", outputs[0]
    if op in ("matmul", "dense", "conv2d"):
        product = _product(op, func, inputs, out)
        own = own_inputs(len(inputs), func.attrs)
        return Work(product, _windows(product) + _bias(own, out) + _steps(func.attrs["epilogue"], out))
    if op == "attention":
        return _attention(inputs, out)
    if op in ("conv_transpose2d", "conv2d_backward_weight"):
        return Work(_gradient(op, inputs, out))
    if op == "fused":
        return Work(passes=_steps(func.attrs["body"], out))
    passes = _passes(op, inputs, out)
    if passes is None:
        return Work(passes=tuple(Pass("nop", tiles_of(t.shape)) for t in outputs), known=False)
    return Work(passes=passes)


def _passes(op: str, inputs: tuple[TensorType, ...], out: TensorType) -> tuple[Pass, ...] | None:
    made, read = tiles_of(out.shape), tiles_of(inputs[0].shape) if inputs else 0
    entry = registry.get(op)
    kind = "" if entry is None else entry.kind
    if kind == "elementwise" and op != "divide":  # which is a chain
        return (Pass(vector_op(op), made),)
    if kind == "movement":
        return (Pass("nop", made),)
    if kind == "reduction":
        return Pass("reduce", read), Pass("multiply", made)
    if kind == "windows":
        # a tile of taps by channels is reduced for each output pixel
        n, c, h, w = out.shape
        return (Pass("reduce", n * h * w * math.ceil(c / 32)),)
    rows = math.ceil(made / max(1, math.ceil((out.shape or (1,))[-1] / 32)))  # columns of one tile
    chains = {
        "bias_add": (Pass("add", made),),
        "divide": (Pass("reciprocal", tiles_of(inputs[-1].shape)), Pass("multiply", made)),
        "softmax": _each(made, "reduce", "subtract", "exp", "reduce", "multiply") + _each(rows, "reciprocal"),
        "layer_norm": _each(made, "reduce", "subtract", "multiply", "reduce", "multiply", "multiply", "add")
        + _each(rows, "sqrt", "reciprocal"),
    }
    chains["log_softmax"] = chains["softmax"] + _each(rows, "log")
    scaled = _each(made, "multiply", "reduce", "multiply", "multiply")
    chains["cumsum"] = _each(made, "matmul")  # with a triangle of ones
    chains["rms_norm"] = scaled + _each(rows, "sqrt", "reciprocal")
    return chains.get(op)


def vector_op(op: str) -> str:
    """The op of costs.op_cycles whose pace an elementwise op goes at; "nop" where it names none."""
    entry = registry.get(op)
    return "nop" if entry is None else entry.pace.get("tt", "nop")


def _each(tiles: int, *ops: str) -> tuple[Pass, ...]:
    return tuple(Pass(op, tiles) for op in ops)


def _product(op: str, func: Func, inputs: tuple[TensorType, ...], out: TensorType) -> Product:
    a, b = inputs[0].shape, inputs[1].shape
    if op == "conv2d":
        # grouped weights are laid out as dense ones, zeros between groups, as ttnn does
        pixels, taps = math.prod(out.shape) // out.shape[1], math.prod(b[2:])
        return Product(1, pixels, a[1] * taps, b[0], gathered=taps > 1)
    if op == "dense":
        return Product(1, math.prod(a[:-1]), a[-1], b[0])
    k = a[-2] if func.attrs.get("transpose_a") else a[-1]
    rows, columns = (1, 1, *out.shape)[-2:]
    if math.prod(b[:-2]) == 1:
        return Product(1, math.prod(out.shape[:-2]) * rows, k, columns)
    return Product(math.prod(out.shape[:-2]), rows, k, columns)


def _gradient(op: str, inputs: tuple[TensorType, ...], out: TensorType) -> Product:
    """A transposed convolution as the convolution of its input; a weight's gradient as one product over all
    pixels."""
    x, w = inputs[0].shape, inputs[1].shape
    if op == "conv_transpose2d":
        return Product(1, math.prod(x) // x[1], x[1], math.prod(w[1:]), gathered=True)
    return Product(1, out.shape[0], math.prod(w) // w[1], math.prod(out.shape[1:]), gathered=True)


def _attention(inputs: tuple[TensorType, ...], out: TensorType) -> Work:
    """Both products are one of s x (d + e) by t in multiplications; between them a softmax of the scores."""
    (rows, columns), (keys, depth) = out.shape[-2:], inputs[1].shape[-2:]
    batch = math.prod(out.shape[:-2])
    passes = _passes("softmax", inputs, TensorType(out.dtype, (batch, rows, keys))) or ()
    biased = _each(tiles_of((batch, rows, keys)), "add") if len(inputs) == 4 else ()
    return Work(Product(batch, rows, depth + columns, keys), passes + biased)


def _windows(product: Product) -> tuple[Pass, ...]:
    """Windows arrive as rows of pixels; the core that multiplies them makes tiles of them first."""
    if not product.gathered:
        return ()
    return (Pass("nop", math.ceil(product.m / 32) * math.ceil(product.k / 32)),)


def _bias(own: int, out: TensorType) -> tuple[Pass, ...]:
    return (Pass("add", tiles_of(out.shape)),) if own == 3 else ()


def _steps(program: Sequence[Step], out: TensorType) -> tuple[Pass, ...]:
    """The passes of a program (ir/ops/steps.py): what each step's op alone makes of the whole output."""
    found: tuple[Pass, ...] = ()
    for name, reads, _ in program:
        found += _passes(name, (out,) * len(reads), out) or (Pass("nop", tiles_of(out.shape)),)
    return found
