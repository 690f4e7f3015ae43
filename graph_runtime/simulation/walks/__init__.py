"""Numbers of reads and writes of each page by a tt kernel, for ops that do not load all pages of an argument
equally often: products, conv2d, transpose, slice, take (native/kernels/tt: linear.h, conv.h, exact_*.h,
move.h, slice.h).

A walk is a pure function of the arguments' shapes and layouts and of the call's words; the walk of take also
depends on the indices. A kernel loads rectangles; it loads each page as often as rectangles touch the page.
Rows and columns are independent, so the counts of a plane are the product of a vector for rows and one for
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...ir.ops import registry
from .args import KernelArg, KernelCall, Moves, behind, broadcast, hits, inside, moves, split, steps
from .attention import attention
from .conv import Tiling, exact_rows, tiling_of
from .gather import GATHERS
from .gradients import GRADIENTS
from .move import MOVES
from .panels import PANELS
from .product import blocks_of
from .recurrent import recurrent
from .reduce import REDUCTIONS
from .volumes import VOLUMES

__all__ = ["walk_of"]


def _conv2d(call: KernelCall) -> Moves:
    args, words, extra = call.args, (*call.words[:9], *behind(call.words[9:])), call.words[10]
    x, w, y = args[0], args[1], args[-1]
    tiling = tiling_of([a.shape for a in args], words, max(a.page_bytes for a in args), extra)
    exact = words[11] == 1
    windows = tiling.rounds * tiling.bands * tiling.across
    image = _exact_image if exact else _image
    reads = [image(x, y, tiling), (_exact_weights if exact else _weights)(w, tiling, windows)]
    if len(args) - extra == 4:
        first, end = steps(tiling.outputs, tiling.block)
        each = np.arange(tiling.groups)[:, None] * tiling.outputs
        spans = (first + each).ravel(), (end + each).ravel()
        reads.append(args[2].touched(np.array([windows]), steps(1, 1), spans))
    down, across = steps(y.view[1], tiling.height), steps(y.view[2], tiling.width)
    reads += [broadcast(a, y, down, across) for a in args[len(args) - 1 - extra : -1]]
    return moves(reads, y, tiling.width)


def _image(x: KernelArg, y: KernelArg, tiling: Tiling) -> np.ndarray:
    spans = []
    for d, (window, part) in enumerate(zip((tiling.height, tiling.width), tiling.part, strict=True)):
        first = split(steps(y.view[1 + d], window), part)[0] * tiling.stride[d] - tiling.pad[d]
        spans.append(inside(first, tiling.reach[d], x.view[1 + d]))
    loads = hits(steps(tiling.k, tiling.depth), tiling.k, max(tiling.taps, 1)) * tiling.blocks
    return x.touched(np.tile(loads, y.shape[0] * tiling.groups), spans[0], spans[1])


def _weights(w: KernelArg, tiling: Tiling, windows: int) -> np.ndarray:
    """Reads of weights. If the weights are in tiles, a tap needs the plane of its channel. If they are in
    rows, a step of K needs each row of which it uses a part."""
    of_k, count = steps(tiling.k, tiling.depth), w.shape[0]
    if w.tiled:
        loads = hits(of_k, tiling.k, max(tiling.taps, 1))
        return w.touched(
            np.tile(loads, count) * windows, steps(w.view[1], 1 << 40), steps(w.view[2], 1 << 40)
        )
    return np.tile(hits(of_k, tiling.k, max(w.view[2], 1)), count) * windows


def _exact_image(x: KernelArg, y: KernelArg, tiling: Tiling) -> np.ndarray:
    """Reads of the image: for some rows and 32 columns of the output at a time, each tap of each channel
    loads its part of the image."""
    rows, spans = exact_rows(tiling.stride), []
    tops = np.concatenate([np.arange(r, min(r + 32, y.view[1]), rows) for r in range(0, y.view[1], 32)])
    counts = np.minimum(rows, np.minimum(tops // 32 * 32 + 32, y.view[1]) - tops)
    lefts, ends = steps(y.view[2], 32)
    for d, (first, count) in enumerate(((tops, counts), (lefts, ends - lefts))):
        taps = np.arange(tiling.kernel[d])[:, None] * tiling.dilation[d] - tiling.pad[d]
        length = np.broadcast_to((count - 1) * tiling.stride[d] + 1, (len(taps), len(first)))
        spans.append(inside((taps + first * tiling.stride[d]).ravel(), length.ravel(), x.view[1 + d]))
    return x.touched(np.full(x.view[0], tiling.blocks), spans[0], spans[1])


def _exact_weights(w: KernelArg, tiling: Tiling, windows: int) -> np.ndarray:
    """Reads of weights, element by element."""
    return w.touched(np.full(w.view[0], windows), steps(w.view[1], 1), steps(w.view[2], 1))


def _product(call: KernelCall) -> Moves:
    """Moves of a matmul; the call's first words tell which inputs are transposed."""
    return _of_blocks(call, call.words[2:], call.words[0] != 0, call.words[1] != 0)


def _product_of_rows(call: KernelCall) -> Moves:
    """Moves of a product whose input B is stored as [N, K]."""
    return _of_blocks(call, call.words, False, True)


def _of_blocks(call: KernelCall, words: Sequence[int], turn_a: bool, turn_b: bool) -> Moves:
    """Moves of a blocked product: a block loads its rows of A, strip by strip, and its columns of B, both in
    steps of K; its epilogue loads 32 rows at a time. ``words``: the epilogue's words, then the words of the
    numerics."""
    a, b, out, extra, words = call.args[0], call.args[1], call.args[-1], words[1], behind(words)
    planes, rows, cols = out.view
    k = a.view[1 if turn_a else 2]
    plan = blocks_of(out.view, k, words, max(x.page_bytes for x in call.args), call.cores, extra)
    down = split(steps(rows, plan.macro[0]), plan.height)
    across = split(steps(cols, plan.macro[1]), plan.width)
    of_k, times = steps(k, plan.depth), [len(across[0]), len(down[0])]
    spans = [(split(down, plan.strip), of_k), (of_k, across)]
    reads = []
    for arg, turned, pair, again in zip((a, b), (turn_a, turn_b), spans, times, strict=True):
        loads = np.full(arg.view[0], planes // max(arg.view[0], 1) * again)
        reads.append(arg.touched(loads, *(pair[::-1] if turned else pair)))
    if len(call.args) - extra == 4:
        reads.append(call.args[2].touched(np.array([planes * len(down[0])]), steps(1, 1), across))
    lines = split(down, 32)
    reads += [broadcast(x, out, lines, across) for x in call.args[len(call.args) - 1 - extra : -1]]
    return moves(reads, out, plan.width)


_WALKS: dict[str, Callable[[KernelCall], Moves]] = {
    "product": _product,
    "product_of_rows": _product_of_rows,
    "conv2d": _conv2d,
    "attention": attention,
    "recurrent": recurrent,
    **GRADIENTS,
    **MOVES,
    **GATHERS,
    **PANELS,
    **REDUCTIONS,
    **VOLUMES,
}


def walk_of(name: str) -> Callable[[KernelCall], Moves] | None:
    """The walk of an op's tt kernel, found by the op's trait or name; None if the kernel loads each page
    once."""
    op = registry.get(name)
    return None if op is None else _WALKS.get(op.walk or op.name)
