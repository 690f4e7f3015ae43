"""Caches of keys and values: [users, heads, length, d], or in pages [blocks, heads, rows of a block, d] that
a page table [users, blocks of a user] names. They are written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.values import DataType
from ...tensors.tensor import Tensor
from ..operation import Operation, operation
from ..results import device_tensor
from ..wide import Wide


def _integers(w: Wide, values: Any) -> Handle:
    return w.number(np.asarray(values, np.int32), "int32")


def _write(op: str, w: Wide, cache: Tensor, rows: Handle, updates: Handle, valid: Handle | None) -> None:
    """Put updates [n, d] at rows [n] of a cache, where ``valid`` [n] holds."""
    width = cache.shape[-1]
    check(updates.shape[1] == width, op, f"the input's width {updates.shape[1]} is not the cache's {width}")
    count = updates.shape[0]
    flat = w.reshape(w.rows(cache._handle), (cache.logical_volume() // width, width))
    if valid is not None:
        held = kernels.run("take", [flat, rows], {"axis": 0})
        updates = w.select(w.reshape(valid, (count, 1)), updates, held)
    places = w.reshape(w.rows(rows), (count, 1))
    spread = kernels.run("broadcast_to", [places], {"shape": (count, width)})
    made = w("scatter_elements", flat, spread, updates, axis=0)
    made = w.reshape(w.rows(made), tuple(cache.shape))
    kernels.overwrite(cache._handle, kernels.convert(made, cache._handle.layout))


def _block_rows(w: Wide, positions: Handle, size: int) -> tuple[Handle, Handle]:
    """(block, row in it) of positions that are not negative."""
    block = w.cast(w("floor", w("divide", w.cast(positions, "float32"), float(size))), "int32")
    return block, w("subtract", positions, w("multiply", block, size))


def _pages(w: Wide, page_table: Tensor) -> Handle:
    return w.int32(page_table._handle)


def _sizes(op: str, cache: Tensor, x: Tensor) -> tuple[int, int, int]:
    """Heads, length and width of a cache that an input fits."""
    check(len(cache.shape) == 4 and len(x.shape) == 4, op, "cache and input must have 4 dimensions")
    _, heads, length, width = cache.shape
    return heads, length, width


def _first_heads(w: Wide, x: Handle, heads: int) -> Handle:
    """[b, h, d] of [1, b, h or more, d]."""
    if x.shape[2] > heads:
        x = w("slice", x, starts=(0,), ends=(heads,), axes=(2,))
    return w.reshape(w.rows(x), (x.shape[1], heads, x.shape[3]))


def paged_update(
    op: str,
    cache: Tensor,
    x: Tensor,
    positions: Handle,
    share_cache: bool,
    page_table: Tensor | None,
    batch_offset: int,
) -> None:
    """Write [1, users, heads, d] at a position each; a negative one is left out."""
    w = Wide(cache._handle.device)
    heads, length, width = _sizes(op, cache, x)
    users = positions.shape[0]
    valid = w("greater_equal", positions, 0)
    positions = w("maximum", positions, 0)
    if page_table is None:
        owner = _integers(w, np.zeros(users) if share_cache else np.arange(users))
        row = positions
    else:
        at, row = _block_rows(w, positions, length)
        table = _pages(w, page_table)
        owner = kernels.run("take_along_axis", [table, w.reshape(w.rows(at), (users, 1))], {"axis": 1})
        owner = w.reshape(w.rows(owner), (users,))
    base = w("add", w("multiply", owner, heads * length), row)
    rows = w("add", w.reshape(w.rows(base), (users, 1)), _integers(w, np.arange(heads)[None] * length))
    updates = _first_heads(w, w.wide(x._handle), heads)
    if batch_offset or updates.shape[0] != users:
        check(updates.shape[0] >= batch_offset + users, op, f"{x.shape} has no {users} users")
        updates = w("slice", updates, starts=(batch_offset,), ends=(batch_offset + users,), axes=(0,))
    spread = kernels.run("broadcast_to", [w.reshape(w.rows(valid), (users, 1))], {"shape": (users, heads)})
    count = users * heads
    _write(
        op,
        w,
        cache,
        w.reshape(w.rows(rows), (count,)),
        w.reshape(w.rows(updates), (count, width)),
        w.reshape(w.rows(spread), (count,)),
    )


def _positions(op: str, w: Wide, listed: Sequence[int], tensor: Tensor | None) -> Handle:
    if tensor is None:
        return _integers(w, [int(at) for at in listed])
    x = device_tensor(op, tensor)
    return w.reshape(w.rows(w.int32(x._handle)), (x.logical_volume(),))


def _here(mesh_coords: Any) -> bool:
    """Whether the one device is among those that a call names."""
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
    compute_kernel_config: Any = None,
    mesh_coords: Any = None,
) -> Tensor:
    """Write [1, users, heads, d] into a cache, in place, each user at its index; -1 leaves one out."""
    op = "ttnn.experimental.paged_update_cache"
    cache, x = device_tensor(op, cache_tensor, "cache"), device_tensor(op, input_tensor)
    if _here(mesh_coords):
        where = _positions(op, Wide(cache._handle.device), update_idxs, update_idxs_tensor)
        paged_update(op, cache, x, where, bool(share_cache), page_table, batch_offset)
    return cache


@operation("experimental.paged_fused_update_cache", "scatter_elements, take, where")
def paged_fused_update_cache(
    cache_tensor1: Tensor,
    input_tensor1: Tensor,
    cache_tensor2: Tensor,
    input_tensor2: Tensor,
    **given: Any,
) -> tuple[Tensor, Tensor]:
    """paged_update_cache of two caches."""
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
    compute_kernel_config: Any = None,
    mesh_coords: Any = None,
) -> Tensor:
    """Write [1, heads, s, d] into the blocks of a user, in place."""
    op = "ttnn.experimental.paged_fill_cache"
    cache, x = device_tensor(op, cache_tensor, "cache"), device_tensor(op, input_tensor)
    heads, length, width = _sizes(op, cache, x)
    count = x.shape[2]
    table = device_tensor(op, page_table, "page table")
    text = f"{count} rows do not fit into {table.shape[-1]} blocks of {length}"
    check(count <= table.shape[-1] * length, op, text)
    if not _here(mesh_coords):
        return cache
    w = Wide(cache._handle.device)
    user = _positions(op, w, [batch_idx], batch_idx_tensor)
    blocks = kernels.run("take", [_pages(w, table), user], {"axis": 0})  # [1, n]
    at = np.arange(count)
    owner = kernels.run("take", [blocks, _integers(w, at // length)], {"axis": 1})
    inside = np.arange(heads)[:, None] * length + at % length
    rows = w("add", w("multiply", owner, heads * length), _integers(w, inside))
    total = heads * count
    updates = w.reshape(w.rows(w.wide(x._handle)), (total, width))
    _write(op, w, cache, w.reshape(w.rows(rows), (total,)), updates, None)
    return cache


def _filled(name: str) -> None:
    full = f"ttnn.{name}"

    def function(cache: Tensor, input: Tensor, batch_index: int) -> Tensor:
        """Write [1, heads, s, d] into the first rows of a user, in place."""
        held, x = device_tensor(full, cache, "cache"), device_tensor(full, input)
        heads, length, width = _sizes(full, held, x)
        count = x.shape[2]
        check(0 <= batch_index < held.shape[0], full, f"batch_idx {batch_index} is outside of {held.shape}")
        fits = x.shape[1] == heads and count <= length
        check(fits, full, f"the input {x.shape} does not fit into the cache {held.shape}")
        w = Wide(held._handle.device)
        rows = (batch_index * heads + np.arange(heads)[:, None]) * length + np.arange(count)
        updates = w.reshape(w.rows(w.wide(x._handle)), (heads * count, width))
        _write(full, w, held, _integers(w, rows.ravel()), updates, None)
        return held

    Operation(name, function, "scatter_elements")


def _updated(name: str) -> None:
    full = f"ttnn.{name}"

    def function(
        cache: Tensor,
        input: Tensor,
        update_index: int,
        batch_offset: int = 0,
        compute_kernel_config: Any = None,
    ) -> Tensor:
        """Write [1, heads, users, d] at one position of every user, in place; the users of the input begin
        at ``batch_offset``."""
        held, x = device_tensor(full, cache, "cache"), device_tensor(full, input)
        heads, length, width = _sizes(full, held, x)
        users = held.shape[0]
        check(0 <= update_index < length, full, f"index {update_index} is outside of the cache {held.shape}")
        fits = x.shape[1] == heads and batch_offset + users <= x.shape[2]
        check(fits, full, f"the input {x.shape} does not fit into the cache {held.shape}")
        w = Wide(held._handle.device)
        part = w("slice", x._handle, starts=(batch_offset,), ends=(batch_offset + users,), axes=(2,))
        turned = kernels.run("transpose", [part], {"perm": (0, 2, 1, 3)})
        updates = w.reshape(w.rows(w.wide(turned)), (users * heads, width))
        rows = np.arange(users * heads) * length + update_index
        _write(full, w, held, _integers(w, rows), updates, None)
        return held

    Operation(name, function, "scatter_elements, slice, transpose")


for _name in ("kv_cache.fill_cache_for_user_", "fill_cache"):
    _filled(_name)
for _name in ("kv_cache.update_cache_for_token_", "update_cache"):
    _updated(_name)


@operation("plus_one", "add")
def plus_one(
    input_tensor: Tensor, *, sub_core_grids: Any = None, skip_negative_entries: bool = False
) -> Tensor:
    """Add 1 to integers, in place."""
    op = "ttnn.plus_one"
    x = device_tensor(op, input_tensor)
    kinds = (DataType.INT32, DataType.UINT32)
    check(x.dtype in kinds, op, f"the tensor must be INT32 or UINT32, got {x.dtype}")
    w = Wide(x._handle.device)
    held = w.int32(x._handle)
    made = w("add", held, 1)
    if skip_negative_entries:
        made = w.select(w("less", held, 0), held, made)
    made = kernels.reinterpret(made, "uint32") if x.dtype is DataType.UINT32 else made
    kernels.overwrite(x._handle, kernels.convert(made, x._handle.layout))
    return x


def paged(w: Wide, pages: Handle, page_table: Tensor) -> Handle:
    """[users, heads, length, d] of a cache in pages."""
    table = _pages(w, page_table)
    users, count = table.shape
    _, heads, size, width = pages.shape
    found = kernels.run("take", [pages, table], {"axis": 0})
    turned = kernels.run("transpose", [found], {"perm": (0, 2, 1, 3, 4)})
    return w.reshape(w.rows(turned), (users, heads, count * size, width))
