"""Shape and movement: functions that return the same elements in another shape or order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.graph import TensorType
from ..run.single.apply import Refused, apply
from ..run.single.fallback import device_first, only
from ..run.single.operands import axes_of, on_device, tensor, together
from ..run.single.upload import push
from ..run.tensors.spec import default_spec
from ..run.tensors.tensor import Tensor

Axis = int | Sequence[int] | None


@device_first(np.reshape)
def reshape(a: Tensor, shape: int | Sequence[int], order: str = "C", **more: Any) -> Tensor:
    """The same elements in another shape, in which one dimension may be -1. If the device's layout allows it,
    no bytes move and both handles share the memory."""
    only(more)
    if order != "C":
        raise Refused(f"order={order!r} has no kernel")
    wanted = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    size = tensor(a).type.size
    if any(not isinstance(n, (int, np.integer)) or n < -1 for n in wanted) or wanted.count(-1) > 1:
        raise Refused(f"shape {wanted} is not possible")
    known = math.prod(n for n in wanted if n != -1)
    if (-1 in wanted and (not known or size % known)) or (-1 not in wanted and known != size):
        raise Refused(f"{a.type} has {size} elements")
    exact = tuple(int(size // known if n == -1 else n) for n in wanted)
    if 0 in exact:
        return push(
            np.empty(exact, dtypes.to_numpy(a.dtype)), default_spec(a.device, TensorType(a.dtype, exact))
        )
    return a if exact == a.shape else apply("reshape", (("shape", exact),), a)


@device_first(np.ravel)
def ravel(a: Tensor, order: str = "C", **more: Any) -> Tensor:
    """The elements in one dimension."""
    only(more)
    return reshape.body(a, (-1,), order)


@device_first(np.squeeze)
def squeeze(a: Tensor, axis: Axis = None, **more: Any) -> Tensor:
    """The tensor without its dimensions of size 1, or only without the dimensions ``axis``."""
    only(more)
    axes = None if axis is None else axes_of(axis, len(tensor(a).shape))
    return apply("squeeze", (("axes", axes),), tensor(a))


@device_first(np.expand_dims)
def expand_dims(a: Tensor, axis: int | Sequence[int], **more: Any) -> Tensor:
    """The tensor with new dimensions of size 1 at ``axis`` of the result."""
    only(more)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return apply("unsqueeze", (("axes", axes_of(axis, len(tensor(a).shape) + count)),), a)


@device_first(np.transpose)
def transpose(a: Tensor, axes: Sequence[int] | None = None, **more: Any) -> Tensor:
    """The tensor with its dimensions permuted, by default reversed."""
    only(more)
    ndim = len(tensor(a).shape)
    perm = tuple(range(ndim))[::-1] if axes is None else axes_of(tuple(axes), ndim)
    if len(perm) != ndim:
        raise Refused(f"axes {perm} are no permutation")
    return a if perm == tuple(range(ndim)) else apply("transpose", (("perm", perm),), a)


@device_first(np.swapaxes)
def swapaxes(a: Tensor, axis1: int, axis2: int) -> Tensor:
    """The tensor with two dimensions swapped."""
    order = list(range(len(tensor(a).shape)))
    (i,), (j,) = axes_of(axis1, len(order)), axes_of(axis2, len(order))
    order[i], order[j] = j, i
    return transpose.body(a, order)


@device_first(np.moveaxis)
def moveaxis(a: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """The tensor with some dimensions moved to other positions; the others keep their order."""
    ndim = len(tensor(a).shape)
    of, to = axes_of(source, ndim), axes_of(destination, ndim)
    if len(of) != len(to):
        raise Refused("source and destination have different lengths")
    order = [d for d in range(ndim) if d not in of]
    for position, d in sorted(zip(to, of, strict=True)):
        order.insert(position, d)
    return transpose.body(a, order)


@device_first(np.flip)
def flip(m: Tensor, axis: Axis = None) -> Tensor:
    """The tensor with its elements reversed along the given axes, by default along all."""
    ndim = len(tensor(m).shape)
    axes = tuple(range(ndim)) if axis is None else axes_of(axis, ndim)
    if not axes or not m.type.size:
        raise Refused("nothing is flipped")
    count = len(axes)
    return apply(
        "slice",
        (("starts", (-1,) * count), ("ends", (-(2**63),) * count), ("axes", axes), ("steps", (-1,) * count)),
        m,
    )


@device_first(np.concatenate)
def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, dtype: Any = None, **more: Any) -> Tensor:
    """The tensors one after another along an axis; for an axis of None they are flattened first."""
    only(more | {"dtype": dtype})
    parts = together("concatenate", *_several(arrays))
    if axis is None:
        parts, axis = [reshape.body(part, (-1,)) for part in parts], 0
    if not parts[0].shape:
        raise Refused("scalars cannot be concatenated")
    return apply("concatenate", (("axis", axes_of(axis, len(parts[0].shape))[0]),), *parts)


@device_first(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0, **more: Any) -> Tensor:
    """The tensors, which have the same shape, along a new axis."""
    only(more)
    parts = together("stack", *_several(arrays))
    if any(part.shape != parts[0].shape for part in parts):
        raise Refused("the shapes differ")
    (at,) = axes_of(axis, len(parts[0].shape) + 1)
    made = apply("concatenate", (("axis", at),), *(apply("unsqueeze", (("axes", (at,)),), p) for p in parts))
    return made


@device_first(np.take)
def take(a: Tensor, indices: Any, axis: int | None = None, *, mode: str = "raise", **more: Any) -> Tensor:
    """The elements at ``indices`` along an axis; for an axis of None, of the flattened tensor. Raises
    IndexError for an index out of range."""
    only(more)
    if mode != "raise":
        raise Refused(f"mode={mode!r} has no kernel")
    if axis is None:
        a, axis = reshape.body(tensor(a), (-1,)), 0
    (at,) = axes_of(axis, len(tensor(a).shape))
    indices = _indices(a, indices, a.shape[at])
    return apply("take", (("axis", at),), a, indices)


def _indices(a: Tensor, indices: Any, count: int) -> Tensor:
    """Indices in the device's index dtype; indices from the host are checked before they are sent."""
    if isinstance(indices, Tensor):
        return indices
    array = np.asarray(indices)
    if array.dtype.kind not in "iu":
        raise Refused(f"indices are {array.dtype.name}")
    if array.size and (array.min() < -count or array.max() >= count):
        raise Refused("an index is out of range")
    return on_device(array, a.device, "int32")


