"""Tiling of the tt kernel of conv2d: windows of the output, blocks of output channels and steps of K,
computed as gr_tt_conv_plan (native/kernels/tt/conv_plan.h) and exact_conv.h do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .product import less_of, parts_of, room_of

_UNITS, _COLS, _STRIPE, _PIXELS, _ROWS, _STAGE = 4, 64, 16, 1024, 8, 4096  # as in conv_plan.h and gemm.h
_EXACT_ROWS, _EXACT_STRIP = 8, 16384  # as in exact_conv.h


@dataclass(slots=True)
class Tiling:
    """Sizes of the work; pairs are (height, width). A window has ``height`` x ``width`` output pixels,
    computed in ``parts`` parts of size ``part``, each of which reads ``reach`` input pixels. A plane has
    ``bands`` x ``across`` windows. A group has ``channels`` input channels and ``outputs`` output channels,
    the latter in ``blocks`` blocks of ``block``. The inner dimension has ``k`` elements, of which ``depth``
    are computed at a time, with a spill after each ``spill`` elements (0: no spill). ``images`` images are
    computed at a time, in ``rounds`` rounds."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    channels: int
    outputs: int
    height: int
    width: int
    planes: tuple[int, int]
    part: tuple[int, int]
    rounds: int
    images: int = 1
    block: int = 32
    depth: int = 32
    spill: int = 0

    @property
    def bands(self) -> int:
        return -(-self.planes[0] // self.height)

    @property
    def across(self) -> int:
        return -(-self.planes[1] // self.width)

    @property
    def parts(self) -> int:
        return -(-self.height // self.part[0]) * -(-self.width // self.part[1])

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
        """Pair of the rows and the columns of the input under a part, for one phase of the stride."""
        high, wide = (-(-r // s) for r, s in zip(self.reach, self.stride, strict=True))
        return high, wide

    @property
    def reach(self) -> tuple[int, int]:
        """Input pixels (height, width) read by a part; a part at the edge counts like any other part."""
        high, wide = (
            (out - 1) * s + (max(t, 1) - 1) * d + 1
            for out, s, t, d in zip(self.part, self.stride, self.kernel, self.dilation, strict=True)
        )
        return high, wide


def tiling_of(shapes: Sequence[tuple[int, ...]], words: Sequence[int], page_bytes: int, extra: int) -> Tiling:
    """The tiling of a call. ``shapes``: shapes of x, w, other inputs, and y, which is not empty. ``words``:
    words of the call, without the words of an epilogue. ``extra``: number of inputs that the epilogue reads.
    ``page_bytes``: largest page of an argument."""
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
        (y[2], y[3]),
        (rows, cols),
        y[0],
    )
    if not exact:
        _cut(tiling, words[9:], page_bytes, extra)
    return tiling


def exact_rows(stride: tuple[int, int]) -> int:
    """Number of output rows for which the part of the input fits a strip (gr_tt_exact_rows)."""
    rows = _EXACT_ROWS
    while rows > 1 and ((rows - 1) * stride[0] + 1) * (31 * stride[1] + 1) > _EXACT_STRIP:
        rows -= 1
    return rows


def _cut(tiling: Tiling, words: Sequence[int], page_bytes: int, extra: int) -> None:
    """Set images, block, depth and parts so that a window stays within its share of L1."""
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
        tiling.block, tiling.spill = min(tiling.outputs, 32 * width), 32 * u_kt
        tiling.depth = min(-(-tiling.depth // 32) * 32, tiling.spill)
    room, whole, parts = room_of(words, page_bytes), math.lcm(taps, 32), parts_of(words)
    while -(-_floats(tiling, parts, extra) * 4 // 64) * 64 > room and _shrink(tiling, whole):
        pass


def _shrink(tiling: Tiling, whole: int) -> bool:
    """Shrink the tiling so that it takes less L1 and computes the same sums (gr_tt_conv_shrink); False if the
    tiling cannot be smaller."""
    less, depth = _less(tiling, whole), tiling.depth
    if less and depth > (4 * 32 if tiling.spill else max(4 * 32, whole)):
        tiling.depth = less
    elif tiling.block > 16:
        tiling.block = max(16, tiling.block // 2)
    elif less:
        tiling.depth = less
    elif _halve(tiling, _ROWS):
        pass
    elif tiling.block > 1:
        tiling.block //= 2
    else:
        return _halve(tiling, 1)
    return True


def _less(tiling: Tiling, whole: int) -> int:
    """The next smaller step of K (gr_tt_conv_less); 0 if no step is smaller."""
    depth = tiling.depth
    if tiling.spill:
        return less_of(depth, tiling.spill)
    if depth > max(4 * 32, whole):
        return (depth - 1) // whole * whole
    return -(-depth // 32) * 32 - 32 if depth > 32 else 0


def _halve(tiling: Tiling, least: int) -> bool:
    """Make windows narrower, or halve the rows or columns of parts (gr_tt_conv_halve); False if neither is
    possible."""
    rows, cols = tiling.part
    if tiling.width > 32:
        tiling.width, tiling.part = 32, (rows, 32)
    elif rows > least:
        tiling.part = max(least, (rows + 1) // 2), cols
    elif least == 1 and cols > 1 and math.prod(tiling.reach) > _STAGE:
        tiling.part = rows, (cols + 1) // 2
    else:
        return False
    return True


def _floats(tiling: Tiling, parts: tuple[int, int], extra: int) -> int:
    """Floats of L1 that a window takes (gr_tt_conv_floats)."""
    kernel = [max(t, 1) for t in tiling.kernel]
    taps, reach, depth = kernel[0] * kernel[1], tiling.reach, tiling.depth
    lines = tiling.lines
    phases = [
        min(t, s // math.gcd(s, d)) for t, s, d in zip(kernel, tiling.stride, tiling.dilation, strict=True)
    ]
    area, pitch, packed = _sums(tiling, parts)
    whole = tiling.parts == 1
    planes = min(tiling.channels, depth // taps if depth % taps == 0 else (depth - 1) // taps + 2)
    image = reach[0] * reach[1]
    staged, window = (max(_STAGE, image), 0) if whole else (image, tiling.height * tiling.width)
    rows = max(window, depth + 2 * kernel[1], taps, staged + image)
    return (
        tiling.block * tiling.parts * area
        + parts[1] * planes * math.prod(phases) * tiling.images * math.prod(lines)
        + 2 * _STRIPE
        + parts[0] * tiling.block * depth
        + tiling.block
        + depth
        + _whole(rows)
        + extra * 32 * (pitch if whole else tiling.width)
        + area * depth * packed
    )


def _whole(floats: int) -> int:
    """The number of floats, rounded up to whole stripes."""
    return -(-floats // _STRIPE) * _STRIPE


def _sums(tiling: Tiling, parts: tuple[int, int]) -> tuple[int, int, bool]:
    """Three results (gr_tt_conv_lines): the floats of the sums that an output channel has in a part, the
    floats from one row of pixels to the next, and whether each tap is copied."""
    lines = tiling.lines
    rows, cols = tiling.part
    apart = _whole((tiling.images - 1) * math.prod(lines) + rows * lines[1])
    together = _whole(tiling.images * rows * cols)
    if tiling.bands * tiling.across * tiling.parts == 1 and parts[1] == 1 and 3 * together < 2 * apart:
        return together, cols, True
    return apart, lines[1], False
