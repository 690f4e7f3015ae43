"""Functions that reorder and cut tensors and put them together: permute, transpose, slice, split, concat,
repeat."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.dtypes import FORMATS
from ....base.machine.layout import L1
from ....run.tensors.tensor import Tensor as Handle
from ...accepted.movement import begins_whole, through_rows_along
from ...devices import kernels
from ...errors import Unsupported, called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec, parts_of
from ...memory.placing import matrix
from ...memory.values import TILE_SIZE, DataType, Layout, TensorMemoryLayout, tiled
from ...tensors.tensor import Tensor, on_host
from ..bodies import AnyTensor
from ..operation import operation
from ..results import Target, device_tensor, target
from .shapes import axis_of, reshaped, spread, squeeze, unsqueeze


@operation("permute", "transpose", takes="memory_config, ...")
def permute(
    input_tensor: Tensor, dims: Sequence[int], pad_value: float | None = 0.0, *, goal: Target
) -> Tensor:
    """Dimension d of the result is dimension dims[d] of the input."""
    x, rank = input_tensor, len(input_tensor.shape)
    text = "The number of dimensions in the tensor input does not match the length of the desired ordering"
    expect(len(dims) == rank, text)
    perm = tuple(axis_of(int(dim), rank) for dim in dims)
    expect(len(set(perm)) == rank, f"dims {list(dims)} name a dimension twice")
    _turn_shards(x, perm, goal)
    return _permuted(x, perm, goal, pad_value)


def _permuted(x: Tensor, perm: tuple[int, ...], goal: Target, padding: float | None = 0) -> Tensor:
    if perm == tuple(range(len(perm))):
        return goal.wrap(kernels.copied(x._handle), padding or 0)
    return goal.run("transpose", [x._handle], {"perm": perm}, tuple(x.shape[at] for at in perm))


def _turn_shards(x: Tensor, perm: tuple[int, ...], goal: Target) -> None:
    """Place the result of swapping the last two dimensions of tiles in shards as the release does: shards of
    whole matrices stay, height shards of one matrix become width shards, all others are interleaved."""
    config, last = x.memory_config(), len(perm) - 1
    spec = config.shard_spec
    swapped = (*range(last - 1), last, last - 1)
    if spec is None or perm != swapped or not goal.inherited or x.layout is Layout.ROW_MAJOR:
        return
    high = config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED
    if high and math.prod(x.shape[:-2]) == 1:
        turned = ShardSpec(spec.grid, [x.padded_shape[-1], spec.shape[0]], spec.orientation)
        goal.config = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, config.buffer_type, turned)
    elif config.memory_layout is not TensorMemoryLayout.BLOCK_SHARDED:
        if not high or spec.shape[0] % x.padded_shape[-2]:
            goal.config = MemoryConfig(TensorMemoryLayout.INTERLEAVED, config.buffer_type)


@operation("transpose", "transpose", takes="memory_config, ...")
def transpose(
    input_tensor: Tensor, dim1: int, dim2: int, pad_value: float | None = 0.0, *, goal: Target
) -> Tensor:
    """The tensor with two dimensions swapped."""
    rank = len(input_tensor.shape)
    perm = list(range(rank))
    a, b = axis_of(dim1, rank), axis_of(dim2, rank)
    perm[a], perm[b] = perm[b], perm[a]
    _turn_shards(input_tensor, tuple(perm), goal)
    return _permuted(input_tensor, tuple(perm), goal)


@operation("roll", "slice, concatenate")
def roll(
    input_tensor: Tensor, shifts: Any, dim: Any = None, *, memory_config: MemoryConfig | None = None
) -> Tensor:
    """The tensor with its elements moved along dimensions; elements moved beyond the end come to the
    front."""
    x, handle = input_tensor, input_tensor._handle
    if dim is None:
        shift = shifts if isinstance(shifts, int) else sum(shifts)
        return target(x, memory_config).wrap(reshaped(_rolled_as_one(handle, shift), x.shape))
    pairs = zip(
        [shifts] if isinstance(shifts, int) else shifts,
        [dim] if isinstance(dim, int) else dim,
        strict=True,
    )
    for shift, at in pairs:
        size = handle.shape[at]
        if size and shift % size:
            handle = _rolled(handle, shift % size, at % len(handle.shape))
    return target(x, memory_config).wrap(handle)


def _rolled(handle: Handle, shift: int, axis: int) -> Handle:
    cut = handle.shape[axis] - shift
    parts = [_part(handle, axis, cut, handle.shape[axis]), _part(handle, axis, 0, cut)]
    return kernels.run("concatenate", parts, {"axis": axis})


def _rolled_as_one(handle: Handle, shift: int) -> Handle:
    """[lines, width]: all elements moved as one line would be. The end of each line comes to the front of the
    next one."""
    width = handle.shape[-1] if handle.shape else 1
    size = math.prod(handle.shape)
    if not size:
        return handle
    lines = reshaped(handle, (size // width, width))
    whole, rest = divmod(shift % size, width)
    below = _rolled(lines, whole, 0) if whole else lines
    if not rest:
        return below
    above = _rolled(lines, (whole + 1) % lines.shape[0], 0)
    parts = [_part(above, 1, width - rest, width), _part(below, 1, 0, width - rest)]
    return kernels.run("concatenate", parts, {"axis": 1})


def _part(handle: Handle, axis: int, start: int, end: int) -> Handle:
    return kernels.run("slice", [handle], {"starts": (start,), "ends": (end,), "axes": (axis,)})


# **************** parts ****************


def _listed(bounds: Any) -> Any:
    """The bounds as a list of numbers; a tensor of bounds is read to the host."""
    if not isinstance(bounds, Tensor):
        return bounds
    if bounds._device is not None and kernels.captured(bounds._device.chip):
        raise Unsupported(f"{called()} with bounds in tensors is not supported inside of a trace")
    return [int(value) for value in bounds._values().ravel()]


@operation("slice", "slice")
def slice_(
    input_tensor: AnyTensor,
    starts: Any = None,
    ends: Any = None,
    steps: Any = None,
    *,
    slice_start: Any = None,
    slice_end: Any = None,
    slice_step: Any = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    pad_value: float | None = None,
    slice_dim: int | None = None,
    num_devices: int | None = None,
) -> Tensor:
    """The part from ``starts`` to before ``ends``, by ``steps``, each with one number for each dimension.
    Bounds in tensors are read to the host. ``slice_dim`` and ``num_devices`` are a check: the part must be
    one of ``num_devices`` equal parts of that dimension."""
    starts, ends, steps = (
        a if a is not None else b for a, b in ((starts, slice_start), (ends, slice_end), (steps, slice_step))
    )
    x = input_tensor if input_tensor._device is None else device_tensor(input_tensor)
    starts, ends = (_listed(x) for x in (starts, ends))
    shape, rank = tuple(x.shape), len(x.shape)
    steps = (1,) * rank if steps is None else tuple(steps)
    text = f"Input rank {rank} and begins {len(starts)} must have the same size"
    expect(len(starts) == len(ends) == len(steps) == rank, text)
    begin = tuple(int(v) + size if v < 0 else int(v) for v, size in zip(starts, shape, strict=True))
    end = tuple(int(v) + size if v < 0 else int(v) for v, size in zip(ends, shape, strict=True))
    for a, b in zip(begin, end, strict=True):
        expect(b >= a, f"End {b} must be greater than or equal to start {a}")
    expect(all(step > 0 for step in steps), "Steps can't be zero or negative")
    fits = all(
        b <= size for b, size in zip(end, tiled(shape) if x.layout is Layout.TILE else shape, strict=True)
    )
    expect(fits, f"Ends {list(end)} are beyond the shape {list(shape)}")
    if slice_dim is not None and num_devices is not None:
        text = f"the part of dimension {slice_dim} is not one of num_devices={num_devices} equal parts"
        expect((end[slice_dim] - begin[slice_dim]) * num_devices == shape[slice_dim], text)
    strided = any(step != 1 for step in steps)
    if strided and x.dtype.is_block:
        raise Unsupported("ttnn.slice by steps of a block format is not supported")
    if x._device is None:
        part = tuple(map(slice, begin, end, steps))
        return on_host(np.ascontiguousarray(x._values()[part]), x.dtype, x.layout, exact=True)
    if any(b > size for b, size in zip(end, shape, strict=True)):
        raise Unsupported("ttnn.slice into the padding of tiles is not supported")
    made = tuple(-(-(b - a) // s) for a, b, s in zip(begin, end, steps, strict=True))
    goal = target(x, memory_config, output_tensor)
    if made == shape and not strided:
        return x if memory_config is None and output_tensor is None else goal.wrap(x._handle)
    if output_tensor is None and x.dtype is DataType.BFLOAT8_B and not begins_whole(x, begin):
        goal.dtype = DataType.BFLOAT16  # it goes through rows
    goal.resharded()
    attrs = {"starts": begin, "ends": end, "steps": tuple(steps)}
    return goal.run("slice", [x._handle], attrs, made)


def _indexed(tensor: Tensor, key: Any) -> tuple[list[tuple[int, int, int]], list[int]]:
    """([(start, end, step) of each dimension], dropped dimensions) of ``tensor[key]``. Raises IndexError,
    TypeError."""
    keys = list(key) if isinstance(key, tuple) else [key]
    rank, shape = len(tensor.shape), tensor.shape
    dots = [at for at, item in enumerate(keys) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("Only one ellipsis is allowed")
    missing = rank - (len(keys) - len(dots))
    if missing < 0:
        raise IndexError(f"Too many indices: {len(keys) - len(dots)} for a tensor of rank {rank}")
    at = dots[0] if dots else len(keys)
    keys[at : at + len(dots)] = [slice(None)] * missing
    bounds, gone = [], []
    for dim, (item, size) in enumerate(zip(keys, shape, strict=True)):
        if isinstance(item, slice):
            bounds.append((item.start or 0, size if item.stop is None else item.stop, item.step or 1))
        elif isinstance(item, int):
            where = item + size if item < 0 else item
            if not 0 <= where < size:
                raise IndexError(
                    f"Index {item} (converted to {where}) is out of bounds for dimension {dim} of size {size}"
                )
            bounds.append((where, where + 1, 1))
            gone.append(dim)
        else:
            raise TypeError(
                f"a tensor is indexed by integers, slices and one ellipsis, not {type(item).__name__}"
            )
    return bounds, gone


def getitem(tensor: Tensor, key: Any) -> Tensor:
    """tensor[key]: a slice, from which the dimensions that integers index are dropped."""
    bounds, gone = _indexed(tensor, key)
    made = slice_(tensor, *([row[at] for row in bounds] for at in range(3)))
    return squeeze(made, gone) if gone else made


@operation("narrow", "slice")
def narrow(input_tensor: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` elements of a dimension, from the index ``start`` on."""
    return _cut(input_tensor, axis_of(dim, len(input_tensor.shape)), start, length)


