"""Card programs of attention and of calls that split and join its heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....costs import factories
from ....costs.factories import CardProgram, CardStage
from ...memory.cores import coord
from ..call import Call, operand


def _attention(call: Call) -> list[CardStage] | None:
    q, k, v = (operand(x) for x in call.inputs[:3])
    config, cores = call.get("program_config"), call.cores
    chunks = (getattr(config, "q_chunk_size", 0) or 32, getattr(config, "k_chunk_size", 0) or 32)
    if config is not None and config.compute_with_storage_grid_size is not None:
        grid = coord(config.compute_with_storage_grid_size)
        cores = grid.x * grid.y
    if call.get("sliding_window_size") or call.get("attention_sink") is not None:
        return None
    if call.wide(False):
        return None
    mask = call.format("attn_mask")
    causal = factories.CAUSAL if call.get("is_causal", True) else ""
    ran = factories.attention(q, k, v, call.made, chunks, cores, causal or mask, call.board.blackhole)
    stages = [CardStage(ran)]
    if mask:
        stages.insert(0, CardStage(factories.scaled_mask(operand(call.values["attn_mask"])), last=False))
    return stages


def _created(call: Call) -> CardProgram | None:
    if any(operand(x).sharded for x in (*call.inputs, *call.results)):
        return None
    names = ("transpose_key", "transpose_k_heads")
    turned = next((bool(call.values[name]) for name in names if call.get(name) is not None), True)
    return factories.created_heads(call.first, turned)


def _joined(call: Call) -> CardProgram:
    return factories.concatenated_heads(call.first)


TABLE: dict[str, Callable[[Call], Any]] = {
    "transformer.scaled_dot_product_attention": _attention,
    **dict.fromkeys(
        ("transformer.split_query_key_value_and_split_heads", "experimental.nlp_create_qkv_heads"), _created
    ),
    **dict.fromkeys(("experimental.nlp_concat_heads", "transformer.concatenate_heads"), _joined),
    "experimental.split_query_key_value_and_split_heads": lambda call: factories.split_heads(
        call.first, call.first.sharded
    ),
}
