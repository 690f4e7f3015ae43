"""Sharded tensors: a tensor's rows and columns cut into equal shards, one a core, each in that core's L1.

The cut is tt-metal's. A tensor is seen as a matrix: the last dimension gives the columns, and the product of
all others the rows. For tiles, the last two dimensions are padded to multiples of 32 first. A height shard is
a band of rows, a width shard a band of columns, a block shard a rectangle. Shard k lies on the k-th core of a
rectangle of cores, counted along rows, or along columns for orientation "col". Block shard (i, j) lies on
core (i, j) of the rectangle, or on core (j, i) for "col"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import PlanError, did_you_mean

KINDS = ("height", "width", "block")
ORIENTATIONS = ("row", "col")
_TILE = 32
_WISH = re.compile(
    r"(?P<kind>[a-z_]+)(\[(?P<grid>(\d{1,4})x(\d{1,4}))?(@(\d{1,4})x(\d{1,4}))?"
    r"(:(?P<shape>(\d{1,9})x(\d{1,9})))?(:(?P<orientation>\w+))?\])?"
)


@dataclass(frozen=True, slots=True)
class Shard:
    """A cut of a matrix. ``grid``: the rectangle of cores, given by its first and its last core ((row,
    column), (row, column)); ``shape`` (rows, columns) of one shard in elements, multiples of 32 for tiles."""

    kind: str
    grid: tuple[tuple[int, int], tuple[int, int]]
    shape: tuple[int, int]
    orientation: str = "row"

    def __str__(self) -> str:
        (top, left), _ = self.grid
        lines, inner = self.extent
        at = f"@{top}x{left}" if top or left else ""
        turned = ":col" if self.orientation == "col" else ""
        return f"{self.kind}[{lines}x{inner}{at}:{self.shape[0]}x{self.shape[1]}{turned}]"

    @property
    def extent(self) -> tuple[int, int]:
        """(rows, columns) of the rectangle of cores."""
        (top, left), (bottom, right) = self.grid
        return bottom - top + 1, right - left + 1

    @property
    def cores(self) -> int:
        rows, cols = self.extent
        return rows * cols

    def count(self, rows: int, cols: int) -> tuple[int, int]:
        """(shards down, shards across) of a rows x cols matrix."""
        return -(-rows // self.shape[0]), -(-cols // self.shape[1])

    def walk(self, grid_cols: int) -> tuple[int, int, int, int]:
        """(first, line, outer, inner): bank of shard 0, number of shards in a line, step in banks from one
        line to the next, step in banks from one shard to the next. Shard k of a matrix is in bank first + k
        // line * outer + k % line * inner; a core's bank is its number in a grid of ``grid_cols`` columns. A
        block cut numbers its shards by whole lines.
        """
        (top, left), _ = self.grid
        rows, cols = self.extent
        first = top * grid_cols + left
        return (first, cols, grid_cols, 1) if self.orientation == "row" else (first, rows, 1, grid_cols)


def fault(shard: Shard, rows: int, cols: int, tiled: bool, grid: tuple[int, int]) -> str | None:
    """Text: why a rows x cols matrix cannot be cut as ``shard`` says on a device whose cores are a ``grid``
    (rows, columns); None if it can."""
    (top, left), (bottom, right) = shard.grid
    if not (0 <= top <= bottom < grid[0] and 0 <= left <= right < grid[1]):
        return (
            f"cores {top},{left} to {bottom},{right} are no rectangle of the {grid[0]}x{grid[1]} cores "
            f"(the corners are row,column from 0, both inside)"
        )
    if min(shard.shape) < 1 or not rows * cols:
        return "a shard has one element at least, and so has a tensor that is sharded"
    if tiled and (shard.shape[0] % _TILE or shard.shape[1] % _TILE):
        return f"a shard of tiles is a multiple of 32 down and across, not {shard.shape[0]}x{shard.shape[1]}"
    whole = {"height": (1, cols, "columns"), "width": (0, rows, "rows")}.get(shard.kind)
    if whole is not None and shard.shape[whole[0]] != whole[1]:
        return (
            f"a {shard.kind} shard has all {whole[1]} {whole[2]} of the matrix ({rows}x{cols} with its "
            f"padding), not {shard.shape[whole[0]]}"
        )
    down, across = shard.count(rows, cols)
    lines, inner = shard.extent if shard.orientation == "row" else shard.extent[::-1]
    if shard.kind == "block" and (down > lines or across > inner):
        return (
            f"{rows}x{cols} makes {down}x{across} shards of {shard.shape[0]}x{shard.shape[1]}, the "
            f"rectangle takes {lines}x{inner}: use larger shards or more cores"
        )
    if down * across > shard.cores:
        return (
            f"{rows}x{cols} makes {down * across} shards of {shard.shape[0]}x{shard.shape[1]} for "
            f"{shard.cores} cores: use larger shards or more cores"
        )
    return None


# **************** partly specified shards ****************


@dataclass(frozen=True, slots=True)
class ShardWish:
    """A partly specified Shard. ``extent``: rows and columns of cores, from the core ``corner`` on; None: all
    cores of the device. ``shape``: rows and columns of a shard; None: the smallest shard with which the cores
    hold the whole tensor."""

    kind: str
    extent: tuple[int, int] | None = None
    corner: tuple[int, int] = (0, 0)
    shape: tuple[int, int] | None = None
    orientation: str = "row"


def read_wish(text: str) -> ShardWish:
    """A ShardWish from its text: "height", "block[4x8]", "height[8x1@2x0:64x32]" or "block[4x8:64x64:col]".
    The parts are kind, rows x columns of cores, @ row x column of the first core, shard shape and
    orientation. Raises PlanError."""
    match = _WISH.fullmatch(text)
    if match is None:
        raise PlanError(
            f"cannot read sharding {text!r}: write height, width or block, then as much of "
            f"[ROWSxCOLS cores@ROWxCOL first core:ROWSxCOLS elements:row or col] as matters, as "
            f"in height[8x1:64x32]",
            got=text,
        )
    kind, orientation = match["kind"], match["orientation"] or "row"
    for value, known in ((kind, KINDS), (orientation, ORIENTATIONS)):
        if value not in known:
            said = f"sharding {text!r}: unknown {value!r}{did_you_mean(value, known)}"
            raise PlanError(said, got=value, wanted=list(known))

    def pair(at: int) -> tuple[int, int] | None:
        return (int(match[at]), int(match[at + 1])) if match[at] else None

    return ShardWish(kind, pair(4), pair(7) or (0, 0), pair(11), orientation)


def resolve(wish: ShardWish, rows: int, cols: int, tiled: bool, grid: tuple[int, int]) -> Shard:
    """The Shard of a rows x cols matrix. A shape that the wish leaves out becomes ceil(size / cores) in each
    direction that is cut, rounded up to whole tiles. The result is not checked: ``fault`` does that."""
    (top, left) = wish.corner
    lines, inner = wish.extent or (grid[0] - top, grid[1] - left)
    shape = wish.shape
    if shape is None:
        block = (lines, inner) if wish.orientation == "row" else (inner, lines)
        cuts = {"height": (lines * inner, 1), "width": (1, lines * inner), "block": block}
        down, across = cuts[wish.kind]
        shape = _part(rows, down, tiled), _part(cols, across, tiled)
    return Shard(wish.kind, ((top, left), (top + lines - 1, left + inner - 1)), shape, wish.orientation)


def _part(size: int, parts: int, tiled: bool) -> int:
    part = max(-(-size // max(parts, 1)), 1)
    return -(-part // _TILE) * _TILE if tiled else part