def _cut(x: Tensor, axis: int, start: int, length: int, memory_config: Any = None) -> Tensor:
    starts, ends = [0] * len(x.shape), list(x.shape)
    starts[axis], ends[axis] = start, start + length
    made: Tensor = slice_.function(x, starts, ends, memory_config=memory_config)
    return made


@operation("split", "slice")
def split(
    input_tensor: Tensor, split_size: Any, dim: int = 0, *, memory_config: MemoryConfig | None = None
) -> list[Tensor]:
    """Parts along a dimension; ``split_size`` is the size of each part, or a list of the parts' sizes."""
    x = input_tensor
    size = x.shape[axis_of(dim, len(x.shape))]
    if isinstance(split_size, int):
        expect(split_size > 0, f"split_size {split_size} must be above 0")
        split_size = [min(split_size, size - at) for at in range(0, size, split_size)]
    expect(sum(split_size) == size, f"split sizes {list(split_size)} must sum to {size}")
    starts = itertools.accumulate(split_size, initial=0)
    at = axis_of(dim, len(x.shape))
    if memory_config is None and (_crowds(x, len(split_size)) or _breaks_tiles(x, at, list(split_size))):
        memory_config = DRAM_MEMORY_CONFIG
    return [_cut(x, at, start, n, memory_config) for start, n in zip(starts, split_size, strict=False)]


