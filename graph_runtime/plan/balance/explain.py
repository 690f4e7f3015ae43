"""Candidates as a table for people and as JSON."""
from __future__ import annotations

from typing import Any

from .types import REASONS, Candidate, Candidates

__all__ = ["as_json", "as_table"]


def as_json(candidates: Candidates) -> dict[str, Any]:
    """One object: the op in tiles, ``candidates`` in the order tried and ``counts``."""
    op = candidates.op
    return {
        "node": candidates.node, "part": candidates.part, "op": op.cycles_op, "l1_budget": candidates.budget,
        "tiles": {"z": op.out.z, "m": op.out.rt, "n": op.out.ct, "k": op.k},
        "candidates": [_row(c) for c in candidates.tried],
        "counts": candidates.counts,
    }


def _row(candidate: Candidate) -> dict[str, Any]:
    m = candidate.model
    row = {
        "grid": list(m.grid), "t": m.t, "dir": m.stream.dir, "mblock": list(m.block.mblock),
        "ublock": list(m.block.ublock), "m_k": m.m_k, "u_kt": m.u_kt,
        "input_tiles": [b.tiles for b in m.inputs],
        "output_tiles": sum(b.tiles for b in m.outputs), "l1_bytes": m.l1_bytes, "cycles": m.cycles,
        "fidelity": m.fidelity, "verdict": candidate.verdict,
    }
    return row | ({"short_bytes": candidate.short} if candidate.short else {})


_COLUMNS = ("grid", "t", "dir", "mblock", "ublock", "m_k", "u_kt", "inputs", "output", "L1 bytes", "cycles",
            "verdict")


def as_table(candidates: Candidates) -> str:
    """Lines of equal columns: every candidate in the order tried, then what the counts count."""
    op, counts = candidates.op, candidates.counts
    rows = [_COLUMNS, *map(_cells, candidates.tried)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    depth = f"z={op.out.z} " if op.out.z > 1 else ""
    lines = [f"{candidates.node} ({candidates.part}): {depth}M={op.out.rt} K={op.k} N={op.out.ct} tiles, "
             f"{op.format}, {op.fidelity}, L1 {candidates.budget} bytes a core"]
    lines += ["  ".join(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)) + "  "
              + row[-1] for row in rows]
    lines.append(f"{counts['legal']} legal of {counts['tried']} tried: {counts['base_legal']} of "
                 f"{counts['base_tried']} grids and stream factors, and {counts['variants']} tries of those "
                 f"with a smaller u_kt")
    lines += [f"  {n} x {name}: {REASONS[name]}" for name, n in counts["reasons"].items()]
    return "\n".join(lines) + "\n"


def _cells(candidate: Candidate) -> tuple[str, ...]:
    m = candidate.model
    said = candidate.verdict + (f", {candidate.short} bytes short" if candidate.short else "")
    return (f"{m.grid.r}x{m.grid.c}", str(m.t), m.stream.dir, "x".join(map(str, m.block.mblock)),
            "x".join(map(str, m.block.ublock)), str(m.m_k), str(m.u_kt),
            " ".join(str(b.tiles) for b in m.inputs), str(sum(b.tiles for b in m.outputs)), str(m.l1_bytes),
            str(m.cycles), said)
