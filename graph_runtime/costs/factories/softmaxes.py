"""Softmax: card programs along rows, along columns and along other dimensions.

Sizes are those that ttnn 0.81.1 opens; its factories differ in places from the files that are named here."""

from __future__ import annotations

from dataclasses import dataclass

from .buffers import (
    BF16,
    F32,
    CardOperand,
    CardProgram,
    CircularBuffer,
    ceil_div,
    tile_bytes,
    tiles,
)

_NEAR_ALL = 0.9  # share of L1 up to which the card program works on whole rows
_COLUMN = 512 * 1024  # bytes of L1 up to which the card program works on whole columns


@dataclass(frozen=True, slots=True)
class Exponents:
    """Storage of a softmax's sums. ``wide``: whether Dst holds 32 bits; ``chosen``: whether the caller gave
    the configuration that says so, for exponentials of 16-bit values then have 32 bits, too. ``stable``:
    whether the maximum is subtracted."""

    wide: bool = True
    chosen: bool = False
    stable: bool = True

    def format(self, x: CardOperand) -> str:
        """The format of exponentials of a tensor."""
        return F32 if x.format == F32 or (self.wide and self.chosen) else BF16

    @property
    def sums(self) -> int:
        """Bytes of a tile of sums."""
        return tile_bytes(F32 if self.wide else BF16)


EXPONENTS = Exponents()


def _blocks(across: int, most: int) -> tuple[int, int]:
    """(tiles of a block, tiles of a row of whole blocks): blocks of ``most`` tiles, or smaller blocks if
    these divide the row into as few. Blocks of 5 and of 7 tiles are not used."""
    count = ceil_div(across, most)
    block = next((b for b in (1, 2, 3, 4, 6, 8) if b * count == across and b <= most), most)
    return block, block * count


def softmax(
    x: CardOperand, result: CardOperand, l1: int, kept: Exponents = EXPONENTS, mask: str = ""
) -> CardProgram:
    """Buffers of normalization/softmax/device/softmax_program_factory_attention_optimized.cpp: whole rows of
    tiles; if whole rows would take 90 % of ``l1`` bytes, 80 tiles of a row at a time. ``mask``: the format of
    an attention mask, "" if there is none."""
    middle, sums = tile_bytes(kept.format(x)), kept.sums
    block, across = _blocks(tiles(x.shape[-1]), 4 if kept.wide else 8)
    shifts = kept.stable and bool(mask or x.shape[-1] % 32)  # whether the maximum is of masked values
    of_in = 2 * block if shifts or not kept.stable else across
    size = of_in * x.tile + 2 * block * result.tile + across * middle * (1 + shifts)
    large = l1 * _NEAR_ALL < size
    exps = masked = across
    if large:
        of_in = exps = masked = 80 // block * block
    scaler = tile_bytes(F32 if x.format == F32 else BF16)
    buffers = [
        CircularBuffer("in", of_in, x.tile),
        CircularBuffer("out", 2 * block, result.tile),
        CircularBuffer("sums", 1, sums),
        CircularBuffer("scaler of the greatest", 1, scaler),
        CircularBuffer("scaler of sums", 1, sums),
        CircularBuffer("exponentials", exps, middle),
        CircularBuffer("padding", 0 if mask else 1, tile_bytes(BF16)),
        CircularBuffer("greatest", kept.stable, middle),
        CircularBuffer("shifted", masked if shifts or (large and kept.stable) else 0, middle),
        CircularBuffer("sums of parts", 2 if large else 0, sums),
        CircularBuffer("greatest of parts", 1 if large else 0, middle),
    ]
    if mask:
        buffers += [
            CircularBuffer("masked", masked + block, middle),
            CircularBuffer("scale", 1, tile_bytes(BF16)),
            CircularBuffer("mask", exps, tile_bytes(mask)),
            CircularBuffer("padding", 1, tile_bytes(mask)),
        ]
    return CardProgram.of("softmax", buffers)


def softmax_of_columns(x: CardOperand, result: CardOperand, base: int, wide: bool = True) -> CardProgram:
    """Buffers of normalization/softmax/device/softmax_program_factory_general_h_{small,large}.cpp: whole
    columns of tiles; if these with the ``base`` bytes below them would pass 512 KiB, two tiles at a time."""
    middle = tile_bytes(F32) if wide else tile_bytes(BF16)
    scaler = tile_bytes(F32 if x.format == F32 else BF16)
    down = tiles((1, *x.shape)[-2])
    taken = 2 * down * x.tile + 2 * scaler + (2 * down + 3) * middle
    large = base + taken > _COLUMN
    part = 2 if large else down
    buffers = [
        CircularBuffer("in", part, x.tile),
        CircularBuffer("mask", 1, scaler),
        CircularBuffer("scaler of the greatest", 1, scaler),
        CircularBuffer("scaler of sums", 1, scaler),
        CircularBuffer("out", part, result.tile),
        CircularBuffer("exponentials", part, middle),
        CircularBuffer("sums", 1, middle),
        CircularBuffer("greatest", 1, middle),
        CircularBuffer("shifted", 1 if large else down, middle),
        CircularBuffer("sum", 1, middle),
    ]
    return CardProgram.of("softmax of columns", buffers)


def softmax_of_planes(x: CardOperand, result: CardOperand) -> CardProgram:
    """Buffers of normalization/softmax/device/softmax_program_factory_general_c_large.cpp, for dimensions
    before the last two: tile by tile."""
    wide = tile_bytes(F32)
    sizes = (
        ("in", 2, x.tile),
        ("out", 2, result.tile),
        ("exponentials", 1, wide),
        ("sums", 1, wide),
        ("sum", 2, wide),
        ("greatest", 1, x.tile),
        ("shifted", 1, wide),
    )
    return CardProgram.of("softmax of planes", [CircularBuffer(*row) for row in sizes])


def sharded_softmax(
    x: CardOperand,
    rows: int,
    cols: int,
    wide: bool = False,
    stable: bool = False,
    mask: str = "",
    cores: int = 0,
) -> CardProgram:
    """Buffers of normalization/softmax/device/softmax_program_factory_attention_optimized_sharded.cpp: blocks
    of ``rows`` x ``cols`` tiles, in place."""
    middle = tile_bytes(F32 if wide else BF16)
    scaler = tile_bytes(F32 if x.format == F32 else BF16)
    buffers = [
        CircularBuffer("in", rows * cols, x.tile, borrowed=True),
        CircularBuffer("scaler of the greatest", 1, scaler),
        CircularBuffer("scaler of sums", 1, middle),
        CircularBuffer("out", rows * cols, x.tile, borrowed=True),
        CircularBuffer("exponentials", cols, middle),
        CircularBuffer("sums", 1, middle),
    ]
    if mask:
        buffers += [
            CircularBuffer("masked", cols, middle),
            CircularBuffer("scale", 1, tile_bytes(BF16)),
            CircularBuffer("mask", cols, tile_bytes(mask)),
        ]
    if stable:
        buffers += [CircularBuffer("greatest", 1, middle), CircularBuffer("shifted", cols, middle)]
    return CardProgram.of("softmax of shards", buffers, cores)
