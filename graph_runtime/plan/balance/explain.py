"""Candidates as a table for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .types import REASONS, Candidate, Candidates


def as_json(parts: Sequence[Candidates]) -> dict[str, Any]:
    """The ops of a node. The principal op has ``candidates`` in the order tried, ``counts``, and
    ``closest_miss``, the candidate that lacked the fewest bytes; ``parts`` has all ops, in order, with their
    counts."""
    main = next(c for c in parts if c.principal)
    miss = main.closest_miss and _row(main.closest_miss) | {"short_bytes": main.closest_miss.short}
    return {
        "node": main.node,
        **_op(main),
        "l1_budget": main.budget,
        "candidates": [_row(c) for c in main.tried],
        "counts": main.counts,
        "closest_miss": miss and {key: miss[key] for key in ("grid", "t", "verdict", "short_bytes")},
        "parts": [{**_op(c), "principal": c.principal, "counts": c.counts} for c in parts],
    }


def _op(candidates: Candidates) -> dict[str, Any]:
    op = candidates.op
    tiles = {"z": op.out.z, "m": op.out.rt, "n": op.out.ct, "k": op.k}
    return {"part": candidates.part, "op": op.cycles_op, "format": op.format, "tiles": tiles}


def _row(candidate: Candidate) -> dict[str, Any]:
    m = candidate.model
    return {
        "grid": list(m.grid),
        "t": m.t,
        "dir": m.stream.dir,
        "mblock": list(m.block.mblock),
        "ublock": list(m.block.ublock),
        "m_k": m.m_k,
        "u_kt": m.u_kt,
        "input_tiles": [b.tiles for b in m.inputs],
        "output_tiles": sum(b.tiles for b in m.outputs),
        "l1_bytes": m.l1_bytes,
        "cycles": m.cycles,
        "fidelity": m.fidelity,
        "verdict": candidate.verdict,
    }


_COLUMNS = "grid,t,dir,mblock,ublock,m_k,u_kt,inputs,output,L1 bytes,cycles,verdict".split(",")


def as_table(parts: Sequence[Candidates]) -> str:
    """Text about a node: every candidate of the principal op in the order tried, the counts of these
    candidates, then a line for each other op."""
    lines = _table(next(c for c in parts if c.principal))
    for other in (c for c in parts if not c.principal):
        counts = other.counts
        lines.append(
            f"beside it {other.part} {_shape(other)}: {counts['legal']} legal of {counts['tried']} tried"
        )
    return "\n".join(lines) + "\n"


def _shape(candidates: Candidates) -> str:
    op = candidates.op
    return f"{f'z={op.out.z} ' if op.out.z > 1 else ''}M={op.out.rt} K={op.k} N={op.out.ct} tiles"


def _table(candidates: Candidates) -> list[str]:
    op, counts = candidates.op, candidates.counts
    rows = [_COLUMNS, *map(_cells, candidates.tried)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = [
        f"{candidates.node} ({candidates.part}): {_shape(candidates)}, {op.format}, {op.fidelity}, "
        f"L1 {candidates.budget} bytes a core"
    ]
    lines += [
        "  ".join(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)) + "  " + row[-1]
        for row in rows
    ]
    lines.append(
        f"{counts['legal']} legal of {counts['tried']} tried: {counts['base_legal']} of "
        f"{counts['base_tried']} grids and stream factors, and {counts['variants']} tries of those "
        f"with a smaller u_kt"
    )
    return lines + [f"  {n} x {name}: {REASONS[name]}" for name, n in counts["reasons"].items()]


def _cells(candidate: Candidate) -> tuple[str, ...]:
    m = candidate.model
    said = candidate.verdict + (f", {candidate.short} bytes short" if candidate.short else "")
    blocks = ("x".join(map(str, pair)) for pair in (m.block.mblock, m.block.ublock))
    inputs, output = " ".join(str(b.tiles) for b in m.inputs), sum(b.tiles for b in m.outputs)
    sizes = *blocks, m.m_k, m.u_kt, inputs, output, m.l1_bytes, m.cycles
    return tuple(map(str, (f"{m.grid.r}x{m.grid.c}", m.t, m.stream.dir, *sizes, said)))
