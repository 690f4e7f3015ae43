"""Ops that only mark something, supported custom calls, and map."""

from __future__ import annotations

from ..op_context import HloContext, Results, converter
from .elementwise import erf_inverse
from .sorts import top

_MARKS = frozenset(
    "Sharding SPMDFullToShardShape SPMDShardToFullShape LayoutConstraint annotate_device_placement "
    "MoveToHost MoveToDevice xla.sdy.FuncResultSharding".split()
)
_FUNCTIONS = "erf acos acosh asin asinh atanh cosh sinh tan".split()  # of the dialect mhlo


@converter("optimization_barrier", "sdy.sharding_constraint", "sdy.sharding_group", "sdy.reshard")
def _same(ctx: HloContext) -> Results:
    return ctx.inputs


@converter("custom_call")
def _custom_call(ctx: HloContext) -> Results:
    name = ctx.word("callee", "call_target_name").removeprefix("@")
    if name in _MARKS:
        return ctx.inputs[: len(ctx.types)]
    if name.startswith("mhlo.") and name[5:] in _FUNCTIONS:
        return ctx.op(name[5:], ctx.input(0))
    if name == "mhlo.erf_inv":
        return erf_inverse(ctx.input(0))
    if name == "mhlo.topk":
        fields = ctx.fields("mhlo.attributes")
        return top(ctx, ctx.input(0), int(fields.get("k", 0)), bool(fields.get("largest", True)))
    ctx.fail(f"custom_call @{name} calls a function of another library, which is not here")


@converter("map")
def _map(ctx: HloContext) -> Results:
    made = ctx.run(ctx.region(0), ctx.inputs)
    return [ctx.expand(value, kind.shape) for value, kind in zip(made, ctx.types, strict=True)]