def _several(arrays: Any) -> Sequence[Any]:
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise Refused("a list or tuple of arrays is needed")
    return arrays


@device_first(np.broadcast_to)
def broadcast_to(array: Tensor, shape: int | Sequence[int], **more: Any) -> Tensor:
    """The tensor with dimensions of size 1 repeated to a shape; the result is a copy, where numpy returns a
    view."""
    only(more)
    return apply("broadcast_to", (("shape", _whole(shape)),), tensor(array))


@device_first(np.tile)
def tile(a: Tensor, reps: int | Sequence[int]) -> Tensor:
    """The tensor, repeated along each dimension."""
    repeats, ndim = _whole(reps), len(tensor(a).shape)
    repeats = (1,) * (ndim - len(repeats)) + repeats
    whole = (1,) * (len(repeats) - ndim) + a.shape
    return apply("tile", (("repeats", repeats),), a if whole == a.shape else reshape.body(a, whole))


@device_first(np.pad)
def pad(
    array: Tensor, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, **more: Any
) -> Tensor:
    """The tensor with elements added around it: mode constant (one value), edge, reflect or wrap."""
    only(more)
    if mode not in ("constant", "edge", "reflect", "wrap") or not isinstance(constant_values, (int, float)):
        raise Refused("this kind of padding has no kernel")
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu" or (widths < 0).any():
        raise Refused("pad_width is invalid")
    before, after = np.broadcast_to(widths, (len(tensor(array).shape), 2)).T.tolist()
    attrs = (("mode", mode), ("pads", (*before, *after)), ("value", float(constant_values)))
    return apply("pad", attrs, array)


def _whole(numbers: int | Sequence[int]) -> tuple[int, ...]:
    """Numbers as a tuple of integers. Raises Refused for values that are not integers, for which numpy raises
    the error."""
    given = tuple(numbers) if isinstance(numbers, (tuple, list)) else (numbers,)
    if not all(isinstance(n, (int, np.integer)) and n >= 0 for n in given):
        raise Refused(f"{numbers} are no sizes")
    return tuple(map(int, given))
