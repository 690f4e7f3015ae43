"""How the tt kernels of matmul and dense cut their work, as gr_tt_blocks_of and gr_tt_blocks_shrink
(native/kernels/tt/blocking.h) and exact_linear.h do; and what fidelity and op model make of L1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BLOCK_BYTES", "Blocks", "blocks_of", "less_of", "parts_of", "room_of", "share_of"]

BLOCK_BYTES = 524288  # L1 of a block that fits any board
_BLOCK, _LEAST, _TILE_BYTES = 128, 64, 4096


@dataclass(slots=True)
class Blocks:
    """Elements: ``height`` x ``width`` of sums at a time, inside of blocks of ``macro`` (a chosen model's);
    ``strip`` rows of A and ``depth`` of K at a time; ``spill`` of K between two spills, 0: none."""

    height: int
    width: int
    macro: tuple[int, int]
    strip: int
    depth: int
    spill: int = 0


def parts_of(words: Sequence[int]) -> tuple[int, int]:
    """Parts that an operand in SrcA (B, weights) and one in SrcB is kept in (gr_passes_of)."""
    fidelity, dst_bits = words[:2]
    if dst_bits != 16:
        return (2, 2) if fidelity == 3 else (1, 1)
    phases = fidelity or 4
    return 1 + (phases > 1), 1 + (phases > 2)


def share_of(words: Sequence[int], page_bytes: int) -> int:
    """Bytes of L1 that a chosen op model leaves a block, 0: none is chosen (gr_tt_blocks_share)."""
    added = _up(page_bytes, 64) + _TILE_BYTES
    return max(words[12] - added, 0) if words[3] > 0 else 0


def room_of(words: Sequence[int], page_bytes: int) -> int:
    """Bytes that a block is cut for: an op model's share, or what fits any board (gr_tt_blocks_room)."""
    return share_of(words, page_bytes) if words[3] > 0 and words[12] > 0 else BLOCK_BYTES


def blocks_of(
    view: tuple[int, int, int], k: int, words: Sequence[int], page_bytes: int, cores: int, extra: int
) -> Blocks:
    """Of an output of (planes, rows, columns). ``words`` those of numerics; ``page_bytes`` of the argument
    with the largest page; ``extra``: inputs of the epilogue."""
    whole = _up(max(k, 1), 32)
    if words[2]:
        return Blocks(32, 32, (32, 32), 32, 32)
    if words[3] <= 0:
        blocks = _own(view, whole, cores)
    else:
        strip, u_kt = 32 * words[9], 32 * words[11]
        macro = words[7] * strip, 32 * words[8] * words[10]
        blocks = Blocks(*macro, macro, strip, min(u_kt, whole), u_kt)
    room, parts = room_of(words, page_bytes), parts_of(words)
    while _up((_floats(blocks, parts) + extra * 32 * blocks.width) * 4, 64) > room and _shrink(blocks):
        pass
    return blocks


def less_of(depth: int, spill: int) -> int:
    """The next smaller step of K that divides what lies between two spills, 0: none (gr_tt_blocks_less)."""
    return next((d for d in range(depth - 32, 0, -32) if spill % d == 0), 0)


def _own(view: tuple[int, int, int], whole: int, cores: int) -> Blocks:
    planes, rows, cols = view[0], _up(max(view[1], 1), 32), _up(max(view[2], 1), 32)
    sides = [min(_BLOCK, rows), min(_BLOCK, cols)]
    while planes * -(-rows // sides[0]) * -(-cols // sides[1]) < cores:
        at = 0 if sides[0] >= sides[1] else 1
        if sides[at] <= _LEAST:
            break
        sides[at] = _up(sides[at] // 2, 32)
    return Blocks(sides[0], sides[1], (sides[0], sides[1]), sides[0], whole)


def _floats(b: Blocks, parts: tuple[int, int]) -> int:
    return (
        b.height * b.width
        + b.depth * (b.strip * parts[1] + b.width * parts[0])
        + 32 * max(b.depth, b.strip, b.width)
        + b.width
    )


def _shrink(b: Blocks) -> bool:
    """Fewer rows, less of K between two spills, fewer columns; False: no smaller."""
    if b.spill > 0 and b.height > b.strip:
        b.height -= b.strip
        return True
    depth = less_of(b.depth, b.spill) if b.spill > 0 else b.depth - 32
    if depth >= 32:
        b.depth = depth
    elif b.spill > 0 and b.width > 32:
        b.width = _up(b.width // 2, 32)
    elif b.spill > 0 and b.height > 32:
        b.height = b.strip = b.height - 32
    else:
        return False
    return True


def _up(n: int, to: int) -> int:
    return -(-n // to) * to
