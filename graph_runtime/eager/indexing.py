"""x[...] and x[...] = value. Indexing by slices and integers, or by one array of integers, runs on the
device; numpy does all other indexing."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import dtypes
from ..run.single.apply import Refused, apply
from ..run.single.fallback import device_first, write
from ..run.single.host import on_host
from ..run.single.operands import on_device, tensor
from ..run.tensors.tensor import Tensor
from .movement import reshape, take

_FIRST = -(2**63)  # stands for an end before the first element; ONNX would count an end of -1 from the back


@dataclass(frozen=True, slots=True)
class BasicIndex:
    """An index of integers, slices and None. ``attrs``: attributes of the slice op; ``counts``: the slice's
    size in each dimension of the tensor; ``shape``: shape of the result, without the dimensions that an
    integer indexes and with a dimension for each None; ``whole``: whether the index selects every element."""

    attrs: tuple[tuple[str, tuple[int, ...]], ...]
    counts: tuple[int, ...]
    shape: tuple[int, ...]
    whole: bool


@device_first(operator.getitem)
def getitem(x: Tensor, index: Any) -> Tensor:
    """The elements x[index], as a new value. Raises IndexError for an index out of range."""
    at = _one_array(index, len(tensor(x).shape))
    if at is not None:
        axis, indices = at
        return take.body(x, indices, axis)
    region = _region(x, index)
    part = x if region.whole else apply("slice", region.attrs, x)
    return reshape.body(part, region.shape)


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """Set x[index] = value: from now on the handle has the new value."""
    try:
        region = _region(x, index)
        if 0 in region.counts:
            raise Refused("the region is empty")
        attrs = tuple((name, numbers) for name, numbers in region.attrs if name != "ends")
        made = apply("slice_update", attrs, x, _update(x, region, value))
    except Refused as refused:
        made = on_host("setitem", _set, (x, index, value), {}, refused.reason, refused.error)
    write(x, made)


def _set(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


def _update(x: Tensor, region: BasicIndex, value: Any) -> Tensor:
    """The assigned value as a tensor of the region's shape."""
    if isinstance(value, Tensor):
        if tuple(value.shape) != region.shape:
            raise Refused("the value must be broadcast")
        return reshape.body(on_device(value, x.device, x.dtype), region.counts)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise Refused(f"the value is {array.dtype}")
    try:
        array = np.broadcast_to(array, region.shape).reshape(region.counts)
    except ValueError as error:
        raise Refused(str(error)) from error
    if array.ndim:
        return on_device(array, x.device, x.dtype)
    raise Refused("a scalar has no region")


def _one_array(index: Any, ndim: int) -> tuple[int, Any] | None:
    """(axis, indices) of an index that consists of one array of integers and full slices; None for any other
    index."""
    items = index if isinstance(index, tuple) else (index,)
    arrays = [i for i, item in enumerate(items) if isinstance(item, (list, np.ndarray, Tensor))]
    if len(arrays) != 1 or not ndim:
        return None
    (at,) = arrays
    rest = [item for i, item in enumerate(items) if i != at]
    if any(item != slice(None) for item in rest if not isinstance(item, type(Ellipsis))):
        return None
    if sum(item is Ellipsis for item in rest):
        if len(rest) != 1:
            return None
        at = at if at == 0 else ndim - 1
    indices = items[arrays[0]]
    dtype = indices.dtype if isinstance(indices, Tensor) else np.asarray(indices).dtype.name
    return (at, indices) if dtypes.is_integer(dtype) and at < ndim else None


def _region(x: Tensor, index: Any) -> BasicIndex:
    """The BasicIndex of an index into x. Raises Refused for an index with other items, and for an index out
    of range, for which numpy then raises the error."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(
        not isinstance(i, (int, np.integer, slice, type(None), type(Ellipsis))) or isinstance(i, bool)
        for i in items
    ):
        raise Refused("no kernel takes such an index")
    used = sum(item is not None and item is not Ellipsis for item in items)
    ndim = len(x.shape)
    if used > ndim or items.count(Ellipsis) > 1:
        raise Refused("there are too many indices")
    if Ellipsis not in items:
        items.append(Ellipsis)
    where = items.index(Ellipsis)
    items[where : where + 1] = [slice(None)] * (ndim - used)
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    counts: list[int] = []
    shape: list[int] = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        n = x.shape[len(starts)]
        start, end, step = _bounds(item, n)
        count = len(range(start, end, step))
        starts.append(start)
        ends.append(end if end >= 0 else _FIRST)
        steps.append(step)
        counts.append(count)
        if isinstance(item, slice):
            shape.append(count)
    attrs = (("starts", tuple(starts)), ("ends", tuple(ends)), ("steps", tuple(steps)))
    whole = tuple(counts) == x.shape and all(step == 1 for step in steps)
    return BasicIndex(attrs, tuple(counts), tuple(shape), whole)


def _bounds(item: Any, n: int) -> tuple[int, int, int]:
    if isinstance(item, slice):
        return item.indices(n)
    at = int(item)
    if not -n <= at < n:
        raise Refused("an index is out of range")
    return at % n, at % n + 1, 1
