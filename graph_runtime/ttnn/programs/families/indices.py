"""Card programs of calls that look elements up by their indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....base.machine.layout import ROW_MAJOR, TILE, TILE_DIM
from ....costs import factories
from ....costs.factories import CardOperand
from ....costs.factories.movement import Steps, UnknownForm, fill_padding, tile_slice, to_rows, to_tiles
from ..call import Call, operand
from ..stepped import stages_by


def _embedded(call: Call, steps: Steps, indices: CardOperand) -> None:
    table, result = operand(call.inputs[1]), steps.result
    if table.layout == TILE:
        table = to_rows(steps, table, replace(table, layout=ROW_MAJOR))
    whole = indices.layout != TILE and not (indices.shape[-1] % TILE_DIM or table.shape[-1] % TILE_DIM)
    made = result if whole or result.layout != TILE else replace(result, layout=ROW_MAJOR)
    aligned = steps.board.aligned(indices.memory)
    steps.run(factories.embedded(table, indices, made, call.cores, aligned), made)
    if made is not result:
        to_tiles(steps, made, result)


def _gathered(call: Call, steps: Steps, x: CardOperand) -> None:
    index, rank = operand(call.values["index"]), len(x.shape)
    if int(call.values["dim"]) % rank != rank - 1 or index.sharded or x.layout != TILE or rank < 2:
        raise UnknownForm
    fill_padding(steps, index)
    rows, cols = (size % TILE_DIM for size in x.shape[-2:])
    if (rows or cols) and x.sharded:
        raise UnknownForm
    now = steps.run(tile_slice(x), replace(x)) if rows else x
    if cols:
        whole = (*x.shape[:-2], x.shape[-2] - rows + TILE_DIM * bool(rows), x.shape[-1])
        now = fill_padding(steps, replace(now, shape=whole))
    steps.run(factories.gathered(x, index), steps.result)


TABLE: dict[str, Callable[[Call], Any]] = {
    "embedding": stages_by(_embedded),
    "gather": stages_by(_gathered),
}
