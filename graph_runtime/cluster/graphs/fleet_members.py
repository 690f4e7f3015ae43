"""Workers as their caller has them: what a call to one looks like, and what its end does."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np

from ..transport.messages import Message, read_message
from ..transport.sockets import Address
from .worker import decode_error

__all__ = ["FleetMember", "WorkerGone", "answer_of"]


class WorkerGone(Exception):
    """The process of a worker ended; says what is known of why."""


class FleetMember:
    """A worker of node ``name``. ``address``: of its end of the links; ``gone``: why it ended, empty while it
    has not."""

    def __init__(self, name: str):
        self.name, self.gone = name, ""
        self.address: Address = {}

    def start(self, data: bytes) -> Future[bytes]:
        """Begin a call that opens or ends something: by what keeps the worker alive. The future raises
        WorkerGone where the worker ends before it answers, and so may this."""
        raise NotImplementedError

    def send(
        self, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray] | None, end: float
    ) -> Future[Message]:
        """Begin a run, or ask for what one left: over the links. ``end``: of the wait, by time.monotonic().
        The future raises what the worker raised, WorkerGone where it ends, LinkLost where the message or its
        answer was lost on the way; so may this."""
        raise NotImplementedError

    def end(self) -> None:
        """Stop the worker."""


def answer_of(message: bytes | Message) -> Message:
    """What a worker answered. Raises the error that it says."""
    said = read_message(message) if isinstance(message, bytes) else message
    if "error" in said.header:
        raise decode_error(said.header["error"])
    return said
