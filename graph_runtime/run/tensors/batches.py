"""Many copies between a device and the host at once, for gather (one call into C) and scatter (one
submission).

On the host all values lie in one block, each at a multiple of 64 bytes, so there is one allocation and one
wait."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.machine.devices import cpu
from ...binding import core
from ...binding.core import writable_view
from ...binding.programs.program import SLOT, STEP
from ...ir.graph import TensorType
from ..device_handles import open_device
from ..queues.buffer import Buffer, wait_in_slices
from ..queues.template import Template, copy_queue
from .spec import TensorSpec, default_spec, spec_args
from .tensor import ALIGNMENT, Tensor, aligned_empty

_gather = core.lib.gr_gather


class _Fetch(NamedTuple):
    """Copies of many tensors to one block on the host. ``args`` ARG [2 * tensors]: each source, and its
    target in the block of ``extent`` bytes; ``shapes``: memory into which ``args`` point. ``rows``: one
    strided array (shape, dtype, offset, strides) for each sequence of values of the same type, because taking
    the rows of one view is faster than making many views."""

    args: np.ndarray
    shapes: np.ndarray
    extent: int
    rows: tuple[tuple[tuple[int, ...], np.dtype, int, tuple[int, ...]], ...]


class _Spread(NamedTuple):
    """Copies from one block on the host to many tensors: a template whose last slot is the block, and the
    ``offsets`` of the values in the block."""

    template: Template
    offsets: tuple[int, ...]
    extent: int


def fetch(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of free tensors of one device, in arrays that share a block. Waits for the values. Raises
    KernelError if a run that should have written a tensor failed."""
    specs, pointers = _of_one_time(tensors)
    batch = _fetch(tuple(specs))
    memory = aligned_empty(batch.extent, np.uint8)
    buffers = core.ffi.new("gr_buffer *[]", pointers)
    env, base = specs[0].handle.env, memory.ctypes.data
    args, after = core.ffi.cast("gr_arg *", batch.args.ctypes.data), core.ffi.new("int64_t *")
    count = len(tensors)
    wait_in_slices(lambda budget: _gather(buffers, env, args, base, count, budget, after), None, "a gather")
    arrays: list[np.ndarray] = []
    for shape, dtype, offset, strides in batch.rows:
        rows = np.ndarray(shape, dtype, memory, offset, strides)
        arrays.extend(rows if len(shape) > 1 else [rows[i, ...] for i in range(len(rows))])
    return arrays


def _of_one_time(tensors: Sequence[Tensor]) -> tuple[list[TensorSpec], list[Any]]:
    """Specs and ``gr_buffer *`` of the tensors, all from one moment, because other threads may let the
    handles lead elsewhere. Keep the result while C reads the buffers."""
    while True:
        owners = [tensor._owner for tensor in tensors]
        specs = [tensor._spec or tensor.spec for tensor in tensors]
        pointers = [getattr(owner, "pointer", None) for owner in owners]
        if not all(pointers):
            for tensor in tensors:
                tensor.alive()
        elif all(map(is_, owners, [tensor._owner for tensor in tensors])):
            return specs, pointers


def spread(arrays: Sequence[np.ndarray], specs: Sequence[TensorSpec]) -> list[Tensor]:
    """New tensors of ``specs``, which are on one device, with the values of arrays of the same types. When
    the call returns, the arrays have been read. Raises DeviceMemoryError."""
    batch, host = _spread(tuple(specs)), open_device(cpu(0))
    with Buffer.to_write(host, 0, batch.extent, "scatter") as turn:
        block = turn.buffer
        memory = writable_view(_bytes(batch.extent), block.addr, turn)
        for array, offset in zip(arrays, batch.offsets, strict=True):
            np.ndarray(array.shape, array.dtype, memory, offset)[...] = array
    buffers = core.ffi.new("gr_buffer *[]", [*[core.ffi.NULL] * len(arrays), block.live()])
    core.lib.gr_run_release(batch.template.submit(buffers))
    made = []
    for spec, pointer in zip(specs, buffers, strict=False):
        buffer = Buffer(spec.handle, spec.memory, spec.extent, pointer)
        made.append(Tensor(spec.device, spec.handle, spec.type, spec.layout, buffer.addr, buffer))
    return made


