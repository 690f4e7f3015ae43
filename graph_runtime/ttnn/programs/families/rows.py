"""Card programs of softmax, norms and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.machine.layout import TILE
from ....costs import factories
from ....costs.factories import CardProgram
from ...memory.cores import coord
from ...memory.values import DataType
from .. import configs as kc
from ..call import Call


def _mask(call: Call) -> str:
    return call.format("mask") or call.format("attention_mask")


def _softmax(call: Call) -> CardProgram | None:
    x, wide = call.first, call.wide(call.inputs[0].dtype is DataType.FLOAT32)
    in_place = call.name.endswith(("in_place", "_"))
    stable = bool(call.get("numeric_stable", "attention" not in call.name and not in_place))
    config = call.get("program_config")
    if isinstance(config, kc.SoftmaxShardedMultiCoreProgramConfig):
        grid = coord(config.compute_with_storage_grid_size)
        return factories.sharded_softmax(
            x, config.block_h, config.block_w, wide, stable, _mask(call), grid.x * grid.y
        )
    rank, dim = len(x.shape), call.get("dim", -1)
    if x.layout != TILE or (call.name == "softmax" and dim not in (-1, rank - 1)):
        return None
    return factories.softmax(x, call.made, call.l1, wide, stable, _mask(call))


def _norm(call: Call) -> CardProgram | None:
    x, rms = call.first, call.name == "rms_norm"
    wide = call.wide(not rms)
    weight, bias, added = map(call.format, ("weight", "bias", "residual_input_tensor"))
    config = call.get("program_config")
    if isinstance(config, kc.LayerNormShardedMultiCoreProgramConfig):
        at = coord(config.compute_with_storage_grid_size)
        grid, down, across = (at.x, at.y), config.block_h, config.block_w
    elif x.sharded:
        grid, down, across = (x.cores[1], x.cores[0]), x.shard[0] // 32, x.shard[1] // 32
    else:
        return factories.layer_norm(x, call.made, call.l1, wide, weight, bias, added, rms)
    return factories.sharded_layer_norm(x, down, across, grid, wide, weight, bias, added, rms)


TABLE: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(
        ("sum", "mean", "max", "min"),
        lambda call: factories.reduced(call.first, call.made, call.wide(True), call.name == "min"),
    ),
    **dict.fromkeys(("softmax", "softmax_in_place", "scale_mask_softmax"), _softmax),
    **dict.fromkeys(("scale_mask_softmax_in_place", "transformer.attention_softmax"), _softmax),
    "transformer.attention_softmax_": _softmax,
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
}
