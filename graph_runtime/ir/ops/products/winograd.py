"""Weights of 3 x 3 taps for Winograd's F(4 x 4, 3 x 3), and the rule for which convolutions it is faster.

A tile of 4 x 4 output pixels takes 36 products of transformed weights with a transformed image of 6 x 6
pixels: a quarter of the multiplications of its windows. The transforms evaluate polynomials at 0,
+-sqrt(1/2), +-sqrt(2) and infinity: a line d of six pixels becomes ENTER d, a line g of three taps becomes
TAPS g, and six products m become LEAVE m, a line of four pixels. Points in reciprocal pairs lose least
accuracy: the root mean squared error is at most twice that of a direct sum in float32; with the points 0,
+-1, +-2 it is four times that of a direct sum. (S. Winograd, Arithmetic Complexity of Computations, 1980; A.
Lavin and S. Gray, arXiv:1509.09308.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case
from ..registry import Case
from .packed import bundle_of, float32_body, grouped_panel_type, is_narrow, pack_grouped, unpack_grouped

TILE = 4  # output pixels along each side of a tile
_POINTS = TILE + 2
_PLACES = _POINTS**2
# GR_TILE_SLOTS, GR_TILE_ROOM and GR_TILE_SHARES of native/kernels/cpu/winograd.h
_SLOTS, _ROOM, _SHARES = 64, 448, 2
_LEAST = 16  # least number of an image's channels for which tiles are used
_PIXELS = 6  # least mean number of a tile's 16 pixels that are inside the result
_USES, _NEAR_BYTES = 8, 1 << 20  # least tiles that use a weight; bytes that stay in the L2 cache
_PAIRED_USES = 24  # _USES on a CPU that multiplies bf16 twice as fast as float32
_NEAR, _FAR = math.sqrt(0.5), math.sqrt(2)

TAPS = np.array(
    [
        [1, 0, 0],
        *([[-2 / 3, -sign * _NEAR * 2 / 3, -1 / 3] for sign in (1, -1)]),
        *([[1 / 6, sign * _FAR / 6, 1 / 3] for sign in (1, -1)]),
        [0, 0, 1],
    ]
)
ENTER = np.array(
    [
        [1, 0, -2.5, 0, 1, 0],
        *([[0, -sign * 2 * _NEAR, -2, sign * _NEAR, 1, 0] for sign in (1, -1)]),
        *([[0, -sign * _FAR / 2, -0.5, sign * _FAR, 1, 0] for sign in (1, -1)]),
        [0, 1, 0, -2.5, 0, 1],
    ]
)
LEAVE = np.array(
    [
        [1, 1, 1, 1, 1, 0],
        [0, _NEAR, -_NEAR, _FAR, -_FAR, 0],
        [0, 0.5, 0.5, 2, 2, 0],
        [0, _NEAR / 2, -_NEAR / 2, 2 * _FAR, -2 * _FAR, 1],
    ]
)


def winograd_type(o: int, channels: int, group: int) -> TensorType:
    """The type of a weight [o, channels, 3, 3] of ``group`` groups for tiles: panels (packed.py) of one tap
    for each of the 36 places of a tile."""
    panels, k, columns = grouped_panel_type(o, channels, 1, group).shape
    return TensorType("float32", (_PLACES * panels, k, columns))


def pack_winograd(w: np.ndarray, group: int) -> np.ndarray:
    """A weight [o, channels, 3, 3] of ``group`` groups, transformed and in panels; the type is
    winograd_type."""
    places = np.einsum("ip,ocpq,jq->ijoc", TAPS, w, TAPS, optimize=True).astype(w.dtype)
    places = places.reshape(_PLACES, *w.shape[:2], 1, 1)
    return np.concatenate([pack_grouped(place, group) for place in places])


def _convolution(x: np.ndarray, panels: np.ndarray, o: int, group: int, pads) -> np.ndarray:
    """The convolution [N,OH,OW,O] of an image [N,H,W,C] with a weight from pack_winograd."""
    (top, left, bottom, right), (n, h, w, _) = pads, x.shape
    out = h + top + bottom - 2, w + left + right - 2
    down, across = (-(-size // TILE) for size in out)
    room = [(0, 0), (top, down * TILE + 2 - h - top), (left, across * TILE + 2 - w - left), (0, 0)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, room), (_POINTS, _POINTS), axis=(1, 2))
    rows = np.einsum("ip,nyxcpq,jq->ijnyxc", ENTER, windows[:, ::TILE, ::TILE], ENTER, optimize=True)
    places = np.stack([unpack_grouped(place, o, group) for place in np.split(panels, _PLACES)])
    bundles = rows.shape[-1] // places.shape[-1]
    rows = rows.reshape(_PLACES, n, down, across, bundles, places.shape[-1])
    places = places.reshape(_PLACES, bundles, o // bundles, places.shape[-1])
    made = np.einsum("enyxbc,eboc->enyxbo", rows, places, optimize=True)
    made = made.reshape(_POINTS, _POINTS, n, down, across, o)
    pixels = np.einsum("pi,ijnyxo,qj->nypxqo", LEAVE, made, LEAVE, optimize=True)
    return pixels.reshape(n, down * TILE, across * TILE, o)[:, : out[0], : out[1]]


def by_tiles(arrays, attrs):
    """Op.reference of a conv2d with winograd: computes tile by tile, as the kernel does."""
    x, w, *bias = (rules.wide(a) for a in arrays)
    y = _convolution(x, w, attrs["packed"], attrs["group"], attrs["pads"])
    return [rules.narrow(y + bias[0] if bias else y, arrays[0].dtype.name)]


def check_winograd(o: int, channels: int, kernel: tuple[int, ...], attrs) -> None:
    """Raise GraphError unless tiles can compute a conv2d with ``channels`` channels per group."""
    if kernel != (3, 3) or {*attrs["strides"], *attrs["dilations"]} != {1}:
        text = "winograd takes 3 x 3 taps, strides and dilations of 1"
        rules.fail("conv2d", text, got=kernel, wanted=(3, 3))
    if channels == 1 and o == attrs["group"] > 1:
        rules.fail("conv2d", "winograd takes no groups of one channel", got=attrs["group"])


def _scratch(image: tuple[int, ...], o: int, group: int, made: tuple[int, ...]) -> int:
    """Host bytes for an image [N,H,W,C] and a result [N,OH,OW,O]: rows and products of the tiles that the
    tasks work on at a time, and the pixels of one tile for each task."""
    bundles = group // bundle_of(group, o // group)
    rows = -(-image[-1] // 16) * 16 + 16
    products = bundles * (-(-o // bundles // 16) * 16) + 16
    tiles = min(_SHARES * made[0] * math.prod(-(-size // TILE) for size in made[1:3]), _ROOM)
    return _PLACES * (tiles * (rows + products) + _SLOTS * rows) * 4


def winograd_pays(weight: tuple[int, ...], made: tuple[int, ...], attrs) -> bool:
    """Whether tiles make a convolution with weight [O,C/group,KH,KW] and result [N,O,OH,OW] faster.

    Tiles are not faster if there are few channels, because the transforms then take as long as the products;
    if the groups have kernels of their own (is_narrow); or if much of the tiles lies outside of the result.
    Nor are they faster if few tiles use the weight: in tiles it is four times as large as its taps, and it is
    read from memory in each run.
    """
    o, channels, *kernel = weight
    ones = {*attrs["strides"], *attrs["dilations"]}
    if kernel != [3, 3] or ones != {1} or is_narrow(o, channels, attrs["group"]):
        return False
    packed = winograd_type(o, channels, attrs["group"])
    tiles = made[0] * math.prod(-(-size // TILE) for size in made[2:])
    if packed.shape[1] < _LEAST or math.prod(made[2:]) * made[0] < _PIXELS * tiles:
        return False
    return tiles >= _USES or packed.nbytes <= _NEAR_BYTES


def windows_in_pairs(weight: tuple[int, ...], made: tuple[int, ...]) -> bool:
    """Whether, on a CPU that multiplies bf16, windows with a bf16 weight are faster than tiles. This is so if
    few tiles use the weight, which is eight times as large for tiles."""
    o, channels = weight[:2]
    tiles = made[0] * math.prod(-(-size // TILE) for size in made[2:])
    return tiles < _PAIRED_USES and winograd_type(o, channels, 1).nbytes > _NEAR_BYTES


WINOGRAD = float32_body(
    "conv2d_winograd",
    scratch=lambda i, o, a: _scratch(i[0].shape, a["packed"], a["group"], o[0].shape),
    accepts=lambda i, o, a: None if a["winograd"] else "it reads weights for Winograd's tiles (winograd)",
)


def winograd_cases(nmse: dict[str, float]) -> Iterator[Case]:
    """Cases of conv2d: odd sizes, overhanging tiles, channels that do not fill a vector, groups that share
    panels."""
    for name, x, o, group, pads in (
        ("winograd", (2, 9, 14, 16), 40, 1, (1, 1, 1, 1)),
        ("winograd_odd", (1, 3, 7, 5), 3, 1, (0, 2, 3, 0)),
        ("winograd_grouped", (1, 13, 8, 24), 48, 6, (1, 1, 1, 1)),
        ("winograd_empty", (0, 9, 9, 4), 5, 1, (0, 0, 0, 0)),
    ):
        w = winograd_type(o, x[3] // group, group)
        attrs = {"layout": "NHWC", "packed": o, "kernel_shape": (3, 3), "winograd": True}
        attrs |= {"group": group, "pads": pads}
        own = x, w.shape, (o,)
        yield case(name, *own, attrs, nmse=nmse)
        if x[0] and group == 1:  # a residual in registers, and further steps
            made = (x[0], x[1] + pads[0] + pads[2] - 2, x[2] + pads[1] + pads[3] - 2, o)
            for kind, steps in (
                ("residual", [["add", [3, -1], {}], ["relu", [-2], {}]]),
                ("epilogue", [["silu", [-1], {}], ["add", [-2, 3], {}]]),
            ):
                yield case(f"{name}_{kind}", *own, made, {**attrs, "epilogue": steps}, nmse=nmse)
