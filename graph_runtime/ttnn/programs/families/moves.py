"""Card programs of calls that move elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.machine.layout import DRAM, TILE
from ....costs import factories
from ....costs.factories import CardProgram
from ..call import Call


def _moved(call: Call) -> CardProgram | None:
    x, made = call.first, call.made
    if x.sharded or made.sharded:
        return factories.resharded(x, made, call.device.chip.descriptor.memory(DRAM).alignment)
    return factories.copied(x, made)


def _laid_out(call: Call) -> CardProgram | None:
    x, made = call.first, call.made
    if x.layout == made.layout:
        return factories.unary(x, made) if x.format != made.format and x.layout == TILE else None
    if not x.shape:
        return None
    return factories.tilized(x, made) if made.layout == TILE else factories.untilized(x, made, call.cores)


def _transposed(call: Call) -> CardProgram:
    x, made = call.first, call.made
    swaps = call.name == "transpose" and x.shape[:-2] == made.shape[:-2]
    return factories.transposed(x, made) if swaps and not x.sharded else factories.copied(x, made)


TABLE: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(("to_memory_config", "interleaved_to_sharded", "sharded_to_interleaved"), _moved),
    **dict.fromkeys(("reshard", "clone", "copy", "slice", "pad"), _moved),
    **dict.fromkeys(("to_layout", "tilize", "tilize_with_val_padding", "untilize"), _laid_out),
    **dict.fromkeys(("tilize_with_zero_padding", "untilize_with_unpadding"), _laid_out),
    **dict.fromkeys(("transpose", "permute"), _transposed),
    "concat": lambda call: factories.concatenated(call.made),
}
