"""Tensors to other devices and layouts: one at a time (to), or many in a submission (gather, scatter).

Nothing here blocks but gather, scatter and wait_all: a handle is there at once, its values follow.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
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
from .elsewhere import Elsewhere
from .host_values import as_host
from .lineage import before_write
from .spec import spec_of
from .tensor import Tensor

__all__ = [
    "checked",
    "copy_into",
    "duplicate",
    "gather",
    "scatter",
    "to",
    "to_layout",
    "wait_all",
]


def to(
    tensor: Tensor,
    device: Device | str | None = None,
    layout: Layout | str | None = None,
    format: str | None = None,
) -> Tensor:
    """``tensor.to``, which raises InputError for what is no Tensor."""
    return checked(tensor).to(device, layout, format)


def checked(value: Any) -> Tensor:
    """A Tensor, as it is. Raises InputError for anything else."""
    if not isinstance(value, Tensor):
        raise InputError(
            f"a Tensor is wanted, got {type(value).__name__}: create_borrowed_host_tensor makes "
            "one of an array",
            got=type(value).__name__,
        )
    return value


def copy_into(target: Tensor, source: Tensor) -> None:
    """Queue a copy of ``source`` into the memory of ``target``, behind all queued work that uses it.

    Raises InputError where types differ, for a constant, and for what is no Tensor.
    """
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
    """Always a new handle. The source stays, as #671 has it: the caller frees. ``retain``: the result's flag
    (default: the source's); False gives the source up, unless that is retained, as tt-mlir's toLayout does
    (host memory stays). Raises as ``to``."""
    made = to(tensor, device, layout)
    made.retain = tensor.retain if retain is None else bool(retain)
    if retain is not None and not retain and not tensor.retain and tensor.buffer is not None:
        tensor.deallocate()
    return made


# **************** many at once ****************


def gather(tensors: Iterable[Tensor]) -> list[np.ndarray]:
    """Copies of the values on the host: one call into C for each device that has any, one wait; one message
    for each other machine.

    Raises HandleError, InputError for what is no Tensor, and what the runs raised that were to write them.
    """
    found = _listed(tensors, "gather")
    made: list[Any] = [None] * len(found)
    away: dict[DeviceHandle, list[int]] = {}
    elsewhere: dict[type[Elsewhere], list[int]] = {}
    for i, tensor in enumerate(found):
        if isinstance(tensor, Elsewhere):
            elsewhere.setdefault(type(tensor), []).append(i)
            continue
        if not isinstance(tensor, Tensor):
            raise InputError(
                f"gather takes Tensors, item {i} is a {type(tensor).__name__}", got=type(tensor).__name__
            )
        if tensor.buffer is None:  # a session's view, or gone
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
    """Of a Tensor, or an array, a list would be its rows, one by one."""
    if isinstance(items, (Tensor, np.ndarray)) or not isinstance(items, Iterable):
        raise InputError(f"{what} takes a list, got one {type(items).__name__}", got=type(items).__name__)
    return list(items)


def _fetched(tensors: list[Tensor]) -> list[np.ndarray]:
    try:
        return fetch(tensors)
    except KernelError:  # what eager ops should have made is made again by wait
        wait_all(tensors)
        return fetch(tensors)


def scatter(arrays: Iterable[Any], device: Device | str, layout: Layout | str | None = None) -> list[Tensor]:
    """Tensors on ``device`` with the values of host arrays (or what numpy or DLPack makes one of), in one
    submission. ``layout`` as for ``to``.

    The arrays have been read when it returns; the tensors' values follow. Raises InputError, DeviceError,
    DeviceMemoryError.
    """
    device = parse(device)
    given = [a if isinstance(a, np.ndarray) else as_host(a) for a in _listed(arrays, "scatter")]
    types = [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in given]
    specs = [spec_of(device, type_, resolve(type_, device, layout)) for type_ in types]
    return spread(given, specs) if specs else []


# **************** waiting ****************


def wait_all(items: Iterable[Any], timeout: float | None = None) -> None:
    """Wait for all Tensors (or Runs) of ``items``, ``timeout`` seconds in all, and then raise the first
    failure. Raises WaitTimeoutError, and InputError for what cannot be waited for or is no timeout."""
    check_timeout(timeout)
    items = _listed(items, "wait_all")
    for item in items:
        if not isinstance(item, (Tensor, Run)):
            raise InputError(
                f"wait_all takes Tensors and Runs, got {type(item).__name__}", got=type(item).__name__
            )
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
        del failure  # as errors.throw
