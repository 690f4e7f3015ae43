"""Traces, events and queues. There is one queue: what two queues of ttnn would do at once comes in the order
in which it was asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from . import kernels
from .devices import MeshDevice, synchronize_device
from .errors import check

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
_traces: dict[tuple[MeshDevice, int], list[Callable[[], None]]] = {}
_open: dict[MeshDevice, int] = {}


def begin_trace_capture(device: MeshDevice, *, cq_id: int | None = None, queue_id: int | None = None) -> int:
    """Record what runs on the device from now on; it runs, too. Raises RuntimeError for a device that was
    opened without a trace region, and inside of another capture."""
    name = "ttnn.begin_trace_capture"
    check(
        device.trace_region_size > 0, name, "the device has no trace region: open it with trace_region_size"
    )
    check(device not in _open, name, "a trace is being captured already")
    number = next(_numbers)
    steps: list[Callable[[], None]] = []
    _traces[device, number] = steps
    _open[device] = number
    kernels.recording(device.chip, steps)
    return number


def end_trace_capture(
    device: MeshDevice, trace_id: int, *, cq_id: int | None = None, queue_id: int | None = None
) -> None:
    """The end of what is recorded."""
    check(_open.get(device) == trace_id, "ttnn.end_trace_capture", f"trace {trace_id} is not being captured")
    kernels.recording(device.chip, None)
    del _open[device]


def execute_trace(
    device: MeshDevice,
    trace_id: int,
    *,
    cq_id: int | None = None,
    queue_id: int | None = None,
    blocking: bool = True,
) -> None:
    """Do again what was recorded: on the same inputs, into the same outputs."""
    check((device, trace_id) in _traces, "ttnn.execute_trace", f"Trace with tid {trace_id} not found")
    check(device not in _open, "ttnn.execute_trace", "a trace is being captured")
    for step in _traces[device, trace_id]:
        step()
    if blocking:
        synchronize_device(device)


def release_trace(device: MeshDevice, trace_id: int) -> None:
    """Forget a trace."""
    _traces.pop((device, trace_id), None)


class Event:
    """A place in the one queue of a device."""

    def __init__(self, device: MeshDevice):
        self.device = device


def record_event(
    device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = (), device_range: Any = None
) -> Event:
    return Event(device)


def wait_for_event(cq_id: int | None = None, event: Event | None = None, **_: Any) -> None:
    """Nothing overtakes in the one queue."""


def event_synchronize(event: Event) -> None:
    """Wait for what was asked for before the event."""
    synchronize_device(event.device)
