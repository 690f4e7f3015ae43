"""A machine's service for graphs of other processes: it opens bundles, found by the hash of their contents,
and runs their stages. Nothing here uses Ray: a worker has one method, from bytes to bytes, which an actor, a
thread or a test calls.

    worker = Worker("node1", key, folder)
    reply = worker.call(write_message({"do": "open", ...}, tensors))

Requests to that method are hello, store (files of a bundle), open, cancel, close, probe, and underway (which
calls the worker has). Requests about runs come over the links and are answered over the links: run, fetch
(outputs kept here), state. Errors of this package are returned with the names of their classes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...base import errors
from ...base.errors import (
    ClusterError,
    GraphRuntimeError,
    InputError,
    UntrustedLibraryError,
    WaitTimeoutError,
)
from ..installation import this_installation
from ..transport.endpoint import Endpoint
from ..transport.messages import Header, Message, read_message, write_message
from ..transport.records import read_record
from ..transport.sockets import Address, LinkLost, Tls
from ..travel import content_hash, unpack
from .mailbox import Key, Mailbox
from .opened_part import OpenedPart, PartOrder, open_part

_WAIT = 60.0  # seconds of the wait for a request that gives no deadline
_GRACE = 1.0  # seconds after the deadline, to send the answer that the deadline has passed


class Worker:
    """The service. ``name``: name of the worker's node; ``key``: the cluster's key, for links between
    workers; ``folder``: folder for bundles; ``host`` and ``tls``: address and certificates, as in Endpoint.
    """

    def __init__(self, name: str, key: bytes, folder: Path, host: str | None = None, tls: Tls | None = None):
        self.name, self._folder = name, folder
        self._mailbox = Mailbox()
        self._files: dict[str, dict[str, np.ndarray]] = {}  # hash of a bundle -> its files that have arrived
        self._parts: dict[str, OpenedPart] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._calls: set[int] = set()  # unanswered calls that came over the links
        self._caller: Address = {}
        self.on_answer: Callable[[Message], None] | None = None  # takes answers to our own calls
        self.endpoint = Endpoint(name, key, self._arrived, host, tls)

    def call(self, data: bytes) -> bytes:
        """The answer to a request. Never raises."""
        try:
            said = self.answer(read_message(data))
        except Exception as error:
            return write_message({"error": encode_error(error)})
        return write_message(said.header, said.tensors)

    def answer(self, message: Message) -> Message:
        """The answer to a request; if the request raises an error, an answer with that error. Never
        raises."""
        try:
            name = str(message.header.get("do"))
            if name not in _REQUESTS:
                raise ClusterError(f"there is no request {name[:40]!r}", got=name[:40], wanted=_REQUESTS)
            do: Callable[[Message], Any] = getattr(self, f"_do_{name}")
            answered = do(message)
            header, tensors = answered if isinstance(answered, tuple) else (answered or {}, {})
            return Message(header, tensors)
        except Exception as error:
            return Message({"error": encode_error(error)})

    def close(self) -> None:
        """End all links and sessions."""
        self._parts.clear()
        self.endpoint.close()

    # **************** requests ****************

    def _do_hello(self, message: Message) -> dict[str, Any]:
        """Refuse a caller with another installation: version of the package, ABI or processor."""
        here, there = str(this_installation()), message.header.get("installation")
        if here != there:
            text = f"{self.name} has {here}, the caller has {there}: install the same version on both"
            raise ClusterError(text, got=here, wanted=there)
        self._caller = dict(message.header.get("caller", {}))
        return {"address": dict(self.endpoint.address)}

    def _do_store(self, message: Message) -> dict[str, Any]:
        """Tell whether the bundle whose contents have the given hash is here. If the request lists ``files``,
        first assemble the bundle from the files that have arrived."""
        digest, files = str(message.header["hash"]), message.header.get("files")
        if files is not None:
            packed = {str(name): (str(sha256), str(name)) for name, sha256 in files.items()}
            if content_hash(packed) != digest:
                raise ClusterError(f"the listed files are not those of bundle {digest[:12]}")
            arrived = self._files_of(digest, set(packed), _end(message.header))
            unpack(packed, lambda name: arrived[name].tobytes(), self._folder)
        return {"there": self._path(digest).exists()}

    def _do_open(self, message: Message) -> dict[str, Any]:
        order = read_record(PartOrder, message.header["order"])
        part = open_part(self._path(order.hash), order)
        for name, value in message.tensors.items():
            part.set_input(name, value)
        with self._lock:
            self._parts[order.module] = part
        return {"inputs": part.inputs, "outputs": part.outputs}

    def _do_run(self, message: Message) -> Any:
        header = message.header
        part, module = self._part(header), str(header["module"])
        run, attempt = int(header["run"]), int(header["attempt"])
        end = _end(header)
        self._mailbox.over(module, int(header.get("over", -1)))
        part.over(int(header.get("over", -1)), header.get("drop", ()))
        return part.run(
            run,
            message.tensors,
            after=int(header.get("after", -1)),
            kept=header.get("kept", {}),
            checkpoint=bool(header.get("checkpoint")),
            take=lambda source, stage: self._mailbox.take(Key(module, run, attempt, source, stage), end),
            send=lambda to, stage, values: self.endpoint.send(
                header["peers"][to], {"key": [module, run, attempt, part.sheet.machine, stage]}, values, end
            ),
            end=end,
        )

    def _do_fetch(self, message: Message) -> Any:
        """Fetch outputs kept here."""
        return {}, self._part(message.header).fetch(message.header["values"])

    def _do_state(self, message: Message) -> Any:
        return {}, self._part(message.header).state()

    def _do_cancel(self, message: Message) -> None:
        header = message.header
        module, run, why = str(header["module"]), int(header["run"]), str(header["why"])
        self._mailbox.call_off(module, run, int(header["attempt"]), why)
        if header.get("failed"):
            self._part(header).skip(run, bool(header.get("sets")))

    def _do_close(self, message: Message) -> None:
        module = str(message.header["module"])
        with self._lock:
            self._parts.pop(module, None)
        self._mailbox.over(module, 1 << 62)

    def _do_underway(self, message: Message) -> dict[str, Any]:
        """Tell which of the given calls are here."""
        with self._lock:
            return {"calls": [number for number in message.header["calls"] if number in self._calls]}

    def _do_probe(self, message: Message) -> dict[str, Any]:
        """Measure round trips of messages of ``nbytes`` bytes to another end of links, in seconds."""
        header = message.header
        took = []
        block = np.ones(int(header["nbytes"]), np.uint8)
        for i in range(int(header["times"])):
            key = Key("probe", int(header["first"]) + i, 0, str(header["to"]["name"]), 0)
            start = time.perf_counter()
            said = {"probe": list(key), "back": dict(self.endpoint.address)}
            self.endpoint.send(header["to"], said, {"block": block}, _end(header))
            self._mailbox.take(key, _end(header))
            took.append(time.perf_counter() - start)
        return {"seconds": took}

    def _files_of(self, digest: str, names: set[str], end: float) -> dict[str, np.ndarray]:
        """The files of a bundle, once all of them have arrived over the link."""
        with self._changed:
            there = self._files.setdefault(digest, {})
            if not self._changed.wait_for(lambda: names <= there.keys(), max(0.0, end - time.monotonic())):
                missing = min(names - there.keys())
                text = f"file {missing!r} of bundle {digest[:12]} did not arrive before the deadline"
                raise WaitTimeoutError(text)
            return self._files.pop(digest)

    # **************** parts ****************

    def _part(self, header: Header) -> OpenedPart:
        with self._lock:
            part = self._parts.get(str(header["module"]))
        if part is None:
            module = str(header["module"])[:40]
            raise ClusterError(f"{self.name} has no module {module!r}: it was closed", got=module)
        return part

    def _path(self, digest: str) -> Path:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise InputError(f"a bundle is named by its sha256, got {digest[:80]!r}", got=digest[:80])
        return self._folder / digest

    def _arrived(self, message: Message) -> Callable[[], None] | None:
        """Handle a message from a link. If it is a call, return the work of answering the call, which may
        take long."""
        header = message.header
        if "call" in header:
            with self._lock:
                self._calls.add(int(header["call"]))
            return partial(self._answer_call, message)
        if "answer" in header:
            if self.on_answer is not None:
                self.on_answer(message)
        elif "file" in header:
            with self._changed:
                self._files.setdefault(str(header["hash"]), {})[str(header["file"])] = message.tensors["file"]
                self._changed.notify_all()
        elif "probe" in header:
            self.endpoint.send(header["back"], {"key": header["probe"]})
        elif "key" in header:
            module, run, attempt, source, stage = header["key"]
            self._mailbox.put(Key(str(module), int(run), int(attempt), str(source), int(stage)), message)
        return None

    def _answer_call(self, message: Message) -> None:
        """Answer a call, over the link to the caller. If the answer cannot be sent, the call is forgotten;
        the caller learns this when it asks about the call."""
        header = message.header
        try:
            if header.get("do") in _OVER_LINKS:
                said = self.answer(message)
            else:
                error = ClusterError(f"request {str(header.get('do'))[:40]!r} is not for links")
                said = Message({"error": encode_error(error)})
            said = Message({**said.header, "answer": header["call"]}, said.tensors)
            with contextlib.suppress(GraphRuntimeError, KeyError, TypeError, ValueError):
                self.endpoint.send(self._caller, said.header, said.tensors, _end(header) + _GRACE)
        finally:
            with self._lock:
                self._calls.discard(int(header["call"]))


_REQUESTS = [name.removeprefix("_do_") for name in vars(Worker) if name.startswith("_do_")]
_OVER_LINKS = ("run", "fetch", "state")


def _end(header: Header) -> float:
    return time.monotonic() + float(header.get("seconds", _WAIT))


# **************** errors in messages ****************


def encode_error(error: Exception) -> dict[str, Any]:
    """An error as JSON: the name of its class, its text, and its fields that are texts or numbers."""
    if not isinstance(error, GraphRuntimeError):
        return {"type": "ClusterError", "text": f"{type(error).__name__}: {error}", "fields": {}}
    names = [kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind]
    plain = {name: value for name, value in error.fields.items() if isinstance(value, str | int | float)}
    fields: dict[str, Any] = plain
    if isinstance(error, UntrustedLibraryError):
        fields["sha256"] = list(error.sha256)
    link = {"link": error.got} if isinstance(error, LinkLost) else {}
    return {"type": names[0], "text": str(error), "fields": fields, **link}


def decode_error(raw: Mapping[str, Any]) -> GraphRuntimeError:
    """The error that an answer contains."""
    kind = getattr(errors, str(raw.get("type")), ClusterError)
    if not (isinstance(kind, type) and issubclass(kind, GraphRuntimeError)):
        kind = ClusterError
    fields = {str(name): value for name, value in dict(raw.get("fields", {})).items() if name != "path"}
    if "link" in raw:
        return LinkLost(str(raw.get("text")), got=str(raw["link"]))
    return kind(str(raw.get("text")), **fields)
