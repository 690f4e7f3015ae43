"""L1 buffers of one core: output, parameters, intermediates, and inputs in what is left.

An input buffer holds two of the pieces that the kernel takes at a time, so that one is filled while the other
is used. ``inner``: how the inner dimension is cut, (m_k, u_kt).
"""

from __future__ import annotations

import math

from .block_shapes import largest_divisor
from .chip import Chip
from .grid import Grid, Stream
from .op import BalanceOp, Operand
from .types import BlockShape, L1Buffer

__all__ = [
    "broadcast_unit",
    "input_buffers",
    "intermediate",
    "output_buffer",
    "parameter_buffer",
    "unrolled_parameter",
]

_TWICE = 2
_SPARSE_TILE_BYTES = 352  # a tile of zeros and ones, as Bfp2
_WORD = 4

Inner = tuple[int, int]


def output_buffer(op: BalanceOp, block: BlockShape, stack: int, chip: Chip) -> L1Buffer:
    """Two macro blocks, times what a user stacks; a gradient accumulates in one."""
    factor = 1 if op.gradient else _TWICE * stack
    return L1Buffer(-1, block, factor, op.format, chip.tile_bytes(op.format))


def intermediate(op: BalanceOp, block: BlockShape, m_k: int, chip: Chip) -> tuple[L1Buffer, ...]:
    """Where partial sums spill between K blocks: the output's buffer if formats are equal, else one block of
    its own."""
    wide = "f32" if op.dst_bits == 32 else op.format
    if m_k == 1 or not op.is_matmul or wide == op.format:
        return ()
    return (L1Buffer(-1, block, 1, wide, chip.tile_bytes(wide)),)


def parameter_buffer(op: BalanceOp, port: int, grid: Grid, chip: Chip) -> L1Buffer:
    """A weight held in L1 as it was made, in equal shares over the op's cores."""
    operand = op.operands[port]
    if op.encoding is not None and port == 0:
        tiles = BlockShape(1, (1, 1), (1, op.encoding.distinct))
        return L1Buffer(port, tiles, 1, operand.format, _SPARSE_TILE_BYTES)
    return _spread(operand, operand.source_shape, port, grid, chip)


def unrolled_parameter(op: BalanceOp, port: int, grid: Grid, chip: Chip) -> L1Buffer:
    """A weight held in L1 in the order in which the kernel reads it: no input buffer is needed beside it."""
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
    """Tiles after which the reading of a broadcast operand repeats; 0 where it does not or is not used
    so."""
    operand = op.operands[port]
    dims = {tm.dim for tm in operand.tms if tm.kind == "broadcast"}
    if not dims or operand.source == "op" or operand.source_shape.z > 1 or op.kind in ("reduce", "embedding"):
        return 0
    if math.prod(operand.source_shape) == 1:
        return 1
    if "r" not in dims or "c" in dims:
        return 0  # no two rows of ublocks read the same tiles
    return block.mblock[1] * block.ublock[1] * block.ublock[0] * stream.c


# **************** inputs ****************


def input_buffers(
    op: BalanceOp, grid: Grid, stream: Stream, block: BlockShape, space: int, u_kt: int | None, chip: Chip
) -> tuple[tuple[L1Buffer, ...], Inner]:
    """Input buffers that make the most of ``space`` bytes, and how they cut the inner dimension. The smallest
    ones, where even those do not fit. ``u_kt``: the most tiles of the inner dimension at a time, None: all.
    """
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
    """Of the left operand one row of ublocks, of the right one all columns of the block, u_kt tiles deep."""
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
    """The encoding whole, of the dense operand all columns of the block, u_kt tiles deep. The nonzero tiles
    themselves are parameters."""
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
    """A row of the table, and a tile of indices."""
    return (
        _piece(op, 0, block.t, (1, 1), (1, block.ublock[1]), chip),
        _piece(op, 1, block.t, (1, 1), (1, 1), chip),
    ), (1, 1)


def _eltwise(op, grid, stream, block, space, u_kt, chip):
    return tuple(_piece(op, i, block.t, (1, 1), block.ublock, chip) for i in range(len(op.operands))), (1, 1)