def _breaks_tiles(x: Tensor, axis: int, sizes: list[int]) -> bool:
    """Whether shards of the parts would be no whole tiles, or rows too few for the cores: then the parts are
    in DRAM."""
    spec = x.memory_config().shard_spec
    if spec is None or len(sizes) < 2:
        return False
    shape = list(x.shape)
    shape[axis] = sizes[0]
    cut = parts_of(x.memory_config().memory_layout, spec.orientation, spec.grid)
    both = matrix(shape, x.layout)
    if x.layout is Layout.ROW_MAJOR:
        return any(size < parts for size, parts in zip(both, cut, strict=True))
    return any(size % (parts * TILE_SIZE) for size, parts in zip(both, cut, strict=True))


_PAGES = 4  # pages of circular buffers that ttnn reckons for each part of a split


def _crowds(x: Tensor, parts: int) -> bool:
    """Whether ttnn puts the parts of an interleaved tensor in L1 into DRAM, because it reckons that they and
    their circular buffers do not fit (data_movement/split/split.cpp, l1_budget_ok)."""
    if x._device is None or x.is_sharded() or x._handle.layout.memory != L1 or parts <= 2:
        return False
    tile = FORMATS[x.dtype.stored[1]].tile_bytes
    room = x._device.chip.descriptor.memory(L1).usable
    return math.prod(x.padded_shape) * tile // 1024 + parts * _PAGES * tile > room


