"""Matrix products: the blocks in which a program works, and the circular buffers that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...base.machine.layout import DRAM, TILE_DIM
from .buffers import BF16, F32, CardOperand, CardProgram, CircularBuffer, ceil_div, tile_bytes

__all__ = ["APART", "ProductBlocks", "Sums", "partials_format", "product", "simple_blocks"]


@dataclass(frozen=True, slots=True)
class Sums:
    """How partial sums are kept: ``wide`` in 32 bits in Dst; ``packed`` added up by the packer in L1."""

    wide: bool = False
    packed: bool = True


APART = Sums(packed=False)


@dataclass(frozen=True, slots=True)
class ProductBlocks:
    """A program of a product. ``kind``: "2d" (operands sent along rows and columns of cores), "1d a" (a sent
    to all cores), "1d b" (b sent to all), "reuse" (none sent), "plain" (tile by tile), "dram" (b in shards of
    DRAM). In tiles: ``inner`` of the depth at a time, ``rows`` x ``cols`` of the result a core, worked on in
    blocks of ``block_rows`` x ``block_cols`` (0: all)."""

    kind: str
    inner: int = 1
    rows: int = 1
    cols: int = 1
    block_rows: int = 0
    block_cols: int = 0
    fused_batch: bool = True
    batch_one: bool = False  # b has one matrix for all of a's
    storage_cols: int = 0  # "dram": of the result's shard

    @property
    def block(self) -> tuple[int, int]:
        return self.block_rows or self.rows, self.block_cols or self.cols


# whether the packer adds up in L1, by the number of blocks along the depth
_PACKS_FROM = {"2d": 3, "1d a": 2, "1d b": 3, "reuse": 3, "dram": 2}


def partials_format(kind: str, blocks: int, biased: bool, sums: Sums, result: str) -> str:
    """The format of partial sums between ``blocks`` blocks of the depth."""
    first = 2 if biased and kind in ("2d", "1d b") else _PACKS_FROM[kind]
    if sums.packed and blocks >= first:
        return F32 if sums.wide else BF16
    return F32 if sums.wide else result


def product(
    a: CardOperand,
    b: CardOperand,
    result: CardOperand,
    blocks: ProductBlocks,
    bias: str = "",
    sums: Sums | None = None,
    turned: bool = False,
    aligned: int = 32,
) -> CardProgram:
    """matmul/device/factory/*.cpp. ``bias``: its format, "" without; ``turned``: a is transposed;
    ``aligned``: bytes to which a read from DRAM must be (64 on Blackhole), which costs tiles of formats that
    are not a page of their own."""
    sums = sums or Sums()
    if blocks.kind == "plain":
        sizes = (("in a", a.tile), ("in b", b.tile), ("out", result.tile))
        return CardProgram.of("product plain", [CircularBuffer(name, 2, size) for name, size in sizes])
    depth = a.matrix[1] if not turned else _rows_of(a)
    count = max(1, depth // blocks.inner)
    made = partials_format(blocks.kind, count, bool(bias), sums, result.format)
    buffers = [_of_a(a, blocks, count, depth), _of_b(b, blocks, count), *_views(a, blocks)]
    buffers += _of_result(result, blocks, made)
    if bias:
        buffers.append(CircularBuffer("bias", blocks.block[1], tile_bytes(bias)))
    for x, name in ((a, "a"), (b, "b")):
        if aligned > 32 and x.tile % aligned and not x.sharded:
            buffers.append(CircularBuffer(f"unaligned {name}", 1, x.tile))
    if turned:
        buffers.append(replace(buffers[0], name="turned a", borrowed=False))
    return CardProgram.of(f"product {blocks.kind}", buffers)


def _rows_of(x: CardOperand) -> int:
    return x.matrix[0] // max(1, x.batch)


def _of_a(a: CardOperand, blocks: ProductBlocks, count: int, depth: int) -> CircularBuffer:
    """Two blocks of a, or a view of its shard."""
    rows, kind = blocks.block[0], blocks.kind
    pages, borrowed = rows * blocks.inner, False
    several = count > 1 or (a.batch > 1 and not blocks.fused_batch)
    if a.sharded and kind == "reuse":
        pages, borrowed = blocks.rows * depth, True
    elif a.sharded and kind == "1d b":
        borrowed = a.shard[1] // TILE_DIM // blocks.inner <= 1
        pages = count * blocks.rows * blocks.inner
    elif kind == "reuse":
        pages = min(blocks.rows, _rows_of(a)) * blocks.inner * 2
    elif several:
        pages *= 2
    borrowed |= kind == "2d" and a.scheme == "height"
    return CircularBuffer("in a", pages, a.tile, borrowed)


def _of_b(b: CardOperand, blocks: ProductBlocks, count: int) -> CircularBuffer:
    """Two blocks of b (three, from DRAM's shards), or a view of its shard."""
    cols, kind = blocks.block[1], blocks.kind
    pages, borrowed = cols * blocks.inner, False
    if kind == "dram":
        pages *= 3 if count > 1 else 1
    elif b.sharded and b.memory != DRAM:
        borrowed = True
        pages = blocks.cols * max(1, b.shard[0] // TILE_DIM)
    elif count > 1 or kind == "reuse" or (b.batch > 1 and not blocks.batch_one):
        pages *= 2
    return CircularBuffer("in b", pages, b.tile, borrowed)


def _views(a: CardOperand, blocks: ProductBlocks) -> Iterator[CircularBuffer]:
    """a's shard, from which blocks are sent, and what the sender remembers."""
    sends = a.sharded and (blocks.kind in ("1d a", "dram") or (blocks.kind == "2d" and a.scheme == "block"))
    if sends:
        yield CircularBuffer("shard of a", blocks.rows * (a.shard[1] // TILE_DIM), a.tile, borrowed=True)
        if blocks.kind != "dram":
            yield CircularBuffer("semaphores", 1, 64)


def _of_result(result: CardOperand, blocks: ProductBlocks, made: str) -> list[CircularBuffer]:
    """The result, or a view of its shard, and partial sums, which share its memory where they can."""
    rows, cols = blocks.block
    if blocks.kind == "dram":
        size = blocks.rows * blocks.cols
        found = [CircularBuffer("out", size, result.tile)]
        if made != result.format:
            found.append(CircularBuffer("partials", size, tile_bytes(made)))
        stored = blocks.rows * (blocks.storage_cols or blocks.cols)
        return [*found, CircularBuffer("shard of the result", stored, result.tile, borrowed=True)]
    pages = blocks.rows * blocks.cols if result.sharded or blocks.kind == "reuse" else rows * cols
    found = [CircularBuffer("out", pages, result.tile, borrowed=result.sharded and result.on_l1)]
    apart = result.sharded and blocks.kind != "reuse" and rows != blocks.rows
    if made != result.format or apart:
        size = blocks.rows * blocks.cols if blocks.kind == "reuse" else rows * cols
        found.append(CircularBuffer("partials", size, tile_bytes(made)))
    return found


# **************** which program ****************


@dataclass(frozen=True, slots=True)
class _Room:
    """What the search for blocks knows: bytes of L1 that are free, tile bytes of a, b, partials and bias."""

    free: int
    a: int
    b: int
    partials: int
    bias: int
    shard_cols: int = 0  # tiles across a's shard

    def fits(self, rows: int, cols: int, inner: int) -> bool:
        """matmul/device/utilities/matmul_utilities.cpp: an estimate of the buffers of such blocks."""
        taken = 2 * inner * (rows * self.a + cols * self.b) + rows * cols * (self.a + self.partials)
        return taken + rows * self.shard_cols * self.a + cols * self.bias < self.free

    def blocks(self, rows: int, cols: int, inner: int) -> tuple[int, int]:
        """The largest part of rows x cols that fits, nearest to a square."""
        if self.fits(rows, cols, inner):
            return rows, cols
        parts: dict[int, tuple[float, int, int]] = {}
        for r in _factors(rows):
            for c in _factors(cols):
                ratio = max(r, c) / min(r, c)
                if r * c not in parts or ratio <= parts[r * c][0]:
                    parts[r * c] = ratio, r, c
        for size in sorted(parts, reverse=True):
            _, r, c = parts[size]
            if self.fits(r, c, inner):
                return r, c
        return 1, 1

    def shallower(self, rows: int, cols: int, inner: int) -> tuple[int, int, int]:
        """The same, with a smaller part of the depth where nothing else fits."""
        for part in range(inner, 0, -1):
            if inner % part == 0 and (found := self.blocks(rows, cols, part)) and self.fits(*found, part):
                return *found, part
        return 1, 1, 1


def _factors(size: int) -> list[int]:
    return [size, 1, *(f for f in range(size // 2, 1, -1) if size % f == 0)]


def simple_blocks(
    a: CardOperand,
    b: CardOperand,
    result: CardOperand,
    grid: tuple[int, int],
    free: int,
    sums: Sums | None = None,
    bias: str = "",
    chosen: tuple[int, int] | None = None,
) -> ProductBlocks:
    """matmul/device/config/matmul_program_config.cpp: the program of a product without a configuration.
    ``grid`` (x, y) cores of the device, ``chosen`` those that the caller named; ``free`` bytes of a core's
    L1."""
    sums = sums or Sums()
    partials = tile_bytes(F32) if sums.wide else max(tile_bytes(BF16), result.tile)
    across = a.shard[1] // TILE_DIM if a.sharded else 0
    room = _Room(free, a.tile, b.tile, partials, tile_bytes(bias) if bias else 0, across)
    if b.batch > 1:
        return _batched(a, b, room)
    if a.sharded:
        return _of_shards(a, b, room)
    rows, depth, cols = a.matrix[0], a.matrix[1], b.matrix[1]
    if chosen is not None:
        narrow = max(rows, cols) // max(1, min(rows, cols)) > 8 or min(rows // a.batch, depth, cols) <= 1
        return _line(room, rows, depth, cols, chosen) if narrow else _grid(room, rows, depth, cols, chosen)
    return _interleaved(a, b, result, room, grid)


def _batched(a: CardOperand, b: CardOperand, room: _Room) -> ProductBlocks:
    rows, cols = a.matrix[0] // a.batch, b.matrix[1]
    if a.sharded:
        return ProductBlocks("reuse", max(1, a.shard[1] // TILE_DIM), max(1, a.shard[0] // TILE_DIM), cols)
    if room.fits(rows, cols, 1):
        return ProductBlocks("reuse", 1, rows, cols)
    return ProductBlocks("plain")


def _of_shards(a: CardOperand, b: CardOperand, room: _Room) -> ProductBlocks:
    """Of an a in shards: each core has the rows that it holds."""
    down, across = (max(1, size // TILE_DIM) for size in a.shard)
    (rows, depth), cols = a.matrix, b.matrix[1]
    if a.scheme == "width":
        each, inner = ceil_div(cols, a.cores[0] * a.cores[1]), _common(across, depth)
        return ProductBlocks("1d a", inner, rows, each, *room.blocks(rows, each, inner))
    if a.scheme == "height":
        return ProductBlocks("1d b", depth, down, cols, *room.blocks(down, cols, depth))
    each, inner = ceil_div(cols, a.cores[0] if a.turned else a.cores[1]), _common(across, depth)
    return ProductBlocks("2d", inner, down, each, *room.blocks(down, each, inner))


def _common(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _line(room: _Room, rows: int, depth: int, cols: int, grid: tuple[int, int]) -> ProductBlocks:
    """Bands of the result on a line of cores."""
    cores = grid[0] * grid[1]
    inner = ceil_div(depth, cores)
    while depth % inner:
        inner -= 1
    tall = rows > cols
    mine = (ceil_div(rows, cores), cols) if tall else (rows, ceil_div(cols, cores))
    return ProductBlocks("1d b" if tall else "1d a", inner, *mine, *room.blocks(*mine, inner))


def _grid(room: _Room, rows: int, depth: int, cols: int, grid: tuple[int, int]) -> ProductBlocks:
    """Blocks of the result on a grid of cores."""
    inner = next(part for part in (4, 3, 2, 1) if depth % part == 0)
    mine = ceil_div(rows, grid[1]), max(1, ceil_div(cols, grid[0]))
    return ProductBlocks("2d", inner, *mine, *room.blocks(*mine, inner))


def _interleaved(
    a: CardOperand, b: CardOperand, result: CardOperand, room: _Room, grid: tuple[int, int]
) -> ProductBlocks:
    """Of interleaved operands: by how narrow the result is, and whether all lies in DRAM."""
    rows, depth, cols = a.matrix[0] // a.batch, a.matrix[1], b.matrix[1]
    inner = 2
    part = next((size for size in (16, 8, 4, 2) if room.fits(size, size, inner)), 1)
    down, across = ceil_div(rows, part), ceil_div(cols, part)
    if (result.sharded or down > 1 or across > 1) and depth % inner:
        inner = 1
    in_dram = DRAM == a.memory == b.memory == result.memory and not result.sharded
    if not in_dram and (down * across > grid[0] * grid[1] or depth % inner):
        return ProductBlocks("plain")
    narrow = max(rows, cols) // max(1, min(rows, cols)) > 8 or (in_dram and min(rows, cols) <= 1)
    fits = not down == across == 1 and down <= grid[1] and across <= grid[0]
    wide, tall = narrow and cols > rows, narrow and cols <= rows
    if result.sharded:
        wide, tall = (not fits and result.scheme == "width"), (not fits and result.scheme == "height")
    if wide or (fits and down == 1):
        return _interleaved_line(room, rows, depth, cols, grid, tall=False)
    if tall or (fits and across == 1):
        return _interleaved_line(room, rows, depth, cols, grid, tall=True)
    if in_dram:
        each = ceil_div(rows, grid[1]), ceil_div(cols, grid[0])
        inner = depth // grid[0] if depth % grid[0] == 0 else 1
        down, across, inner = room.shallower(*each, inner)
        return ProductBlocks("2d", inner, *each, down, across, fused_batch=False)
    if fits or result.scheme == "block":
        return ProductBlocks("2d", inner, part, part, fused_batch=False)
    return ProductBlocks("plain")


def _interleaved_line(
    room: _Room, rows: int, depth: int, cols: int, grid: tuple[int, int], tall: bool
) -> ProductBlocks:
    cores, inner = grid[0] * grid[1], 2 if depth % 2 == 0 else 1
    mine = (ceil_div(rows, cores), cols) if tall else (rows, ceil_div(cols, cores))
    kind = "1d b" if tall else "1d a"
    return ProductBlocks(kind, inner, *mine, *room.blocks(*mine, inner), fused_batch=False)
