"""Card programs of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.machine.layout import DRAM, L1
from ....costs import factories
from ....costs.factories import CardOperand, CardProgram, ProductBlocks
from ....costs.factories.products import Sums
from ...memory.values import DataType
from .. import configs as kc
from ..call import Call, operand

_KINDS = {
    kc.MatmulMultiCoreReuseProgramConfig: "reuse",
    kc.MatmulMultiCoreReuseMultiCastProgramConfig: "2d",
    kc.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig: "dram",
}


def _product(call: Call) -> CardProgram | None:
    if len(call.inputs) < 2 or len(call.inputs[0].shape) < 2 or len(call.inputs[1].shape) < 2:
        return None
    a, b, result = call.first, operand(call.inputs[1]), call.made
    if call.get("transpose_b"):
        b = CardOperand((*b.shape[:-2], *b.shape[:-3:-1]), b.format, b.layout, b.memory)
    bias = call.format("bias")
    config = call.get("compute_kernel_config")
    float32 = call.results[0].dtype is DataType.FLOAT32
    packed = not float32 if config is None else bool(config.packer_l1_acc)
    sums = Sums(call.wide(float32), packed)
    blocks = _blocks(call, a, b, result, bias, sums)
    turned, aligned = bool(call.get("transpose_a")), call.device.chip.descriptor.memory(DRAM).alignment
    return factories.product(a, b, result, blocks, bias, sums, turned, aligned)


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
    **dict.fromkeys(("matmul", "linear"), _product),
}
