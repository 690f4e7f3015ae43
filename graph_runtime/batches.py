"""Many copies between a device and the host in one submission: what gather and scatter are made of.

On the host's side all values stand in one block, each at a multiple of 64 bytes: one allocation, one wait.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from . import core, dtypes
from .buffer import Buffer
from .devices import cpu
from .graph import TensorType
from .host_values import ALIGNMENT, host_view
from .lower import arg_record
from .program import ARG, SLOT, STEP
from .single.place import Place, default_place
from .template import Template, copy_queue
from .tensor import Tensor
from .traffic import record

__all__ = ["fetch", "spread"]


class _Batch(NamedTuple):
    """A template whose last slot is the block on the host, ``offsets`` of the values there, ``nbytes`` of the
    values. ``rows``: values of one type that follow each other as one strided array (shape, dtype, offset,
    strides), for to make one view and take its rows is quicker than many views."""

    template: Template
    offsets: tuple[int, ...]
    extent: int
    nbytes: int
    rows: tuple[tuple[tuple[int, ...], np.dtype, int, tuple[int, ...]], ...]


def fetch(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of free tensors of one device, in arrays that share a block; waits. Raises what a run raised
    that was to write them, DeviceMemoryError."""
    batch = _batch(tuple([tensor.place for tensor in tensors]), to_host=True)
    pointers = [tensor.buffer.live() for tensor in tensors]
    buffers = core.ffi.new("gr_buffer *[]", [*pointers, core.ffi.NULL])
    core.lib.gr_run_release(batch.template.submit(buffers))
    record("d2h", tensors[0].device, batch.nbytes, len(tensors))
    block = Buffer(core.open_device(cpu(0)), 0, batch.extent, buffers[len(tensors)])
    memory = host_view(_bytes(batch.extent), block.addr, block, readonly=False)
    arrays: list[np.ndarray] = []
    for shape, dtype, offset, strides in batch.rows:         # while the copies are on their way
        rows = np.ndarray(shape, dtype, memory, offset, strides)
        arrays.extend(rows if len(shape) > 1 else [rows[i, ...] for i in range(len(rows))])
    block.wait()
    return arrays


def spread(arrays: Sequence[np.ndarray], places: Sequence[Place]) -> list[Tensor]:
    """New tensors in ``places``, of one device, with the values of arrays of their types; the arrays have
    been read when it returns. Raises DeviceMemoryError."""
    batch, host = _batch(tuple(places), to_host=False), core.open_device(cpu(0))
    block = Buffer.alloc(host, 0, batch.extent, "scatter")
    memory = host_view(_bytes(batch.extent), block.addr, block, readonly=False)
    for array, offset in zip(arrays, batch.offsets, strict=True):
        np.ndarray(array.shape, array.dtype, memory, offset)[...] = array
    buffers = core.ffi.new("gr_buffer *[]", [*[core.ffi.NULL] * len(arrays), block.live()])
    core.lib.gr_run_release(batch.template.submit(buffers))
    record("h2d", places[0].device, batch.nbytes, len(arrays))
    made = []
    for place, pointer in zip(places, buffers, strict=False):
        buffer = Buffer(place.handle, place.memory, place.extent, pointer)
        made.append(Tensor(place.device, place.handle, place.type, place.layout, buffer.addr, buffer))
    return made


@cache
def _bytes(extent: int) -> TensorType:
    return TensorType("uint8", (extent,))


@lru_cache(maxsize=64)
def _batch(places: tuple[Place, ...], to_host: bool) -> _Batch:
    host = [default_place(cpu(0), place.type) for place in places]
    offsets, end = [], 0
    for place in places:
        offsets.append(end)
        end += -(-place.type.nbytes // ALIGNMENT) * ALIGNMENT
    extent = max(end, 1)
    pairs = list(zip(places, host, strict=True) if to_host else zip(host, places, strict=True))
    slots = np.zeros(len(places) + 1, SLOT)
    if to_host:
        slots[-1] = (core.address_of(host[0].handle.pointer), 0, 1, extent)
    else:
        for at, place in enumerate(places):
            slots[at] = (core.address_of(place.handle.pointer), place.memory, 1, place.extent)
    template = _template(pairs, offsets, 1 if to_host else 0, slots)
    return _Batch(template, tuple(offsets), extent, sum(place.type.nbytes for place in places),
                  tuple(_rows([place.type for place in places], offsets)))


def _rows(types: Sequence[TensorType], offsets: Sequence[int]) -> Iterator[tuple]:
    at = 0
    for type_, group in groupby(types):
        count, dtype = len(list(group)), dtypes.to_numpy(type_.dtype)
        stride = -(-type_.nbytes // ALIGNMENT) * ALIGNMENT
        inner = [dtype.itemsize * math.prod(type_.shape[d + 1:]) for d in range(len(type_.shape))]
        yield (count, *type_.shape), dtype, offsets[at], (stride, *inner)
        at += count


def _template(pairs: list[tuple[Place, Place]], offsets: list[int], packed: int,
              slots: np.ndarray) -> Template:
    """A step a pair (source, target), in one lane; side ``packed`` of each lies in the last slot."""
    flat, count = [place for pair in pairs for place in pair], np.arange(len(pairs))
    args = np.zeros(len(flat), ARG)
    for at, place in enumerate(flat):
        args[at] = arg_record(place.type, place.layout, place.type.shape)
    shapes = np.array([n for place in flat for n in place.type.shape] or [0], np.int64)
    ranks = [len(place.type.shape) for place in flat]
    args["shape"] = shapes.ctypes.data + 8 * np.cumsum([0, *ranks])[:-1]
    args["addr"][packed::2] = offsets
    arg_slot = np.repeat(count, 2)
    arg_slot[packed::2] = len(pairs)
    envs = np.array([core.address_of(place.handle.env) for place in flat], np.uint64)
    label = core.ffi.new("char[]", f"batch of {len(pairs)} copies".encode())
    steps = np.zeros(len(pairs), STEP)
    steps["fn"], steps["attrs"], steps["env"] = core.copy_kernel(), envs.ctypes.data + 16 * count, envs[1::2]
    steps["first_arg"], steps["nargs"], steps["num_inputs"] = 2 * count, 2, 1
    steps["op"] = core.address_of(label)
    source, target = pairs[0]
    queue = copy_queue(source.handle, source.layout, target.handle, target.layout)
    return Template(steps, args, arg_slot, np.zeros(0, np.int64), [queue], slots,
                    owners=(shapes, envs, label))
