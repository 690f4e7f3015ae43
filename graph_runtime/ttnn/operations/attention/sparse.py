"""Attention over chosen keys, and the scores by which keys are chosen. The release has it for Blackhole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compositions.attention import repeat_heads
from ....ir.value import where
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG
from ...memory.values import DataType, Layout, MathFidelity
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from ..results import on_blackhole, target
from .transformer import attend


def _one_chip(**given: Any) -> None:
    """Raise Unsupported for arguments about a cache that is spread over several chips."""
    named = [name for name, value in given.items() if value]
    if named:
        raise Unsupported(f"{called()} with {named[0]} is not supported: each chip has the whole sequence")


def _slot(cache: WideValue, at: int | None) -> WideValue:
    """One batch [1, ..] of a cache."""
    if at is None:
        return cache
    expect(0 <= at < cache.shape[0], f"cache_batch_idx {at} is outside of {list(cache.shape)}")
    return cache.part(0, at, at + 1)


def _chosen(indices: WideValue, size: int) -> WideValue:
    """bool [groups, s, size]: whether a number is among the indices [1, groups, s, k]; an index of 2^32 - 1
    stands for none."""
    _, groups, length, count = indices.shape
    places = indices.int32().reshape((groups * length, count))
    places = where(places < 0, size, places)
    empty = places.scalar(0.0, "float32").op("broadcast_to", shape=(groups * length, size + 1))
    one = places.scalar(1.0, "float32").op("broadcast_to", shape=(groups * length, count))
    found = empty.op("scatter_elements", places, one, axis=1).part(1, 0, size)
    return (found > 0.0).reshape((groups, length, size))


def _rows(like: Tensor, made: WideValue, dtype: DataType | None = None) -> Tensor:
    return target(like, DRAM_MEMORY_CONFIG, None, dtype, Layout.ROW_MAJOR).wrap(made)


@operation("transformer.sparse_sdpa", "scatter_elements, where, attention")
def sparse_sdpa(
    q: Tensor,
    kv: WideValue,
    indices: WideValue,
    v_dim: int,
    *,
    kv_format: Any,
    scale: float | None = None,
    k_chunk_size: int = 128,
    compute_kernel_config: Any = None,
    cache_batch_idx: int | None = None,
    block_cyclic_sp_axis: Any = None,
    block_cyclic_chunk_local: Any = None,
    block_cyclic_cache_tp_sharded: bool = False,
    attention_sink: WideValue | None = None,
) -> Tensor:
    """Attention [1, h, s, v_dim] of queries [1, h, s, d] over the rows of ``kv`` [b, 1, t, d] that
    ``indices`` [1, 1, s, k] list; the values are the first ``v_dim`` columns. An index of 2^32 - 1 lists no
    row."""
    on_blackhole(q, "sparse_sdpa is Blackhole-only")
    _one_chip(block_cyclic_sp_axis=block_cyclic_sp_axis is not None, tp=block_cyclic_cache_tp_sharded)
    if getattr(kv_format, "name", "") != "BF16":
        raise Unsupported(f"{called()} with kv_format {kv_format} is not supported: keys are BF16")
    k = _slot(kv, cache_batch_idx).wide()
    held = _chosen(indices, k.shape[2])
    mask = where(held, 0.0, -math.inf).reshape((1, 1, *held.shape[1:]))
    sink = None if attention_sink is None else attention_sink.reshape((1, q.shape[1], 1, 1))
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    return _rows(q, attend(q._value.wide(), k, k.part(3, 0, v_dim), mask, scale, words, sink=sink))


@operation("transformer.sparse_sdpa_msa", "scatter_elements, where, attention")
def sparse_sdpa_msa(
    q: Tensor,
    k: TiledValue,
    v: TiledValue,
    indices: WideValue,
    *,
    scale: float | None = None,
    block_size: int = 128,
    compute_kernel_config: Any = None,
    cache_batch_idx: int | None = None,
    chunk_start_idx: int | None = None,
    cluster_axis: Any = None,
    block_cyclic_sp_axis: Any = None,
    block_cyclic_chunk_local: Any = None,
    enable_kv_block_cache: bool = False,
) -> Tensor:
    """Attention [1, h, s, v] of queries [1, h, s, d] over the blocks of ``block_size`` keys that ``indices``
    [1, groups, s, k] list for each group of heads. With ``chunk_start_idx``, the position of the first query,
    a query does not see the keys after it in its own block."""
    on_blackhole(q, "sparse_sdpa_msa is Blackhole-only")
    _one_chip(block_cyclic_sp_axis=block_cyclic_sp_axis is not None)
    k, v = (_slot(x, cache_batch_idx).wide() for x in (k, v))
    groups, total = k.shape[1:3]
    expect(total % block_size == 0, f"block_size {block_size} must divide the {total} keys")
    length, blocks = q.shape[2], total // block_size
    held = _chosen(indices, blocks).reshape((groups, length, blocks, 1))
    wide = held.op("broadcast_to", shape=(groups, length, blocks, block_size))
    mask = where(wide.reshape((1, groups, length, total)), 0.0, -math.inf)
    if chunk_start_idx is not None:
        own, keys = chunk_start_idx + np.arange(length)[:, None], np.arange(total)
        later = (keys > own) & (keys // block_size == own // block_size)
        mask = mask + mask.scalar(np.where(later, -np.inf, 0).astype(np.float32)[None, None])
    mask = repeat_heads(mask, q.shape[1] // groups)
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    return _rows(q, attend(q._value.wide(), k, v, mask, scale, words))


# **************** scores by which keys are chosen ****************


class _Scores:
    """The scores of each query head [b, heads, s, t], and the keys that each query sees: keys in its past, of
    which there is one for ``ratio`` tokens, and before ``length``."""

    def __init__(self, q: Tensor, k: WideValue, slot: int | None, config: Any):
        on_blackhole(q, "indexer_score is only supported on Blackhole, got wormhole_b0")
        self.keys = _slot(k, slot).wide()
        self.q, self.words = q, numerics(config, MathFidelity.HiFi2)

    def products(self) -> WideValue:
        q = self.q._value
        keys = self.keys.op("broadcast_to", shape=(*q.shape[:2], *self.keys.shape[2:]))
        return q.run("matmul", keys, to=kernels.WIDE, transpose_b=True, **self.words)

    def masked(self, scores: WideValue, start: int | None, ratio: int, length: int | None) -> WideValue:
        count, keys = self.q.shape[2], self.keys.shape[2]
        own = np.arange(count)[:, None] + (keys * ratio - count if start is None else start)
        seen = np.arange(keys) < np.minimum((own + 1) // ratio, keys if length is None else length)
        return scores + scores.scalar(np.where(seen, 0, -np.inf).astype(np.float32)[None, None])


@operation("experimental.indexer_score_dsa", "matmul, relu, multiply, sum, add")
def indexer_score_dsa(
    q: TiledTensor,
    k: TiledValue,
    weights: TiledValue,
    *,
    chunk_start_idx: int | None = None,
    key_compression_ratio: int = 1,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    cache_batch_idx: int | None = None,
    kv_len: int | None = None,
    seq_shard_axes: Any = None,
    block_cyclic_sp_axis: Any = None,
    block_cyclic_chunk_local: Any = None,
    block_cyclic_cache_tp_sharded: bool = False,
) -> Tensor:
    """The scores [b, 1, s, t] of keys: the sum over heads of relu(q k) times ``weights`` [b, 1, s, heads];
    minus infinity for keys that come after the query, and for keys from ``kv_len`` on."""
    found = _Scores(q, k, cache_batch_idx, compute_kernel_config)
    _one_chip(block_cyclic_sp_axis=block_cyclic_sp_axis is not None, tp=block_cyclic_cache_tp_sharded)
    gates = weights.op("transpose", perm=(0, 3, 2, 1))
    made = (found.products().op("relu") * gates).sum([1])
    made = found.masked(made, chunk_start_idx, key_compression_ratio, kv_len)
    return _rows(q, made, DataType.BFLOAT16)


@operation("experimental.indexer_score_msa", "matmul, multiply, sum, add, max")
def indexer_score_msa(
    q: TiledTensor,
    k: TiledValue,
    *,
    num_groups: int,
    chunk_start_idx: int | None = None,
    scale: float = 1.0,
    block_size: int = 0,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    cache_batch_idx: int | None = None,
    kv_len: int | None = None,
    seq_shard_axes: Any = None,
    block_cyclic_sp_axis: Any = None,
    block_cyclic_chunk_local: Any = None,
    block_cyclic_cache_tp_sharded: bool = False,
) -> Tensor:
    """The scores [b, num_groups, s, t] of keys: the sums over the heads of each group of q k scale; minus
    infinity for keys that come after the query, and for keys from ``kv_len`` on. With ``block_size``, the
    greatest score of each block of keys [b, num_groups, s, t / block_size]."""
    found = _Scores(q, k, cache_batch_idx, compute_kernel_config)
    _one_chip(block_cyclic_sp_axis=block_cyclic_sp_axis is not None, tp=block_cyclic_cache_tp_sharded)
    products = found.products() * scale
    batch, heads, length, keys = products.shape
    expect(heads % num_groups == 0, f"{num_groups} groups do not divide {heads} heads")
    made = products.reshape((batch * num_groups, heads // num_groups, length, keys)).wide()
    made = made.sum([1]).reshape((batch, num_groups, length, keys)).wide()
    made = found.masked(made, chunk_start_idx, 1, kv_len)
    if block_size:
        expect(keys % block_size == 0, f"block_size {block_size} must divide the {keys} keys")
        shape = (batch * num_groups, length, keys // block_size, block_size)
        made = made.reshape(shape).wide().max([3]).reshape((batch, num_groups, length, keys // block_size))
    return _rows(q, made, DataType.BFLOAT16)
