"""Every model of one op, in the order of Buda's enumeration, each with its verdict.

    for grid: for direction: for stream factors: build; if legal: again for each smaller divisor of u_kt

A model is built first and judged afterwards, so that an illegal model, too, has its cycles and the number of
bytes that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from ...costs import op_cycles
from ...costs.buda import known_ops
from .buffers import block_shape, divisors, dst_tiles
from .chip import Chip
from .grid import Grid, Stream
from .legality import legal_dirs, structural
from .memory import NO_MEMORY, DraftModel, Settings, allocate
from .op import BalanceOp
from .sparse import MOST_BITS
from .types import LEGAL, Candidate, OpModel, Overrides

MOST_MODELS = 1024  # most legal models of an op: the limit of Buda's graph solver


@cache
def enumerate_models(op: BalanceOp, chip: Chip, settings: Settings) -> tuple[Candidate, ...]:
    """Every candidate of an op, in the order of the enumeration.

    If all u_kt variants would make more than MOST_MODELS legal models, each legal model keeps only its
    variants with the largest u_kt, as many as the limit allows.
    """
    said = settings.overrides.u_kt
    base = [
        _fitted(op, chip, settings, grid, stream, said)
        for grid, stream in _grids_and_streams(op, chip, settings)
    ]
    legal = sum(c.verdict == LEGAL for c in base)
    varied = op.kind == "matmul" and settings.enumerate_u_kt and said is None
    room = max(MOST_MODELS // legal - 1, 0) if legal and varied else 0
    found: list[Candidate] = []
    for candidate in base:
        found.append(candidate)
        if candidate.verdict == LEGAL and room:
            grid, stream = candidate.model.grid, candidate.model.stream
            found += [
                replace(_fitted(op, chip, settings, grid, stream, u), variant=True)
                for u in divisors(candidate.model.u_kt)[:-1][-room:]
            ]
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
                if stream.pieces > 1 or not whole:  # without streaming, all directions give the same model
                    whole |= stream.pieces == 1
                    yield grid, stream


def _streams(op: BalanceOp, grid: Grid, dir: str, rows: int, said: Overrides) -> list[Stream]:
    """The ways to stream in one direction: pieces are divisors of the output that a grid leaves to one
    core."""
    of_depth = op.kind == "reduce" and op.dim == "z" and op.operands[0].source_shape.z > 1
    if op.kind == "embedding" or of_depth:
        return [Stream(dir, 1, 1)] if not said.stream else []
    if dir[0] == "R":
        found = [Stream(dir, t, 1) for t in divisors(rows // grid.r)]
    else:
        found = [Stream(dir, 1, t) for t in divisors(op.out.ct // grid.c)]
    return [s for s in found if not said.stream or (s.r, s.c) == tuple(said.stream)]


def _fitted(
    op: BalanceOp, chip: Chip, settings: Settings, grid: Grid, stream: Stream, u_kt: int | None
) -> Candidate:
    """The candidate with the largest ublock that fits. The part of Dst that a ublock may take is halved as
    long as memory is short."""
    dst, retries = dst_tiles(op), 0
    while True:
        found = _build(op, chip, settings, grid, stream, u_kt, dst)
        if found.verdict not in NO_MEMORY or dst == 1:
            return replace(found, retries=retries) if retries else found
        dst, retries = dst // 2, retries + 1


def _build(
    op: BalanceOp, chip: Chip, settings: Settings, grid: Grid, stream: Stream, u_kt: int | None, dst: int
) -> Candidate:
    block = block_shape(op, grid, stream, dst)
    made, short_of = allocate(op, chip, settings, grid, stream, block, u_kt)
    broken = structural(op, grid, stream, block, settings.most_t)
    verdict = broken or short_of or _encodable(op, made) or LEGAL
    used = made.l1_bytes
    model = OpModel(
        grid,
        stream,
        block,
        made.m_k,
        made.u_kt,
        op.fidelity,
        made.inputs,
        made.outputs,
        made.parameters,
        made.intermediates,
        made.dram,
        made.overlay_bytes,
        used,
        _cycles(op, chip, made),
    )
    short = 0
    if verdict in NO_MEMORY:
        short = used - chip.l1_budget
    elif verdict == "ExceededDramChannelCapacity":
        short = max(b.streamed_bytes for b in made.dram) - chip.dram_channel
    return Candidate(model, verdict, short)


def _encodable(op: BalanceOp, made: DraftModel) -> str | None:
    if op.encoding is None or op.encoding.bits(made.block.ublock[0], made.u_kt) <= MOST_BITS:
        return None
    return "IllegalSparseMatmul"


def _cycles(op: BalanceOp, chip: Chip, model: DraftModel) -> int:
    """Cycles of one core for one input; an op without published weights has the speed of a plain copy."""
    b = model.block
    inner: dict[str, Any] = {}  # arguments of op_cycles that only some kinds of ops have
    name = op.cycles_op if op.cycles_op in known_ops(chip.arch) else "nop"
    t, mblock, ublock = b.t, b.mblock, b.ublock
    if op.is_matmul:
        inner = {"m_k": model.m_k, "u_kt": model.u_kt}
    elif op.kind == "reduce" and op.dim == "z":
        inner = {"z": op.k}
    elif op.kind == "reduce":  # the cost depends on the tiles that are read, not on the tiles of the result
        inner = {"dim": op.dim}
        m, n = mblock
        mblock = (m * model.m_k, n) if op.dim == "r" else (m, n * model.m_k)
        ublock = (model.u_kt, ublock[1]) if op.dim == "r" else (ublock[0], model.u_kt)
    if op.encoding is not None:
        inner["nonzero"] = op.encoding.worst_core(model.grid, model.stream, ublock[0], model.u_kt)
    formats = (*(o.format for o in op.operands), op.format)
    return int(
        op_cycles(
            name,
            chip.arch,
            t=t,
            mblock=mblock,
            ublock=ublock,
            formats=formats,
            fidelity=op.fidelity,
            approx=op.approx,
            **inner,
        ).cycles
    )
