"""torch.profiler with activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]: the simulated time of
each operation on a device (clock.py) is its device time, and a row of export_chrome_trace. Host times are
those of the simulation."""

from __future__ import annotations

import functools
import json
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch.autograd import DeviceType, ProfilerActivity
from torch.autograd.profiler import profile
from torch.autograd.profiler_util import FunctionEvent

from . import clock
from .store import devices, torch_device


def _attach(events: list[FunctionEvent], launches: list[clock.Launch], start_ns: int) -> None:
    """Add a device event for each launch, and attribute it to a host event: to the last one that began among
    the host events active at the launch."""
    ordered = sorted((e for e in events if not e.is_async), key=lambda e: e.time_range.start)
    starts = [e.time_range.start for e in ordered]
    for launch in launches:
        at, took = (launch.when - start_ns) / 1e3, launch.ns / 1e3
        for position in range(bisect_right(starts, at) - 1, -1, -1):
            if ordered[position].time_range.end >= at:
                ordered[position].append_kernel(launch.name, launch.number, took)
                break
        events.append(_of_device(launch, at, took))


def _of_device(launch: clock.Launch, start_us: float, took_us: float) -> FunctionEvent:
    return FunctionEvent(
        id=-1,
        name=launch.name,
        thread=0,
        start_us=start_us,
        end_us=start_us + took_us,
        stack=[],
        use_device="tt",
        device_type=DeviceType.PrivateUse1,
        device_index=launch.number,
    )


def _add_rows(path: str, launches: Sequence[clock.Launch]) -> None:
    """Add a process for each device to a Chrome trace, with the device's launches in sequence: each begins at
    the time of the launch, or at the end of the previous one if that is later."""
    file = Path(path)
    trace = json.loads(file.read_text())
    base, events = trace.get("baseTimeNanoseconds", 0), trace["traceEvents"]
    over: dict[int, int] = {}  # {device: end of its last launch}
    for number in sorted({launch.number for launch in launches}):
        name = f"{torch_device(number)} ({devices()[number].descriptor.name}), simulated"
        events.append({"ph": "M", "name": "process_name", "pid": name, "tid": 0, "args": {"name": name}})
        for launch in launches:
            if launch.number != number:
                continue
            begin = max(launch.when - base, over.get(number, 0))
            over[number] = begin + launch.ns
            row = {"ph": "X", "cat": "kernel", "name": launch.name, "pid": name, "tid": 0}
            events.append({**row, "ts": begin / 1e3, "dur": launch.ns / 1e3, "args": {"device": number}})
    file.write_text(json.dumps(trace))


def register() -> None:
    """Make torch's profiles record the launches on tt devices and attribute them to host events."""
    plain_prepare, plain_start, plain_exit, plain_parse, plain_export = (
        profile._prepare_trace,
        profile._start_trace,
        profile.__exit__,
        profile._parse_kineto_results,
        profile.export_chrome_trace,
    )

    @functools.wraps(plain_prepare)
    def prepare(self: Any) -> None:
        # this module adds the device events; for this activity torch's tracer would look for a GPU, and may
        # fail
        if self.use_device == "tt" and ProfilerActivity.CPU in self.kineto_activities:
            self.kineto_activities.discard(ProfilerActivity.PrivateUse1)
        plain_prepare(self)

    @functools.wraps(plain_start)
    def start(self: Any) -> None:
        if self.use_device == "tt":
            self._tt_recording = ExitStack()
            self._tt_launches = self._tt_recording.enter_context(clock.recorded())
        plain_start(self)

    @functools.wraps(plain_exit)
    def leave(self: Any, *error: Any) -> Any:
        try:
            return plain_exit(self, *error)
        finally:
            if hasattr(self, "_tt_recording"):
                self._tt_recording.close()

    @functools.wraps(plain_parse)
    def parse(self: Any, result: Any, *args: Any, **more: Any) -> list[FunctionEvent]:
        events = plain_parse(self, result, *args, **more)
        _attach(events, getattr(self, "_tt_launches", []), result.trace_start_ns())
        return events

    @functools.wraps(plain_export)
    def export(self: Any, path: str, *args: Any, **more: Any) -> Any:
        made = plain_export(self, path, *args, **more)
        if getattr(self, "_tt_launches", None):
            _add_rows(path, self._tt_launches)
        return made

    profile._prepare_trace, profile._start_trace, profile.__exit__ = prepare, start, leave
    profile._parse_kineto_results, profile.export_chrome_trace = parse, export
