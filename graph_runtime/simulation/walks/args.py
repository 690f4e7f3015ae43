"""What a kernel moves, said by rectangles: its arguments as planes of pages, spans of rows and columns, and
how often they touch each page. Shared by the walks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...base.machine.layout import TILE, Layout, pages

__all__ = [
    "COVER",
    "PANEL_BYTES",
    "KernelArg",
    "KernelCall",
    "Moves",
    "Spans",
    "Times",
    "behind",
    "broadcast",
    "cut",
    "hits",
    "inside",
    "moves",
    "pair",
    "scanned",
    "split",
    "steps",
    "taken",
]

COVER = 512  # native/kernels/tt/rows.h
PANEL_BYTES = 262144  # native/kernels/tt/work.h

Spans = tuple[np.ndarray, np.ndarray]
Times = int | np.ndarray  # int64 [pages], or one number for all of them


@dataclass(frozen=True, slots=True)
class KernelArg:
    """An argument as kernels see it: planes of rows x cols. ``unit``: rows and columns of a page."""

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
        """int64 [pages]: how often rectangles touch each page: the planes so often, with each span of rows
        each span of columns."""
        _, height, width = self.view
        width = width if self.tiled else max(width, 1)  # an empty row is a page, too
        down, across = (
            hits(s, n, unit) for s, n, unit in zip((rows, cols), (height, width), self.unit, strict=True)
        )
        return (planes[:, None, None] * down[:, None] * across).reshape(-1)


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel's call: inputs and output, all words, cores of the device; a take's indices where known;
    whether the output takes the first input's place; the outputs behind the first."""

    args: Sequence[KernelArg]
    words: Sequence[int]
    cores: int
    indices: np.ndarray | None = None
    in_place: bool = False
    others: Sequence[KernelArg] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """How often each page of the arguments, inputs first, is read (the output's: left out where none is), and
    how often each of the output is written; of the outputs behind the first ``others``, as often as of that
    where it is empty."""

    reads: list[Times]
    writes: Times
    others: Sequence[Times] = ()


def behind(words: Sequence[int]) -> Sequence[int]:
    """The words behind those of an epilogue (ir/ops/steps.py), which come first."""
    return words[2 + 6 * words[0] :]


def broadcast(x: KernelArg, out: KernelArg, down: Spans, across: Spans) -> np.ndarray:
    """How often each page of x is touched where rectangles of ``out``, to which it is broadcast, load their
    part of it: what has one row for each span down, what has one column for each across."""
    planes, *sides = x.view
    spans = [s if n > 1 else (0 * s[0], 0 * s[1] + n) for n, s in zip(sides, (down, across), strict=True)]
    return x.touched(np.full(planes, out.view[0] // max(planes, 1)), spans[0], spans[1])


def hits(spans: Spans, size: int, unit: int) -> np.ndarray:
    """int64 [ceil(size / unit)]: how many of the spans (first, end) touch each unit; empty ones none."""
    first, end = spans
    some = end > first
    change = np.zeros(-(-size // unit) + 1, np.int64)
    np.add.at(change, first[some] // unit, 1)
    np.add.at(change, (end[some] - 1) // unit + 1, -1)
    return change.cumsum()[:-1]


def scanned(x: KernelArg, out: KernelArg) -> int:
    """How often a kernel that looks through all of ``x`` before it writes reads each page for that (scan.h):
    never, where the output is empty."""
    if not math.prod(out.shape):
        return 0
    return 1 if x.tiled else -(-x.view[2] // COVER)


def steps(size: int, step: int) -> Spans:
    """0 .. size-1 in spans of ``step``."""
    first = np.arange(0, size, step)
    return first, np.minimum(first + step, size)


def taken(spans: Spans, which: np.ndarray | slice) -> Spans:
    """Some of the spans."""
    first, end = spans
    return first[which], end[which]


def inside(first: np.ndarray, length: np.ndarray | int, size: int) -> Spans:
    """Spans that may hang over an image's edges, without what does."""
    return np.maximum(first, 0), np.minimum(first + length, size)


def cut(tiled: bool, cols: int, count: int) -> tuple[int, int]:
    """Height and width of the panels of an output with ``cols`` columns, of which ``count`` are in L1;
    ``tiled``: any argument is (gr_tt_cut)."""
    elements, wide = PANEL_BYTES // 4 // count, -(-cols // 32) * 32
    height = 32 if tiled else max(1, min(32, elements // max(wide, 32)))
    return height, max(32, min(wide, elements // height // 32 * 32))


def pair(args: Sequence[KernelArg]) -> tuple[int, int]:
    """The cut of a kernel that has an output's panel and another in L1."""
    return cut(any(a.tiled for a in args), args[-1].view[2], 2)


def moves(reads: list[np.ndarray], out: KernelArg, width: int) -> Moves:
    """With an output stored in panels ``width`` columns wide: a part of a row is read, changed, written."""
    across = 1 if out.tiled else -(-out.view[2] // width)
    return Moves([*reads, across if across > 1 else 0], across)


def split(spans: Spans, step: int) -> Spans:
    """Each span in spans of ``step``, which begin anew in each."""
    parts = [steps(int(end - first), step) for first, end in zip(*spans, strict=True)]
    return (
        np.concatenate([p[0] + first for p, first in zip(parts, spans[0], strict=True)]),
        np.concatenate([p[1] + first for p, first in zip(parts, spans[0], strict=True)]),
    )
