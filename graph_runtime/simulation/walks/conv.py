"""How the tt kernel of conv2d cuts its work: windows of the output, blocks of output channels, steps of K, as
gr_tt_conv_plan (native/kernels/tt/conv.h) and exact_conv.h do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .product import BLOCK_BYTES, parts_of, share_of

__all__ = ["Tiling", "exact_rows", "tiling_of"]

_UNITS, _COLS, _STRIPE, _PIXELS, _STAGE = 4, 64, 16, 1024, 4096  # conv.h, gemm.h
_EXACT_ROWS, _EXACT_STRIP = 8, 16384  # exact_conv.h


@dataclass(slots=True)
class Tiling:
    """Pairs are (height, width). ``height`` x ``width``: output pixels of a window; ``reach`` input pixels
    under it; ``bands`` x ``across`` windows of a plane; ``block`` output channels at a time, ``blocks`` of
    them a group; ``channels`` and ``outputs`` of a group; ``depth`` of ``k`` at a time;
    ``images`` at a time, ``rounds`` of them."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    channels: int
    outputs: int
    height: int
    width: int
    bands: int
    across: int
    rounds: int
    images: int = 1
    block: int = 32
    depth: int = 32

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def k(self) -> int:
        return self.channels * self.taps

    @property
    def blocks(self) -> int:
        return -(-self.outputs // self.block)

    @property
    def lines(self) -> tuple[int, int]:
        """Rows and columns of a phase of the input under a window."""
        high, wide = (-(-r // s) for r, s in zip(self.reach, self.stride, strict=True))
        return high, wide

    @property
    def reach(self) -> tuple[int, int]:
        """A window at the edge looks as far as any other."""
        high, wide = (
            (out - 1) * s + (max(t, 1) - 1) * d + 1
            for out, s, t, d in zip(
                (self.height, self.width), self.stride, self.kernel, self.dilation, strict=True
            )
        )
        return high, wide


def tiling_of(shapes: Sequence[tuple[int, ...]], words: Sequence[int], page_bytes: int, extra: int) -> Tiling:
    """``shapes`` of x, w, what else is read, y, which is not empty; ``words`` of the call but those of an
    epilogue, which reads ``extra`` inputs; ``page_bytes`` of the argument with the largest page."""
    w, y = shapes[1], shapes[-1]
    exact, groups = words[11] == 1, words[8]
    rows, cols = (32, 32) if exact else (min(32, y[2]), min(_COLS, y[3]))
    tiling = Tiling(
        (w[2], w[3]),
        (words[0], words[1]),
        (words[2], words[3]),
        (words[6], words[7]),
        groups,
        w[1],
        y[1] // groups,
        rows,
        cols,
        -(-y[2] // rows),
        -(-y[3] // cols),
        y[0],
    )
    if not exact:
        _cut(tiling, words[9:], page_bytes, extra)
    return tiling


def exact_rows(stride: tuple[int, int]) -> int:
    """Output rows whose part of the input fits a strip (gr_tt_exact_rows)."""
    rows = _EXACT_ROWS
    while rows > 1 and ((rows - 1) * stride[0] + 1) * (31 * stride[1] + 1) > _EXACT_STRIP:
        rows -= 1
    return rows


def _cut(tiling: Tiling, words: Sequence[int], page_bytes: int, extra: int) -> None:
    """Sets images, block and depth, so that a window's L1 stays in its share."""
    grid, width, u_kt = words[3], words[8] * words[10], words[11]
    taps = max(tiling.kernel[0], 1) * max(tiling.kernel[1], 1)
    if grid <= 0 and tiling.bands * tiling.across == 1:
        count = tiling.rounds
        tiling.images = -(-count // -(-count // max(1, _PIXELS // math.prod(tiling.lines))))
        tiling.rounds = -(-count // tiling.images)
    pieces = -(-_UNITS // (tiling.bands * tiling.across * tiling.groups * tiling.rounds))
    tiling.block = max(min(tiling.outputs, 16), -(-tiling.outputs // pieces))
    tiling.depth = max(1, tiling.k)
    if grid > 0:
        tiling.block = min(tiling.outputs, 32 * width)
        tiling.depth = min(-(-tiling.depth // 32) * 32, 32 * u_kt)
    room, whole, parts = max(share_of(words, page_bytes), BLOCK_BYTES), math.lcm(taps, 32), parts_of(words)
    while -(-_floats(tiling, parts, extra) * 4 // 64) * 64 > room:
        if grid <= 0 and tiling.depth > max(4 * 32, whole):
            tiling.depth = (tiling.depth - 1) // whole * whole
        elif tiling.block > 16:
            tiling.block = max(16, tiling.block // 2)
        elif grid <= 0 and tiling.depth > 32:
            tiling.depth = -(-tiling.depth // 32) * 32 - 32
        elif tiling.block > 1:
            tiling.block //= 2
        else:
            return


def _floats(tiling: Tiling, parts: tuple[int, int], extra: int) -> int:
    """Of L1 that a window takes (gr_tt_conv_floats)."""
    kernel = [max(t, 1) for t in tiling.kernel]
    taps, reach, depth = kernel[0] * kernel[1], tiling.reach, tiling.depth
    lines = tiling.lines
    phases = [
        min(t, s // math.gcd(s, d)) for t, s, d in zip(kernel, tiling.stride, tiling.dilation, strict=True)
    ]
    area, pitch, packed = _sums(tiling, parts)
    planes = min(tiling.channels, depth // taps if depth % taps == 0 else (depth - 1) // taps + 2)
    image = reach[0] * reach[1]
    rows = max(depth + 2 * kernel[1], taps, max(_STAGE, image) + image)
    return (
        tiling.block * area
        + parts[1] * planes * math.prod(phases) * tiling.images * math.prod(lines)
        + 2 * _STRIPE
        + parts[0] * tiling.block * depth
        + tiling.block
        + depth
        + _whole(rows)
        + extra * 32 * pitch
        + area * depth * packed
    )


def _whole(floats: int) -> int:
    """In whole stripes."""
    return -(-floats // _STRIPE) * _STRIPE


def _sums(tiling: Tiling, parts: tuple[int, int]) -> tuple[int, int, bool]:
    """Floats of an output channel's sums, from a row of pixels to the next, and whether each tap is copied
    (gr_tt_conv_lines)."""
    lines = tiling.lines
    apart = _whole((tiling.images - 1) * math.prod(lines) + tiling.height * lines[1])
    together = _whole(tiling.images * tiling.height * tiling.width)
    if tiling.bands * tiling.across == 1 and parts[1] == 1 and 3 * together < 2 * apart:
        return together, tiling.width, True
    return apart, lines[1], False
