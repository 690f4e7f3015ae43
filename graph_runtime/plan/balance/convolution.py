"""Convolutions and pools, split into ops as TT-Buda's front end did: the path from a conv2d node to the
matmul that the balancer sees.

1. A stride is folded into the channels where that makes the inner dimension shorter in tiles: s x s
   neighbouring pixels become one pixel of s*s*C channels, and a K x K window of stride s becomes a window
   of stride 1 with ceil((K + shift) / s) taps a side. Folding fills tiles that few channels leave partly
   empty.
2. A folded window is split by its rows: one product for each row, and a sum of the products. A window of
   very many taps, whose picked pixels would fit no core's L1, is split likewise, and so is a smaller window
   without a legal model; if that does not help, it is split by its taps.
3. Each row is a sparse matmul, which picks the pixels of the row's taps, and a dense matmul with the
   weights. The dense matmul reads the taps side by side (vslice, then hstack), so it streams rows only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ...ir.graph import NodeView
from .op import BalanceOp, Operand, Tiles, Tm, User
from .parts import MAKERS, Part, chain, has_bias, result
from .sparse import Window, encoding
from .view import View

_TILE = 32
_MOST_TAPS = 64  # most taps of a sparse matmul: two bfloat16 tiles per tap then take half of a core's L1
_NEXT = (User("op"),)
_PICKS = (None, ~0, None)  # sources: ones and index are compiler tables; the image is the node's input
_WEIGHT_AND_BIAS = (~1, ~2)


Taps = list[tuple[int, int]]  # (row, column) of each tap in the kernel


@dataclass(frozen=True, slots=True)
class Geometry:
    """A window over one image: ``channels`` of the input, ``image`` and ``out`` pixels (rows, columns),
    ``kernel``, ``strides``, ``begin`` (top, left padding), ``dilations``; ``folded``: a stride was folded
    into the channels."""

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
        """Tiles of the inner dimension. The channels of each tap begin a new tile."""
        return self.kernel[0] * self.kernel[1] * -(-self.channels // _TILE)

    @property
    def trivial(self) -> bool:
        """Whether the window has a single tap that picks each pixel in place, so that no sparse matmul is
        needed."""
        return (
            self.kernel == (1, 1)
            and self.strides == (1, 1)
            and self.begin == (0, 0)
            and self.image == self.out
        )

    def window(self, taps: Taps) -> Window:
        """The pixels that some taps of the kernel pick."""
        dh, dw = self.dilations
        return Window(
            self.image, self.out, tuple((p * dh, q * dw) for p, q in taps), self.strides, self.begin
        )

    def groups(self, split: int) -> list[Taps]:
        """The taps of each sparse matmul: all taps, the taps of a row, or one tap; see View.split."""
        rows = [[(p, q) for q in range(self.kernel[1])] for p in range(self.kernel[0])]
        if split > 1:
            return [[tap] for row in rows for tap in row]
        many = self.folded or self.kernel[0] * self.kernel[1] > _MOST_TAPS
        return rows if split or many else [[tap for row in rows for tap in row]]


def _two(sizes: Iterable[int]) -> tuple[int, int]:
    """Pair (rows, columns) of an iterable with two numbers."""
    rows, columns = sizes
    return rows, columns


def geometry(node: NodeView, kernel: Iterable[int]) -> Geometry:
    """The window of a conv2d or pool node, not folded."""
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
    """The window with its strides folded into the channels if that shortens the inner dimension; else the
    same window. A folded window begins ``shift`` pixels earlier, at a multiple of the stride, and its first
    taps are zeros."""
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
    deep = group == 1 or weight[1] > 1  # depthwise: each group has one channel
    g = geometry(node, weight[2:])
    g = fold(g) if group == 1 else g
    out = view.tiles(node.outputs[0])
    main = result(view, node, "matmul", "matmul", [view.operand(node, 0)], out=out)
    if not deep:
        return _depthwise(view, node, main, g)
    if group > 1:  # each group has its own product
        out = Tiles(out.z * group, out.rt, -(-weight[0] // group // _TILE))
        g = replace(g, channels=weight[1])
        main = replace(main, out=out)
    bias = [view.operand(node, 2, out)] if has_bias(node) else []

    def product(taps: Taps, users: tuple[User, ...], label: str, first: int) -> list[Part]:
        alone = bias if len(groups) == 1 else []
        return _product(view, node, replace(main, users=users), g, taps, alone, label, first)

    groups = g.groups(view.split)
    return _of_groups(groups, main, product, bias)


def _of_groups(
    groups: Sequence[Taps],
    main: BalanceOp,
    make: Callable[[Taps, tuple[User, ...], str, int], list[Part]],
    bias: Sequence[Operand] = (),
    name: str = "add",
) -> list[Part]:
    """The parts of each group of taps, and their sums. The principal part is a part of the first group.
    ``make`` gets the taps, the users of the result, a label and the index of the group's first part."""
    parts: list[Part] = []
    for i, taps in enumerate(groups):
        what = "tap" if len(taps) == 1 < len(groups) else "row"
        label = f"{what} {i}: " if len(groups) > 1 else ""
        made = make(taps, main.users if len(groups) == 1 else _NEXT, label, len(parts))
        parts += made if not parts else [replace(p, principal=False) for p in made]
    return parts + _sums(main, len(groups) - 1, bias if len(groups) > 1 else (), len(parts), name)


