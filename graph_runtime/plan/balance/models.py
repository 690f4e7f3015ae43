"""One op -> every model of it, in the order of Buda's enumeration, each with its verdict.

    for grid: for direction: for stream factors: build; if legal: again for each smaller divisor of u_kt

A model is built as if all were well and judged afterwards: so an illegal one still has its cycles, and the
bytes that it lacks.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from ...costs import op_cycles
from ...costs.buda import known_ops
from . import buffers
from .blocks import block_shape, divisors, dst_tiles
from .chip import OVERLAY_BYTES, Chip
from .legality import legal_dirs, structural, user_stack_factor
from .op import BalanceOp, Grid, Stream
from .sparse import MOST_BITS
from .types import LEGAL, BlockShape, Candidate, OpModel, Overrides

__all__ = ["MOST_MODELS", "Settings", "enumerate_models"]

MOST_MODELS = 1024              # legal ones of an op: what Buda's graph solver holds of one
_NO_MEMORY = ("InputBufferAllocationFailure", "L1UsageOverMaxLimit")


@dataclass(frozen=True, slots=True)
class Settings:
    """How models are built. ``dram_parameters``: weights are streamed from DRAM instead of held in L1, Buda's
    default for one input at a time; ``overlay_bytes``: of data-movement programs on a core, what is beyond
    OVERLAY_BYTES comes out of L1; ``single_buffer``: an output that does not fit may give up its second
    half; ``most_t``: matmuls streamed in more blocks are refused; ``enumerate_u_kt``; ``overrides``."""

    dram_parameters: bool = True
    overlay_bytes: int = OVERLAY_BYTES
    single_buffer: bool = False
    most_t: int | None = None
    enumerate_u_kt: bool = True
    overrides: Overrides = field(default_factory=Overrides)


@cache
def enumerate_models(op: BalanceOp, chip: Chip, settings: Settings) -> tuple[Candidate, ...]:
    """Every candidate of an op, in the order of the enumeration.

    Where all u_kt variants would make more than MOST_MODELS legal models, each base keeps as many of its
    largest as there is room for.
    """
    said = settings.overrides.u_kt
    base = [_fitted(op, chip, settings, grid, stream, said)
            for grid, stream in _grids_and_streams(op, chip, settings)]
    legal = sum(c.verdict == LEGAL for c in base)
    varied = op.kind == "matmul" and settings.enumerate_u_kt and said is None
    room = max(MOST_MODELS // legal - 1, 0) if legal and varied else 0
    found: list[Candidate] = []
    for candidate in base:
        found.append(candidate)
        if candidate.verdict == LEGAL and room:
            grid, stream = candidate.model.grid, candidate.model.stream
            found += [replace(_fitted(op, chip, settings, grid, stream, u), variant=True)
                      for u in divisors(candidate.model.u_kt)[:-1][-room:]]
    return tuple(found)


def _grids_and_streams(op: BalanceOp, chip: Chip, settings: Settings) -> Iterator[tuple[Grid, Stream]]:
    said = settings.overrides
    dirs = said.dirs or legal_dirs(op)
    rows = op.out.rt // op.encoding.taps if op.encoding is not None else op.out.rt
    for r in divisors(rows):
        for c in divisors(op.out.ct):
            grid = Grid(r, c)
            if r > chip.grid[0] or c > chip.grid[1] or (said.grid and tuple(grid) != tuple(said.grid)):
                continue
            whole = False
            for stream in (s for d in dirs for s in _streams(op, grid, d, rows, said)):
                if stream.count > 1 or not whole:      # unstreamed is the same in every direction
                    whole |= stream.count == 1
                    yield grid, stream


def _streams(op: BalanceOp, grid: Grid, dir: str, rows: int, said: Overrides) -> list[Stream]:
    """Pieces in one direction: divisors of what is left of the output after the grid."""
    of_depth = op.kind == "reduce" and op.dim == "z" and op.operands[0].source_shape.z > 1
    if op.kind == "embedding" or of_depth:
        return [Stream(dir, 1, 1)] if not said.stream else []
    if dir[0] == "R":
        found = [Stream(dir, t, 1) for t in divisors(rows // grid.r)]
    else:
        found = [Stream(dir, 1, t) for t in divisors(op.out.ct // grid.c)]
    return [s for s in found if not said.stream or (s.r, s.c) == tuple(said.stream)]


def _fitted(op: BalanceOp, chip: Chip, settings: Settings, grid: Grid, stream: Stream,
            u_kt: int | None) -> Candidate:
    """The candidate with the largest ublock that fits: Dst is halved as long as memory is short."""
    dst, retries = dst_tiles(op), 0
    while True:
        found = _build(op, chip, settings, grid, stream, u_kt, dst)
        if found.verdict not in _NO_MEMORY or dst == 1:
            return replace(found, retries=retries)
        dst, retries = dst // 2, retries + 1


def _build(op: BalanceOp, chip: Chip, settings: Settings, grid: Grid, stream: Stream, u_kt: int | None,
           dst: int) -> Candidate:
    block = block_shape(op, grid, stream, dst)
    model = OpModel(grid, stream, block, fidelity=op.fidelity, overlay_bytes=settings.overlay_bytes)
    model, verdict = _allocate(op, chip, settings, model, u_kt)
    short = max(model.l1_bytes - chip.l1_budget, 0)
    first = structural(op, grid, stream, block, settings.most_t)
    verdict = first or verdict or _encodable(op, model) or LEGAL
    model = replace(model, cycles=_cycles(op, chip, model))
    return Candidate(model, verdict, short if verdict in _NO_MEMORY else _over_channel(model, chip, verdict))


def _over_channel(model: OpModel, chip: Chip, verdict: str) -> int:
    if verdict != "ExceededDramChannelCapacity":
        return 0
    return max(b.streamed_bytes for b in model.dram) - chip.dram_channel


def _encodable(op: BalanceOp, model: OpModel) -> str | None:
    if op.encoding is None:
        return None
    return "IllegalSparseMatmul" if op.encoding.bits(model.block.ublock[0], model.u_kt) > MOST_BITS else None


# **************** memory ****************

def _allocate(op: BalanceOp, chip: Chip, settings: Settings, model: OpModel,
              u_kt: int | None) -> tuple[OpModel, str | None]:
    """Buffers of a model: output and parameters first, inputs in what is left. While that is short, the
    largest parameter moves to DRAM, and at last the output gives up its second half if it may."""
    stack = user_stack_factor(op, model.stream)
    model = replace(model, outputs=(buffers.output_buffer(op, model.block, stack, chip),))
    model = _parameters(op, chip, settings, model)
    halve = settings.single_buffer and not op.gradient
    while True:
        model, verdict = _with_inputs(op, chip, model, u_kt)
        if verdict is None:
            break
        largest = max(_movable(op, model), key=lambda b: b.streamed_bytes, default=None)
        if largest is not None:
            kept = tuple(b for b in model.parameters if b is not largest)
            model = replace(model, parameters=kept, dram=(*model.dram, largest))
        elif halve:
            halve = False
            out = model.outputs[0]
            model = replace(model, outputs=(replace(out, factor=out.factor // 2),))
        else:
            return model, verdict
    model = _unroll_parameters(op, chip, settings, model)
    if any(b.streamed_bytes > chip.dram_channel for b in model.dram):
        return model, "ExceededDramChannelCapacity"
    return model, None


def _parameters(op: BalanceOp, chip: Chip, settings: Settings, model: OpModel) -> OpModel:
    held, streamed = [], []
    for port, operand in enumerate(op.operands):
        if not operand.fixed or (op.kind == "sparse_matmul" and port == 2):
            continue
        buffer = buffers.parameter_buffer(op, port, model.grid, chip)
        resident = op.kind == "sparse_matmul" or not settings.dram_parameters
        (held if resident else streamed).append(buffer)
    return replace(model, parameters=tuple(held), dram=tuple(streamed))


def _movable(op: BalanceOp, model: OpModel) -> tuple:
    """Parameters that may be streamed from DRAM instead: not the tiles of a sparse matmul."""
    return () if op.kind == "sparse_matmul" else model.parameters


def _with_inputs(op: BalanceOp, chip: Chip, model: OpModel, u_kt: int | None) -> tuple[OpModel, str | None]:
    """The model with input buffers, and the name of what is short."""
    model = replace(model, inputs=(), intermediates=())
    free = chip.l1_budget - _l1(op, model)
    model = _cut_inner(op, chip, model, u_kt, free)
    spill = buffers.intermediate(op, model.block, model.m_k, chip)
    if spill:
        model = replace(_cut_inner(op, chip, model, u_kt, free - spill[0].bytes), intermediates=spill)
    model = _hold_broadcasts(op, chip, replace(model, l1_bytes=_l1(op, model)))
    if free <= 0:
        return model, "InputBufferAllocationFailure"
    return model, "L1UsageOverMaxLimit" if model.l1_bytes > chip.l1_budget else None


def _cut_inner(op: BalanceOp, chip: Chip, model: OpModel, u_kt: int | None, free: int) -> OpModel:
    inputs, (m_k, deep) = buffers.input_buffers(op, model.grid, model.stream, model.block, max(free, 0), u_kt,
                                                chip)
    return replace(model, inputs=inputs, m_k=m_k, u_kt=deep)


def _l1(op: BalanceOp, model: OpModel) -> int:
    """Bytes on the worst core."""
    out = sum(b.streamed_bytes if op.gradient else b.bytes for b in model.outputs)
    return (sum(b.bytes for b in model.inputs) + out + sum(b.streamed_bytes for b in model.parameters)
            + sum(b.bytes for b in model.intermediates) + max(0, model.overlay_bytes - OVERLAY_BYTES))


def _hold_broadcasts(op: BalanceOp, chip: Chip, model: OpModel) -> OpModel:
    """Where the reading of an operand repeats and the repeating unit fits, it is held once."""
    streamed = {b.operand for b in model.dram}
    for i, buffer in enumerate(model.inputs):
        unit = buffers.broadcast_unit(op, buffer.operand, model.block)
        if not unit or buffer.operand in streamed:
            continue
        fixed = op.operands[buffer.operand].fixed
        once = replace(buffer, block=BlockShape(1, (1, 1), (1, unit)), factor=1 if fixed else 2)
        kept = tuple(b for b in model.parameters if b.operand != buffer.operand)
        held = replace(model, inputs=(*model.inputs[:i], once, *model.inputs[i + 1:]), parameters=kept)
        used = _l1(op, held)
        if used <= chip.l1_budget:
            model = replace(held, l1_bytes=used)
    return model


def _unroll_parameters(op: BalanceOp, chip: Chip, settings: Settings, model: OpModel) -> OpModel:
    """With spare L1 a weight is held in the order in which it is read, without an input buffer beside it."""
    if settings.dram_parameters or op.kind in ("splice", "reduce", "embedding", "sparse_matmul"):
        return model
    for held in model.parameters:
        unrolled = buffers.unrolled_parameter(op, held.operand, model.grid, chip)
        changed = replace(model, inputs=tuple(b for b in model.inputs if b.operand != held.operand),
                          parameters=tuple(unrolled if b is held else b for b in model.parameters))
        used = _l1(op, changed)
        if used <= chip.l1_budget:
            model = replace(changed, l1_bytes=used)
    return model


# **************** cycles ****************

def _cycles(op: BalanceOp, chip: Chip, model: OpModel) -> int:
    """Cycles of one core for one input; an op without published weights goes at the speed of a plain copy."""
    b, inner = model.block, {}
    name = op.cycles_op if op.cycles_op in known_ops(chip.arch) else "nop"
    t, mblock, ublock = b.t, b.mblock, b.ublock
    if op.is_matmul:
        inner = {"m_k": model.m_k, "u_kt": model.u_kt}
    elif op.kind == "reduce" and op.dim == "z":
        inner = {"z": op.k}
    elif op.kind == "reduce":                     # what is read counts, not what is left of it
        inner = {"dim": op.dim}
        m, n = mblock
        mblock = (m * model.m_k, n) if op.dim == "r" else (m, n * model.m_k)
        ublock = (model.u_kt, ublock[1]) if op.dim == "r" else (ublock[0], model.u_kt)
    if op.encoding is not None:
        inner["nonzero"] = op.encoding.worst_core(model.grid, model.stream, ublock[0], model.u_kt)
    formats = (*(o.format for o in op.operands), op.format)
    return int(op_cycles(name, chip.arch, t=t, mblock=mblock, ublock=ublock, formats=formats,
                         fidelity=op.fidelity, approx=op.approx, **inner).cycles)
