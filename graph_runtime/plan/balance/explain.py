"""Candidates as a table for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .types import REASONS, Candidate, Candidates

__all__ = ["as_json", "as_table"]


def as_json(parts: Sequence[Candidates]) -> dict[str, Any]:
    """What a node's ops come to: the principal one with ``candidates`` in the order tried and ``counts``, and
    all of them, in order, as ``parts`` with their counts."""
    main = next(c for c in parts if c.principal)
    return {
        "node": main.node,
        **_op(main),
        "l1_budget": main.budget,
        "candidates": [_row(c) for c in main.tried],
        "counts": main.counts,
        "closest_miss": _miss(main),
        "parts": [{**_op(c), "principal": c.principal, "counts": c.counts} for c in parts],
    }


def _miss(candidates: Candidates) -> dict[str, Any] | None:
    """The candidate that lacked fewest bytes of memory."""
    miss = candidates.closest_miss
    if miss is None:
        return None
    return {
        "grid": list(miss.model.grid),
        "t": miss.model.t,
        "verdict": miss.verdict,
        "short_bytes": miss.short,
    }


def _op(candidates: Candidates) -> dict[str, Any]:
    op = candidates.op
    return {
        "part": candidates.part,
        "op": op.cycles_op,
        "format": op.format,
        "tiles": {"z": op.out.z, "m": op.out.rt, "n": op.out.ct, "k": op.k},
    }


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


_COLUMNS = (
    "grid",
    "t",
    "dir",
    "mblock",
    "ublock",
    "m_k",
    "u_kt",
    "inputs",
    "output",
    "L1 bytes",
    "cycles",
    "verdict",
)


def as_table(parts: Sequence[Candidates]) -> str:
    """The principal op of a node, every candidate in the order tried and what the counts count; then a line
    for each other op."""
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
    return (
        f"{m.grid.r}x{m.grid.c}",
        str(m.t),
        m.stream.dir,
        "x".join(map(str, m.block.mblock)),
        "x".join(map(str, m.block.ublock)),
        str(m.m_k),
        str(m.u_kt),
        " ".join(str(b.tiles) for b in m.inputs),
        str(sum(b.tiles for b in m.outputs)),
        str(m.l1_bytes),
        str(m.cycles),
        said,
    )
