"""The memory of a session's inputs and outputs on the host, for callers that write and read it between runs
without a call for each value. No other thread, and no queued run, may use the session meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.machine.layout import HOST
from ..tensors.host_values import host_view, writable_view
from ..tensors.tensor import Tensor
from .session import Session

__all__ = ["input_memory", "output_memory", "runner"]


def input_memory(session: Session, index: int) -> np.ndarray | None:
    """Where graph input ``index`` is read, to be written. None for one that is not on the host, has no value
    yet, or lives elsewhere (zero copy, constants)."""
    eid = int(session.graph.input_eids[index])
    if index in session.unset or index in session.sharing or session.is_bound(index):
        return None
    tensor = session.tensor(eid)
    if tensor.readonly or tensor.layout.memory != HOST:
        return None
    return writable_view(session.graph.entry_type(eid), *session.home(eid))


def device_input(session: Session, index: int) -> Tensor | None:
    """Graph input ``index`` where a device has it in memory of its own, to be written. None for one on the
    host, and as input_memory."""
    if index in session.unset or index in session.sharing or session.is_bound(index):
        return None
    tensor = session.input(index)
    return None if tensor.readonly or tensor.layout.memory == HOST else tensor


def output_memory(session: Session, index: int) -> np.ndarray | None:
    """The live values of graph output ``index``, None where they are not on the host."""
    eid = int(session.graph.outputs[index])
    if session.tensor(eid).layout.memory != HOST:
        return None
    return host_view(session.graph.entry_type(eid), *session.home(eid))


def runner(session: Session, written: Sequence[int]) -> Callable[[], None]:
    """A run after these inputs were written in their memory: it copies them to other devices that read
    them."""
    spans = [session.program.at_input[index] for index in written if index in session.program.at_input]
    if not spans:
        return session.run

    def run() -> None:
        for first, last in spans:
            session.run_span(first, last)
        session.run()

    return run
