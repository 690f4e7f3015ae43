"""Simulated time: what devices would have taken for what was launched, by the cost models (docs/costs.md).

Off until a timing event or a profile wants it; then each operation and each compiled program on a device adds
its time to the device's clock. The time is that of a trace which the device replays: what the host takes to
enqueue operations, copies between the host and a device, and what the host does, add nothing.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..ir.builder import GraphBuilder
from ..plan import plan
from ..plan.types import Plan
from ..simulation.simulation import simulate

__all__ = ["Launch", "launched", "now", "recorded", "running", "start", "submitted"]


class Launch(NamedTuple):
    """Something that ran on device ``number``: ``when`` it was launched (ns since the epoch) and the
    ``ns`` that the device would take."""

    name: str
    number: int
    when: int
    ns: int


class _Clocks:
    """``on``: whether they go. ``ns`` {device number: simulated ns}, ``logs``: those of recorded()."""

    def __init__(self) -> None:
        self.on = False
        self.ns: dict[int, int] = {}
        self.logs: list[list[Launch]] = []


running = _Clocks()


def start() -> None:
    """From now on the clocks go."""
    running.on = True


def now(index: int) -> int:
    """Simulated ns that a device has worked since the clocks go."""
    return running.ns.get(index, 0)


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """What is launched meanwhile."""
    start()
    log: list[Launch] = []
    running.logs.append(log)
    try:
        yield log
    finally:
        running.logs.remove(log)


def launched(index: int, op: str, attrs: tuple[tuple[str, Any], ...], inputs: Any) -> None:
    """An op of the registry was launched on runtime tensors ``inputs``, with the clocks on."""
    attrs = tuple((name, _finite(value)) for name, value in attrs)
    _add(index, op, _price(op, attrs, tuple((t.type.dtype, t.type.shape) for t in inputs), inputs[0].device))


def submitted(index: int, name: str, planned: Plan) -> None:
    """A compiled program was submitted, with the clocks on."""
    _add(index, name, _price_of(planned))


def _add(index: int, name: str, ns: int) -> None:
    running.ns[index] = running.ns.get(index, 0) + ns
    for log in running.logs:
        log.append(Launch(name, index, time.time_ns(), ns))


def _finite(value: Any) -> Any:
    """A number that a graph can say, in place of NaN and infinity: what is filled in takes no other time."""
    return value if not isinstance(value, float) or math.isfinite(value) else 0.0


@functools.lru_cache(maxsize=4096)
def _price(op: str, attrs: Any, types: tuple[tuple[str, tuple[int, ...]], ...], device: Any) -> int:
    """ns of one op by itself: a program of one node."""
    builder = GraphBuilder(device=device)
    given = [builder.input(f"x{i}", shape, dtype) for i, (dtype, shape) in enumerate(types)]
    builder.output(builder.op(op, *given, **dict(attrs)))
    return _total(plan(builder.build(), [device]))


@functools.lru_cache(maxsize=256)
def _price_of(planned: Plan) -> int:
    return _total(planned)


def _total(planned: Plan) -> int:
    timeline = simulate(planned, inputs=())
    return int(timeline.end.max()) if len(timeline.end) else 0