def _product(
    view: View,
    node: NodeView,
    main: BalanceOp,
    g: Geometry,
    group: Taps,
    bias: Sequence[Operand],
    label: str,
    first: int,
) -> list[Part]:
    """The sparse and the dense matmul of some taps of the kernel; ``first``: index of the first part."""
    out, channels, taps = main.out, -(-g.channels // _TILE), len(group)
    k = taps * channels
    weight = view.operand(node, 1, Tiles(out.z, k, out.ct), source=Tiles(1, k, out.ct))
    if g.trivial:
        left = view.operand(node, 0, Tiles(out.z, out.rt, k), source=Tiles(out.z, out.rt, k))
        dense = replace(main, operands=(left, weight, *bias), k=k)
        return [Part(f"{label}dense", dense, True)]
    picked = _picked(main, g, group, Tiles(out.z, taps * out.rt, channels), view.split)
    tms = picked.users[0].tms
    left = Operand(Tiles(out.z, out.rt, k), picked.out, main.format, "op", tms, sparse=True)
    dense = replace(main, operands=(left, weight, *bias), k=k)
    return [
        Part(f"{label}sparse", picked, reads=_PICKS),
        Part(f"{label}dense", dense, True, (first, *_WEIGHT_AND_BIAS[: 1 + len(bias)])),
    ]


def _picked(main: BalanceOp, g: Geometry, group: Taps, out: Tiles, split: int) -> BalanceOp:
    """The sparse matmul that puts the pixels of all taps below each other. The dense matmul then reads the
    taps side by side, unless the window is split by taps."""
    pixels, taps = -(-g.image[0] * g.image[1] // _TILE), len(group)
    found = encoding(g.window(group))
    ones = Operand(Tiles(1, out.rt, pixels), Tiles(1, out.rt, pixels), "bfp4_b", "constant")
    image = Operand(
        Tiles(out.z, pixels, out.ct), Tiles(out.z, pixels, out.ct), main.format, main.operands[0].source
    )
    index = Operand(Tiles(1, 1, 1), Tiles(1, 1, 1), "uint32", "constant")
    side_by_side = () if split > 1 else (Tm("vslice", taps), Tm("hstack", taps))
    return replace(
        main,
        kind="sparse_matmul",
        cycles_op="matmul_sparse",
        out=out,
        k=pixels,
        operands=(ones, image, index),
        users=(User("op", side_by_side),),
        encoding=found,
    )


def _sums(main: BalanceOp, count: int, bias: Sequence[Operand], first: int, name: str) -> list[Part]:
    """The parts that add the results of all groups of taps (or join them by op ``name``), then add the bias.
    ``first``: index of the first sum. Before the first sum there are two parts per group of taps: a sparse
    matmul and its reader."""
    parts = [
        Part(
            f"sum {i}",
            chain(main, name, main.out, [main.out, main.out]),
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
    """A convolution of each channel alone: products with the taps are elementwise, and their sum is formed in
    Dst."""
    bias = [view.operand(node, 2, main.out)] if has_bias(node) else []
    groups = g.groups(view.split)

    def product(group: Taps, users: tuple[User, ...], label: str, first: int) -> list[Part]:
        taps, more = len(group), bias if len(groups) == 1 else []
        weight = view.operand(node, 1, Tiles(1, taps, main.out.ct), source=Tiles(1, taps, main.out.ct))
        out = Tiles(main.out.z, taps * main.out.rt, -(-g.channels // _TILE))
        picked = _picked(main, g, group, out, view.split)
        left = Operand(main.out, picked.out, main.format, "op", picked.users[0].tms, sparse=True)
        dense = replace(
            main, kind="depthwise", cycles_op="depthwise", k=taps, operands=(left, weight, *more), users=users
        )
        return [
            Part(f"{label}sparse", picked, reads=_PICKS),
            Part(f"{label}depthwise", dense, True, (first, *_WEIGHT_AND_BIAS[: 1 + len(more)])),
        ]

    return _of_groups(groups, main, product, bias)


def _pool(view: View, node: NodeView) -> list[Part]:
    """A pool: a sparse matmul puts the pixels of each tap at a depth of their own, and the depth is
    reduced."""
    g = geometry(node, node.callee.attrs["kernel_shape"])
    main = result(view, node, "reduce", "reduce_z", [view.operand(node, 0)])
    out, groups = main.out, g.groups(view.split)

    def reduced(group: Taps, users: tuple[User, ...], label: str, first: int) -> list[Part]:
        taps = len(group)
        picked = _picked(main, g, group, Tiles(out.z, taps * out.rt, out.ct), view.split)
        tms = picked.users[0].tms[:1]
        left = Operand(Tiles(out.z * taps, out.rt, out.ct), picked.out, main.format, "op", tms, sparse=True)
        made = replace(main, operands=(left,), dim="z", k=taps, users=users)
        return [Part(f"{label}sparse", picked, reads=_PICKS), Part(f"{label}reduce z", made, True, (first,))]

    name = "maximum" if node.op is not None and node.op.startswith("max") else "add"
    return _of_groups(groups, main, reduced, name=name)


def _over_taps(view: View, node: NodeView) -> list[Part]:
    x, w = (t.shape for t in node.input_types[:2])
    return _gradient(view, node, x[1] * math.prod(w[2:]))


def _over_pixels(view: View, node: NodeView) -> list[Part]:
    grad = node.input_types[1].shape
    return _gradient(view, node, math.prod(grad) // grad[1])


def _gradient(view: View, node: NodeView, inner: int) -> list[Part]:
    """A gradient: a product over channels and taps, or over all pixels."""
    out, k = view.tiles(node.outputs[0]), max(1, math.ceil(inner / 32))
    shapes = Tiles(out.z, out.rt, k), Tiles(out.z, k, out.ct)
    operands = [view.operand(node, port, shape) for port, shape in enumerate(shapes)]
    if len(node.inputs) == 3:
        operands.append(view.operand(node, 2, out))
    return [Part("matmul", result(view, node, "matmul", "matmul", operands, k=k), True)]


def _volume_pool(view: View, node: NodeView) -> list[Part]:
    """A pool of volumes: the elements of each window are put along the depth, and the depth is reduced; the
    input is not treated as an image."""
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