@operation("chunk", "slice")
def chunk(input_tensor: Tensor, num_chunks: int, dim: int = 0) -> list[Tensor]:
    """At most ``num_chunks`` parts of equal size along a dimension; the last part may be smaller."""
    size = input_tensor.shape[axis_of(dim, len(input_tensor.shape))]
    return split.function(input_tensor, -(-size // num_chunks), dim)


# **************** together ****************


@operation("concat", "concatenate")
def concat(
    tensors: Sequence[Tensor],
    dim: int = 0,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    groups: int = 1,
) -> Tensor:
    """Tensors one after another along a dimension."""
    expect(len(tensors) > 0, "ttnn.concat: expected a non-empty list of Tensors!")
    found = [device_tensor(x) for x in tensors]
    first = found[0]
    at = axis_of(dim, len(first.shape))
    rest = [[s for d, s in enumerate(x.shape) if d != at] for x in found]
    text = (
        "All dimensions must be the same size except for the dimension along which the contenation is "
        "taking place."
    )
    expect(
        all(len(x.shape) == len(first.shape) and r == rest[0] for x, r in zip(found, rest, strict=True)), text
    )
    if len(found) == 1 and memory_config is None and output_tensor is None:
        return first
    parts = [x._handle for x in found] if groups == 1 else _by_groups(found, at, groups)
    shape = tuple(sum(x.shape[d] for x in found) if d == at else s for d, s in enumerate(first.shape))
    if output_tensor is None:
        memory_config = memory_config or DRAM_MEMORY_CONFIG  # even if the tensors lie in L1
    goal = target(first, memory_config, output_tensor)
    if output_tensor is None and first.dtype is DataType.BFLOAT8_B and through_rows_along(found, at):
        goal.dtype = DataType.BFLOAT16
    return goal.run("concatenate", parts, {"axis": at}, shape)


def _by_groups(tensors: Sequence[Tensor], axis: int, groups: int) -> list[Handle]:
    """The parts to concatenate: the first group of each tensor, then the second group of each, and so on."""
    for x in tensors:
        expect(x.shape[axis] % groups == 0, f"{x.shape[axis]} cannot be cut into {groups} groups")
    sizes = [x.shape[axis] // groups for x in tensors]
    return [
        _part(x._handle, axis, at * size, (at + 1) * size)
        for at in range(groups)
        for x, size in zip(tensors, sizes, strict=True)
    ]


@operation("stack", "unsqueeze, concatenate")
def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors of one shape, put one after another along a new dimension."""
    at = axis_of(dim, len(tensors[0].shape) + 1)
    return concat.function([unsqueeze.function(x, at) for x in tensors], at)


@operation("repeat", "tile", takes="..., memory_config, optional_output_tensor")
def repeat(
    input_tensor: Tensor, repeat_dims: Any = None, *, repetition_vector: Any = None, goal: Target
) -> Tensor:
    """The tensor repeated along each dimension, as often as the numbers say."""
    x = input_tensor
    times = [int(n) for n in (repeat_dims if repeat_dims is not None else repetition_vector)]
    shape = list(x.shape)
    times, shape = [1] * (len(shape) - len(times)) + times, [1] * (len(times) - len(shape)) + shape
    source = x._handle if len(shape) == len(x.shape) else reshaped(x._handle, shape)
    made = tuple(n * size for n, size in zip(times, shape, strict=True))
    if made == tuple(shape):
        return goal.wrap(kernels.copied(source))
    spread(x, shape, times, goal)
    return goal.run("tile", [source], {"repeats": tuple(times)}, made)


@operation("repeat_interleave", "tile", takes="memory_config")
def repeat_interleave(input_tensor: Tensor, repeats: int, dim: int = 0, *, goal: Target) -> Tensor:
    """Each element repeated ``repeats`` times along a dimension, with its copies side by side."""
    x = input_tensor
    at = axis_of(dim, len(x.shape))
    shape = list(x.shape)
    wide = reshaped(x._handle, (*shape[: at + 1], 1, *shape[at + 1 :]))
    times = [1] * len(wide.shape)
    times[at + 1] = repeats
    shape[at] *= repeats
    return goal.wrap(reshaped(kernels.run("tile", [wide], {"repeats": tuple(times)}), shape))
