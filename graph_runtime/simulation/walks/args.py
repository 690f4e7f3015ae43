"""Kernel traffic in terms of rectangles: arguments as planes of pages, spans of rows and columns, and how
often each page is touched. All walks use these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...base.machine.layout import TILE, Layout, pages

COVER = 512  # as in native/kernels/tt/rows.h
PANEL_BYTES = 262144  # as in native/kernels/tt/work.h

Spans = tuple[np.ndarray, np.ndarray]
Times = int | np.ndarray  # int64 [pages], or one number for all pages


@dataclass(frozen=True, slots=True)
class KernelArg:
    """An argument as kernels see it: planes of rows x cols. ``unit``: (rows, columns) of a page."""

    layout: Layout
    shape: tuple[int, ...]

    @property
    def tiled(self) -> bool:
        return self.layout.layout == TILE

    @property
    def view(self) -> tuple[int, int, int]:
        """Planes, rows, columns."""
        rows, cols = (1, 1, *self.shape)[-2:]
        return math.prod(self.shape[:-2]), rows, cols

    @property
    def unit(self) -> tuple[int, int]:
        return (32, 32) if self.tiled else (1, max(self.view[2], 1))

    @property
    def page_bytes(self) -> int:
        return pages(self.layout, self.shape).nbytes

    def touched(self, planes: np.ndarray, rows: Spans, cols: Spans) -> np.ndarray:
        """int64 [pages]: how often each page is touched by the rectangles that each span of rows forms with
        each span of columns. ``planes``: how often each plane is visited."""
        _, height, width = self.view
        width = width if self.tiled else max(width, 1)  # an empty row is also a page
        down, across = (
            hits(s, n, unit) for s, n, unit in zip((rows, cols), (height, width), self.unit, strict=True)
        )
        return (planes[:, None, None] * down[:, None] * across).reshape(-1)


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of a kernel. ``args``: inputs, then the output. ``words``: all words of the call. ``cores``:
    cores of the device. ``indices``: indices of a take, if known. ``in_place``: whether the output reuses the
    first input's storage. ``others``: further outputs."""

    args: Sequence[KernelArg]
    words: Sequence[int]
    cores: int
    indices: np.ndarray | None = None
    in_place: bool = False
    others: Sequence[KernelArg] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves of a call's pages. ``reads``: for each input (and then for the output, if the kernel reads it)
    the reads of each page. ``writes``: writes of each page of the output. ``others``: writes of each page of
    further outputs; if empty, each further output has the same writes as the output."""

    reads: list[Times]
    writes: Times
    others: Sequence[Times] = ()


def behind(words: Sequence[int]) -> Sequence[int]:
    """The words of a call without the words of an epilogue (ir/ops/steps.py), which come first."""
    return words[2 + 6 * words[0] :]


def broadcast(x: KernelArg, out: KernelArg, down: Spans, across: Spans) -> np.ndarray:
    """How often each page of x is touched when rectangles of ``out``, to which x is broadcast, load their
    part of x. A single row is loaded for each span down, a single column for each span across."""
    planes, *sides = x.view
    spans = [s if n > 1 else (0 * s[0], 0 * s[1] + n) for n, s in zip(sides, (down, across), strict=True)]
    return x.touched(np.full(planes, out.view[0] // max(planes, 1)), spans[0], spans[1])


def hits(spans: Spans, size: int, unit: int) -> np.ndarray:
    """int64 [ceil(size / unit)]: number of spans (first, end) that touch each unit. Empty spans touch no
    unit."""
    first, end = spans
    some = end > first
    change = np.zeros(-(-size // unit) + 1, np.int64)
    np.add.at(change, first[some] // unit, 1)
    np.add.at(change, (end[some] - 1) // unit + 1, -1)
    return change.cumsum()[:-1]


def scanned(x: KernelArg, out: KernelArg) -> int:
    """Reads of each page of ``x`` by a kernel that scans the whole of x before it writes (scan.h); 0 if the
    output is empty."""
    if not math.prod(out.shape):
        return 0
    return 1 if x.tiled else -(-x.view[2] // COVER)


def steps(size: int, step: int) -> Spans:
    """Spans of length ``step`` that cover 0 .. size-1."""
    first = np.arange(0, size, step)
    return first, np.minimum(first + step, size)


def taken(spans: Spans, which: np.ndarray | slice) -> Spans:
    """The spans that ``which`` selects."""
    first, end = spans
    return first[which], end[which]


def inside(first: np.ndarray, length: np.ndarray | int, size: int) -> Spans:
    """Spans clipped to an image's edges."""
    return np.maximum(first, 0), np.minimum(first + length, size)


def cut(tiled: bool, cols: int, count: int) -> tuple[int, int]:
    """(height, width) of the panels of an output with ``cols`` columns, if ``count`` panels are in L1 at a
    time (gr_tt_cut). ``tiled``: whether any argument is in tiles."""
    elements, wide = PANEL_BYTES // 4 // count, -(-cols // 32) * 32
    height = 32 if tiled else max(1, min(32, elements // max(wide, 32)))
    return height, max(32, min(wide, elements // height // 32 * 32))


def pair(args: Sequence[KernelArg]) -> tuple[int, int]:
    """(height, width) of the panels of a kernel that keeps a panel of the output and another panel in L1."""
    return cut(any(a.tiled for a in args), args[-1].view[2], 2)


def moves(reads: list[np.ndarray], out: KernelArg, width: int) -> Moves:
    """Moves with the given reads of inputs and an output stored in panels ``width`` columns wide. If a panel
    covers only a part of a page, the page is read, changed and written."""
    across = 1 if out.tiled else -(-out.view[2] // width)
    return Moves([*reads, across if across > 1 else 0], across)


def split(spans: Spans, step: int) -> Spans:
    """The spans, each split into spans of length ``step`` from its own beginning."""
    parts = [steps(int(end - first), step) for first, end in zip(*spans, strict=True)]
    return (
        np.concatenate([p[0] + first for p, first in zip(parts, spans[0], strict=True)]),
        np.concatenate([p[1] + first for p, first in zip(parts, spans[0], strict=True)]),
    )
