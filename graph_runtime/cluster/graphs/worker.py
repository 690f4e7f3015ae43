"""What a machine does for graphs of others: opens bundles by their content, and runs their stages. No Ray
here: a worker has one method, from bytes to bytes, which an actor, a thread or a test calls.

    worker = Worker("node1", key, folder)
    reply = worker.call(write_message({"do": "open", ...}, tensors))

Requests: hello, store (files of a bundle), open, cancel, close, probe, underway (which calls it has). Those
that are about runs come over the links, and are answered there: run, fetch (outputs that stayed), state.
Errors of this package come back as such, by their names.
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
from ..transport.messages import Message, read_message, write_message
from ..transport.sockets import Address, LinkLost, Tls
from ..travel import content_hash, unpack
from .mailbox import Key, Mailbox
from .opened_part import OpenedPart, open_part
from .sheets import read_sheet

__all__ = ["Worker", "decode_error", "encode_error"]

_WAIT = 60.0  # seconds, where a request does not say
_GRACE = 1.0  # seconds for the answer that the deadline is over


class Worker:
    """``name``: of its node; ``key``: of the cluster, for links between workers; ``folder``: where bundles
    are kept; ``host``, ``tls``: as Endpoint's."""

    def __init__(self, name: str, key: bytes, folder: Path, host: str | None = None, tls: Tls | None = None):
        self.name, self._folder = name, folder
        self._mailbox = Mailbox()
        self._files: dict[str, dict[str, np.ndarray]] = {}  # of bundles that are arriving
        self._parts: dict[str, OpenedPart] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._calls: set[int] = set()  # that came over the links and are not answered yet
        self._caller: Address = {}
        self.on_answer: Callable[[Message], None] | None = None  # to what this process asked others
        self.endpoint = Endpoint(name, key, self._arrived, host, tls)

    def call(self, data: bytes) -> bytes:
        """Answer a request. Never raises."""
        try:
            said = self.answer(read_message(data))
        except Exception as error:
            return write_message({"error": encode_error(error)})
        return write_message(said.header, said.tensors)

    def answer(self, message: Message) -> Message:
        """The answer to a request, an error as one. Never raises."""
        try:
            name = str(message.header.get("do"))
            if name not in _REQUESTS:
                raise ClusterError(
                    f"there is no request {name[:40]!r}", got=name[:40], wanted=list(_REQUESTS)
                )
            do: Callable[[Message], Any] = getattr(self, _REQUESTS[name])
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

    def _hello(self, message: Message) -> dict[str, Any]:
        """Both sides have to be of one installation: ABI, version, processor."""
        here, there = str(this_installation()), message.header.get("installation")
        if here != there:
            raise ClusterError(
                f"{self.name} has {here}, the caller has {there}: install the same", got=here, wanted=there
            )
        self._caller = dict(message.header.get("caller", {}))
        return {"address": dict(self.endpoint.address)}

    def _store(self, message: Message) -> dict[str, Any]:
        """Whether a bundle is there, by its content's hash; with ``files``, what arrived of it becomes
        one."""
        digest, files = str(message.header["hash"]), message.header.get("files")
        if files is not None:
            packed = {str(name): (str(sha256), str(name)) for name, sha256 in files.items()}
            if content_hash(packed) != digest:
                raise ClusterError(f"the files that are listed are not those of bundle {digest[:12]}")
            arrived = self._files_of(digest, set(packed), _end(message.header))
            unpack(packed, lambda name: arrived[name].tobytes(), self._folder)
        return {"there": self._path(digest).exists()}

    def _open(self, message: Message) -> dict[str, Any]:
        header = message.header
        sheet = read_sheet(header["sheet"])
        part = open_part(
            self._path(str(header["hash"])),
            sheet,
            devices=header.get("devices"),
            threads=header.get("threads"),
            libraries=bool(header.get("libraries", True)),
            first=int(header.get("first", 0)),
            known=int(header.get("known", -1)),
            most=int(header.get("in_flight", 8)),
        )
        for name, value in message.tensors.items():
            part.set_input(name, value)
        with self._lock:
            self._parts[str(header["module"])] = part
        return {"inputs": part.inputs, "outputs": part.outputs}

    def _run(self, message: Message) -> Any:
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
                header["peers"][to],
                {"key": [module, run, attempt, part.sheet.machine, stage]},
                values,
                end,
            ),
            end=end,
        )

    def _fetch(self, message: Message) -> Any:
        """Outputs that stayed here."""
        return {}, self._part(message.header).fetch(message.header["values"])

    def _state(self, message: Message) -> Any:
        return {}, self._part(message.header).state()

    def _cancel(self, message: Message) -> None:
        header = message.header
        module, run, why = str(header["module"]), int(header["run"]), str(header["why"])
        self._mailbox.call_off(module, run, int(header["attempt"]), why)
        if header.get("failed"):
            self._part(header).skip(run, bool(header.get("sets")))

    def _close_part(self, message: Message) -> None:
        module = str(message.header["module"])
        with self._lock:
            self._parts.pop(module, None)
        self._mailbox.over(module, 1 << 62)

    def _under_way(self, message: Message) -> dict[str, Any]:
        """Which of these calls are here."""
        with self._lock:
            return {"calls": [number for number in message.header["calls"] if number in self._calls]}

    def _probe(self, message: Message) -> dict[str, Any]:
        """Seconds of messages of ``nbytes`` to another end, there and back."""
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
        """The files of a bundle, when all have come over the link."""
        with self._changed:
            while missing := names - set(self._files.get(digest, {})):
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    text = f"file {min(missing)!r} of bundle {digest[:12]} did not arrive before the deadline"
                    raise WaitTimeoutError(text)
            return self._files.pop(digest)

    # **************** parts ****************

    def _part(self, header: Mapping[str, Any]) -> OpenedPart:
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
        """A message came over a link. Returns what takes long: to answer a call."""
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
        """Answer a call over the link to the caller. One whose answer cannot be sent is known here no more,
        which the caller is told when it asks."""
        header = message.header
        try:
            if header.get("do") in _OVER_LINKS:
                said = self.answer(message)
            else:
                error = ClusterError(f"no request {str(header.get('do'))[:40]!r} comes over a link")
                said = Message({"error": encode_error(error)})
            said = Message({**said.header, "answer": header["call"]}, said.tensors)
            with contextlib.suppress(GraphRuntimeError, KeyError, TypeError, ValueError):
                self.endpoint.send(self._caller, said.header, said.tensors, _end(header) + _GRACE)
        finally:
            with self._lock:
                self._calls.discard(int(header["call"]))


