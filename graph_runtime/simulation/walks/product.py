"""Blocks of the tt kernels of matmul and dense, as in gr_tt_blocks_of and gr_tt_blocks_shrink
(native/kernels/tt/blocking.h) and exact_linear.h; and the L1 that fidelity and op model leave for blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BLOCK_BYTES = 524288  # bytes of a block in L1, which fit any board
_BLOCK, _LEAST, _TILE_BYTES = 128, 64, 4096


@dataclass(slots=True)
class Blocks:
    """Sizes of blocks, in elements. ``height`` x ``width`` sums are computed at a time, within blocks of
    ``macro`` elements (the blocks of the chosen op model). ``strip`` rows of A and ``depth`` of K are loaded
    at a time. ``spill``: part of K between two spills (0: no spill)."""

    height: int
    width: int
    macro: tuple[int, int]
    strip: int
    depth: int
    spill: int = 0


def parts_of(words: Sequence[int]) -> tuple[int, int]:
    """Pair of the number of parts into which an operand in SrcA (B, weights) is split, and the number for an
    operand in SrcB (gr_passes_of)."""
    fidelity, dst_bits = words[:2]
    if dst_bits != 16:
        return (2, 2) if fidelity == 3 else (1, 1)
    phases = fidelity or 4
    return 1 + (phases > 1), 1 + (phases > 2)


def share_of(words: Sequence[int], page_bytes: int) -> int:
    """Bytes of L1 that a chosen op model leaves for a block (gr_tt_blocks_share); 0 if no op model is
    chosen."""
    added = _up(page_bytes, 64) + _TILE_BYTES
    return max(words[12] - added, 0) if words[3] > 0 else 0


def room_of(words: Sequence[int], page_bytes: int) -> int:
    """Bytes of L1 for a block: the share that a chosen op model leaves, or a size that fits any board
    (gr_tt_blocks_room)."""
    return share_of(words, page_bytes) if words[3] > 0 and words[12] > 0 else BLOCK_BYTES


def blocks_of(
    view: tuple[int, int, int], k: int, words: Sequence[int], page_bytes: int, cores: int, extra: int
) -> Blocks:
    """The blocks of an output of (planes, rows, columns). ``words``: words of the numerics; ``page_bytes``:
    largest page of an argument; ``extra``: number of inputs of the epilogue."""
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
    """The next smaller step of K that divides the distance between two spills (gr_tt_blocks_less); 0 if no
    step is smaller."""
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
    """Shrink blocks to fewer rows, less of K between two spills, or fewer columns; False if the blocks cannot
    be smaller."""
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
