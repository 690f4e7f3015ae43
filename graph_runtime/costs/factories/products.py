"""Matrix products: the blocks in which a card program works, and the resulting circular buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...base.machine.layout import DRAM, TILE_DIM
from .buffers import BF16, F32, CardOperand, CardProgram, CircularBuffer, ceil_div, tile_bytes


@dataclass(frozen=True, slots=True)
class Sums:
    """Storage of partial sums. ``wide``: whether Dst has 32 bits; ``packed``: whether the packer adds them up
    in L1."""

    wide: bool = False
    packed: bool = True


APART = Sums(packed=False)


@dataclass(frozen=True, slots=True)
class ProductBlocks:
    """The blocks of a product's card program. ``kind``: "2d" (operands are sent along rows and columns of
    cores), "1d a" (a is sent to all cores), "1d b" (b is sent to all cores), "reuse" (neither operand is
    sent), "plain" (tile by tile), "dram" (b is in shards in DRAM). Sizes are in tiles. ``inner``: part of the
    depth that is multiplied at a time. ``rows`` x ``cols``: result of one core, computed in blocks of
    ``block_rows`` x ``block_cols`` (0: in one block)."""

    kind: str
    inner: int = 1
    rows: int = 1
    cols: int = 1
    block_rows: int = 0
    block_cols: int = 0
    fused_batch: bool = True
    batch_one: bool = False  # whether b has one matrix for all of a's matrices
    storage_cols: int = 0  # number of columns of the result's shard if ``kind`` is "dram"

    @property
    def block(self) -> tuple[int, int]:
        return self.block_rows or self.rows, self.block_cols or self.cols


# number of blocks along the depth from which on the packer adds up partial sums in L1
_PACKS_FROM = {"2d": 3, "1d a": 2, "1d b": 3, "reuse": 3, "dram": 2}


def partials_format(kind: str, blocks: int, biased: bool, sums: Sums, result: str) -> str:
    """The format of partial sums. ``blocks``: number of blocks along the depth; ``result``: the result's
    format."""
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
    """Buffers of matmul/device/factory/*.cpp. ``bias``: format of the bias; "" if there is none. ``turned``:
    whether a is transposed. ``aligned``: alignment in bytes of reads from DRAM (64 on Blackhole); tiles whose
    size is not a multiple of it need extra room."""
    sums = sums or Sums()
    if blocks.kind == "plain":
        sizes = (("in a", a.tile), ("in b", b.tile), ("out", result.tile))
        return CardProgram.of("product plain", [CircularBuffer(name, 2, size) for name, size in sizes])
    depth = a.matrix[1] if not turned else _rows_of(a)
    count = max(1, depth // blocks.inner)
    made = partials_format(blocks.kind, count, bool(bias), sums, result.format)
    several = blocks.kind == "2d" and a.batch > 1 and not blocks.fused_batch
    buffers = [_of_a(a, blocks, count, depth), _of_b(b, blocks, count, several), *_views(a, blocks)]
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
    """Buffer of operand a: two blocks, or a view of its shard."""
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


def _of_b(b: CardOperand, blocks: ProductBlocks, count: int, several: bool) -> CircularBuffer:
    """Buffer of operand b, of which ``several`` matrices of a may need several: two blocks (three if they
    come from shards in DRAM), or a view of its shard."""
    cols, kind = blocks.block[1], blocks.kind
    pages, borrowed = cols * blocks.inner, False
    if kind == "dram":
        pages *= 3 if count > 1 else 1
    elif b.sharded and b.memory != DRAM:
        borrowed = True
        pages = blocks.cols * max(1, b.shard[0] // TILE_DIM)
    elif count > 1 or several or kind == "reuse" or (b.batch > 1 and not blocks.batch_one):
        pages *= 2
    return CircularBuffer("in b", pages, b.tile, borrowed)


def _sends(a: CardOperand, blocks: ProductBlocks) -> bool:
    """Whether blocks of a sharded a are sent to other cores."""
    return a.sharded and (blocks.kind in ("1d a", "dram") or (blocks.kind == "2d" and a.scheme == "block"))


def idle_senders(a: CardOperand, result: CardOperand, blocks: ProductBlocks) -> bool:
    """Whether cores that hold a part of a compute no part of the result. ttnn 0.81.1 opens the buffer of a
    twice then, for these cores and for the others."""
    down, across = a.cores[::-1] if a.turned else a.cores
    cores = across if blocks.kind == "2d" else down * across
    return _sends(a, blocks) and ceil_div(result.matrix[1], blocks.cols) < cores


def _views(a: CardOperand, blocks: ProductBlocks) -> Iterator[CircularBuffer]:
    """If blocks of a sharded a are sent to other cores, the view of its shard."""
    if _sends(a, blocks):
        yield CircularBuffer("shard of a", blocks.rows * (a.shard[1] // TILE_DIM), a.tile, borrowed=True)


def _of_result(result: CardOperand, blocks: ProductBlocks, made: str) -> list[CircularBuffer]:
    """Buffers of the result (a view, if it is sharded) and of partial sums, unless these share the result's
    memory. ``made``: the format of partial sums."""
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


def added_row(x: CardOperand, row: CardOperand, result: CardOperand) -> CardProgram:
    """Buffers of eltwise/binary_ng/device/binary_ng_program_factory.cpp for a second operand of one row,
    which is spread over the rows of tiles: two tiles of each tensor, and of the spread row."""
    sizes = (("in", x.tile), ("row", row.tile), ("rows", row.tile), ("out", result.tile))
    return CardProgram.of("sum with a row", [CircularBuffer(name, 2, size) for name, size in sizes])


# **************** which card program ****************


@dataclass(frozen=True, slots=True)
class _Room:
    """Inputs of the search for blocks: free bytes of L1, and bytes of a tile of a, of b, of the partial sums
    and of the bias."""

    free: int
    a: int
    b: int
    partials: int
    bias: int
    shard_cols: int = 0  # number of tiles across a's shard

    def fits(self, rows: int, cols: int, inner: int) -> bool:
        """Whether blocks of this size, in tiles, fit by an estimate of their buffers
        (matmul/device/utilities/matmul_utilities.cpp)."""
        taken = 2 * inner * (rows * self.a + cols * self.b) + rows * cols * (self.a + self.partials)
        return taken + rows * self.shard_cols * self.a + cols * self.bias < self.free

    def blocks(self, rows: int, cols: int, inner: int) -> tuple[int, int]:
        """(rows, columns) of the largest block that fits and divides rows x cols; of equally large blocks,
        the block nearest to a square."""
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
        """(rows, columns, depth) of the block that blocks() gives; if no block fits, the depth is made
        smaller until one fits."""
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
    """Blocks of the card program that ttnn chooses (matmul/device/config/matmul_program_config.cpp) if the
    caller gives no configuration. ``grid``: (x, y) cores of the device; ``chosen``: (x, y) cores that the
    caller gave. ``free``: free bytes of a core's L1."""
    sums = sums or Sums()
    partials = tile_bytes(F32) if sums.wide else max(tile_bytes(BF16), result.tile)
    across = a.shard[1] // TILE_DIM if a.sharded else 0
    room = _Room(free, a.tile, b.tile, partials, tile_bytes(bias) if bias else 0, across)
    if b.batch > 1 and a.sharded:
        return ProductBlocks(
            "reuse", max(1, a.shard[1] // TILE_DIM), max(1, a.shard[0] // TILE_DIM), b.matrix[1]
        )
    if a.sharded:
        return _of_shards(a, b, room)
    rows, depth, cols = a.matrix[0], a.matrix[1], b.matrix[1]
    if chosen is not None:
        narrow = max(rows, cols) // max(1, min(rows, cols)) > 8 or min(rows // a.batch, depth, cols) <= 1
        return _line(room, rows, depth, cols, chosen) if narrow else _grid(room, rows, depth, cols, chosen)
    return _interleaved(a, b, result, room, grid)


def _of_shards(a: CardOperand, b: CardOperand, room: _Room) -> ProductBlocks:
    """Blocks for a sharded a: each core computes the rows that it holds."""
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
    """Blocks for a line of cores, each of which computes a band of the result."""
    cores = grid[0] * grid[1]
    inner = ceil_div(depth, cores)
    while depth % inner:
        inner -= 1
    tall = rows > cols
    mine = (ceil_div(rows, cores), cols) if tall else (rows, ceil_div(cols, cores))
    return ProductBlocks("1d b" if tall else "1d a", inner, *mine, *room.blocks(*mine, inner))


def _grid(room: _Room, rows: int, depth: int, cols: int, grid: tuple[int, int]) -> ProductBlocks:
    """Blocks for a grid of cores, each of which computes a rectangle of the result."""
    inner = next(part for part in (4, 3, 2, 1) if depth % part == 0)
    mine = ceil_div(rows, grid[1]), max(1, ceil_div(cols, grid[0]))
    return ProductBlocks("2d", inner, *mine, *room.blocks(*mine, inner))


def _interleaved(
    a: CardOperand, b: CardOperand, result: CardOperand, room: _Room, grid: tuple[int, int]
) -> ProductBlocks:
    """Blocks for interleaved operands; they depend on how narrow the result is, and on whether all tensors
    are in DRAM."""
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
    fits = not in_dram and not down == across == 1 and down <= grid[1] and across <= grid[0]
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
