"""Parts of lstm, gru and rnn: their gates, states and functions, weights in panels, and the part of the
weights that a tt core holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph import TensorType
from ..registry import Attr, Op, get, require
from .byte_panels import bytes_type, pack_bytes, unpack_bytes
from .packed import PANEL, pack, panel_type, unpack


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of cell. ``gates``, ``states``: numbers of its gates and states; ``functions``: names of the
    default functions of one direction."""

    gates: int
    states: int
    functions: tuple[str, ...]


CELLS = {
    "lstm": Cell(4, 2, ("sigmoid", "tanh", "tanh")),
    "gru": Cell(3, 1, ("sigmoid", "tanh")),
    "rnn": Cell(1, 1, ("tanh",)),
}


def flags_of(attrs: Mapping[str, Any]) -> int:
    """The flags word: bits for the inputs that follow the states, and for variants of the cell."""
    named = (("peepholes", 1), ("lengths", 2), ("input_forget", 4), ("linear_before_reset", 8))
    return sum(bit for name, bit in named if attrs.get(name))


# ---------------------------------------------------------------- functions


# functions of gates, in the order of their codes in C: each is an op of the registry, except affine (alpha x
# + beta) and scaled_tanh (alpha tanh(beta x))
FUNCTIONS = (
    *"sigmoid tanh relu affine leaky_relu thresholded_relu scaled_tanh".split(),
    *"hard_sigmoid elu softsign softplus".split(),
)


def function_numbers(name: str) -> tuple[float, float]:
    """Default (alpha, beta) of a function, as in ONNX."""
    op = get(name)
    if op is None:
        return 1.0, float(name == "scaled_tanh")
    defaults = [float(attr.default) for attr in _numbers(op)]
    return (*defaults, 0.0, 0.0)[:2]  # type: ignore[return-value]


def _numbers(op: Op) -> list[Attr]:
    return [attr for attr in op.attrs if attr.kind == "float"]


def function_attrs(name: str, alpha: float, beta: float) -> dict[str, float]:
    """The attributes of the function's op for ``alpha`` and ``beta``."""
    return dict(zip((attr.name for attr in _numbers(require(name))), (alpha, beta), strict=False))


def apply_function(name: str, alpha: float, beta: float, x: np.ndarray) -> np.ndarray:
    if get(name) is not None:
        return require(name).reference([x], function_attrs(name, alpha, beta))[0]
    return alpha * x + beta if name == "affine" else alpha * np.tanh(beta * x)


# ---------------------------------------------------------------- weights in panels


def _parts(op: str, hidden: int) -> tuple[int, ...]:
    """Numbers of columns, for each part of the weights with panels of its own. A gru has two parts, because
    it multiplies its hidden gate separately."""
    return (2 * hidden, hidden) if op == "gru" else (CELLS[op].gates * hidden,)


def panels_of(op: str, directions: int, hidden: int) -> TensorType:
    """The type of weights in panels, with one direction after the other."""
    panels = sum(-(-n // PANEL) for n in _parts(op, hidden))
    return panel_type(directions * panels * PANEL, hidden)


def pack_recurrent(op: str, weights: np.ndarray) -> np.ndarray:
    """Weights [D, G H, H] in panels."""
    parts = _columns(op, weights.shape[2])
    return np.concatenate([pack(one[start:end]) for one in weights for start, end in parts])


def plain_of(op: str, panels: np.ndarray, directions: int, hidden: int) -> np.ndarray:
    """The weights [D, G H, H] that ``panels`` hold."""
    found, start = [], 0
    for _ in range(directions):
        rows = []
        for n in _parts(op, hidden):
            end = start + -(-n // PANEL)
            rows.append(unpack(panels[start:end], n).T)
            start = end
        found.append(np.concatenate(rows))
    return np.stack(found)


# ---------------------------------------------------------------- weights in panels of bytes


def is_in_bytes(weights: TensorType, attrs: Mapping[str, Any]) -> bool:
    """Whether the weights are in panels of bytes, which only a cell that may round its state (``narrow``)
    has."""
    return bool(attrs.get("narrow") and attrs["packed"]) and weights.dtype == "int8"


def byte_panels_of(op: str, directions: int, hidden: int) -> TensorType:
    """The type of weights in panels of bytes, which have the order of float panels."""
    return bytes_type(panels_of(op, directions, hidden).shape[0] * PANEL, hidden)


def pack_recurrent_bytes(op: str, numbers: np.ndarray) -> np.ndarray:
    """Weights less their zero points, int16 [D, G H, H], in panels of bytes."""
    parts = _columns(op, numbers.shape[2])
    return np.concatenate([pack_bytes(one[start:end]) for one in numbers for start, end in parts])


def pack_scales(op: str, scales: np.ndarray) -> np.ndarray:
    """Scales [D, G H] as [panels, 32], in the order of the panels' columns; zeros for columns that fill up a
    panel."""
    parts = _columns(op, scales.shape[1] // CELLS[op].gates)
    found = [pack(one[start:end, None].astype(np.float32)) for one in scales for start, end in parts]
    return np.concatenate(found).reshape(-1, PANEL)


def real_of_bytes(
    op: str, panels: np.ndarray, scales: np.ndarray, directions: int, hidden: int
) -> np.ndarray:
    """The weights float64 [D, G H, H] that panels of bytes and their scales hold."""
    numbers = unpack_bytes(panels, len(panels) * PANEL, hidden) * scales.reshape(-1, 1).astype(np.float64)
    each = len(panels) // directions * PANEL
    starts = np.cumsum([0, *(-(-n // PANEL) * PANEL for n in _parts(op, hidden))])
    kept = [np.arange(n) + start for n, start in zip(_parts(op, hidden), starts, strict=False)]
    return numbers.reshape(directions, each, hidden)[:, np.concatenate(kept)]


def state_in_bytes(h: np.ndarray) -> np.ndarray:
    """The state with each row rounded to a grid of 127 steps on each side of 0, whose last step is the row's
    largest magnitude."""
    scale = (np.abs(h).max(axis=1, keepdims=True) / 127).astype(np.float32).astype(np.float64)
    return np.rint(h / np.where(scale > 0, scale, 1)) * scale


def _columns(op: str, hidden: int) -> list[tuple[int, int]]:
    """(first, last + 1): the columns of each part."""
    ends = np.cumsum(_parts(op, hidden)).tolist()
    return list(zip([0, *ends], ends, strict=False))


# ---------------------------------------------------------------- on tt

CELL_BYTES, CELL_ROWS = 655360, 32  # GR_TT_CELL_BYTES, GR_TT_CELL_ROWS of native/kernels/tt/recurrent.h


def held_columns(
    op: str, batch: int, hidden: int, flags: int, parts: tuple[int, int] = (1, 1)
) -> tuple[int, int]:
    """(number of columns of the weights that a tt core holds in L1 at a time, bytes of L1 that the core then
    uses). ``parts``: number of parts in which the weights and the state are kept (gr_passes_of)."""
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
