"""What lstm, gru and rnn are made of: gates and states, weights in panels, what a tt core holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import TensorType
from .packed import PANEL, panel_type, unpack

__all__ = [
    "CELLS",
    "CELL_BYTES",
    "CELL_ROWS",
    "Cell",
    "flags_of",
    "held_columns",
    "pack_recurrent",
    "panels_of",
    "plain_of",
    "round_up",
]


@dataclass(frozen=True, slots=True)
class Cell:
    """``gates``, ``states``: how many. ``functions``: the names of those of one direction by default."""

    gates: int
    states: int
    functions: tuple[str, ...]


CELLS = {
    "lstm": Cell(4, 2, ("sigmoid", "tanh", "tanh")),
    "gru": Cell(3, 1, ("sigmoid", "tanh")),
    "rnn": Cell(1, 1, ("tanh",)),
}


def flags_of(attrs: Mapping[str, Any]) -> int:
    """Which inputs follow the states, and how the cell computes."""
    named = (("peepholes", 1), ("lengths", 2), ("input_forget", 4), ("linear_before_reset", 8))
    return sum(bit for name, bit in named if attrs.get(name))


# ---------------------------------------------------------------- weights in panels


def _parts(op: str, hidden: int) -> tuple[int, ...]:
    """Columns that have panels of their own: a gru multiplies its hidden gate apart."""
    return (2 * hidden, hidden) if op == "gru" else (CELLS[op].gates * hidden,)


def panels_of(op: str, directions: int, hidden: int) -> TensorType:
    """The type of weights in panels, those of one direction behind those of the other."""
    panels = sum(-(-n // PANEL) for n in _parts(op, hidden))
    return panel_type(directions * panels * PANEL, hidden)


def pack_recurrent(op: str, weights: np.ndarray) -> np.ndarray:
    """Panels of weights [D, G H, H]."""
    hidden, found = weights.shape[2], []
    for one in weights:
        start = 0
        for n in _parts(op, hidden):
            padded = np.zeros((-(-n // PANEL) * PANEL, hidden), weights.dtype)
            padded[:n] = one[start : start + n]
            found.append(padded.reshape(-1, PANEL, hidden).transpose(0, 2, 1))
            start += n
    return np.ascontiguousarray(np.concatenate(found))


def plain_of(op: str, panels: np.ndarray, directions: int, hidden: int) -> np.ndarray:
    """[D, G H, H] of panels."""
    found, start = [], 0
    for _ in range(directions):
        rows = []
        for n in _parts(op, hidden):
            end = start + -(-n // PANEL)
            rows.append(unpack(panels[start:end], n).T)
            start = end
        found.append(np.concatenate(rows))
    return np.stack(found)


# ---------------------------------------------------------------- on tt

CELL_BYTES, CELL_ROWS = 655360, 32  # GR_TT_CELL_BYTES, GR_TT_CELL_ROWS of native/kernels/tt/recurrent.h


def held_columns(
    op: str, batch: int, hidden: int, flags: int, parts: tuple[int, int] = (1, 1)
) -> tuple[int, int]:
    """(columns of the weights that a tt core has in its L1 at a time, bytes that the core then takes).
    ``parts``: what the weights and the state are kept in (gr_passes_of)."""
    rows, depth, columns = min(CELL_ROWS, batch), round_up(hidden), round_up(CELLS[op].gates * hidden)
    states = 1 + (op == "lstm") + parts[1]
    floats = rows * (states * depth + columns) + 32 * depth
    floats += rows * (depth + 32) if op == "gru" else 0
    floats += (depth if flags & 8 else 0) + (3 * depth if flags & 1 else 0) + (32 if flags & 2 else 0)

    def nbytes(held: int) -> int:
        return -(-(floats + depth * held * parts[0]) * 4 // 64) * 64

    held = columns
    while held > 32 and nbytes(held) > CELL_BYTES:
        held -= 32
    return held, nbytes(held)


def round_up(n: int) -> int:
    return -(-n // 32) * 32
