"""Which pages a tt kernel reads and writes, and how often, where that is not the same for all pages of an
argument: products, conv2d, transpose, slice, take (native/kernels/tt: linear.h, conv.h, exact_*.h, move.h,
slice.h).

A walk is a pure function of the arguments' shapes and layouts and of the call's words; take's also of its
indices. A kernel loads rectangles, and a page as often as rectangles touch it; rows and columns are
independent of each other there, so that counts are products of one vector for each.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .layout import TILE, Layout, pages
from .walks_conv import Plan, exact_rows, plan_of
from .walks_product import blocks_of

__all__ = ["WALKS", "Arg", "Call", "Moves", "Times", "cut", "far_apart"]

_PANEL_BYTES, _COVER = 262144, 512     # work.h, slice.h

Spans = tuple[np.ndarray, np.ndarray]
Times = int | np.ndarray            # int64 [pages], or one number for all of them


@dataclass(frozen=True, slots=True)
class Arg:
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
        width = width if self.tiled else max(width, 1)          # an empty row is a page, too
        down, across = (hits(s, n, unit) for s, n, unit in zip((rows, cols), (height, width), self.unit,
                                                              strict=True))
        return (planes[:, None, None] * down[:, None] * across).reshape(-1)


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel's call: inputs and output, all words, cores of the device; a take's indices where known."""

    args: Sequence[Arg]
    words: Sequence[int]
    cores: int
    indices: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """How often each page of the arguments, inputs first, is read (the output's: left out where none is), and
    how often each of the output is written."""

    reads: list[Times]
    writes: Times


