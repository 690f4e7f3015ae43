"""Card programs of softmax and norms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....base.machine.layout import L1, TILE
from ....costs import factories
from ....costs.factories import CardOperand, CardProgram
from ....costs.factories.buffers import F32
from ....costs.factories.movement import Steps, UnknownForm, to_tiles
from ...memory.cores import coord
from .. import configs as kc
from ..call import Call
from ..stepped import stages_by


def _mask(call: Call) -> str:
    return call.format("mask") or call.format("attention_mask")


def _softmax_of(call: Call, steps: Steps, x: CardOperand) -> None:
    """softmax, which lays rows out in tiles first."""
    if x.layout != TILE:
        x = to_tiles(steps, x, replace(x, layout=TILE))
    ran = _softmax(call, x)
    if ran is None:
        raise UnknownForm
    steps.run(ran, steps.result)


def _softmax(call: Call, x: CardOperand) -> CardProgram | None:
    chosen = call.get("compute_kernel_config") is not None
    in_place = call.name.endswith(("in_place", "_"))
    stable = bool(call.get("numeric_stable", "scale" not in call.name and not in_place))
    config, wide = call.get("program_config"), call.wide(True)
    if isinstance(config, kc.SoftmaxShardedMultiCoreProgramConfig):
        grid, wide = coord(config.compute_with_storage_grid_size), call.wide(x.format == F32)
        return factories.sharded_softmax(
            x, config.block_h, config.block_w, wide, stable, _mask(call), grid.x * grid.y
        )
    rank = max(2, len(x.shape))
    dim = int(call.get("dim", -1)) % max(1, len(x.shape)) + rank - max(1, len(x.shape))
    if x.layout != TILE:
        return None
    if call.name == "softmax" and dim == rank - 2:
        base = call.device.chip.descriptor.memory(L1).base
        return factories.softmax_of_columns(x, call.made, base, wide)
    if call.name == "softmax" and dim < rank - 2:
        return factories.softmax_of_planes(x, call.made) if wide else None
    kept = factories.Exponents(wide, chosen, stable)
    return factories.softmax(x, call.made, call.l1, kept, _mask(call))


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
        if x.layout != TILE and added:
            raise UnknownForm
        return factories.layer_norm(x, call.made, call.l1, wide, weight, bias, added, rms)
    return factories.sharded_layer_norm(x, down, across, grid, wide, weight, bias, added, rms)


def _grouped(call: Call, steps: Steps, x: CardOperand) -> None:
    result, grid = steps.result, call.get("core_grid")
    odd = ("reciprocals", "use_welford", "negative_mask")
    if x.sharded or result.sharded or grid is None or len(x.shape) != 4 or any(map(call.get, odd)):
        raise UnknownForm
    masks = map(call.format, ("input_mask", "weight", "bias"))
    groups = factories.ChannelGroups(
        call.values["num_groups"], (grid.x, grid.y), int(call.get("num_out_blocks", 1)), *masks
    )
    if x.layout != TILE:
        if grid.x * grid.y > 1:
            raise UnknownForm
        x = to_tiles(steps, x, replace(x, layout=TILE))
    ran = factories.group_norm(x, result, groups)
    if ran is None:
        raise UnknownForm
    steps.run(ran, result)


def _softmax_of_tiles(call: Call) -> CardProgram | None:
    return _softmax(call, call.first)


TABLE: dict[str, Callable[[Call], Any]] = {
    "softmax": stages_by(_softmax_of),
    **dict.fromkeys(("softmax_in_place", "scale_mask_softmax"), _softmax_of_tiles),
    **dict.fromkeys(("scale_mask_softmax_in_place", "transformer.attention_softmax"), _softmax_of_tiles),
    "transformer.attention_softmax_": _softmax_of_tiles,
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
    "group_norm": stages_by(_grouped),
}
