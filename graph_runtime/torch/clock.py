"""Simulated time: the time that devices would have taken for the launched work, by the cost models
(docs/costs.md).

The clocks stand still until a timing event or a profile needs them. From then on each operation and each
compiled program on a device adds its time to the device's clock. The time added is the time of a trace that
the device replays; enqueueing, copies between the host and a device, and work of the host add nothing.
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


class Launch(NamedTuple):
    """Work that ran on device ``number``: ``when`` is the time of the launch (ns since the epoch), ``ns`` the
    time that the device would take."""

    name: str
    number: int
    when: int
    ns: int


class _Clocks:
    """``on``: whether the clocks run; ``ns`` {device number: simulated ns}; ``logs``: the lists that
    recorded() fills."""

    def __init__(self) -> None:
        self.on = False
        self.ns: dict[int, int] = {}
        self.logs: list[list[Launch]] = []


running = _Clocks()


def start() -> None:
    """Start the clocks."""
    running.on = True


def now(index: int) -> int:
    """Simulated ns of work that a device has done since the clocks were started."""
    return running.ns.get(index, 0)


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """A list of the launches inside of the block, filled while it runs."""
    start()
    log: list[Launch] = []
    running.logs.append(log)
    try:
        yield log
    finally:
        running.logs.remove(log)


def launched(index: int, op: str, attrs: tuple[tuple[str, Any], ...], inputs: Any) -> None:
    """Add the time of a registry op that was launched on runtime tensors ``inputs``. The clocks must run."""
    attrs = tuple((name, _finite(value)) for name, value in attrs)
    _add(index, op, _price(op, attrs, tuple((t.type.dtype, t.type.shape) for t in inputs), inputs[0].device))


def submitted(index: int, name: str, planned: Plan) -> None:
    """Add the time of a compiled program that was submitted. The clocks must run."""
    _add(index, name, _price_of(planned))


def _add(index: int, name: str, ns: int) -> None:
    running.ns[index] = running.ns.get(index, 0) + ns
    for log in running.logs:
        log.append(Launch(name, index, time.time_ns(), ns))


def _finite(value: Any) -> Any:
    """The value, or 0.0 for NaN and infinity, which no graph can hold; a fill value does not affect the
    time."""
    return value if not isinstance(value, float) or math.isfinite(value) else 0.0


@functools.lru_cache(maxsize=4096)
def _price(op: str, attrs: Any, types: tuple[tuple[str, tuple[int, ...]], ...], device: Any) -> int:
    """Predicted ns of one op that runs by itself, as a program of one node."""
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
