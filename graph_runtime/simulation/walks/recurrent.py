"""The walk of lstm, gru and rnn (native/kernels/tt/recurrent.h)."""

from __future__ import annotations

import numpy as np

from ...ir.ops.products.cells import CELLS, held_columns
from .args import KernelArg, KernelCall, Moves, steps
from .product import parts_of

_ROWS = 32  # GR_TT_CELL_ROWS: rows of a block
_PEEPHOLES, _LENGTHS, _LATE = 1, 2, 8  # flags of native/kernels/cells.h
_OPS = {cell.gates: op for op, cell in CELLS.items()}


def recurrent(call: KernelCall) -> Moves:
    """Moves of a recurrent op: each direction is read and written once, in blocks of rows. The weights of a
    direction are read once for each block if they fit a core's L1, else in each step."""
    gates, weights, *states = call.args[: 1 + len(call.others) + 1]
    rest, flags = list(call.args[len(states) + 2 : -1]), call.words[2]
    directions, batch, hidden = states[0].view
    blocks, every = steps(batch, _ROWS), np.ones(directions, np.int64)
    width, count = weights.view[1], gates.view[0]
    reads = [
        gates.touched(np.ones(count, np.int64), blocks, steps(gates.view[2], width)),
        _weights(call, weights, width // hidden, (count, batch, hidden)),
        *(state.touched(every, blocks, steps(hidden, hidden)) for state in states),
    ]
    for flag in (_LATE, _PEEPHOLES):
        if flags & flag:
            row = rest.pop(0)
            turns = np.array([len(blocks[0])])
            reads.append(row.touched(turns, steps(directions, 1), steps(row.view[2], max(row.view[2], 1))))
    if flags & _LENGTHS:
        reads.append(rest.pop(0).touched(np.array([directions]), steps(1, 1), blocks))
    return Moves([*reads, 0], 1)


def _weights(call: KernelCall, weights: KernelArg, gates: int, sizes: tuple[int, int, int]) -> np.ndarray:
    count, batch, hidden = sizes
    op, flags = _OPS[gates], call.words[2]
    functions = 3 * len(CELLS[op].functions) * weights.view[0]
    held, _ = held_columns(op, batch, hidden, flags, parts_of(call.words[4 + functions :]))
    width, turns = gates * hidden, -(-batch // _ROWS)
    whole = held >= width
    spans = [steps(width, held)]
    if not whole:
        turns *= count
        if op == "gru" and not flags & _LATE:  # the hidden gate is a separate product
            first = 2 * hidden // 32 * 32
            apart = steps(width - first, held)
            spans = [steps(2 * hidden, held), (apart[0] + first, apart[1] + first)]
    elif not count:
        turns = 0
    rows = np.concatenate([s[0] for s in spans]), np.concatenate([s[1] for s in spans])
    return weights.touched(np.full(weights.view[0], turns), rows, steps(hidden, hidden))
