"""L1 buffers of one core: output, parameters and intermediates first, inputs in the remaining space.

An input buffer holds two pieces of the size that the kernel takes at a time, so that one piece is filled
while the other is used. ``inner``: pair (m_k, u_kt), the cut of the inner dimension.
"""

from __future__ import annotations

import math
from functools import cache

from .chip import DST_BYTES, Chip
from .grid import Grid, Stream
from .op import BalanceOp, Operand
from .types import BlockShape, L1Buffer


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Divisors of n, ascending."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(dict.fromkeys((*low, *(n // d for d in reversed(low)))))


def largest_divisor(n: int, most: int) -> int:
    """The largest divisor of n that is at most ``most``; 1 if ``most`` is below 1."""
    return max((d for d in divisors(n) if d <= most), default=1)


def divides(a: int, b: int) -> bool:
    """Whether one of two positive integers divides the other."""
    return a % b == 0 or b % a == 0


def dst_tiles(op: BalanceOp) -> int:
    """Tiles of the half of Dst that math fills while the packer empties the other."""
    return DST_BYTES // 2 // (32 * 32 * op.dst_bits // 8)


@cache
def _ublock(rows: int, cols: int, most: int, most_rows: int) -> tuple[int, int]:
    """The ublock with the most tiles, at most ``most``, whose sides divide the largest divisors of ``rows``
    (at most ``most_rows``) and ``cols`` (at most ``most``). Of equally large ublocks the widest is taken, so
    that consecutive ops tend to have equal ublocks."""
    tall, wide = largest_divisor(rows, most_rows), largest_divisor(cols, most)
    fitting = [(r, c) for r in divisors(tall) for c in divisors(wide) if r * c <= most]
    return max(fitting, key=lambda rc: (rc[0] * rc[1], rc[1]))


def rows_each(op: BalanceOp, grid: Grid, stream: Stream) -> int:
    """Rows of output tiles in each block that one core makes."""
    return op.out.rt // (grid.r * stream.r)


