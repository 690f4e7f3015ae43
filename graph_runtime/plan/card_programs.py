"""The card programs that a card would run for the nodes of a plan: ttnn's programs, if a device computes as
ttnn does.

A plan has one number per node, the bytes of its circular buffers (Plan.circular). The device's arithmetic
decides which buffers are counted: those that our kernel opens when it is called, or, with numerics "ttnn",
those of ttnn's program factory (costs/factories). If the factory is unknown here, our kernel's buffers are
counted in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.machine.devices import Device
from ..base.machine.layout import DRAM, L1, TILE, Layout
from ..costs.factories import (
    CardOperand,
    CardProgram,
    Exponents,
    binary,
    concatenated,
    copied,
    layer_norm,
    product,
    reduced,
    resharded,
    simple_blocks,
    softmax,
    ternary,
    tilized,
    transposed,
    unary,
    untilized,
)
from ..costs.factories.buffers import F32
from ..costs.factories.products import Sums
from ..ir.graph import COPY, Func, NodeView, TensorType
from ..ir.ops import registry
from ..ir.ops.numerics import Numerics
from .compute_config import node_numerics
from .types import Plan

GROUNDS = ("our kernels", "ttnn's program factories")


def ground(plan: Plan, did: int) -> str:
    """The source of Plan.circular for a device's nodes: one of GROUNDS."""
    return GROUNDS[bool(plan.numerics) and plan.numerics[did].numerics == "ttnn"]


def program_of_node(plan: Plan, node: NodeView) -> CardProgram | None:
    """The card program of a node of a plan; None if Plan.circular has our kernel's buffers for the node."""
    if not plan.numerics or node.func is None:
        return None
    device, layouts = plan.devices[plan.did[node.nid]], [*map(plan.layout, (*node.inputs, *node.outputs))]
    types = (node.func, node.input_types, node.output_types)
    return card_program(*types, device, layouts, node_numerics(plan, node.nid))


def card_program(
    func: Func,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    device: Device,
    layouts: Sequence[Layout],
    numerics: Numerics,
) -> CardProgram | None:
    """The card program of one call; ``layouts``: layouts of the inputs, then of the output. None if numerics
    are not "ttnn", or the call's factory is not known here."""
    if numerics.numerics != "ttnn" or not inputs or len(outputs) != 1:
        return None
    if any(layout.memory not in (DRAM, L1) or layout.nd is not None for layout in layouts):
        return None
    asked = _Asked(func, inputs, outputs[0], device, layouts)
    if func.name == COPY:
        return _copied(asked)
    if func.op is None:
        return None
    op = registry.require(func.op)
    found = _TABLE.get(next(iter(op.ttnn), op.name)) or (
        _elementwise if op.kind == "elementwise" and op.name != "fused" else None
    )
    return None if found is None else found(asked)


class _Asked:
    """One call: its operands, its result, and the device's cores and L1."""

    def __init__(
        self,
        func: Func,
        inputs: Sequence[TensorType],
        output: TensorType,
        device: Device,
        layouts: Sequence[Layout],
    ):
        self.attrs: Any = func.attrs
        self.operands = [_operand(x, layout) for x, layout in zip(inputs, layouts, strict=False)]
        self.first, self.result = self.operands[0], _operand(output, layouts[-1])
        rows, cols = device.descriptor.grid
        memory = device.descriptor.memory(L1)
        self.grid, self.cores = (cols, rows), rows * cols
        self.l1, self.free = memory.bank_bytes, memory.usable

    def last(self, axes: Any) -> bool:
        """Whether ``axes`` is the last dimension alone."""
        rank = len(self.first.shape)
        return [axis % rank for axis in axes] == [rank - 1]


def _operand(type_: TensorType, layout: Layout) -> CardOperand:
    shard = layout.shard
    if shard is None:
        return CardOperand(type_.shape, layout.format, layout.layout, layout.memory)
    (top, left), (bottom, right) = shard.grid
    cores, size = (bottom - top + 1, right - left + 1), (shard.shape[0], shard.shape[1])
    turned = shard.orientation == "col"
    return CardOperand(
        type_.shape, layout.format, layout.layout, layout.memory, shard.kind, size, cores, turned
    )


def _elementwise(asked: _Asked) -> CardProgram | None:
    whole = [x for x in asked.operands if x.shape]
    if any(x.layout != TILE for x in (*whole, asked.result)):
        return None
    if len(asked.operands) == 1:
        return unary(asked.first, asked.result)
    if len(asked.operands) == 2:
        b = asked.operands[1] if asked.operands[1].shape else None
        return binary(asked.first, b, asked.result)
    return ternary(whole[:3], asked.result) if len(whole) == 3 else None


def _copied(asked: _Asked) -> CardProgram | None:
    x, made = asked.first, asked.result
    if x.layout != made.layout and x.shape:
        return tilized(x, made) if made.layout == TILE else untilized(x, made, asked.cores)
    if x.sharded or made.sharded:
        return resharded(x, made)
    return unary(x, made) if x.format != made.format and x.layout == TILE else copied(x, made)


def _product(asked: _Asked) -> CardProgram | None:
    a, b = asked.operands[:2]
    if asked.attrs.get("transpose_a") or min(len(a.shape), len(b.shape)) < 2 or b.sharded:
        return None
    if asked.attrs.get("transpose_b") or "packed" in asked.attrs:
        b = CardOperand((*b.shape[:-2], *b.shape[:-3:-1]), b.format, b.layout, b.memory)
    sums = Sums(asked.result.format == F32, asked.result.format != F32)
    bias = asked.operands[2].format if len(asked.operands) > 2 else ""
    blocks = simple_blocks(a, b, asked.result, asked.grid, asked.free, sums, bias)
    return product(a, b, asked.result, blocks, bias if blocks.kind != "plain" else "", sums)


def _softmax(asked: _Asked) -> CardProgram | None:
    if asked.first.layout != TILE or not asked.first.shape or not asked.last((asked.attrs.get("axis", -1),)):
        return None
    kept = Exponents(wide=asked.first.format == F32)
    return softmax(asked.first, asked.result, asked.l1, kept)


def _norm(asked: _Asked) -> CardProgram | None:
    if asked.first.layout != TILE or asked.first.sharded or not asked.last((asked.attrs.get("axis", -1),)):
        return None
    gamma, beta = ([x.format for x in asked.operands[1:3]] + ["", ""])[:2]
    return layer_norm(asked.first, asked.result, asked.l1, True, gamma, beta)


def _reduced(asked: _Asked) -> CardProgram | None:
    return reduced(asked.first, asked.result) if asked.first.layout == TILE else None


def _transposed(asked: _Asked) -> CardProgram:
    perm = tuple(asked.attrs.get("perm") or ())
    rank = len(asked.first.shape)
    turns = perm[-2:] == (rank - 1, rank - 2) and not asked.first.sharded
    return transposed(asked.first, asked.result) if turns else copied(asked.first, asked.result)


# {ttnn's name of an op: function that gives the card program of a call}
_TABLE: dict[str, Callable[[_Asked], CardProgram | None]] = {
    "matmul": _product,
    "softmax": _softmax,
    "layer_norm": _norm,
    **dict.fromkeys(("sum", "mean", "max"), _reduced),
    "permute": _transposed,
    "concat": lambda asked: concatenated(asked.result),
}
