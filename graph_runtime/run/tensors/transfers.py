"""Transfers of tensors to other devices and layouts: of one tensor (to), or of many tensors in one submission
(gather, scatter).

Only gather, scatter and wait_all block; the other functions return a handle at once, whose values follow."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import InputError, KernelError
from ...base.machine.devices import Device, parse
from ...base.machine.layout import Layout
from ...ir.graph import TensorType
from ..device_handles import DeviceHandle
from ..queues.buffer import check_timeout
from ..queues.run import Run
from .batches import fetch, spread
from .copies import queue_copy
from .device_layouts import resolve
from .lineage import before_write
from .spec import spec_of
from .tensor import Tensor, as_host


class Elsewhere(ABC):
    """Base of handles whose values are on another machine; gather() fetches the values of several such
    handles at once."""

    @classmethod
    @abstractmethod
    def gathered(cls, tensors: Sequence[Any]) -> list[np.ndarray]:
        """Copies on the host of the values of several handles of this class, in one message for each
        machine."""


def to(
    tensor: Tensor,
    device: Device | str | None = None,
    layout: Layout | str | None = None,
    format: str | None = None,
) -> Tensor:
    """The result of ``tensor.to``. Raises InputError for a value that is no Tensor."""
    return checked(tensor).to(device, layout, format)


def checked(value: Any) -> Tensor:
    """The value, if it is a Tensor. Raises InputError for anything else."""
    if not isinstance(value, Tensor):
        raise InputError(
            f"must be a Tensor, got {type(value).__name__}: create_borrowed_host_tensor makes "
            "a Tensor of an array",
            got=type(value).__name__,
        )
    return value


def copy_into(target: Tensor, source: Tensor) -> None:
    """Queue a copy of ``source`` into the memory of ``target``, after all queued work that uses that memory.
    Raises InputError if the types differ, if the target is a constant, and for a value that is no Tensor."""
    checked(source), checked(target)
    if target.alive().type != source.alive().type or target.readonly:
        why = "is a constant" if target.readonly else f"is {target.type}, the source {source.type}"
        raise InputError(f"the target {why}", got=str(source.type), wanted=str(target.type))
    before_write(target)
    queue_copy(source, target)


def duplicate(tensor: Tensor) -> Tensor:
    """A tensor with memory of its own, of the same spec and values."""
    return tensor.__deepcopy__({})


def to_layout(
    tensor: Tensor, device: Device | str | None, layout: Layout | str | None, retain: bool | None = None
) -> Tensor:
    """A new handle on the values on ``device``, in ``layout``, even if nothing changes. The source stays, as
    in tt-mlir's #671: the caller frees it. ``retain``: retain flag of the result; None: the flag of the
    source. False also gives up the source, unless the source is retained or in host memory, as tt-mlir's
    toLayout does. Raises the errors of ``to``."""
    made = to(tensor, device, layout)
    made.retain = tensor.retain if retain is None else bool(retain)
    if retain is not None and not retain and not tensor.retain and tensor.buffer is not None:
        tensor.deallocate()
    return made


# **************** many at once ****************


def gather(tensors: Iterable[Tensor]) -> list[np.ndarray]:
    """Copies of the values on the host, by one call into C and one wait for each device, and one message for
    each other machine. Raises HandleError, InputError for a value that is no Tensor, and the errors of the
    runs that should have written the tensors."""
    found = _listed(tensors, "gather")
    made: list[Any] = [None] * len(found)
    away: dict[DeviceHandle, list[int]] = {}
    elsewhere: dict[type[Elsewhere], list[int]] = {}
    for i, tensor in enumerate(found):
        if isinstance(tensor, Elsewhere):
            elsewhere.setdefault(type(tensor), []).append(i)
            continue
        if not isinstance(tensor, Tensor):
            text = f"gather takes Tensors, item {i} is a {type(tensor).__name__}"
            raise InputError(text, got=type(tensor).__name__)
        if tensor.buffer is None:  # a session's view, or a handle that is gone
            made[i] = tensor.numpy()
            continue
        group = away.get(tensor._handle)
        if group is None:
            group = away[tensor._handle] = []
        group.append(i)
    for group in away.values():
        for i, array in zip(group, _fetched([found[i] for i in group]), strict=True):
            made[i] = array
    for kind, group in elsewhere.items():
        for i, array in zip(group, kind.gathered([found[i] for i in group]), strict=True):
            made[i] = array
    return made


def _listed(items: Iterable[Any], what: str) -> list[Any]:
    """The items as a list. Raises InputError for a single Tensor or array, whose list would be its rows."""
    if isinstance(items, (Tensor, np.ndarray)) or not isinstance(items, Iterable):
        raise InputError(f"{what} takes a list, got one {type(items).__name__}", got=type(items).__name__)
    return list(items)


def _fetched(tensors: list[Tensor]) -> list[np.ndarray]:
    try:
        return fetch(tensors)
    except KernelError:  # wait() makes failed results of eager ops again
        wait_all(tensors)
        return fetch(tensors)


def scatter(arrays: Iterable[Any], device: Device | str, layout: Layout | str | None = None) -> list[Tensor]:
    """Tensors on ``device`` with the values of host arrays (or of values that numpy or DLPack turns into
    arrays), in one submission. ``layout`` as in ``to``. When the call returns the arrays have been read; the
    tensors' values follow later. Raises InputError, DeviceError, DeviceMemoryError."""
    device = parse(device)
    given = [a if isinstance(a, np.ndarray) else as_host(a) for a in _listed(arrays, "scatter")]
    types = [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in given]
    specs = [spec_of(device, type_, resolve(type_, device, layout)) for type_ in types]
    return spread(given, specs) if specs else []


# **************** waiting ****************


def wait_all(items: Iterable[Any], timeout: float | None = None) -> None:
    """Wait for all Tensors (or Runs) of ``items``, ``timeout`` seconds in all, then raise the first failure.
    Raises WaitTimeoutError, and InputError for other items and for an invalid timeout."""
    check_timeout(timeout)
    items = _listed(items, "wait_all")
    for item in items:
        if not isinstance(item, (Tensor, Run)):
            text = f"wait_all takes Tensors and Runs, got {type(item).__name__}"
            raise InputError(text, got=type(item).__name__)
    deadline = None if timeout is None else time.monotonic() + timeout
    failure = None
    for item in items:
        try:
            item.wait(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        except TimeoutError:
            raise
        except Exception as error:
            failure = failure or error
    try:
        if failure is not None:
            raise failure
    finally:
        del failure  # as in errors.throw
