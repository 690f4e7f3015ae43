"""Order and parts: permute, transpose, slice, split, concat, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.configs import MemoryConfig
from ...memory.values import Layout, tiled
from ...tensors.tensor import Tensor, on_host
from ..operation import operation
from ..results import device_tensor, target
from .shapes import axis_of, reshaped, squeeze, unsqueeze


@operation("permute", "transpose")
def permute(
    input_tensor: Tensor,
    dims: Sequence[int],
    *,
    memory_config: MemoryConfig | None = None,
    pad_value: float | None = 0.0,
    **_: Any,
) -> Tensor:
    """Dimension d of the result is dimension dims[d] of the input."""
    x = device_tensor("ttnn.permute", input_tensor)
    rank = len(x.shape)
    text = "The number of dimensions in the tensor input does not match the length of the desired ordering"
    check(len(dims) == rank, "ttnn.permute", text)
    perm = tuple(axis_of("ttnn.permute", int(dim), rank) for dim in dims)
    check(len(set(perm)) == rank, "ttnn.permute", f"dims {list(dims)} name a dimension twice")
    goal = target("ttnn.permute", x, memory_config)
    if perm == tuple(range(rank)):
        return goal.wrap(kernels.copied(x._handle), pad_value or 0)
    return goal.run("transpose", [x._handle], {"perm": perm}, tuple(x.shape[at] for at in perm))


@operation("transpose", "transpose")
def transpose(
    input_tensor: Tensor,
    dim1: int,
    dim2: int,
    *,
    memory_config: MemoryConfig | None = None,
    pad_value: float | None = 0.0,
    **_: Any,
) -> Tensor:
    """Two dimensions swapped."""
    x = device_tensor("ttnn.transpose", input_tensor)
    rank = len(x.shape)
    perm = list(range(rank))
    a, b = axis_of("ttnn.transpose", dim1, rank), axis_of("ttnn.transpose", dim2, rank)
    perm[a], perm[b] = perm[b], perm[a]
    return permute.function(x, perm, memory_config=memory_config)


@operation("roll", "slice, concatenate")
def roll(input_tensor: Tensor, shifts: Any, dim: Any = None) -> Tensor:
    """Elements moved along dimensions, those beyond the end to the front."""
    x = device_tensor("ttnn.roll", input_tensor)
    handle = x._handle
    if dim is None:
        handle = reshaped(handle, (x.logical_volume(),))
    pairs = zip(
        [shifts] if isinstance(shifts, int) else shifts,
        [dim or 0] if isinstance(dim, int | None) else dim,
        strict=True,
    )
    for shift, at in pairs:
        size = handle.shape[at]
        if size and shift % size:
            handle = _rolled(handle, shift % size, at % len(handle.shape))
    if dim is None:
        handle = reshaped(handle, x.shape)
    return target("ttnn.roll", x).wrap(handle)


def _rolled(handle: Handle, shift: int, axis: int) -> Handle:
    cut = handle.shape[axis] - shift
    parts = [_part(handle, axis, cut, handle.shape[axis]), _part(handle, axis, 0, cut)]
    return kernels.run("concatenate", parts, {"axis": axis})


def _part(handle: Handle, axis: int, start: int, end: int) -> Handle:
    return kernels.run("slice", [handle], {"starts": (start,), "ends": (end,), "axes": (axis,)})


# **************** parts ****************


def _listed(op: str, bounds: Any) -> Any:
    """Numbers of a list, or of a tensor of them, which is read for it."""
    if not isinstance(bounds, Tensor):
        return bounds
    if bounds._device is not None and kernels.captured(bounds._device.chip):
        raise Unsupported(f"{op} by tensors inside of a trace is not supported", op=op)
    return [int(value) for value in bounds._values().ravel()]


@operation("slice", "slice")
def slice_(
    input_tensor: Tensor,
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
    **_: Any,
) -> Tensor:
    """The part from ``starts`` to before ``ends``, by ``steps``; one number a dimension. Of bounds in
    tensors, which are read, ``slice_dim`` and ``num_devices`` say again how long the part is."""
    name = "ttnn.slice"
    starts, ends, steps = (
        a if a is not None else b for a, b in ((starts, slice_start), (ends, slice_end), (steps, slice_step))
    )
    x = input_tensor if input_tensor._device is None else device_tensor(name, input_tensor)
    starts, ends = (_listed(name, x) for x in (starts, ends))
    shape, rank = tuple(x.shape), len(x.shape)
    steps = (1,) * rank if steps is None else tuple(steps)
    text = f"Input rank {rank} and begins {len(starts)} must have the same size"
    check(len(starts) == len(ends) == len(steps) == rank, name, text)
    begin = tuple(int(v) + size if v < 0 else int(v) for v, size in zip(starts, shape, strict=True))
    end = tuple(int(v) + size if v < 0 else int(v) for v, size in zip(ends, shape, strict=True))
    for a, b in zip(begin, end, strict=True):
        check(b >= a, name, f"End {b} must be greater than or equal to start {a}")
    check(all(step > 0 for step in steps), name, "Steps can't be zero or negative")
    fits = all(
        b <= size for b, size in zip(end, tiled(shape) if x.layout is Layout.TILE else shape, strict=True)
    )
    check(fits, name, f"Ends {list(end)} are beyond the shape {list(shape)}")
    if slice_dim is not None and num_devices is not None:
        text = f"the part of dimension {slice_dim} is not one of num_devices={num_devices} equal ones"
        check((end[slice_dim] - begin[slice_dim]) * num_devices == shape[slice_dim], name, text)
    strided = any(step != 1 for step in steps)
    if strided and x.dtype.is_block:
        raise Unsupported("ttnn.slice by steps of a block format is not supported", op=name)
    if x._device is None:
        part = tuple(map(slice, begin, end, steps))
        return on_host(np.ascontiguousarray(x._values()[part]), x.dtype, x.layout, exact=True)
    if any(b > size for b, size in zip(end, shape, strict=True)):
        raise Unsupported("ttnn.slice into the padding of tiles is not supported", op=name)
    made = tuple(-(-(b - a) // s) for a, b, s in zip(begin, end, steps, strict=True))
    goal = target(name, x, memory_config, output_tensor)
    if made == shape and not strided:
        return x if memory_config is None and output_tensor is None else goal.wrap(x._handle)
    attrs = {"starts": begin, "ends": end, "steps": tuple(steps)}
    return goal.run("slice", [x._handle], attrs, made)


def _indexed(tensor: Tensor, key: Any) -> tuple[list[int], list[int], list[int], list[int]]:
    """Starts, ends, steps and the dimensions to drop of ``tensor[key]``. Raises IndexError, TypeError."""
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
    starts, ends, steps, gone = [], [], [], []
    for dim, (item, size) in enumerate(zip(keys, shape, strict=True)):
        if isinstance(item, slice):
            starts.append(item.start or 0)
            ends.append(size if item.stop is None else item.stop)
            steps.append(item.step or 1)
        elif isinstance(item, int):
            where = item + size if item < 0 else item
            if not 0 <= where < size:
                raise IndexError(
                    f"Index {item} (converted to {where}) is out of bounds for dimension {dim} of size {size}"
                )
            starts.append(where)
            ends.append(where + 1)
            steps.append(1)
            gone.append(dim)
        else:
            raise TypeError(
                f"a tensor is indexed by integers, slices and one ellipsis, not {type(item).__name__}"
            )
    return starts, ends, steps, gone


def getitem(tensor: Tensor, key: Any) -> Tensor:
    """tensor[key]: slice, then squeeze of the dimensions that integers took."""
    starts, ends, steps, gone = _indexed(tensor, key)
    made = slice_(tensor, starts, ends, steps)
    return squeeze(made, gone) if gone else made


@operation("narrow", "slice")
def narrow(input_tensor: Tensor, dim: int, start: int, length: int, **_: Any) -> Tensor:
    """``length`` elements of a dimension from ``start`` on."""
    x = device_tensor("ttnn.narrow", input_tensor)
    starts, ends = [0] * len(x.shape), list(x.shape)
    at = axis_of("ttnn.narrow", dim, len(x.shape))
    starts[at], ends[at] = start, start + length
    return slice_.function(x, starts, ends)


def _cut(op: str, x: Tensor, sizes: Sequence[int], dim: int, memory_config: Any) -> list[Tensor]:
    at, made, start = axis_of(op, dim, len(x.shape)), [], 0
    for size in sizes:
        starts, ends = [0] * len(x.shape), list(x.shape)
        starts[at], ends[at] = start, start + size
        made.append(slice_.function(x, starts, ends, memory_config=memory_config))
        start += size
    return made


@operation("split", "slice")
def split(
    input_tensor: Tensor,
    split_size: Any,
    dim: int = 0,
    *,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> list[Tensor]:
    """Parts of a size along a dimension, or of the sizes of a list."""
    x = device_tensor("ttnn.split", input_tensor)
    size = x.shape[axis_of("ttnn.split", dim, len(x.shape))]
    if isinstance(split_size, int):
        check(split_size > 0, "ttnn.split", f"split_size {split_size} must be above 0")
        split_size = [min(split_size, size - at) for at in range(0, size, split_size)]
    text = f"split sizes {list(split_size)} must sum to {size}"
    check(sum(split_size) == size, "ttnn.split", text)
    return _cut("ttnn.split", x, split_size, dim, memory_config)


@operation("chunk", "slice")
def chunk(input_tensor: Tensor, num_chunks: int, dim: int = 0, **_: Any) -> list[Tensor]:
    """At most so many parts of equal size along a dimension, the last one smaller."""
    x = device_tensor("ttnn.chunk", input_tensor)
    size = x.shape[axis_of("ttnn.chunk", dim, len(x.shape))]
    return split.function(x, -(-size // num_chunks), dim)


# **************** together ****************


@operation("concat", "concatenate")
def concat(
    tensors: Sequence[Tensor],
    dim: int = 0,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    groups: int = 1,
    **_: Any,
) -> Tensor:
    """Tensors after each other along a dimension."""
    name = "ttnn.concat"
    check(len(tensors) > 0, name, "ttnn.concat: expected a non-empty list of Tensors!")
    found = [device_tensor(name, x) for x in tensors]
    first = found[0]
    at = axis_of(name, dim, len(first.shape))
    rest = [[s for d, s in enumerate(x.shape) if d != at] for x in found]
    text = (
        "All dimensions must be the same size except for the dimension along which the contenation is "
        "taking place."
    )
    check(
        all(len(x.shape) == len(first.shape) and r == rest[0] for x, r in zip(found, rest, strict=True)),
        name,
        text,
    )
    check(all(x.layout is first.layout for x in found), name, "All Input tensors should have same layouts.")
    if len(found) == 1 and memory_config is None and output_tensor is None:
        return first
    kind = first._handle.dtype
    check(all(x._handle.dtype == kind for x in found), name, "the tensors must have one dtype")
    parts = [x._handle for x in found] if groups == 1 else _by_groups(name, found, at, groups)
    shape = tuple(sum(x.shape[d] for x in found) if d == at else s for d, s in enumerate(first.shape))
    goal = target(name, first, memory_config, output_tensor)
    return goal.run("concatenate", parts, {"axis": at}, shape)


def _by_groups(name: str, tensors: Sequence[Tensor], axis: int, groups: int) -> list[Handle]:
    """The first group of each tensor, then the second one of each."""
    for x in tensors:
        check(x.shape[axis] % groups == 0, name, f"{x.shape[axis]} cannot be cut into {groups} groups")
    sizes = [x.shape[axis] // groups for x in tensors]
    return [
        _part(x._handle, axis, at * size, (at + 1) * size)
        for at in range(groups)
        for x, size in zip(tensors, sizes, strict=True)
    ]


@operation("stack", "unsqueeze, concatenate")
def stack(tensors: Sequence[Tensor], dim: int, **_: Any) -> Tensor:
    """Tensors of one shape along a new dimension."""
    rank = len(tensors[0].shape) + 1
    at = axis_of("ttnn.stack", dim, rank)
    return concat.function([unsqueeze.function(x, at) for x in tensors], at)


@operation("repeat", "tile")
def repeat(
    input_tensor: Tensor,
    repeat_dims: Any = None,
    *,
    repetition_vector: Any = None,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> Tensor:
    """The tensor so many times along each dimension."""
    x = device_tensor("ttnn.repeat", input_tensor)
    times = [int(n) for n in (repeat_dims if repeat_dims is not None else repetition_vector)]
    shape = list(x.shape)
    times, shape = [1] * (len(shape) - len(times)) + times, [1] * (len(times) - len(shape)) + shape
    source = x._handle if len(shape) == len(x.shape) else reshaped(x._handle, shape)
    made = tuple(n * size for n, size in zip(times, shape, strict=True))
    goal = target("ttnn.repeat", x, memory_config)
    if made == tuple(shape):
        return goal.wrap(kernels.copied(source))
    return goal.run("tile", [source], {"repeats": tuple(times)}, made)


@operation("repeat_interleave", "tile")
def repeat_interleave(
    input_tensor: Tensor, repeats: int, dim: int = 0, *, memory_config: MemoryConfig | None = None
) -> Tensor:
    """Each element so many times along a dimension, side by side."""
    x = device_tensor("ttnn.repeat_interleave", input_tensor)
    at = axis_of("ttnn.repeat_interleave", dim, len(x.shape))
    shape = list(x.shape)
    wide = reshaped(x._handle, (*shape[: at + 1], 1, *shape[at + 1 :]))
    times = [1] * len(wide.shape)
    times[at + 1] = repeats
    shape[at] *= repeats
    made = reshaped(kernels.run("tile", [wide], {"repeats": tuple(times)}), shape)
    return target("ttnn.repeat_interleave", x, memory_config).wrap(made)
