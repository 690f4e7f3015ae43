"""Functions of tt_lib.utils that tests import: sizes in tiles, and the order of elements in tiles, on the
host."""

from __future__ import annotations

import math
from typing import Any


def _nearest_y(x: int, y: int) -> int:
    return math.ceil(x / y) * y


def _nearest_32(x: int) -> int:
    return _nearest_y(x, 32)


def divup(a: int, b: int) -> int:
    return -(-a // b)


roundup = _nearest_y
roundup32 = _nearest_32


def pad_weight(x: Any) -> Any:
    """A torch tensor padded with zeros to whole tiles in its last two dimensions."""
    import torch

    rows = _nearest_32(x.shape[-2]) - x.shape[-2] if x.dim() > 1 else 0
    return torch.nn.functional.pad(x, (0, _nearest_32(x.shape[-1]) - x.shape[-1], 0, rows))


pad_activation = pad_weight


def tilize(x: Any) -> Any:
    """The elements of a torch tensor in the order of tiles of four 16x16 faces; the shape stays."""
    *outer, rows, cols = x.shape
    cut = x.reshape(-1, rows // 32, 2, 16, cols // 32, 2, 16)
    return cut.permute(0, 1, 4, 2, 5, 3, 6).reshape(*outer, rows, cols)


def untilize(x: Any) -> Any:
    """The elements of a torch tensor, which are in the order of tiles, brought into the order of rows."""
    *outer, rows, cols = x.shape
    cut = x.reshape(-1, rows // 32, cols // 32, 2, 2, 16, 16)
    return cut.permute(0, 1, 3, 5, 2, 4, 6).reshape(*outer, rows, cols)


def tilize_to_list(x: Any) -> list[Any]:
    """The elements in the order of tiles, as a list."""
    values: list[Any] = tilize(x).reshape(-1).tolist()
    return values


def is_close(
    a: Any,
    b: Any,
    rtol: float = 8e-2,
    atol: float = 8e-2,
    max_mag: float = 4.0,
    max_mag_fraction: float = 0.02,
) -> bool:
    """Whether elements differ by no more than a tolerance, or by no more than a fraction of the greatest
    magnitude."""
    away = (a - b).abs()
    near = away <= atol + rtol * a.abs().maximum(b.abs())
    return bool((near | (away <= max_mag * max_mag_fraction)).all())