_REQUESTS = {
    "hello": "_hello",
    "store": "_store",
    "open": "_open",
    "run": "_run",
    "fetch": "_fetch",
    "state": "_state",
    "cancel": "_cancel",
    "close": "_close_part",
    "probe": "_probe",
    "underway": "_under_way",
}
_OVER_LINKS = ("run", "fetch", "state")


def _end(header: Mapping[str, Any]) -> float:
    return time.monotonic() + float(header.get("seconds", _WAIT))


# **************** errors on the way ****************


def encode_error(error: Exception) -> dict[str, Any]:
    """An error as JSON has it: the name of its class here, its text and those of its fields that are
    texts."""
    if not isinstance(error, GraphRuntimeError):
        return {"type": "ClusterError", "text": f"{type(error).__name__}: {error}", "fields": {}}
    names = [kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind]
    fields: dict[str, Any] = {
        name: value for name, value in error.fields.items() if isinstance(value, str | int | float)
    }
    if isinstance(error, UntrustedLibraryError):
        fields["sha256"] = list(error.sha256)
    link = {"link": error.got} if isinstance(error, LinkLost) else {}
    return {"type": names[0], "text": str(error), "fields": fields, **link}


def decode_error(raw: Mapping[str, Any]) -> GraphRuntimeError:
    """The error that an answer says."""
    kind = getattr(errors, str(raw.get("type")), ClusterError)
    if not (isinstance(kind, type) and issubclass(kind, GraphRuntimeError)):
        kind = ClusterError
    fields = {str(name): value for name, value in dict(raw.get("fields", {})).items() if name != "path"}
    if "link" in raw:
        return LinkLost(str(raw.get("text")), got=str(raw["link"]))
    return kind(str(raw.get("text")), **fields)
