"""The memory of a model: one core's L1 holds output and parameters first, and inputs in the remaining space.

While memory is short, the largest parameter moves to DRAM; in the end the output gives up its second half, if
allowed. If L1 is left over, weights are held in the kernel's reading order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...base.errors import InputError
from . import buffers
from .chip import OVERLAY_BYTES, Chip
from .grid import Grid, Stream
from .legality import user_stack_factor
from .op import BalanceOp
from .types import BlockShape, L1Buffer, Overrides

NO_MEMORY = ("InputBufferAllocationFailure", "L1UsageOverMaxLimit")


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of model building. ``dram_parameters``: weights are streamed from DRAM instead of being held in
    L1, which is Buda's default for one input at a time. ``overlay_bytes``: bytes of data-movement code on a
    core; the part beyond OVERLAY_BYTES reduces the L1 budget. ``single_buffer``: an output that does not fit
    may give up its second half. ``most_t``: the most blocks in which a matmul may be streamed.
    ``enumerate_u_kt``: whether smaller u_kt are tried, too. ``overrides``: the user's fixed choices."""

    dram_parameters: bool = True
    overlay_bytes: int = OVERLAY_BYTES
    single_buffer: bool = False
    most_t: int | None = None
    enumerate_u_kt: bool = True
    overrides: Overrides = field(default_factory=Overrides)

    def __post_init__(self) -> None:
        """Raises InputError for a number that has a wrong type or is below 0."""
        for name in ("overlay_bytes", "most_t"):
            value = getattr(self, name)
            if not (value is None and name == "most_t") and (type(value) is not int or value < 0):
                text = f"{name} of a balancer's Settings is {value!r}, must be a whole number from 0"
                raise InputError(text, got=value, wanted=0)


@dataclass(slots=True)
class DraftModel:
    """The buffers of a model while the buffers are chosen; the fields have the names and meanings of
    OpModel's fields."""

    op: BalanceOp
    chip: Chip
    grid: Grid
    stream: Stream
    block: BlockShape
    overlay_bytes: int
    outputs: tuple[L1Buffer, ...]
    parameters: tuple[L1Buffer, ...] = ()
    dram: tuple[L1Buffer, ...] = ()
    inputs: tuple[L1Buffer, ...] = ()
    intermediates: tuple[L1Buffer, ...] = ()
    m_k: int = 1
    u_kt: int = 1

    @property
    def l1_bytes(self) -> int:
        """Bytes of L1 on the core that needs most."""
        out = sum(b.streamed_bytes if self.op.gradient else b.bytes for b in self.outputs)
        return (
            sum(b.bytes for b in self.inputs)
            + out
            + sum(b.streamed_bytes for b in self.parameters)
            + sum(b.bytes for b in self.intermediates)
            + max(0, self.overlay_bytes - OVERLAY_BYTES)
        )


def allocate(
    op: BalanceOp,
    chip: Chip,
    settings: Settings,
    grid: Grid,
    stream: Stream,
    block: BlockShape,
    u_kt: int | None,
) -> tuple[DraftModel, str | None]:
    """Pair of the buffers of a model and the name of the memory that is short (NO_MEMORY or
    ExceededDramChannelCapacity; None if no memory is short)."""
    stack = user_stack_factor(op, stream)
    draft = DraftModel(
        op,
        chip,
        grid,
        stream,
        block,
        settings.overlay_bytes,
        (buffers.output_buffer(op, block, stack, chip),),
    )
    _put_parameters(draft, settings)
    halve = settings.single_buffer and not op.gradient
    while (verdict := _add_inputs(draft, u_kt)) is not None:
        # the tiles of a sparse matmul are never streamed
        movable = () if op.kind == "sparse_matmul" else draft.parameters
        if movable:
            largest = max(movable, key=lambda b: b.streamed_bytes)
            draft.parameters = tuple(b for b in draft.parameters if b is not largest)
            draft.dram += (largest,)
        elif halve:
            halve = False
            (out,) = draft.outputs
            draft.outputs = (replace(out, factor=out.factor // 2),)
        else:
            return draft, verdict
    if not settings.dram_parameters:
        _unroll_parameters(draft)
    if any(b.streamed_bytes > chip.dram_channel for b in draft.dram):
        return draft, "ExceededDramChannelCapacity"
    return draft, None


def _put_parameters(draft: DraftModel, settings: Settings) -> None:
    op = draft.op
    sparse = op.kind == "sparse_matmul"
    fixed = tuple(
        buffers.parameter_buffer(op, port, draft.grid, draft.chip)
        for port, operand in enumerate(op.operands)
        if operand.fixed and not (sparse and port == 2)
    )  # the encoding is an input buffer
    if sparse or not settings.dram_parameters:
        draft.parameters = fixed
    else:
        draft.dram = fixed


def _add_inputs(draft: DraftModel, u_kt: int | None) -> str | None:
    """Add input buffers, and a spill buffer if K is cut. Return the name of the memory that is short, or None
    if all fits."""
    draft.inputs = draft.intermediates = ()
    free = draft.chip.l1_budget - draft.l1_bytes
    _cut_inner(draft, u_kt, free)
    spill = buffers.intermediate(draft.op, draft.block, draft.m_k, draft.chip)
    if spill:
        _cut_inner(draft, u_kt, free - spill[0].bytes)
        draft.intermediates = spill
    _hold_broadcasts(draft)
    if free <= 0:
        return "InputBufferAllocationFailure"
    return "L1UsageOverMaxLimit" if draft.l1_bytes > draft.chip.l1_budget else None


def _cut_inner(draft: DraftModel, u_kt: int | None, free: int) -> None:
    draft.inputs, (draft.m_k, draft.u_kt) = buffers.input_buffers(
        draft.op, draft.grid, draft.stream, draft.block, max(free, 0), u_kt, draft.chip
    )


def _hold_broadcasts(draft: DraftModel) -> None:
    """Hold the repeating unit of a broadcast operand in L1 once, if it fits."""
    streamed = {b.operand for b in draft.dram}
    for i, buffer in enumerate(draft.inputs):
        unit = buffers.broadcast_unit(draft.op, buffer.operand, draft.stream, draft.block)
        if not unit or buffer.operand in streamed:
            continue
        fixed = draft.op.operands[buffer.operand].fixed
        once = replace(buffer, block=BlockShape(1, (1, 1), (1, unit)), factor=1 if fixed else 2)
        before = draft.inputs, draft.parameters
        draft.inputs = (*draft.inputs[:i], once, *draft.inputs[i + 1 :])
        draft.parameters = tuple(b for b in draft.parameters if b.operand != buffer.operand)
        if draft.l1_bytes > draft.chip.l1_budget:
            draft.inputs, draft.parameters = before


def _unroll_parameters(draft: DraftModel) -> None:
    """Hold weights in reading order, without an input buffer, if L1 is left over."""
    if draft.op.kind in ("splice", "reduce", "embedding", "sparse_matmul"):
        return
    for held in draft.parameters:
        before = draft.inputs, draft.parameters
        unrolled = buffers.unrolled_parameter(draft.op, held.operand, draft.grid, draft.chip)
        draft.inputs = tuple(b for b in draft.inputs if b.operand != held.operand)
        draft.parameters = tuple(unrolled if b is held else b for b in draft.parameters)
        if draft.l1_bytes > draft.chip.l1_budget:
            draft.inputs, draft.parameters = before
