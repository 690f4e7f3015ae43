"""Weights of 4 or 8 bits in blocks, as dense reads them on a host: levels, scales and zero points in panels
of 32 columns.

A weight is (level - zero) * scale, with integer levels 0 .. 2**bits - 1. A column has a scale, and may have a
zero, for each ``block`` of its k. The panels are uint8 [ceil(n / 32), ceil(k / block), bytes]. The bytes of a
block are

    scales  float32 [32]
    zeros   float32 [32]                    absent if all are the middle, 2**(bits - 1)
    words   uint32 [block * bits / 32, 32]  32 / bits levels of a column in order, the first in the low bits

Columns that fill up a panel have scale 0; levels that fill up a block are the middle.
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .packed import PANEL

LEVEL_BITS = (4, 8)
_ROW = 4 * PANEL  # bytes of a row of scales or zeros


def takes_levels(bits: int, block: int) -> bool:
    """Whether levels may have this number of bits, and a block of them fills whole words."""
    return bits in LEVEL_BITS and block > 0 and block * bits % 32 == 0


def level_type(n: int, k: int, bits: int, block: int, zeros: bool) -> TensorType:
    """The type of the panels of a weight with ``n`` columns of ``k`` levels each, with or without zeros."""
    nbytes = _ROW * (1 + zeros) + block * bits * PANEL // 8
    return TensorType("uint8", (-(-n // PANEL), -(-k // block), nbytes))


def pack_levels(
    levels: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int, block: int
) -> np.ndarray:
    """The panels of uint8 ``levels`` [n, k] and float32 ``scales`` and ``zeros`` [n, blocks]; their type is
    level_type."""
    n, k = levels.shape
    panels, blocks, each = -(-n // PANEL), -(-k // block), 32 // bits
    rows = [_rows(scales, panels, blocks), *([] if zeros is None else [_rows(zeros, panels, blocks)])]
    words = np.empty((panels, blocks, block // each, PANEL), "<u4")
    shifts = np.arange(each, dtype=np.uint32) * bits
    for panel in range(panels):
        part = levels[panel * PANEL : (panel + 1) * PANEL]
        whole = np.full((PANEL, blocks * block), 1 << (bits - 1), np.uint32)
        whole[: len(part), :k] = part
        shifted = whole.reshape(PANEL, blocks, block // each, each) << shifts
        words[panel] = np.bitwise_or.reduce(shifted, axis=-1).transpose(1, 2, 0)
    return np.concatenate(
        [*rows, words.view(np.uint8).reshape(panels, blocks, block * bits * PANEL // 8)], axis=2
    )


def _rows(values: np.ndarray, panels: int, blocks: int) -> np.ndarray:
    """The bytes [panels, blocks, 128] of one number for each column and block."""
    whole = np.zeros((panels * PANEL, blocks), "<f4")
    whole[: len(values)] = values
    rows = np.ascontiguousarray(whole.reshape(panels, PANEL, blocks).swapaxes(1, 2))
    return rows.view(np.uint8).reshape(panels, blocks, _ROW)


def unpack_levels(packed: np.ndarray, n: int, k: int, bits: int, block: int) -> np.ndarray:
    """The weight float64 [k, n] that ``pack_levels`` packed, computed level by level."""
    panels, blocks, nbytes = packed.shape
    words_from = nbytes - block * bits * PANEL // 8
    shape = panels, blocks, words_from // _ROW, PANEL
    rows = packed[..., :words_from].copy().view("<f4").reshape(shape).astype(np.float64)
    words = packed[..., words_from:].copy().view("<u4").reshape(panels, blocks, block * bits // 32, PANEL)
    levels = words[..., None, :] >> (np.arange(32 // bits, dtype=np.uint32) * bits)[:, None]
    levels = (levels & np.uint32((1 << bits) - 1)).reshape(panels, blocks, block, PANEL).astype(np.float64)
    zeros = rows[:, :, 1:2] if rows.shape[2] == 2 else float(1 << (bits - 1))
    weights = (levels - zeros) * rows[:, :, :1]
    whole = weights.reshape(panels, blocks * block, PANEL)[:, :k].transpose(1, 0, 2)
    return whole.reshape(k, panels * PANEL)[:, :n]
