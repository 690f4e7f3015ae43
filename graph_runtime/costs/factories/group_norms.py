"""Group norms of interleaved tensors. Sizes are those that ttnn 0.81.1 opens; its factories differ in
places from the files that are named here."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.machine.layout import ROW_MAJOR, TILE_DIM
from .buffers import BF16, F32, CardOperand, CardProgram, tile_bytes
from .movement.steps import opened


@dataclass(frozen=True, slots=True)
class ChannelGroups:
    """A group norm: ``count`` groups of channels on ``grid`` (across, down) cores, in ``parts`` blocks of
    rows. ``mask``, ``gamma``, ``beta``: formats of the tensors; "" for a missing one."""

    count: int
    grid: tuple[int, int]
    parts: int = 1
    mask: str = ""
    gamma: str = ""
    beta: str = ""


def widest_span(channels: int, group: int) -> int:
    """The largest number of tiles over which a group of channels lies."""
    return max(
        (at + group - 1) // TILE_DIM - at // TILE_DIM + 1 for at in range(0, max(group, channels), group)
    )


def group_norm(x: CardOperand, result: CardOperand, groups: ChannelGroups) -> CardProgram | None:
    """Buffers of normalization/groupnorm/device/groupnorm_{no_mcast,mcast}_program_factory.cpp: the rows of
    a core by the tiles of a group. A result in rows is untilized; if groups then cross tiles, one row of
    tiles is computed at a time. None if the cores' shares differ."""
    batch, channels = x.shape[0], x.shape[-1]
    columns = min(groups.grid[0], groups.count)
    while columns and (channels // columns % TILE_DIM or groups.count % columns):
        columns -= 1
    rows = columns and groups.grid[0] // columns * groups.grid[1]
    down = x.matrix[0]
    if not rows or down % rows or (batch > rows and batch % rows):
        return None
    group = channels // groups.count
    mine = channels // columns
    block, span = down // rows // max(1, batch // rows), widest_span(mine, group)
    crosses = result.layout == ROW_MAJOR and span > 1 and group % TILE_DIM
    part = (1 if crosses else block // groups.parts) * span
    middle, bf16 = tile_bytes(F32 if x.format == F32 else BF16), tile_bytes(BF16)
    of_weights = (tile_bytes(f) * (mine // TILE_DIM) for f in (groups.gamma, groups.beta) if f)
    return opened(
        "group norm",
        ("in", part, x.tile),
        ("out", part, x.tile),
        ("tiles", part, x.tile),
        ("rows of the result", 2 * part if result.layout == ROW_MAJOR else 0, x.tile),
        ("scalers", 2, middle),
        ("epsilon", 1, bf16),
        ("weights", 1, sum(of_weights)),
        ("mask", 2 * span, tile_bytes(groups.mask or BF16)),
        ("intermediates", 4 * part, middle),
        ("sums", 6, middle),
    )
