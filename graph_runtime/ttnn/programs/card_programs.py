"""The card programs that ttnn would run for a call, and the buffers that the card programs open in L1
(costs/factories).

``stages_of`` serves the operations of the tables in families/; None means that no factory here covers the
operation or this form of it.
"""

from __future__ import annotations

import math

from ...costs.factories import CardProgram, CardStage
from ...costs.factories.movement import UnknownForm
from ..memory.configs import MemoryConfig
from ..memory.values import TensorMemoryLayout
from ..registry import OPERATIONS
from ..tensors.tensor import Tensor
from .call import Call
from .families import elementwise, heads, images, indices, moves, products, reductions, rows

_TABLE = {
    **elementwise.TABLE,
    **rows.TABLE,
    **reductions.TABLE,
    **products.TABLE,
    **images.TABLE,
    **moves.TABLE,
    **indices.TABLE,
    **heads.TABLE,
}


def stages_of(call: Call) -> list[CardStage] | None:
    """The card programs of a call, in order; None if no factory here covers the call."""
    if not call.inputs or not call.results or any(_strange(x) for x in (*call.inputs, *call.results)):
        return None
    found = _TABLE.get(call.name) or elementwise.MODULES.get(
        OPERATIONS[call.name].function.__module__.rpartition(".")[2]
    )
    try:
        made = None if found is None else found(call)
    except UnknownForm:
        return None
    return [CardStage(made)] if isinstance(made, CardProgram) else made


def _strange(x: Tensor) -> bool:
    """Whether no factory here covers the tensor, because it has no elements, ND shards, block shards on cores
    that are no rectangle, or tiles other than 32x32."""
    config: MemoryConfig = x.memory_config()
    if config.nd_shard_spec is not None or not math.prod(x.shape) or tuple(x.tile.tile_shape) != (32, 32):
        return True
    spec = config.shard_spec
    return spec is not None and (
        config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and spec.grid.size() != 1
    )
