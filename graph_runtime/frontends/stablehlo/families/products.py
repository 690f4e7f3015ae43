"""dot_general and dot with any dimension numbers, as one batched matrix product."""

from __future__ import annotations

import math

from ....base.dtypes import FLOATS
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter

_WIDE = {"int8": "float32", "uint8": "float32", "int16": "float64", "uint16": "float64"}


@converter("dot_general")
def _dot_general(ctx: HloContext) -> Results:
    a, b = ctx.input(0), ctx.input(1)
    batch, contracted = _numbers(ctx)
    for mine, theirs in (batch, contracted):
        if len(mine) != len(theirs) or [a.shape[d] for d in mine] != [b.shape[d] for d in theirs]:
            ctx.fail(f"dimensions {mine} of {a.type} do not fit {theirs} of {b.type}")
    free_a = [d for d in range(a.rank) if d not in (*batch[0], *contracted[0])]
    free_b = [d for d in range(b.rank) if d not in (*batch[1], *contracted[1])]
    made = _product(ctx, a, b, (batch[0], free_a, contracted[0]), (batch[1], contracted[1], free_b))
    shape = [a.shape[d] for d in (*batch[0], *free_a)] + [b.shape[d] for d in free_b]
    return ctx.reshape(made, shape)


def _numbers(ctx: HloContext) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
    """((batching dimensions of both operands), (contracting dimensions of both operands))."""
    a, b = ctx.input(0), ctx.input(1)
    found = []
    if "dot_dimension_numbers" in ctx.node.attrs:
        fields = ctx.fields("dot_dimension_numbers")
        for what in ("batching", "contracting"):
            found.append([ctx.field_ints(fields, f"{side}_{what}_dimensions") for side in ("lhs", "rhs")])
    else:
        for what in ("batching_dims", "contracting_dims"):
            pair = ctx.attr(what, default=[[], []])
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, list) for p in pair):
                ctx.fail(f"{what} is not a pair of lists")
            found.append(pair)
    for side, x in enumerate((a, b)):
        ctx.dims([*found[0][side], *found[1][side]], x.rank, "batching and contracting dimensions")
    (a_batch, b_batch), (a_contracted, b_contracted) = found
    return (a_batch, b_batch), (a_contracted, b_contracted)


@converter("dot")
def _dot(ctx: HloContext) -> Results:
    a, b = ctx.input(0), ctx.input(1)
    if a.rank not in (1, 2) or b.rank not in (1, 2) or a.shape[-1] != b.shape[0]:
        ctx.fail(f"operands of {a.type} and {b.type} do not fit")
    free_b = list(range(1, b.rank))
    made = _product(ctx, a, b, ([], list(range(a.rank - 1)), [a.rank - 1]), ([], [0], free_b))
    return ctx.reshape(made, (*a.shape[:-1], *b.shape[1:]))


Groups = tuple[list[int], list[int], list[int]]


def _product(ctx: HloContext, a: TapeValue, b: TapeValue, of_a: Groups, of_b: Groups) -> TapeValue:
    """Product [batch, m, n]. ``of_a``: batch, free and contracted dimensions of a. ``of_b``: batch,
    contracted and free dimensions of b."""
    wanted = ctx.made.dtype
    inner = _computed_in(a, b, wanted)
    a, b = _matrix(ctx, a.cast(inner), of_a), _matrix(ctx, b.cast(inner), of_b)
    if not inner.startswith(("int", "uint")):
        return (a @ b).cast(wanted)
    left = ctx.reshape(a, (*a.shape, 1))  # no kernel multiplies wide integers, so multiply and sum
    right = ctx.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return (left * right).sum(axes=[left.rank - 2], keepdims=False).cast(wanted)


def _computed_in(a: TapeValue, b: TapeValue, wanted: str) -> str:
    """dtype in which the product is computed: the dtype ``wanted`` for the result. For integers it is a float
    that holds all sums exactly, if there is one."""
    if wanted in FLOATS:
        return wanted
    if wanted == "bool":
        return "float32"
    if a.dtype in _WIDE and b.dtype in _WIDE and wanted in ("int32", "uint32", "int64", "uint64"):
        return "float64"
    return wanted


def _matrix(ctx: HloContext, x: TapeValue, groups: Groups) -> TapeValue:
    """x as [batch, first, second]; as [first, second] if there are no batch dimensions."""
    shape = [math.prod(x.shape[d] for d in group) for group in groups]
    made = ctx.transpose(x, [d for group in groups for d in group])
    if len(groups[0]) > 1:
        return ctx.reshape(made, [*(x.shape[d] for d in groups[0]), *shape[1:]])
    return ctx.reshape(made, shape if groups[0] else shape[1:])
