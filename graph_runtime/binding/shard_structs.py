"""How a sharded tensor is cut, as struct gr_shard (native/include/gr_core.h) says it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.machine.layout import Layout, shard_words, unit_places

__all__ = ["cut_of"]


def cut_of(ffi: Any, layout: Layout, shape: tuple[int, ...], grid_cols: int) -> tuple[Any, Any]:
    """(the struct, its table or NULL): the device reads the table until it is closed, so it must be kept."""
    words = shard_words(layout, shape, grid_cols)
    if layout.nd is None:
        return ffi.new("gr_shard *", (*words, ffi.NULL, 0, 0)), ffi.NULL
    banks, places, slots = unit_places(layout, shape, grid_cols)
    table = ffi.from_buffer("uint32_t[]", np.ascontiguousarray(np.stack([banks, places], 1), np.uint32))
    return ffi.new("gr_shard *", (*words, table, len(banks), slots)), table
