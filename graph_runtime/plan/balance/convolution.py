"""Convolutions and pools, taken apart as TT-Buda's front end did: the path from a conv2d node to the matmul
that the balancer sees.

1. A stride is folded into the channels where that makes the inner dimension shorter in tiles: s x s
   neighbouring pixels become one pixel of s*s*C channels, and a K x K window of stride s one of
   ceil((K + shift) / s) taps a side, of stride 1. Few channels do not fill a tile: folding fills it.
2. Such a window is split by its rows: one product for each, then added. So is one of very many taps, whose
   picked pixels would fit no core's L1.
3. Each row is a sparse matmul, which picks the pixels of its taps, and a dense one with the weights. The
   dense one reads the taps side by side (vslice, then hstack), so it streams rows only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...ir.graph import NodeView
from .op import BalanceOp, Operand, Tiles, Tm, User
from .parts import MAKERS, Part, chain, has_bias, result
from .sparse import Window, encoding
from .view import View

__all__ = ["Geometry", "fold", "geometry"]

_TILE = 32
_MOST_TAPS = 64  # of one sparse matmul: twice that many bfloat16 tiles take half of a core's L1
_NEXT = (User("op"),)
_PICKS = (None, ~0, None)  # ones and index are tables, the image is the node's input
_WEIGHT_AND_BIAS = (~1, ~2)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A window over one image: ``channels`` in, ``image`` and ``out`` pixels (rows, columns), ``kernel``,
    ``strides``, ``begin`` (top, left padding), ``dilations``; ``folded``: a stride went into the channels."""

    channels: int
    image: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    begin: tuple[int, int]
    dilations: tuple[int, int] = (1, 1)
    folded: bool = False

    @property
    def depth(self) -> int:
        """Tiles of the inner dimension: each tap has its channels in tiles of its own."""
        return self.kernel[0] * self.kernel[1] * -(-self.channels // _TILE)

    @property
    def trivial(self) -> bool:
        """One tap on each pixel: nothing to pick."""
        return (
            self.kernel == (1, 1)
            and self.strides == (1, 1)
            and self.begin == (0, 0)
            and self.image == self.out
        )

    def window(self, rows: Sequence[int]) -> Window:
        """Which pixels the taps of some rows of the kernel pick."""
        dh, dw = self.dilations
        taps = tuple((p * dh, q * dw) for p in rows for q in range(self.kernel[1]))
        return Window(self.image, self.out, taps, self.strides, self.begin)


def _two(sizes: Iterable[int]) -> tuple[int, int]:
    """Of rows and of columns."""
    rows, columns = sizes
    return rows, columns


def geometry(node: NodeView, kernel: Iterable[int]) -> Geometry:
    """The window of a conv2d or pool node as the graph has it."""
    attrs, x, y = node.callee.attrs, node.input_types[0].shape, node.output_types[0].shape
    strides = attrs["strides"] or (1, 1)
    pads = attrs["pads"] or (0, 0, 0, 0)
    return Geometry(
        x[1],
        _two(x[2:]),
        _two(y[2:]),
        _two(kernel),
        _two(strides),
        _two(pads[:2]),
        _two(attrs.get("dilations") or (1, 1)),
    )


def fold(g: Geometry) -> Geometry:
    """Strides folded into channels, where that makes the inner dimension shorter; else the same geometry.

    The window begins ``shift`` pixels earlier, at a multiple of the stride: its first taps are zeros.
    """
    if g.strides == (1, 1) or g.dilations != (1, 1):
        return g
    shift = [-b % s for b, s in zip(g.begin, g.strides, strict=True)]
    each = list(zip(g.image, g.kernel, g.begin, g.strides, shift, strict=True))
    folded = replace(
        g,
        channels=g.channels * g.strides[0] * g.strides[1],
        strides=(1, 1),
        folded=True,
        image=_two(-(-n // s) for n, _, _, s, _ in each),
        kernel=_two(-(-(k + d) // s) for _, k, _, s, d in each),
        begin=_two((b + d) // s for _, _, b, s, d in each),
    )
    return folded if folded.depth < g.depth else g


# **************** parts ****************


def _conv2d(view: View, node: NodeView) -> list[Part]:
    weight = node.input_types[1].shape
    group = node.callee.attrs["group"]
    deep = group == 1 or weight[1] > 1  # depthwise: one channel a group
    g = geometry(node, weight[2:])
    g = fold(g) if group == 1 else g
    out = view.tiles(node.outputs[0])
    main = result(view, node, "matmul", "matmul", [view.operand(node, 0)], out=out)
    if not deep:
        return _depthwise(view, node, main, g)
    if group > 1:  # each group is a product of its own
        out = Tiles(out.z * group, out.rt, -(-weight[0] // group // _TILE))
        g = replace(g, channels=weight[1])
        main = replace(main, out=out)
    split = g.folded or g.kernel[0] * g.kernel[1] > _MOST_TAPS
    rows = [[p] for p in range(g.kernel[0])] if split else [range(g.kernel[0])]
    parts: list[Part] = []
    bias = [view.operand(node, 2, out)] if has_bias(node) else []
    for i, taps in enumerate(rows):
        label = f"row {i}: " if len(rows) > 1 else ""
        made = _product(view, node, main, g, taps, bias if len(rows) == 1 else [], label, len(parts))
        parts += made if not parts else [replace(p, principal=False) for p in made]
    return parts + _sums(main, len(rows) - 1, bias if len(rows) > 1 else [], len(parts))


def _product(
    view: View,
    node: NodeView,
    main: BalanceOp,
    g: Geometry,
    rows: Sequence[int],
    bias: Sequence[Operand],
    label: str,
    first: int,
) -> list[Part]:
    """Sparse and dense matmul of some rows of the kernel; ``first``: index of the first part."""
    out, channels = main.out, -(-g.channels // _TILE)
    taps = len(rows) * g.kernel[1]
    k = taps * channels
    weight = view.operand(node, 1, Tiles(out.z, k, out.ct), source=Tiles(1, k, out.ct))
    users = main.users if g.kernel[0] == len(rows) else _NEXT
    if g.trivial:
        left = view.operand(node, 0, Tiles(out.z, out.rt, k), source=Tiles(out.z, out.rt, k))
        dense = replace(main, operands=(left, weight, *bias), k=k, users=users)
        return [Part(f"{label}dense", dense, True)]
    picked = _picked(main, g, rows, Tiles(out.z, taps * out.rt, channels), taps)
    left = Operand(
        Tiles(out.z, out.rt, k),
        picked.out,
        main.format,
        "op",
        (Tm("vslice", taps), Tm("hstack", taps)),
        sparse=True,
    )
    dense = replace(main, operands=(left, weight, *bias), k=k, users=users)
    return [
        Part(f"{label}sparse", picked, reads=_PICKS),
        Part(f"{label}dense", dense, True, (first, *_WEIGHT_AND_BIAS[: 1 + len(bias)])),
    ]


def _picked(main: BalanceOp, g: Geometry, rows: Sequence[int], out: Tiles, taps: int) -> BalanceOp:
    """The sparse matmul that lays the pixels of each tap under each other."""
    pixels = -(-g.image[0] * g.image[1] // _TILE)
    found = encoding(g.window(rows))
    ones = Operand(Tiles(1, out.rt, pixels), Tiles(1, out.rt, pixels), "bfp4_b", "constant")
    image = Operand(
        Tiles(out.z, pixels, out.ct), Tiles(out.z, pixels, out.ct), main.format, main.operands[0].source
    )
    index = Operand(Tiles(1, 1, 1), Tiles(1, 1, 1), "uint32", "constant")
    side_by_side = (User("op", (Tm("vslice", taps), Tm("hstack", taps))),)
    return replace(
        main,
        kind="sparse_matmul",
        cycles_op="matmul_sparse",
        out=out,
        k=pixels,
        operands=(ones, image, index),
        users=side_by_side,
        encoding=found,
    )


def _sums(main: BalanceOp, count: int, bias: Sequence[Operand], first: int) -> list[Part]:
    """The partial products of the rows added up, then the bias; ``first``: index of the first sum. Parts
    before it are pairs of a sparse and a dense product, a row each."""
    parts = [
        Part(
            f"sum {i}",
            chain(main, "add", main.out, [main.out, main.out]),
            reads=(first + i - 1 if i else 1, 2 * i + 3),
        )
        for i in range(count)
    ]
    if bias:
        added = chain(main, "add", main.out, [main.out])
        parts.append(
            Part("bias", replace(added, operands=(*added.operands, *bias)), reads=(first + count - 1, ~2))
        )
    if parts:
        parts[-1] = replace(parts[-1], op=replace(parts[-1].op, users=main.users))
    return parts


def _depthwise(view: View, node: NodeView, main: BalanceOp, g: Geometry) -> list[Part]:
    """Each channel by itself: taps are multiplied elementwise and added in Dst."""
    taps = g.kernel[0] * g.kernel[1]
    weight = view.operand(node, 1, Tiles(1, taps, main.out.ct), source=Tiles(1, taps, main.out.ct))
    bias = [view.operand(node, 2, main.out)] if has_bias(node) else []
    picked = _picked(
        main, g, range(g.kernel[0]), Tiles(main.out.z, taps * main.out.rt, -(-g.channels // _TILE)), taps
    )
    side_by_side = (Tm("vslice", taps), Tm("hstack", taps))
    left = Operand(main.out, picked.out, main.format, "op", side_by_side, sparse=True)
    dense = replace(main, kind="depthwise", cycles_op="depthwise", k=taps, operands=(left, weight, *bias))
    return [
        Part("sparse", picked, reads=_PICKS),
        Part("depthwise", dense, True, (0, *_WEIGHT_AND_BIAS[: 1 + len(bias)])),
    ]


def _pool(view: View, node: NodeView) -> list[Part]:
    """The pixels of each tap laid apart in depth, and depth reduced."""
    g = geometry(node, node.callee.attrs["kernel_shape"])
    taps = g.kernel[0] * g.kernel[1]
    main = result(view, node, "reduce", "reduce_z", [view.operand(node, 0)])
    out = main.out
    picked = _picked(main, g, range(g.kernel[0]), Tiles(out.z, taps * out.rt, out.ct), taps)
    stacked = Tiles(out.z * taps, out.rt, out.ct)
    left = Operand(stacked, picked.out, main.format, "op", (Tm("vslice", taps),), sparse=True)
    return [
        Part("sparse", picked, reads=_PICKS),
        Part("reduce z", replace(main, operands=(left,), dim="z", k=taps), True, (0,)),
    ]


def _over_taps(view: View, node: NodeView) -> list[Part]:
    x, w = (t.shape for t in node.input_types[:2])
    return _gradient(view, node, x[1] * math.prod(w[2:]))


def _over_pixels(view: View, node: NodeView) -> list[Part]:
    grad = node.input_types[1].shape
    return _gradient(view, node, math.prod(grad) // grad[1])


def _gradient(view: View, node: NodeView, inner: int) -> list[Part]:
    """A product over channels and taps, or over all pixels."""
    out = view.tiles(node.outputs[0])
    k = max(1, math.ceil(inner / 32))
    operands = [
        view.operand(node, 0, Tiles(out.z, out.rt, k)),
        view.operand(node, 1, Tiles(out.z, k, out.ct)),
    ]
    if len(node.inputs) == 3:
        operands.append(view.operand(node, 2, out))
    return [Part("matmul", result(view, node, "matmul", "matmul", operands, k=k), True)]


def _volume_pool(view: View, node: NodeView) -> list[Part]:
    """The elements of each window laid apart in depth, and depth reduced. What is pooled is no image here."""
    out, taps = view.tiles(node.outputs[0]), math.prod(node.callee.attrs["kernel_shape"])
    left = view.operand(node, 0, Tiles(out.z * taps, out.rt, out.ct))
    return [Part("reduce z", result(view, node, "reduce", "reduce_z", [left], dim="z", k=taps), True)]


def _whole(view: View, node: NodeView) -> list[Part]:
    operand = view.operand(node, 0, view.tiles(node.outputs[0]))
    return [Part("nop", result(view, node, "eltwise", "nop", [operand]), True)]


MAKERS.update(
    {
        "taps": _over_taps,
        "pixels": _over_pixels,
        "whole": _whole,
        "volume_pool": _volume_pool,
        "conv2d": _conv2d,
        "pool": _pool,
    }
)
