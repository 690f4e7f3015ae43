"""Reductions and running sums. Sizes are those that ttnn 0.81.1 opens; its factories differ in places from
the files that are named here."""

from __future__ import annotations

from ...base.dtypes import FORMATS
from ...base.machine.layout import TILE_DIM
from .buffers import BF16, F32, CardOperand, CardProgram, ceil_div, round_up, tile_bytes, tiles
from .movement.steps import opened


def is_integer(format: str) -> bool:
    """Whether a format holds integers."""
    return format[0] in "ui"


def reduced(
    x: CardOperand, result: CardOperand, across: bool = True, cores: int = 64, wide: bool = True
) -> CardProgram:
    """Buffers of reduction/generic/device/reduce_op_multi_core_{w,h}_program_factory.cpp: two tiles each of
    operand and result, and a tile of the factor. The operand has two blocks if a core has enough for a
    block, which is 4 tiles of a row (``across``), or as many columns as Dst holds tiles. ``wide``: whether
    Dst has 32 bits; ``cores``: number of cores that share the columns."""
    row = tiles(x.shape[-1] if x.shape else 1)
    block = 4 if across or wide else 8
    enough = row if across else x.batch * row // min(cores, x.batch * row)
    return opened(
        "reduction",
        ("in", 2 * block if enough >= block else 2, x.tile),
        ("scaler", 1, tile_bytes(F32 if x.format == F32 else BF16)),
        ("out", 2, result.tile),
    )


_MOST_TILED = 8  # tiles that a core lays out at a time


def reduced_rows(x: CardOperand, result: CardOperand, across: bool = True) -> CardProgram:
    """Buffers of ttnn 0.81.1's reductions of tensors in rows, which a core lays out in tiles: up to eight
    tiles along the reduced dimension, twice that in rows if it is the last one; and a tile of the
    result."""
    length = tiles((1, *x.shape)[-1 if across else -2])
    part = min(length, _MOST_TILED)
    return opened(
        "reduction of rows",
        ("rows", 2 * part if across else 2, x.tile),
        ("scaler", 1, tile_bytes(F32 if x.format == F32 else BF16)),
        ("tile", 1, x.tile),
        ("tiles", max(2, part), x.tile),
        ("sums", 1, x.tile),
        ("out", 2, result.tile),
    )


_MOST_PLANES = 8


def summed_planes(x: CardOperand, result: CardOperand, count: int) -> CardProgram:
    """Buffers of experimental/reduction/fast_reduce_nc/device/fast_reduce_nc_program_factory.cpp, which
    adds up ``count`` planes: as many planes at a time as divide their number, at most 8."""
    part = next(size for size in range(_MOST_PLANES, 0, -1) if count % size == 0)
    return opened(
        "sum of planes",
        ("in", 2 * part, x.tile),
        ("zero", 1, tile_bytes(BF16)),
        ("out", 2, result.tile),
    )


def varied(x: CardOperand, result: CardOperand, both: bool) -> CardProgram:
    """Buffers of reduction/generic/device/welford_reduce_program_factory.cpp, which computes a variance in
    one pass: eight tiles of the operand and two of the result; if ``both`` rows and columns are reduced,
    also four tiles of means and variances and a tile of counts, all in 32 bits."""
    wide = tile_bytes(F32)
    return opened(
        "variance",
        ("in", 8, x.tile),
        ("out", 2, result.tile),
        ("moments", 4 if both else 0, wide),
        ("counts", 1 if both else 0, wide),
    )


def accumulated(x: CardOperand, result: CardOperand, within: bool = False) -> CardProgram:
    """Buffers of reduction/accumulation/device/accumulation_program_factory.cpp: four tiles each of operand
    and result, and a tile of the running value, which Float32 keeps twice. ``within``: whether the values
    run inside tiles, in Dst alone."""
    format = result.format if is_integer(result.format) else F32
    kept = 0 if within else 2 if result.format == F32 else 1
    return opened(
        "running values", ("in", 4, x.tile), ("out", 4, result.tile), ("running", kept, tile_bytes(format))
    )


_LINE = 32  # bytes to which buffers of a few elements are rounded up


def greatest_index(x: CardOperand, line: int) -> CardProgram:
    """Buffers of reduction/argmax/device/argmax_single_core_program_factory.cpp for tiles: a tile, and a line
    of ``line`` indices."""
    return opened("argmax", ("in", 1, x.tile), ("indices", 1, 4 * line))


def greatest_index_of_rows(x: CardOperand, cores: int, aligned: int) -> CardProgram:
    """Buffers of reduction/argmax/device/argmax_multi_core_program_factory.cpp for one index a row: each
    core's part of a row, the result, and the value and the index that each core found. ``aligned``:
    alignment in bytes of reads from the operand's memory."""
    unit = aligned // 2  # elements
    parts = ceil_div(x.shape[-1], unit)
    used = min(parts, cores)
    shares = {ceil_div(parts, used), parts // used}  # parts of a core of each of two groups
    sizes = [("part", 1, round_up(share * unit * x.element, _LINE)) for share in shares]
    found = (("out", 1, _LINE), ("indices", used, _LINE), ("values", used, _LINE))
    return opened("argmax of rows", *sizes, *found)


def greatest_plane(x: CardOperand) -> CardProgram:
    """Buffers of ttnn 0.81.1's card program that finds the index of the greatest value along a dimension
    before the last two: two tiles each of values and of indices."""
    return opened("argmax of planes", ("in", 2, x.tile), ("indices", 2, 4 * TILE_DIM * TILE_DIM))


_LONG_INDEX = 1 << 16  # length of a row from which on indices have 32 bits


def greatest(x: CardOperand, k: int) -> CardProgram:
    """Buffers of reduction/topk/device/topk_single_core_program_factory.cpp: values and indices of two tiles,
    of four tiles transposed, of two results and of one."""
    long = x.format == F32 or x.shape[-1] >= _LONG_INDEX
    index, kept = TILE_DIM * TILE_DIM * (4 if long else 2), tiles(k)
    middle = x.tile if FORMATS[x.format].dtype else tile_bytes(BF16)
    return opened(
        "topk",
        ("values", 2, x.tile),
        ("indices", 2, index),
        ("sorted values", 4, middle),
        ("sorted indices", 4, index),
        ("greatest", 2 * kept, middle),
        ("their indices", 2 * kept, index),
        ("out", kept, x.tile),
        ("out indices", kept, index),
    )


def multiplied(x: CardOperand) -> CardProgram:
    """Buffers of reduction/prod/device/prod_{nc,all}_program_factory.cpp: two tiles each of operand and
    result."""
    return opened("product of elements", ("in", 2, x.tile), ("out", 2, x.tile))
