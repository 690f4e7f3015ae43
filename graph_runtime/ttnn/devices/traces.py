"""Traces, events and queues. Work that a card would do in two queues at once runs in the order of the
requests."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from ...base.errors import HandleError
from ..errors import called_queue, check, fatal, on_queue
from . import kernels
from .chip_mesh import members_of
from .mesh_device import MeshDevice
from .opening import CLOSING, synchronize_device
from .recorder import Recorder

__all__ = [
    "begin_trace_capture",
    "end_trace_capture",
    "event_synchronize",
    "execute_trace",
    "record_event",
    "release_trace",
    "wait_for_event",
]

_numbers = itertools.count()
_traces: dict[tuple[MeshDevice, int], Recorder] = {}


def begin_trace_capture(
    mesh_device: MeshDevice, *, cq_id: int | None = None, queue_id: int | None = None
) -> int:
    """Run and record the work of the device from now on. A trace lies in the trace region, or in DRAM if
    there is no such region. Raises RuntimeError inside of another capture."""
    name, queue = "ttnn.begin_trace_capture", _chosen(mesh_device, queue_id, cq_id)
    check(mesh_device.is_open, name, "the device is closed")
    number = next(_numbers)
    text = f"CQ {queue} is already being used for tracing tid {number}"
    check(mesh_device.capture is None, name, text)
    members = members_of(mesh_device)
    held = [tensor._handle for member in members for tensor in member.tensors.values()]
    _traces[mesh_device, number] = recorder = Recorder(held)  # of all chips: what they send waits for another
    _captured(mesh_device, (queue, number))
    for member in members:
        kernels.recording(member.chip, recorder)
    return number


def _captured(device: MeshDevice, capture: tuple[int, int] | None) -> None:
    """Note at a device, and at the chips of a mesh, which trace is being captured."""
    for one in {device, *members_of(device)}:
        one.capture = capture


def _chosen(device: MeshDevice, queue_id: int | None, cq_id: int | None) -> int:
    asked = cq_id if queue_id is None else queue_id
    return device.queue(called_queue() if asked is None else asked)


def end_trace_capture(
    mesh_device: MeshDevice, trace_id: int, *, cq_id: int | None = None, queue_id: int | None = None
) -> None:
    queue = _chosen(mesh_device, queue_id, cq_id)
    text = f"CQ {queue} is not being used for tracing tid {trace_id}"
    check(mesh_device.capture == (queue, trace_id), "ttnn.end_trace_capture", text)
    _stop(mesh_device)
    _traces[mesh_device, trace_id].finish()
    for one in {mesh_device, *members_of(mesh_device)}:
        one.traces.add(trace_id)


def _stop(device: MeshDevice) -> None:
    for member in members_of(device):
        kernels.recording(member.chip, None)
    _captured(device, None)


def execute_trace(
    mesh_device: MeshDevice,
    trace_id: int,
    *,
    cq_id: int | None = None,
    queue_id: int | None = None,
    blocking: bool = True,
) -> None:
    """Run a recorded trace again. It reads what lies where its inputs were, and writes the same output
    tensors."""
    _chosen(mesh_device, queue_id, cq_id)
    check((mesh_device, trace_id) in _traces, "ttnn.execute_trace", f"Trace with tid {trace_id} not found")
    check(mesh_device.capture is None, "ttnn.execute_trace", "a trace is being captured")
    try:
        _traces[mesh_device, trace_id].replay()
    except HandleError as error:
        raise fatal("ttnn.execute_trace", f"a tensor that the trace reads was freed: {error}") from error
    if blocking:
        synchronize_device(mesh_device)


def release_trace(mesh_device: MeshDevice, trace_id: int) -> None:
    if mesh_device.capture is not None and mesh_device.capture[1] == trace_id:
        _stop(mesh_device)
    for one in {mesh_device, *members_of(mesh_device)}:
        one.traces.discard(trace_id)
    _traces.pop((mesh_device, trace_id), None)


def forget_traces(device: MeshDevice) -> None:
    """Forget all traces of a device that closes."""
    for number in [number for known, number in _traces if known is device]:
        release_trace(device, number)


CLOSING.append(forget_traces)


class Event(NamedTuple):
    """A point in the work of a device."""

    device: MeshDevice
    queue: int


def record_event(
    mesh_device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = (), device_range: Any = None
) -> Event:
    return Event(mesh_device, _synchronized(mesh_device, cq_id))


def _synchronized(device: MeshDevice, cq_id: int | None) -> int:
    queue = _chosen(device, None, cq_id)
    with on_queue(queue):
        device.refuse_in_capture("Event Synchronization is")
    return queue


def wait_for_event(cq_id: int | None = None, event: Event | None = None, mesh_event: Any = None) -> None:
    """No effect: the work of both queues runs in the order of the requests. ``mesh_event``: the older name of
    ``event``."""
    found = event if event is not None else mesh_event
    check(isinstance(found, Event), "ttnn.wait_for_event", f"an event is needed, got {type(found).__name__}")
    assert found is not None
    _synchronized(found.device, cq_id)


def event_synchronize(mesh_event: Event) -> None:
    """Wait for the work that was requested before the event."""
    synchronize_device(mesh_event.device)
