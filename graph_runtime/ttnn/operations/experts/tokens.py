"""Tokens by expert: how many each expert has, where they lie in a buffer of all experts' tokens, and which
experts a token has. On one chip all experts are local."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compositions.routing import members
from ....compositions.scans import running
from ....ir.value import where
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import MemoryConfig
from ...memory.values import TILE_SIZE, DataType, Layout
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor
from ..operation import operation
from ..results import target


def _flat(x: WideValue) -> WideValue:
    return x.int32().reshape((math.prod(x.shape),))


@operation("experimental.deepseek_prefill.masked_bincount", "equal, sum, multiply")
def masked_bincount(
    input_tensor: TiledTensor, expert_mask: WideValue, n_routed_experts: int, num_experts_per_token: int
) -> Tensor:
    """The number of times [experts] that each expert is among the first ``num_experts_per_token`` columns of
    the input [tokens, k], as uint32; 0 for experts whose entry of ``expert_mask`` is negative."""
    tokens, columns = input_tensor.shape
    expect(num_experts_per_token <= columns, f"{num_experts_per_token} experts of {columns} columns")
    places = input_tensor._value.int32().rows()
    counts = places.scalar(0.0, "float32").op("broadcast_to", shape=(1, n_routed_experts))
    names = places.scalar(np.arange(n_routed_experts, dtype=np.int32)[None], "int32")
    for at in range(num_experts_per_token):
        found = places.part(1, at, at + 1).reshape((tokens, 1)).equal(names)
        counts = counts + found.cast("float32").sum([0])
    held = _flat(expert_mask).part(0, 0, n_routed_experts) >= 0
    made = (counts.reshape((n_routed_experts,)) * held.cast("float32")).cast("int32")
    return target(input_tensor, None, None, DataType.UINT32, Layout.ROW_MAJOR).wrap(
        made.reinterpret("uint32")
    )


@operation("experimental.deepseek_prefill.offset_cumsum", "divide, ceil, cumsum, add")
def offset_cumsum(
    input_tensor: Tensor,
    cluster_axis: int,
    num_links: int,
    experts_per_chip: int,
    memory_config: MemoryConfig,
    use_l1_small_for_semaphores: bool = False,
) -> tuple[Tensor, ...]:
    """(first places of each expert's tokens, numbers of its tokens, the places again, and again):
    [1, experts] as uint32. Each expert's tokens take whole tiles of a chip's buffer, after those of the
    experts before."""
    count = input_tensor.logical_volume()
    expect(count % experts_per_chip == 0, f"{experts_per_chip} experts a chip do not divide {count}")
    counts = _flat(input_tensor._value).cast("float32").reshape((count // experts_per_chip, experts_per_chip))
    tiles = (counts / float(TILE_SIZE)).ceil() * float(TILE_SIZE)
    places = running("add", tiles, 1, 0.0, exclusive=True)

    def made(x: WideValue) -> Tensor:
        whole = x.reshape((1, count)).cast("int32").reinterpret("uint32")
        return target(input_tensor, memory_config).wrap(whole)

    return made(places), made(counts), made(places), made(places)


class Region:
    """The place of a local expert's tokens in a buffer: ``start`` and, in whole tiles, ``size``, as int32
    [1]."""

    def __init__(self, start: WideValue, counts: WideValue, table: WideValue, local: int):
        expert = _flat(table).part(0, local, local + 1)
        self.start = _flat(start).run("take", expert, axis=0)
        count = _flat(counts).run("take", expert, axis=0).cast("float32")
        self.size = ((count / float(TILE_SIZE)).ceil() * float(TILE_SIZE)).cast("int32")

    def rows(self, x: WideValue, count: int) -> WideValue:
        """``count`` rows of a buffer [rows, d] from the start on; after the buffer's last row, that row."""
        at = _numbers(self.start, count) + self.start
        return x.run("take", at.maximum(0).minimum(x.shape[0] - 1), axis=0)

    def put(self, x: WideValue, new: WideValue) -> WideValue:
        """The buffer [rows, d] with the first of the new rows in the expert's place."""
        rows = x.shape[0]
        own = _numbers(self.start, rows) - self.start
        inside = (own >= 0) & (own < self.size)
        found = new.run("take", own.maximum(0).minimum(new.shape[0] - 1), axis=0)
        return where(inside.reshape((rows, 1)), found, x)


def _numbers(like: WideValue, count: int) -> WideValue:
    return like.scalar(np.arange(count, dtype=np.int32), "int32")


@operation("experimental.deepseek_prefill.extract", "take, add, clip")
def extract(
    global_tensor: TiledTensor,
    start: WideValue,
    counts: WideValue,
    global_expert_idx_table: WideValue,
    *,
    local_expert_id: int,
    max_dispatched_tokens_per_expert: int,
) -> WideValue:
    """The rows of a local expert in a buffer [rows, d], from ``start`` on, as the first of
    ``max_dispatched_tokens_per_expert`` rows; rows after them have no defined values."""
    region = Region(start, counts, global_expert_idx_table, local_expert_id)
    return region.rows(global_tensor._value.wide(), max_dispatched_tokens_per_expert)


@operation("experimental.deepseek_prefill.insert", "take, where, subtract, clip")
def insert(
    global_tensor: TiledTensor,
    local_tensor: WideValue,
    start: WideValue,
    counts: WideValue,
    global_expert_idx_table: WideValue,
    *,
    local_expert_id: int,
) -> Tensor:
    """The rows of a local expert, written into the buffer [rows, d] in place, from ``start`` on: as many as
    the expert's tokens take whole tiles."""
    region = Region(start, counts, global_expert_idx_table, local_expert_id)
    global_tensor._value.overwrite(region.put(global_tensor._value.wide(), local_tensor.wide()))
    return global_tensor


@operation("moe_expert_token_remap", "equal, where, take, max")
def moe_expert_token_remap(
    topk_tensor: Tensor,
    expert_mapping_tensor: Tensor,
    expert_metadata_tensor: WideValue,
    *,
    memory_config: MemoryConfig | None = None,
    optional_output_mapping_tensor: Any = None,
    optional_output_reduced_tensor: Any = None,
    reduction_size: int = 16,
) -> tuple[Tensor, Tensor]:
    """(the weight of each expert for each token [1, b, s, experts], 0 if the token's metadata [1, b, s, k]
    does not have the expert; whether any of ``reduction_size`` tokens has it, [1, 1, b s / size, experts] as
    uint16)."""
    _, batch, length, experts = topk_tensor.shape
    tokens = batch * length
    fits = reduction_size > 0 and tokens % reduction_size == 0
    expect(fits, f"reduction_size {reduction_size} must divide the number of tokens {tokens}")
    places = expert_metadata_tensor.int32().reshape((tokens, expert_metadata_tensor.shape[-1]))
    weights = topk_tensor._value.reshape((tokens, experts)).wide()
    made = where(members(places, experts), weights, 0.0)
    used = where(made.not_equal(0.0), made.scalar(1.0), 0.0)
    used = used.reshape((tokens // reduction_size, reduction_size, experts)).wide().max([1], keepdims=False)
    first = target(topk_tensor, memory_config, optional_output_mapping_tensor)
    kind = None if optional_output_reduced_tensor is not None else DataType.UINT16
    second = target(topk_tensor, memory_config, optional_output_reduced_tensor, kind, Layout.ROW_MAJOR)
    reduced = used.reshape((1, 1, tokens // reduction_size, experts)).cast("int32")
    return first.wrap(made.reshape((1, batch, length, experts))), second.wrap(reduced)


@operation("experimental.deepseek_prefill.moe_padding_config", "subtract, clip, concatenate")
def moe_padding_config(
    config: Tensor,
    actual_start: WideValue,
    actual_end: WideValue,
    tokens_per_chip: int,
    pad_side: int,
    cluster_axis: int,
) -> Tensor:
    """Write the number of a chunk's tokens that are no padding and ``pad_side`` into ``config`` [1, 2], in
    place: one chip has all tokens from ``actual_start`` to before ``actual_end``."""
    start, end = (_flat(x).part(0, 0, 1) for x in (actual_start, actual_end))
    count = (end - start).maximum(0).minimum(tokens_per_chip)
    made = count.op("concatenate", count * 0 + pad_side, axis=0).reshape(tuple(config.shape))
    config._value.overwrite(made.reinterpret("uint32"))
    return config
