"""Caches of keys and values whose rows several users, layers and chips share; functions write them in place.
On one chip the rows of a user and layer are in the order of their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.value import where
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import L1_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import num_cores_to_corerangeset
from ...memory.values import TILE_SIZE, ShardOrientation, TensorMemoryLayout
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor
from ..operation import operation
from ..results import target
from .heads import each_placed, sequence


def _count(like: WideValue, given: Any) -> WideValue:
    """A number, or the first element of a tensor, as int32 [1]."""
    if isinstance(given, Tensor):
        return given._value.int32().reshape((given.logical_volume(),)).part(0, 0, 1)
    return like.scalar(np.asarray([given], np.int32), "int32")


def _whole_tiles(count: WideValue, size: int = TILE_SIZE) -> WideValue:
    """The next multiple of ``size``."""
    return ((count.cast("float32") / float(size)).ceil() * float(size)).cast("int32")


class _Rows:
    """The rows [users layers, length] of a cache [users layers, heads, length, d] as numbers: ``slot`` of the
    first dimension, ``row`` of the third."""

    def __init__(self, cache: Tensor):
        self.cache, self.value = cache, cache._value
        slots, _, length, _ = cache.shape
        self.slot = self.value.scalar(np.arange(slots, dtype=np.int32).reshape(slots, 1, 1, 1), "int32")
        self.row = self.value.scalar(np.arange(length, dtype=np.int32).reshape(1, 1, length, 1), "int32")

    def write(self, held: WideValue, values: Any) -> Tensor:
        """The values at the rows where ``held`` is true, in place."""
        self.value.overwrite(where(held, values, self.value.wide()))
        return self.cache


def _check_slot(cache: Tensor, slot: Any, layer: int, layers: int) -> None:
    expect(0 <= layer < layers, f"layer_idx {layer} out of range for num_layers {layers}")
    slots = cache.shape[0] // layers
    text = f"slot_idx ({slot}) out of range for num_slots ({slots})"
    expect(isinstance(slot, Tensor) or 0 <= slot < slots, text)


@operation("experimental.deepseek_prefill.update_padded_kv_cache", "take, where")
def update_padded_kv_cache(
    cache: Tensor,
    input: Tensor,
    slot_idx: Any,
    layer_idx: Any,
    num_layers: int,
    kv_actual_global: Any,
    cluster_axis: int | None,
    valid_global: Any = None,
    tp_axis: Any = None,
    rope: Any = None,
    scales: Any = None,
) -> Tensor:
    """Write [1, heads, s, d] into the cache [users layers, heads, length, d], in place, at the rows from
    ``kv_actual_global`` on of a user and a layer; with ``valid_global`` only rows before the next whole tile
    of that number. ``slot_idx`` and ``kv_actual_global`` may be tensors of one uint32; by position they are
    then the third and fourth arguments."""
    if isinstance(layer_idx, Tensor):
        layer_idx, num_layers, kv_actual_global = num_layers, kv_actual_global, layer_idx
    if tp_axis is not None or rope is not None or scales is not None:
        raise Unsupported(f"{called()} with tp_axis, rope or scales is not supported")
    _check_slot(cache, slot_idx, layer_idx, num_layers)
    count, length = input.shape[2], cache.shape[2]
    if not isinstance(kv_actual_global, Tensor):
        text = f"kv_actual_global ({kv_actual_global})"
        expect(kv_actual_global % TILE_SIZE == 0, f"{text} must be tile-aligned (a multiple of 32)")
        fits = valid_global is not None or kv_actual_global + count <= length
        full = f"would overflow global cache capacity ({length})"
        expect(fits, f"{text} + chunk_global ({count}) {full}. Pass valid_global to clamp the write")
    rows = _Rows(cache)
    own = rows.row.reshape((length,)) - _count(rows.value, kv_actual_global)
    inside = (own >= 0) & (own < count)
    if valid_global is not None:
        end = _whole_tiles(_count(rows.value, valid_global))
        inside = inside & (rows.row.reshape((length,)) < end)
    found = input._value.wide().run("take", own.maximum(0).minimum(count - 1), axis=2)
    batch = _count(rows.value, slot_idx) * num_layers + layer_idx
    here = rows.slot.equal(batch.reshape((1, 1, 1, 1)))
    return rows.write(inside.reshape((1, 1, length, 1)) & here, found)


@operation("experimental.deepseek_prefill.zero_padded_kv_cache", "where")
def zero_padded_kv_cache(
    cache: Tensor,
    slot_idx: Any,
    layer_idx: Any,
    num_layers: int,
    valid_global: Any,
    chunk_size_global: int,
    cluster_axis: int,
    pad_align: int = 128,
) -> Tensor:
    """Write zeros into the rows of a user and a layer, in place, from ``valid_global`` to before its next
    multiple of ``pad_align``. ``slot_idx`` and ``valid_global`` may be tensors of one uint32; by position
    they are then the second and third arguments."""
    if isinstance(layer_idx, Tensor):
        layer_idx, num_layers, valid_global = num_layers, valid_global, layer_idx
    _check_slot(cache, slot_idx, layer_idx, num_layers)
    text = f"chunk_size_global ({chunk_size_global}) must be a multiple of pad_align ({pad_align})"
    expect(chunk_size_global % pad_align == 0, f"{text} so the window stays within one slab")
    if not isinstance(valid_global, Tensor):
        text = f"valid_global ({valid_global}) exceeds cache capacity ({cache.shape[2]})"
        expect(valid_global <= cache.shape[2], text)
    rows = _Rows(cache)
    start = _count(rows.value, valid_global)
    end = _whole_tiles(start, pad_align)
    batch = _count(rows.value, slot_idx) * num_layers + layer_idx
    inside = (rows.row >= start.reshape((1, 1, 1, 1))) & (rows.row < end.reshape((1, 1, 1, 1)))
    return rows.write(inside & rows.slot.equal(batch.reshape((1, 1, 1, 1))), 0.0)


@operation("experimental.indexed_fused_update_cache", "take, where")
def indexed_fused_update_cache(
    cache_tensor1: TiledTensor,
    input_tensor1: TiledTensor,
    cache_tensor2: TiledTensor,
    input_tensor2: TiledTensor,
    physical_update_idxs_tensor: WideValue,
) -> tuple[Tensor, Tensor]:
    """Write row i [1, heads, n, d] of each input into the row of its cache [pages, heads, rows, d], in place,
    that the i-th index names: page index // rows, row index % rows. Negative and too large indices are
    skipped; of equal ones the last counts."""
    at = physical_update_idxs_tensor.int32()
    places = at.reshape((at.size,))
    count = input_tensor1.shape[2]
    expect(count <= places.shape[0], f"{places.shape[0]} indices for {count} rows")
    places = places.part(0, 0, count)
    for cache, x in ((cache_tensor1, input_tensor1), (cache_tensor2, input_tensor2)):
        pages, heads, length, width = cache.shape
        names = places.scalar(np.arange(pages * length, dtype=np.int32)[:, None], "int32")
        order = places.scalar(np.arange(1, count + 1, dtype=np.int32)[None], "int32")
        found = (
            where(names.equal(places.reshape((1, count))), order.cast("float32"), 0.0).max([1]).cast("int32")
        )
        source = (found - 1).maximum(0).reshape((pages * length,))
        rows = x._value.wide().run("take", source, axis=2)
        rows = rows.reshape((heads, pages, length, width)).op("transpose", perm=(1, 0, 2, 3))
        held = (found > 0).reshape((pages, 1, length, 1))
        cache._value.overwrite(where(held, rows.wide(), cache._value.wide()))
    return cache_tensor1, cache_tensor2


@operation("experimental.nlp_kv_cache_load_slice", "slice")
def nlp_kv_cache_load_slice(
    input_tensor: TiledTensor,
    *,
    seq_len_start: int,
    seq_len_end: int,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """Rows from ``seq_len_start`` to before ``seq_len_end`` of a cache [b, heads, length, d], in L1, where
    each head of each user is a shard."""
    batch, heads, length, width = input_tensor.shape
    fits = 0 <= seq_len_start < seq_len_end <= length
    expect(fits, f"rows {seq_len_start} to {seq_len_end} of {length}")
    whole = seq_len_start % TILE_SIZE == seq_len_end % TILE_SIZE == 0
    expect(whole, "Can only unpad tilized tensor with full tiles")
    assert input_tensor._device is not None
    grid = input_tensor._device.compute_with_storage_grid_size()
    cores, most = batch * heads, grid.x * grid.y
    expect(cores <= most, f"Fused batch heads ({cores}) must be <= total grid size ({most})")
    spec = ShardSpec(
        num_cores_to_corerangeset(cores, grid, True),
        [seq_len_end - seq_len_start, width],
        ShardOrientation.ROW_MAJOR,
    )
    config = memory_config or L1_MEMORY_CONFIG
    config = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, config.buffer_type, spec)
    made = input_tensor._value.part(2, seq_len_start, seq_len_end)
    return target(input_tensor, config, output_tensor).wrap(made)


@operation("experimental.nlp_create_q_heads_split", "reshape, transpose, slice")
def nlp_create_q_heads_split(
    input: TiledTensor, *, num_heads: int, split_head_dim: int, memory_config: MemoryConfig | None = None
) -> tuple[Tensor, ...]:
    """Queries [b, 1, s, h d] cut into heads, and each head after ``split_head_dim`` columns: [b, h, s, split]
    and [b, h, s, d - split]."""
    x = sequence(input)
    batch, length, width = x.shape
    expect(width % num_heads == 0, f"the width {width} cannot be cut into {num_heads} heads")
    size = width // num_heads
    aligned = split_head_dim % TILE_SIZE == size % TILE_SIZE == 0 and 0 < split_head_dim < size
    expect(aligned, "Q head split requires two nonempty tile-aligned channel regions")
    heads = x.reshape((batch, length, num_heads, size)).op("transpose", perm=(0, 2, 1, 3))
    parts = [heads.part(3, 0, split_head_dim), heads.part(3, split_head_dim, size)]
    return tuple(each_placed(input, parts, memory_config))
