"""Streams and events of torch.tt. Work is ordered by the data that it reads and writes, so streams need not
order anything: all streams of a device are complete when the device's work is.

Recording an event with ``enable_timing`` waits for the work queued before the event, and reads two clocks:
``elapsed_time`` is simulated time, which the device would have taken (clock.py); ``elapsed_wall_time`` is the
time of the simulating host. Both are in milliseconds.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import suppress
from typing import Any

import torch

from ...base.errors import HandleError
from ...run.device_handles import open_device
from ...run.queues.buffer import Mark
from .. import clock
from ..required import TorchDeviceError
from ..store import current, device_of, devices, live, torch_device

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
    "synchronize",
]


def synchronize(device: Any = None) -> None:
    """Wait until all work queued on a device has ended, including work whose results were dropped, and until
    the values of all tensors on the device are there. Raises the errors of work that made live tensors."""
    _wait(device_of(device))


def _wait(index: int, mark: Mark | None = None) -> None:
    (_mark(index) if mark is None else mark).wait()
    for store in live():
        if store.index == index and (base := store.base) is not None:
            with suppress(HandleError):  # the device was closed: there is nothing to wait for
                base.wait()


def _mark(index: int) -> Mark:
    """A mark that is reached when all work queued on a device so far has ended."""
    return Mark(open_device(devices()[index]))


_ids = itertools.count(1)
TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)  # the device type's number in C++


class Stream(torch.Stream):
    """torch.tt.Stream(device, priority). ``with stream:`` also makes the stream's device the current
    device."""

    def __new__(cls, device: Any = None, priority: int = 0, **more: Any) -> Stream:
        if "stream_id" not in more:
            index = device_of(device)
            more = {"stream_id": next(_ids), "device_index": index, "device_type": TYPE}
        return super().__new__(cls, **more)

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        _wait(self.device_index)

    def query(self) -> bool:
        """Whether all work on the device has ended."""
        return _mark(self.device_index).reached

    def wait_stream(self, stream: Any) -> None:
        """Do nothing, because work waits for the data that it reads."""

    def wait_event(self, event: Any) -> None:
        """Do nothing, because work waits for the data that it reads."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event (None: a new event), and return the event."""
        made = Event(device=self.device) if event is None else event
        made.record(self)
        return made

    def __enter__(self) -> Stream:
        _entered.stack.append((current.index, _entered.streams.get(self.device_index)))
        current.index = self.device_index
        _entered.streams[self.device_index] = self
        return self

    def __exit__(self, *_: object) -> None:
        current.index, before = _entered.stack.pop()
        if before is None:
            _entered.streams.pop(self.device_index, None)
        else:
            _entered.streams[self.device_index] = before


class _Entered(threading.local):
    """The streams that a thread entered: {device number: current stream}, and a stack of the previous (device
    number, stream)."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.stack: list[tuple[int, Stream | None]] = []


_entered = _Entered()
_defaults: dict[int, Stream] = {}


class StreamContext:
    """The block ``with torch.tt.stream(s):``, in which s is the current stream. For an s of None nothing
    changes."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            self.stream.__exit__()


stream = StreamContext


def default_stream(device: Any = None) -> Stream:
    index = device_of(device)
    return _defaults.setdefault(index, Stream(index))


def current_stream(device: Any = None) -> Stream:
    index = device_of(device)
    return _entered.streams.get(index) or default_stream(index)


def set_stream(stream: Stream) -> None:
    """Make a stream the current one of its device, and its device the current device, in this thread."""
    current.index = stream.device_index
    _entered.streams[stream.device_index] = stream


class Event(torch.Event):
    """torch.tt.Event(enable_timing=True): a moment in a device's work.

    The time between events raises TorchDeviceError, a RuntimeError, if either was made without
    ``enable_timing`` or was not recorded, or if they are on different devices."""

    def __new__(
        cls,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> Event:
        if interprocess:
            raise TorchDeviceError("events of tt are one process's: leave interprocess out")
        made = super().__new__(cls, device=torch_device(device_of(device)), enable_timing=enable_timing)
        made._index, made._timed, made._at = device_of(device), enable_timing, None
        made._mark = None
        if enable_timing:
            clock.start()
        return made

    _index: int
    _timed: bool
    _at: tuple[int, int] | None  # (simulated ns, wall ns) of the event's moment
    _mark: Mark | None  # None until the event is recorded

    @property
    def device(self) -> torch.device:
        return torch_device(self._index)

    def record(self, stream: Any = None) -> None:
        """Set the moment to now. With timing, wait for the work queued before the event."""
        if stream is not None:
            self._index = stream.device_index
        self._mark = _mark(self._index)
        if self._timed:
            _wait(self._index, self._mark)
            self._at = clock.now(self._index), time.perf_counter_ns()

    def wait(self, stream: Any = None) -> None:
        """Do nothing, because work waits for the data that it reads."""

    def query(self) -> bool:
        """Whether the work queued before the event has ended."""
        return self._mark is None or self._mark.reached

    def synchronize(self) -> None:
        """Wait for the work queued before the event."""
        if self._mark is not None:
            self._mark.wait()

    def elapsed_time(self, end_event: Any) -> float:
        """Simulated ms from this event to ``end_event``: the time that the device would take."""
        start, end = self._times(end_event)
        return (end[0] - start[0]) / 1e6

    def elapsed_wall_time(self, end_event: Any) -> float:
        """Wall-clock ms on the simulating host from this event to ``end_event``."""
        start, end = self._times(end_event)
        return (end[1] - start[1]) / 1e6

    def _times(self, other: Any) -> tuple[tuple[int, int], tuple[int, int]]:
        for event in (self, other):
            if not isinstance(event, Event) or not event._timed:
                raise TorchDeviceError("both events must be made with enable_timing=True, on tt")
        for event in (self, other):
            if event._at is None:
                raise TorchDeviceError("both events must be recorded before the time between them is known")
        if self._index != other._index:
            text = "both events must be of one device: each has a clock of its own"
            raise TorchDeviceError(text, got=[str(self.device), str(other.device)])
        return self._at, other._at  # type: ignore[return-value]  # looked at above

    def __repr__(self) -> str:
        return f"<torch.tt.Event {self.device}, timing={self._timed}, recorded={self._mark is not None}>"