def block_shape(op: BalanceOp, grid: Grid, stream: Stream, dst: int) -> BlockShape:
    """The output block of one core. The cores times the pieces in time must divide the output evenly; the
    enumeration ensures this."""
    rows, cols = rows_each(op, grid, stream), op.out.ct // (grid.c * stream.c)
    cut_rows, cut_cols = rows, cols
    if op.kind == "splice":  # a ublock may not straddle the border of two joined tensors
        cut_rows = math.gcd(rows, *(o.shape.rt for o in op.operands), *_edges(op, "r"))
        cut_cols = math.gcd(cols, *(o.shape.ct for o in op.operands), *_edges(op, "c"))
    if op.encoding is not None and stream.z_major:
        cut_rows = rows // op.encoding.taps  # a ublock stays within one tap
    rt, ct = _ublock(cut_rows, cut_cols, dst, 1 if op.kind == "embedding" else dst)
    return BlockShape(op.out.z * stream.pieces, (rows // rt, cols // ct), (rt, ct))


def _edges(op: BalanceOp, dim: str) -> tuple[int, ...]:
    """Positions of the joined tensors' borders, if they are joined along that dimension."""
    return op.splice_edges if op.dim == dim else ()


_TWICE = 2
_SPARSE_TILE_BYTES = 352  # bytes of a tile of zeros and ones, stored as Bfp2
_WORD = 4

Inner = tuple[int, int]


def output_buffer(op: BalanceOp, block: BlockShape, stack: int, chip: Chip) -> L1Buffer:
    """The output buffer of one core: two macro blocks, times the number of macro blocks that a user stacks. A
    gradient accumulates in a single block."""
    factor = 1 if op.gradient else _TWICE * stack
    return L1Buffer(-1, block, factor, op.format, chip.tile_bytes(op.format))


def intermediate(op: BalanceOp, block: BlockShape, m_k: int, chip: Chip) -> tuple[L1Buffer, ...]:
    """Buffer of partial sums between K blocks: the output buffer itself if formats are equal, else one
    block."""
    wide = "f32" if op.dst_bits == 32 else op.format
    if m_k == 1 or not op.is_matmul or wide == op.format:
        return ()
    return (L1Buffer(-1, block, 1, wide, chip.tile_bytes(wide)),)


def parameter_buffer(op: BalanceOp, port: int, grid: Grid, chip: Chip) -> L1Buffer:
    """A weight held in L1 in its stored order, in equal shares over the op's cores."""
    operand = op.operands[port]
    if op.encoding is not None and port == 0:
        tiles = BlockShape(1, (1, 1), (1, op.encoding.distinct))
        return L1Buffer(port, tiles, 1, operand.format, _SPARSE_TILE_BYTES)
    return _spread(operand, operand.source_shape, port, grid, chip)


def unrolled_parameter(op: BalanceOp, port: int, grid: Grid, chip: Chip) -> L1Buffer:
    """A weight held in L1 in the kernel's reading order, which needs no input buffer."""
    read_by = grid
    if op.is_matmul:
        read_by = Grid(grid.r, 1) if port == 0 else Grid(1, grid.c)
    return _spread(op.operands[port], op.operands[port].shape, port, read_by, chip)


def _spread(operand: Operand, shape, port: int, grid: Grid, chip: Chip) -> L1Buffer:
    rows = shape.rt // largest_divisor(shape.rt, grid.r)
    cols = shape.ct // largest_divisor(shape.ct, grid.c)
    return L1Buffer(
        port, BlockShape(shape.z, (rows, cols), (1, 1)), 1, operand.format, chip.tile_bytes(operand.format)
    )


def broadcast_unit(op: BalanceOp, port: int, stream: Stream, block: BlockShape) -> int:
    """Tiles after which the reads of a broadcast operand repeat; 0 if the reads do not repeat, or if the
    kernel does not use the repetition."""
    operand = op.operands[port]
    dims = {tm.dim for tm in operand.tms if tm.kind == "broadcast"}
    if not dims or operand.source == "op" or operand.source_shape.z > 1 or op.kind in ("reduce", "embedding"):
        return 0
    if math.prod(operand.source_shape) == 1:
        return 1
    if "r" not in dims or "c" in dims:
        return 0  # no two rows of ublocks read the same tiles
    return block.mblock[1] * block.ublock[1] * block.ublock[0] * stream.c


def input_buffers(
    op: BalanceOp, grid: Grid, stream: Stream, block: BlockShape, space: int, u_kt: int | None, chip: Chip
) -> tuple[tuple[L1Buffer, ...], Inner]:
    """The input buffers that make best use of ``space`` bytes, and their cut of the inner dimension. If even
    the smallest buffers do not fit, the result is the smallest buffers. ``u_kt``: the most tiles of the inner
    dimension that are taken at a time; None: all tiles."""
    make = {
        "matmul": _matmul,
        "sparse_matmul": _sparse,
        "depthwise": _depthwise,
        "reduce": _reduce,
        "embedding": _embedding,
    }.get(op.kind, _eltwise)
    return make(op, grid, stream, block, space, u_kt, chip)


def _piece(
    op: BalanceOp,
    port: int,
    t: int,
    mblock: tuple[int, int],
    ublock: tuple[int, int],
    chip: Chip,
    minimized: bool = False,
) -> L1Buffer:
    fmt = op.operands[port].format
    return L1Buffer(port, BlockShape(t, mblock, ublock), _TWICE, fmt, chip.tile_bytes(fmt), minimized)


def _bias(op: BalanceOp, block: BlockShape, chip: Chip) -> tuple[L1Buffer, ...]:
    return (_piece(op, 2, block.t, (1, 1), block.ublock, chip),) if len(op.operands) > 2 else ()


def _matmul(op, grid, stream, block, space, u_kt, chip):
    """Buffers of one row of ublocks of the left operand and of all columns of a block of the right operand,
    u_kt tiles deep."""
    (rt, ct), columns = block.ublock, block.mblock[1]
    bias = _bias(op, block, chip)
    bias_bytes = sum(b.bytes for b in bias)
    if bias_bytes <= space:
        space -= bias_bytes
    left, right = (chip.tile_bytes(o.format) for o in op.operands[:2])
    deep = largest_divisor(min(op.k, u_kt or op.k), space // (_TWICE * (left * rt + right * columns * ct)))
    return (
        (
            _piece(op, 0, block.t, (1, 1), (rt, deep), chip, minimized=block.mblock[0] > 1),
            _piece(op, 1, block.t, (1, columns), (deep, ct), chip),
            *bias,
        ),
        (op.k // deep, deep),
    )


def _depthwise(op, grid, stream, block, space, u_kt, chip):
    (rt, ct), columns = block.ublock, block.mblock[1]
    return (
        (
            _piece(op, 0, block.t, (1, 1), (rt, ct), chip, minimized=block.mblock[0] > 1),
            _piece(op, 1, block.t, (1, columns), (1, ct), chip),
            *_bias(op, block, chip),
        ),
        (op.k, 1),
    )


def _sparse(op, grid, stream, block, space, u_kt, chip):
    """Buffers of the whole encoding, and of all columns of a block of the dense operand, u_kt tiles deep. The
    nonzero tiles themselves are parameters."""
    (rt, ct), columns = block.ublock, block.mblock[1]
    tile = chip.tile_bytes(op.operands[1].format)
    words = BlockShape(1, (1, 1), (1, -(-op.encoding.index_bytes(grid, stream, rt) // (_WORD * 1024))))
    index = L1Buffer(2, words, 1, "uint32", chip.tile_bytes("uint32"))
    most = min(op.k, u_kt or op.k, op.encoding.most_deep(rt))
    deep = largest_divisor(op.k, min(most, (space - index.bytes) // (_TWICE * tile * columns * ct)))
    return (_piece(op, 1, block.t, (1, columns), (deep, ct), chip), index), (op.k // deep, deep)


def _reduce(op, grid, stream, block, space, u_kt, chip):
    if op.dim == "z":
        return _eltwise(op, grid, stream, block, space, u_kt, chip)
    rt, ct = block.ublock
    kept = ct if op.dim == "r" else rt
    deep = largest_divisor(op.k, space // (_TWICE * kept * chip.tile_bytes(op.operands[0].format)))
    ublock = (deep, ct) if op.dim == "r" else (rt, deep)
    return (_piece(op, 0, block.t, (1, 1), ublock, chip),), (op.k // deep, deep)


def _embedding(op, grid, stream, block, space, u_kt, chip):
    """Buffers of a row of the table and of a tile of indices."""
    return (
        _piece(op, 0, block.t, (1, 1), (1, block.ublock[1]), chip),
        _piece(op, 1, block.t, (1, 1), (1, 1), chip),
    ), (1, 1)


def _eltwise(op, grid, stream, block, space, u_kt, chip):
    return tuple(_piece(op, i, block.t, (1, 1), block.ublock, chip) for i in range(len(op.operands))), (1, 1)
