"""Caches of keys and values. A cache is [users, heads, length, d], or has pages, [blocks, heads, rows of a
block, d], whose blocks for each user are listed in a page table [users, blocks of a user]. Functions write
caches in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.value import where
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.values import DataType
from ...tensors.tensor import Tensor
from ..operation import operation


def _integers(like: Tensor, values: Any) -> WideValue:
    return like._value.scalar(np.asarray(values, np.int32), "int32")


def _write(cache: Tensor, rows: WideValue, updates: WideValue, valid: WideValue | None) -> None:
    """Write updates [n, d] into the rows [n] of a cache; with ``valid`` [n], only into the rows for which it
    is True."""
    width = cache.shape[-1]
    expect(updates.shape[1] == width, f"the input's width {updates.shape[1]} is not the cache's {width}")
    count = updates.shape[0]
    flat = cache._value.reshape((cache.logical_volume() // width, width))
    if valid is not None:
        held = flat.run("take", rows, axis=0)
        updates = where(valid.reshaped((count, 1)), updates, held)
    places = rows.reshape((count, 1))
    spread = places.run("broadcast_to", shape=(count, width))
    made = flat.op("scatter_elements", spread, updates, axis=0)
    made = made.reshape(tuple(cache.shape))
    cache._value.overwrite(made)


def _block_rows(positions: WideValue, size: int) -> tuple[WideValue, WideValue]:
    """(block, row in the block) of positions that are not negative."""
    block = (positions.cast("float32") / float(size)).floor().cast("int32")
    return block, positions - block * size


def _sizes(cache: Tensor, x: Tensor) -> tuple[int, int, int]:
    """(heads, length, width) of a cache. Raises RuntimeError if cache or input do not have 4 dimensions."""
    expect(len(cache.shape) == len(x.shape) == 4, "cache and input must have 4 dimensions")
    return cache.shape[1], cache.shape[2], cache.shape[3]


def _first_heads(x: WideValue, heads: int) -> WideValue:
    """The first ``heads`` heads of a tensor [1, b, h or more, d], as [b, h, d]."""
    if x.shape[2] > heads:
        x = x.part(2, 0, heads)
    return x.reshape((x.shape[1], heads, x.shape[3]))


def paged_update(
    cache: Tensor,
    x: Tensor,
    positions: WideValue,
    share_cache: bool,
    page_table: Tensor | None,
    batch_offset: int,
) -> None:
    """Write [1, users, heads, d] into a cache, each user at its position; a user whose position is negative
    is left out."""
    heads, length, width = _sizes(cache, x)
    users = positions.shape[0]
    valid = positions >= 0
    positions = positions.maximum(0)
    if page_table is None:
        owner = _integers(cache, np.zeros(users) if share_cache else np.arange(users))
        row = positions
    else:
        at, row = _block_rows(positions, length)
        table = page_table._value.int32()
        owner = table.run("take_along_axis", at.reshape((users, 1)), axis=1)
        owner = owner.reshape((users,))
    base = owner * (heads * length) + row
    rows = base.reshape((users, 1)) + _integers(cache, np.arange(heads)[None] * length)
    updates = _first_heads(x._value.wide(), heads)
    if batch_offset or updates.shape[0] != users:
        expect(updates.shape[0] >= batch_offset + users, f"{x.shape} has no {users} users")
        updates = updates.part(0, batch_offset, batch_offset + users)
    spread = valid.reshape((users, 1)).run("broadcast_to", shape=(users, heads))
    count = users * heads
    _write(cache, rows.reshape((count,)), updates.reshape((count, width)), spread.reshape((count,)))


def _positions(cache: Tensor, listed: Sequence[int], tensor: Tensor | None) -> WideValue:
    if tensor is None:
        return _integers(cache, [int(at) for at in listed])
    return tensor._value.int32().reshape((tensor.logical_volume(),))


def _here(mesh_coords: Any) -> bool:
    """Whether this chip is among the coordinates that a call names. A chip is at (0, 0) of its own mesh; a
    call on a larger mesh says so to the chips that it names (over_mesh.py)."""
    return mesh_coords is None or any(tuple(at) == (0, 0) for at in mesh_coords)


@operation("experimental.paged_update_cache", "scatter_elements, take, where")
def paged_update_cache(
    cache_tensor: Tensor,
    input_tensor: Tensor,
    *,
    update_idxs: Sequence[int] = (),
    update_idxs_tensor: Tensor | None = None,
    share_cache: bool | None = None,
    page_table: Tensor | None = None,
    batch_offset: int = 0,
    mesh_coords: Any = None,
) -> Tensor:
    """Write [1, users, heads, d] into a cache, in place, each user at its index; the index -1 leaves a user
    out."""
    if _here(mesh_coords):
        at = _positions(cache_tensor, update_idxs, update_idxs_tensor)
        paged_update(cache_tensor, input_tensor, at, bool(share_cache), page_table, batch_offset)
    return cache_tensor


@operation("experimental.paged_fused_update_cache", "scatter_elements, take, where")
def paged_fused_update_cache(
    cache_tensor1: Tensor,
    input_tensor1: Tensor,
    cache_tensor2: Tensor,
    input_tensor2: Tensor,
    **given: Any,
) -> tuple[Tensor, Tensor]:
    """paged_update_cache on two caches."""
    update = paged_update_cache.function
    return update(cache_tensor1, input_tensor1, **given), update(cache_tensor2, input_tensor2, **given)


@operation("experimental.paged_fill_cache", "scatter_elements, take")
def paged_fill_cache(
    cache_tensor: Tensor,
    input_tensor: Tensor,
    page_table: Tensor,
    *,
    batch_idx_tensor: Tensor | None = None,
    batch_idx: int = 0,
    mesh_coords: Any = None,
) -> Tensor:
    """Write [1, heads, s, d] into the blocks of a user, in place."""
    cache, x, table = cache_tensor, input_tensor, page_table
    heads, length, width = _sizes(cache, x)
    count = x.shape[2]
    text = f"{count} rows do not fit into {table.shape[-1]} blocks of {length}"
    expect(count <= table.shape[-1] * length, text)
    if not _here(mesh_coords):
        return cache
    user = _positions(cache, [batch_idx], batch_idx_tensor)
    blocks = table._value.int32().run("take", user, axis=0)  # shape [1, n]
    at = np.arange(count)
    owner = blocks.run("take", _integers(cache, at // length), axis=1)
    inside = np.arange(heads)[:, None] * length + at % length
    rows = owner * (heads * length) + _integers(cache, inside)
    total = heads * count
    updates = x._value.wide().reshape((total, width))
    _write(cache, rows.reshape((total,)), updates, None)
    return cache


def _filled(name: str) -> None:
    @operation(name, "scatter_elements")
    def function(cache: Tensor, input: Tensor, batch_index: int) -> Tensor:
        """Write [1, heads, s, d] into the first rows of the user ``batch_index``, in place."""
        held, x = cache, input
        heads, length, width = _sizes(held, x)
        count = x.shape[2]
        expect(0 <= batch_index < held.shape[0], f"batch_idx {batch_index} is outside of {held.shape}")
        fits = x.shape[1] == heads and count <= length
        expect(fits, f"the input {x.shape} does not fit into the cache {held.shape}")
        rows = (batch_index * heads + np.arange(heads)[:, None]) * length + np.arange(count)
        updates = x._value.wide().reshape((heads * count, width))
        _write(held, _integers(held, rows.ravel()), updates, None)
        return held


def _updated(name: str) -> None:
    @operation(name, "scatter_elements, slice, transpose")
    def function(
        cache: Tensor,
        input: Tensor,
        update_index: int,
        batch_offset: int = 0,
        compute_kernel_config: Any = None,
    ) -> Tensor:
        """Write [1, heads, users, d] into a cache, every user at the position ``update_index``, in place; the
        users of the input begin at ``batch_offset``."""
        held, x = cache, input
        heads, length, width = _sizes(held, x)
        users = held.shape[0]
        expect(0 <= update_index < length, f"index {update_index} is outside of the cache {held.shape}")
        fits = x.shape[1] == heads and batch_offset + users <= x.shape[2]
        expect(fits, f"the input {x.shape} does not fit into the cache {held.shape}")
        part = x._value.part(2, batch_offset, batch_offset + users)
        turned = part.run("transpose", perm=(0, 2, 1, 3))
        updates = turned.wide().reshape((users * heads, width))
        rows = np.arange(users * heads) * length + update_index
        _write(held, _integers(held, rows), updates, None)
        return held


for _name in ("kv_cache.fill_cache_for_user_", "fill_cache"):
    _filled(_name)
for _name in ("kv_cache.update_cache_for_token_", "update_cache"):
    _updated(_name)


@operation("plus_one", "add")
def plus_one(input_tensor: Tensor, sub_core_grids: Any = None, skip_negative_entries: bool = False) -> Tensor:
    """Add 1 to the integers of a tensor, in place."""
    x = input_tensor
    kinds = (DataType.INT32, DataType.UINT32)
    expect(x.dtype in kinds, f"the tensor must be INT32 or UINT32, got {x.dtype}")
    held = x._value.int32()
    made = held + 1
    if skip_negative_entries:
        made = where(held < 0, held, made)
    made = made.reinterpret("uint32") if x.dtype is DataType.UINT32 else made
    x._value.overwrite(made)
    return x


def paged(pages: WideValue, page_table: WideValue) -> WideValue:
    """A cache in pages as [users, heads, length, d]."""
    table = page_table.int32()
    users, count = table.shape
    _, heads, size, width = pages.shape
    found = pages.run("take", table, axis=0)
    turned = found.run("transpose", perm=(0, 2, 1, 3, 4))
    return turned.reshape((users, heads, count * size, width))
