"""Card programs of products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....base.machine.layout import DRAM, L1, TILE, TILE_DIM
from ....costs import factories
from ....costs.factories import CardOperand, ProductBlocks
from ....costs.factories.movement import Steps, UnknownForm, to_tiles
from ....costs.factories.products import Sums
from ...memory.values import DataType
from .. import configs as kc
from ..call import Call, operand
from ..stepped import stages_by

_KINDS = {
    kc.MatmulMultiCoreReuseProgramConfig: "reuse",
    kc.MatmulMultiCoreReuseMultiCastProgramConfig: "2d",
    kc.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig: "dram",
}


def _product(call: Call, steps: Steps, a: CardOperand) -> None:
    """A product, then the sum with a bias and the activation that its card program does not compute."""
    if len(call.inputs) < 2 or len(call.inputs[0].shape) < 2 or len(call.inputs[1].shape) < 2:
        raise UnknownForm
    b, result = operand(call.inputs[1]), steps.result
    if call.get("transpose_b"):
        b = CardOperand((*b.shape[:-2], *b.shape[:-3:-1]), b.format, b.layout, b.memory)
    later = _adds_later(call, a, b, result)
    bias = "" if later else call.format("bias")
    config = call.get("compute_kernel_config")
    float32 = call.results[0].dtype is DataType.FLOAT32
    packed = not float32 if config is None else bool(config.packer_l1_acc)
    sums = Sums(call.wide(float32), packed)
    blocks = _blocks(call, a, b, result, bias, sums)
    if call.get("program_config") is None and factories.idle_senders(a, result, blocks):
        raise UnknownForm  # a core has one of the two buffers, ttnn's sum both
    turned, aligned = bool(call.get("transpose_a")), call.device.chip.descriptor.memory(DRAM).alignment
    acts = call.get("activation") is not None and call.get("core_grid") is None
    if acts and (call.get("program_config") is not None or result.sharded):
        raise UnknownForm
    now = replace(result) if later or acts else result
    steps.run(factories.product(a, b, now, blocks, bias, sums, turned, aligned), now)
    if later:
        now = _added(call, steps, now, replace(result) if acts else result)
    if acts:
        steps.run(factories.unary(now, result), result)


def _adds_later(call: Call, a: CardOperand, b: CardOperand, result: CardOperand) -> bool:
    """Whether a bias is added to the product by a card program of its own
    (matmul/matmul.cpp, get_post_process_bias)."""
    if call.get("bias") is None:
        return False
    if operand(call.values["bias"]).layout != TILE or call.values["bias"].shape[-2] > TILE_DIM:
        return True
    if call.get("program_config") is not None or call.get("core_grid") is not None:
        return False
    others = result.on_l1 or (not a.sharded and (a.on_l1 or b.on_l1 or b.sharded or result.sharded))
    return others or b.batch > 1


def _added(call: Call, steps: Steps, x: CardOperand, made: CardOperand) -> CardOperand:
    bias = operand(call.values["bias"])
    if x.sharded or bias.sharded or math.prod(bias.shape[:-1]) != 1:
        raise UnknownForm
    if bias.layout != TILE:
        bias = to_tiles(steps, bias, replace(bias, layout=TILE))
    steps.run(factories.added_row(x, bias, made), made)
    steps.free(x)
    return made


def _blocks(
    call: Call, a: CardOperand, b: CardOperand, result: CardOperand, bias: str, sums: Sums
) -> ProductBlocks:
    config, chosen = call.get("program_config"), call.get("core_grid")
    if config is None:
        named = None if chosen is None else (chosen.x, chosen.y)
        free = call.device.chip.descriptor.memory(L1).usable
        return factories.simple_blocks(a, b, result, call.grid, free, sums, bias, named)
    if isinstance(config, kc.MatmulMultiCoreReuseMultiCast1DProgramConfig):
        kind = "1d a" if config.mcast_in0 else "1d b"
    else:
        kind = _KINDS[type(config)]
    block = getattr(config, "out_block_h", None) or 0, getattr(config, "out_block_w", None) or 0
    fused = bool(getattr(config, "fuse_batch", True))
    return ProductBlocks(kind, config.in0_block_w, config.per_core_M, config.per_core_N, *block, fused)


TABLE: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(("matmul", "linear"), stages_by(_product)),
}
