"""Weights of 4 or 8 bits in blocks, as dense reads them on a host: packs levels, scales and zero points into
panels of 32 columns.

A weight is (level - zero) * scale, levels whole numbers of 0 .. 2**bits - 1; a column has a scale, and may
have a zero, for each ``block`` of its k. uint8 [ceil(n / 32), ceil(k / block), bytes], each row of a block

    scales  float32 [32]
    zeros   float32 [32]                    absent where each is the middle, 2**(bits - 1)
    words   uint32 [block * bits / 32, 32]  32 / bits levels of a column in order, the first in the low bits

Columns behind n are zeros of scale 0, levels behind k the middle.
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .packed import PANEL

__all__ = ["LEVEL_BITS", "level_type", "pack_levels", "takes_levels", "unpack_levels"]

LEVEL_BITS = (4, 8)
_ROW = 4 * PANEL  # bytes of a row of scales, or of zeros


def takes_levels(bits: int, block: int) -> bool:
    """Whether blocks fill whole words, and levels have so many bits."""
    return bits in LEVEL_BITS and block > 0 and block * bits % 32 == 0


def level_type(n: int, k: int, bits: int, block: int, zeros: bool) -> TensorType:
    """The type of a weight of ``n`` columns and ``k`` products each, with zeros or without."""
    nbytes = _ROW * (1 + zeros) + block * bits * PANEL // 8
    return TensorType("uint8", (-(-n // PANEL), -(-k // block), nbytes))


def pack_levels(
    levels: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int, block: int
) -> np.ndarray:
    """uint8 panels (level_type) of uint8 ``levels`` [n, k] and float32 ``scales``, ``zeros`` [n, blocks]."""
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
    """The bytes [panels, blocks, 128] of a number for each column and block."""
    whole = np.zeros((panels * PANEL, blocks), "<f4")
    whole[: len(values)] = values
    rows = np.ascontiguousarray(whole.reshape(panels, PANEL, blocks).swapaxes(1, 2))
    return rows.view(np.uint8).reshape(panels, blocks, _ROW)


def unpack_levels(packed: np.ndarray, n: int, k: int, bits: int, block: int) -> np.ndarray:
    """float64 [k, n] of ``pack_levels``, computed level by level."""
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