def hits(spans: Spans, size: int, unit: int) -> np.ndarray:
    """int64 [ceil(size / unit)]: how many of the spans (first, end) touch each unit; empty ones none."""
    first, end = spans
    some = end > first
    change = np.zeros(-(-size // unit) + 1, np.int64)
    np.add.at(change, first[some] // unit, 1)
    np.add.at(change, (end[some] - 1) // unit + 1, -1)
    return change.cumsum()[:-1]


def _steps(size: int, step: int) -> Spans:
    """0 .. size-1 in spans of ``step``."""
    first = np.arange(0, size, step)
    return first, np.minimum(first + step, size)


def _inside(first: np.ndarray, length: np.ndarray | int, size: int) -> Spans:
    """Spans that may hang over an image's edges, without what does."""
    return np.maximum(first, 0), np.minimum(first + length, size)


def cut(tiled: bool, cols: int, count: int) -> tuple[int, int]:
    """Height and width of the panels of an output with ``cols`` columns, of which ``count`` are in L1;
    ``tiled``: any argument is (gr_tt_cut)."""
    elements, wide = _PANEL_BYTES // 4 // count, -(-cols // 32) * 32
    height = 32 if tiled else max(1, min(32, elements // max(wide, 32)))
    return height, max(32, min(wide, elements // height // 32 * 32))


def _pair(args: Sequence[Arg]) -> tuple[int, int]:
    """The cut of a kernel that has an output's panel and another in L1."""
    return cut(any(a.tiled for a in args), args[-1].view[2], 2)


def _moves(reads: list[np.ndarray], out: Arg, width: int) -> Moves:
    """With an output stored in panels ``width`` columns wide: a part of a row is read, changed, written."""
    across = 1 if out.tiled else -(-out.view[2] // width)
    return Moves([*reads, across if across > 1 else 0], across)


# **************** conv2d ****************

def _conv2d(call: Call) -> Moves:
    args, words = call.args, call.words
    x, w, y = args[0], args[1], args[-1]
    plan = plan_of([a.shape for a in args], words, max(a.page_bytes for a in args))
    exact = words[11] != 0
    windows = y.shape[0] * plan.bands * plan.across
    image = _exact_image if exact else _image
    reads = [image(x, y, plan), (_exact_weights if exact else _weights)(w, plan, windows)]
    if len(args) == 4:
        first, end = _steps(plan.outputs, plan.block)
        each = np.arange(plan.groups)[:, None] * plan.outputs
        spans = (first + each).ravel(), (end + each).ravel()
        reads.append(args[2].touched(np.array([windows]), _steps(1, 1), spans))
    return _moves(reads, y, plan.width)


def _image(x: Arg, y: Arg, plan: Plan) -> np.ndarray:
    spans = []
    for d, (size, step) in enumerate(((y.view[1], plan.height), (y.view[2], plan.width))):
        first = np.arange(0, size, step) * plan.stride[d] - plan.pad[d]
        spans.append(_inside(first, plan.reach[d], x.view[1 + d]))
    loads = hits(_steps(plan.k, plan.depth), plan.k, max(plan.taps, 1)) * plan.blocks
    return x.touched(np.tile(loads, y.shape[0] * plan.groups), spans[0], spans[1])


def _weights(w: Arg, plan: Plan, windows: int) -> np.ndarray:
    """In tiles a tap needs its channel's plane, in rows those rows that a step of K has a part of."""
    steps, count = _steps(plan.k, plan.depth), w.shape[0]
    if w.tiled:
        loads = hits(steps, plan.k, max(plan.taps, 1))
        return w.touched(np.tile(loads, count) * windows, _steps(w.view[1], 1 << 40),
                         _steps(w.view[2], 1 << 40))
    return np.tile(hits(steps, plan.k, max(w.view[2], 1)), count) * windows


def _exact_image(x: Arg, y: Arg, plan: Plan) -> np.ndarray:
    """Each tap of each channel loads what it sees of the image: some rows, 32 columns of the output."""
    rows, spans = exact_rows(plan.stride), []
    tops = np.concatenate([np.arange(r, min(r + 32, y.view[1]), rows) for r in range(0, y.view[1], 32)])
    counts = np.minimum(rows, np.minimum(tops // 32 * 32 + 32, y.view[1]) - tops)
    lefts, ends = _steps(y.view[2], 32)
    for d, (first, count) in enumerate(((tops, counts), (lefts, ends - lefts))):
        taps = np.arange(plan.kernel[d])[:, None] * plan.dilation[d] - plan.pad[d]
        length = np.broadcast_to((count - 1) * plan.stride[d] + 1, (len(taps), len(first)))
        spans.append(_inside((taps + first * plan.stride[d]).ravel(), length.ravel(), x.view[1 + d]))
    return x.touched(np.full(x.view[0], plan.blocks), spans[0], spans[1])


def _exact_weights(w: Arg, plan: Plan, windows: int) -> np.ndarray:
    """Element by element."""
    return w.touched(np.full(w.view[0], windows), _steps(w.view[1], 1), _steps(w.view[2], 1))


# **************** products ****************

def _matmul(call: Call) -> Moves:
    return _product(call, call.words[2:], call.words[0] != 0, call.words[1] != 0)


def _dense(call: Call) -> Moves:
    return _product(call, call.words, False, True)


def _product(call: Call, words: Sequence[int], turn_a: bool, turn_b: bool) -> Moves:
    """A block loads its rows of A, strip by strip, and its columns of B, each in steps of K."""
    a, b, out = call.args[0], call.args[1], call.args[-1]
    planes, rows, cols = out.view
    k = a.view[1 if turn_a else 2]
    plan = blocks_of(out.view, k, words, max(x.page_bytes for x in call.args), call.cores)
    down = _split(_steps(rows, plan.macro[0]), plan.height)
    across = _split(_steps(cols, plan.macro[1]), plan.width)
    steps, times = _steps(k, plan.depth), [len(across[0]), len(down[0])]
    spans = [(_split(down, plan.strip), steps), (steps, across)]
    reads = []
    for arg, turned, pair, again in zip((a, b), (turn_a, turn_b), spans, times, strict=True):
        loads = np.full(arg.view[0], planes // max(arg.view[0], 1) * again)
        reads.append(arg.touched(loads, *(pair[::-1] if turned else pair)))
    if len(call.args) == 4:
        reads.append(call.args[2].touched(np.array([planes * len(down[0])]), _steps(1, 1), across))
    return _moves(reads, out, plan.width)


def _split(spans: Spans, step: int) -> Spans:
    """Each span in spans of ``step``, which begin anew in each."""
    parts = [_steps(int(end - first), step) for first, end in zip(*spans, strict=True)]
    return (np.concatenate([p[0] + first for p, first in zip(parts, spans[0], strict=True)]),
            np.concatenate([p[1] + first for p, first in zip(parts, spans[0], strict=True)]))


# **************** movement ****************

def _transpose(call: Call) -> Moves:
    """An output dimension is walked in panels if it is one of the last two, else element by element."""
    x, out = call.args
    ndim = max(len(x.shape), 2)
    perm = list(call.words) if len(x.shape) > 1 else [0, 1]
    height, width = _pair(call.args)
    spans = []
    for d in (ndim - 2, ndim - 1):
        step = {ndim - 2: height, ndim - 1: width}.get(perm.index(d), 1)
        spans.append(_steps(x.view[1 + d - (ndim - 2)], step))
    return _moves([x.touched(np.ones(x.view[0], np.int64), spans[0], spans[1])], out, width)


def _slice(call: Call) -> Moves:
    """A panel loads each page of rows that it takes any from, and columns as many as fit a cover."""
    x, out = call.args
    height, width = _pair(call.args)
    strides = [(0, 1), (0, 1), *zip(call.words[::2], call.words[1::2], strict=True)]
    planes = np.zeros((1,), np.int64)
    for size, count, (start, step) in zip(x.shape[:-2], out.shape[:-2], strides[2:], strict=False):
        planes = (planes[:, None] * size + start + step * np.arange(count)).ravel()
    (top, down), (left, right) = strides[-2:]
    unit, units = x.unit[0], max(-(-x.view[1] // x.unit[0]), 1)
    r = np.arange(out.view[1])
    rows = np.unique(r // height * units + (top + down * r) // unit) % units
    most = (_COVER - 1) // abs(right) + 1
    starts = [np.arange(j, min(j + width, out.view[2]), most) for j in range(0, out.view[2], width)]
    first = np.concatenate(starts)
    last = np.minimum(first + most, np.minimum(first // width * width + width, out.view[2])) - 1
    ends = left + right * np.array([first, last])
    across = hits((ends.min(0), ends.max(0) + 1), x.view[2], x.unit[1])
    down = np.bincount(rows, minlength=units)
    times = np.bincount(planes, minlength=x.view[0])[:, None, None] * down[:, None] * across
    return _moves([times.reshape(-1)], out, width)


def far_apart(count: int, size: int) -> np.ndarray:
    """int64 [count] indices below ``size``, spread over it, each far from the one before: hardly two in a
    row are in one tile, so that a take of them reads as much as one can."""
    return np.arange(count) * max(round(size * 0.618), 1) % max(size, 1)


def _take(call: Call) -> Moves:
    """Output elements in the kernel's order; what lies in the rectangle that is held is not loaded anew."""
    data, chosen, out = call.args
    axis, count = call.words[0], math.prod(chosen.shape)
    size, after = data.shape[axis], math.prod(data.shape[axis + 1:])
    index = far_apart(count, size) if call.indices is None else np.asarray(call.indices, np.int64).ravel()
    index = np.where(index < 0, index + size, index)
    height, width = _pair(call.args)
    planes, rows, cols = out.view
    reads = [np.zeros(pages(a.layout, a.shape).count, np.int64) for a in (data, chosen)]
    for c0 in range(0, cols, width):
        column = np.arange(c0, min(c0 + width, cols))
        line = np.arange(planes * rows)[:, None]
        to = (line * cols + column).ravel()
        new = np.zeros((planes * rows, len(column)), bool)
        new[line[:, 0] % rows % height == 0, 0] = True
        which = to // after % count
        source = (to // after // count * size + index[which]) * after + to % after
        for times, arg, at in zip(reads, (data, chosen), (source, which), strict=True):
            _load(times, arg, at, new.ravel())
    return _moves(reads, out, width)


def _load(times: np.ndarray, arg: Arg, at: np.ndarray, new: np.ndarray) -> None:
    """Counts the pages that gr_tt_rows_at loads for elements ``at`` one after the other; where ``new``,
    nothing is held."""
    _, rows, cols = arg.view
    row, cover = at // cols, at % cols // _COVER
    down = -(-rows // arg.unit[0])
    block = row // rows * down + row % rows // arg.unit[0]
    key = block * (cols // _COVER + 1) + cover
    loads = new.copy()
    loads[1:] |= key[1:] != key[:-1]
    across, per = -(-cols // arg.unit[1]), _COVER // arg.unit[1] if arg.tiled else 1
    first = block[loads] * across + (cover[loads] * per if arg.tiled else 0)
    end = np.minimum(first + per, (block[loads] + 1) * across)
    times += hits((first, end), len(times), 1)


WALKS: dict[str, Callable[[Call], Moves]] = {
    "matmul": _matmul, "dense": _dense, "conv2d": _conv2d, "transpose": _transpose, "slice": _slice,
    "take": _take}
