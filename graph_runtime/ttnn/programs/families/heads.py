"""Card programs of attention and of calls that split and join its heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....costs import factories
from ....costs.factories import CardProgram
from ...memory.cores import coord
from ..call import Call, operand


def _attention(call: Call) -> CardProgram | None:
    q, k, v = (operand(x) for x in call.inputs[:3])
    config, cores = call.get("program_config"), call.cores
    chunks = (getattr(config, "q_chunk_size", 0) or 32, getattr(config, "k_chunk_size", 0) or 32)
    if config is not None and config.compute_with_storage_grid_size is not None:
        grid = coord(config.compute_with_storage_grid_size)
        cores = grid.x * grid.y
    if call.get("sliding_window_size") or call.get("attention_sink") is not None:
        return None
    return factories.attention(
        q, k, v, call.made, chunks, cores, call.get("is_causal", True), call.format("attn_mask")
    )


TABLE: dict[str, Callable[[Call], Any]] = {
    "transformer.scaled_dot_product_attention": _attention,
    "experimental.nlp_concat_heads": lambda call: factories.concatenated_heads(call.first),
    "experimental.split_query_key_value_and_split_heads": lambda call: factories.split_heads(
        call.first, call.first.sharded
    ),
}
