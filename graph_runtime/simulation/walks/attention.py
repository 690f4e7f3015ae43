"""The walk of attention (native/kernels/tt/attention.h)."""

from __future__ import annotations

import numpy as np

from ...ir.ops.numerics import NO_WORDS
from .args import KernelCall, Moves, broadcast, moves, steps, taken
from .product import BLOCK_BYTES, blocks_of, parts_of

_KEYS = 128  # keys at a time, as in attention.h


def attention(call: KernelCall) -> Moves:
    """Moves of attention: a block of queries is read once if all its columns fit, together with all keys and
    values to which it attends. Everything is read again for each part of the values' columns."""
    q, k, v, *bias, out = call.args
    planes, count, columns = out.view
    rows, keys, depth, width = _sizes(call, bool(bias))
    parts, in_depth = steps(columns, width), steps(q.view[2], depth)
    reads = [np.zeros(1, np.int64)] * (3 + len(bias))
    for first in range(0, count, rows):
        end = min(first + rows, count)
        seen = min(k.view[1], end) if call.words[1] else k.view[1]
        block, blocks = (
            (np.array([first]), np.array([end])),
            taken(steps(k.view[1], keys), slice(-(-seen // keys))),
        )
        loads = len(parts[0]) * (len(blocks[0]) if len(in_depth[0]) > 1 else 1)
        again = [np.full(a.view[0], planes // max(a.view[0], 1)) for a in (q, k, v)]
        each = [
            q.touched(again[0] * loads, block, in_depth),
            k.touched(again[1] * len(parts[0]), blocks, in_depth),
            v.touched(again[2], blocks, parts),
            *(len(parts[0]) * broadcast(b, out, block, blocks) for b in bias),
        ]
        reads = [a + b for a, b in zip(reads, each, strict=True)]
    return moves(reads, out, width)


def _sizes(call: KernelCall, biased: bool) -> tuple[int, int, int, int]:
    """Numbers of queries, keys, columns of q and columns of v that are in L1 at a time (gr_tt_attention,
    gr_tt_attention_fit)."""
    q, k, out = call.args[0], call.args[1], call.args[-1]
    rows = blocks_of(out.view, 1, NO_WORDS, 0, call.cores, 0).height
    keys, depth, width = (-(-n // 32) * 32 for n in (min(_KEYS, k.view[1]), q.view[2], out.view[2]))
    of_b, of_a = parts_of(call.words[3:])

    def floats() -> int:
        return (
            3 * rows
            + (rows * depth + rows * keys) * of_a
            + (depth * keys + keys * width) * of_b
            + rows * width
            + biased * rows * keys
            + 32 * max(depth, width)
        )

    while -(-floats() * 4 // 64) * 64 > BLOCK_BYTES:
        if keys > 32:
            keys -= 32
        elif rows > 32:
            rows -= 32
        elif max(depth, width) <= 32:
            break
        elif width > depth:
            width -= 32
        else:
            depth -= 32
    return rows, keys, depth, width