@cache
def _bytes(extent: int) -> TensorType:
    return TensorType("uint8", (extent,))


@lru_cache(maxsize=64)
def _fetch(specs: tuple[TensorSpec, ...]) -> _Fetch:
    types = [spec.type for spec in specs]
    offsets, extent = _block(types)
    args, shapes = _args(list(zip(specs, _on_host(types), strict=True)), offsets, packed=1)
    return _Fetch(args, shapes, extent, tuple(_rows(types, offsets)))


@lru_cache(maxsize=64)
def _spread(specs: tuple[TensorSpec, ...]) -> _Spread:
    types = [spec.type for spec in specs]
    offsets, extent = _block(types)
    slots = np.zeros(len(specs) + 1, SLOT)
    for at, spec in enumerate(specs):
        slots[at] = (core.address_of(spec.handle.pointer), spec.memory, 1, spec.extent)
    template = _template(list(zip(_on_host(types), specs, strict=True)), offsets, slots)
    return _Spread(template, tuple(offsets), extent)


def _on_host(types: Sequence[TensorType]) -> list[TensorSpec]:
    return [default_spec(cpu(0), type_) for type_ in types]


def _block(types: Sequence[TensorType]) -> tuple[list[int], int]:
    """The offset of each value in a block, and the block's size in bytes."""
    offsets, end = [], 0
    for type_ in types:
        offsets.append(end)
        end += -(-type_.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, max(end, 1)


def _rows(types: Sequence[TensorType], offsets: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    at = 0
    for type_, group in groupby(types):
        count, dtype = len(list(group)), dtypes.to_numpy(type_.dtype)
        stride = -(-type_.nbytes // ALIGNMENT) * ALIGNMENT
        inner = [dtype.itemsize * math.prod(type_.shape[d + 1 :]) for d in range(len(type_.shape))]
        yield (count, *type_.shape), dtype, offsets[at], (stride, *inner)
        at += count


def _args(
    pairs: list[tuple[TensorSpec, TensorSpec]], offsets: list[int], packed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(ARG [2 * pairs] of sources and targets, the shapes into which they point). Side ``packed`` of each
    pair, 0 or 1, lies in the block."""
    args, shapes = spec_args([spec for pair in pairs for spec in pair])
    args["shape"] += np.uint64(shapes.ctypes.data)
    args["addr"][packed::2] = offsets
    return args, shapes


def _template(pairs: list[tuple[TensorSpec, TensorSpec]], offsets: list[int], slots: np.ndarray) -> Template:
    """A template with a step for each pair (source, target), in one lane; the sources lie in the last
    slot."""
    flat, count = [spec for pair in pairs for spec in pair], np.arange(len(pairs))
    args, shapes = _args(pairs, offsets, packed=0)
    arg_slot = np.repeat(count, 2)
    arg_slot[0::2] = len(pairs)
    envs = np.array([core.address_of(spec.handle.env) for spec in flat], np.uint64)
    label = core.ffi.new("char[]", f"batch of {len(pairs)} copies".encode())
    steps = np.zeros(len(pairs), STEP)
    steps["fn"], steps["attrs"], steps["env"] = core.copy_kernel(), envs.ctypes.data + 16 * count, envs[1::2]
    steps["first_arg"], steps["nargs"], steps["num_inputs"] = 2 * count, 2, 1
    steps["op"] = core.address_of(label)
    source, target = pairs[0]
    queue = copy_queue(source.handle, source.layout, target.handle, target.layout)
    return Template(
        steps, args, arg_slot, np.zeros(0, np.int64), [queue], slots, owners=(shapes, envs, label)
    )
