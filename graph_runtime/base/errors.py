"""Every exception that this package raises on purpose.

    GraphRuntimeError               root; carries fields, and one line: what, where, what to do
     +- DocumentError               bytes that are no valid document (graph.json, params, bundle, manifest)
     |   +- ParamsError             a parameter file; .offset is the byte where it went wrong
     |   +- MissingDataError        a constant whose file is not there
     +- GraphError                  a well-formed document that is no valid graph; .path says where
     |   +- UnsupportedOpError      an op, dtype or attribute that has no kernel; lists what there is
     +- PlanError                   a placement, layout or storage that cannot be
     |   +- CheckError              the independent checker refused a plan
     |   +- CapacityError           a plan needs more memory than its device has
     +- LibraryError                a module library that does not fit: ABI, hash, kernel, signature
     |   +- ForeignMachineError     a library for another architecture or instruction set
     |   +- UntrustedLibraryError   native code that came with a file and that the user did not ask to run
     +- CompileError                the C compiler is missing or refused generated code
     +- DeviceError                 a device that is unknown, not in the list, or closed
     |   +- DeviceMemoryError       out of device memory at run time; also a MemoryError
     +- InputError                  set_input / get_output with something that does not fit; also a ValueError
     +- HandleError                 a tensor handle that is deallocated, donated, or of a closed device
     +- ImplicitTransferError       a hidden transfer inside of no_implicit_transfer()
     +- KernelError                 a kernel failed; .node .op .device
     |   +- RunCancelledError       queued work that was cancelled, or reads what cancelled work makes
     +- SessionBusyError            two threads in one session
     +- WriteError                  a file could not be written: disk, quota, limit; also an OSError
     +- WaitTimeoutError            wait(timeout=): the work goes on; also a TimeoutError
     +- ClusterError                no cluster, or one that would let strangers in
     |   +- WorkerLost              a worker ended with requests; .worker .cause .requests
     +- RequestError                a request of the inference protocol that is refused; .status is HTTP's

Fields are keyword arguments and become attributes: raise GraphError("...", path="$.nodes[3]", node="conv1").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

__all__ = [
    "CapacityError",
    "CheckError",
    "ClusterError",
    "CompileError",
    "DeviceError",
    "DeviceMemoryError",
    "DocumentError",
    "ForeignMachineError",
    "GraphError",
    "GraphRuntimeError",
    "HandleError",
    "ImplicitTransferError",
    "InputError",
    "KernelError",
    "LibraryError",
    "MissingDataError",
    "ParamsError",
    "PlanError",
    "RequestError",
    "RunCancelledError",
    "SessionBusyError",
    "UnsupportedOpError",
    "UntrustedLibraryError",
    "WaitTimeoutError",
    "WorkerLost",
    "WriteError",
    "afresh",
    "all_there_are",
    "as_path",
    "did_you_mean",
    "nearest",
    "no_attribute",
    "no_such",
    "refuse_words",
    "throw",
]


_LONGEST, _END = 4000, 1000  # characters of an error's text
_FEW = 12  # names that a text has all of
_MOST_NAMES, _MOST_LETTERS = 2000, 60  # looked at for the name that was meant: longer ones take minutes


class GraphRuntimeError(Exception):
    """Root of all exceptions of this package.

    Fields that are always there, None where they do not apply: ``path`` (JSON path in the document),
    ``node`` (name), ``op``, ``device``, ``got``, ``wanted``. Others may be added by the raiser; ``fields``
    holds all of them.
    """

    path: str | None = None
    node: str | None = None
    op: str | None = None
    device: str | None = None
    got: object = None
    wanted: object = None

    def __init__(self, message: str, **fields: Any) -> None:
        self.fields = fields
        for key, value in fields.items():
            setattr(self, key, value)
        path = fields.get("path")
        if path and f"`{path}`" not in message:
            message = f"{message} - at `{path}`"
        super().__init__(_bounded(message))


def _bounded(text: str) -> str:
    """The text, its middle left out where names and keys of a file make it longer than anybody reads."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - _END]} ... {text[-_END:]}"


class DocumentError(GraphRuntimeError):
    """Bytes that are no valid document."""


class ParamsError(DocumentError):
    """A parameter file that is truncated or malformed; ``offset`` is the byte where it went wrong."""

    offset: int | None = None


class MissingDataError(DocumentError):
    """The values of a constant are needed and the file that has them is not there; ``path`` names it."""


class GraphError(GraphRuntimeError):
    """A document that is well formed and yet no valid graph."""


class UnsupportedOpError(GraphError):
    """An op, attribute or dtype that nothing here implements."""


class PlanError(GraphRuntimeError):
    """A placement, layout or storage assignment that cannot be."""


class CheckError(PlanError):
    """The independent checker refused a plan; ``rule`` names which rule it breaks."""

    rule: str | None = None


class CapacityError(PlanError):
    """A plan needs more memory than its device has."""


class LibraryError(GraphRuntimeError):
    """A module library that cannot serve this graph on this machine."""


class ForeignMachineError(LibraryError):
    """A library that was built for another architecture or instruction set; ``got`` is that one."""


class UntrustedLibraryError(LibraryError):
    """Native code that came with a bundle, was not compiled here by this user and is not trusted; ``sha256``
    are the hashes of what was refused."""

    sha256: tuple[str, ...] = ()


class CompileError(GraphRuntimeError):
    """Generated code could not be compiled."""


class DeviceError(GraphRuntimeError):
    """A device that is unknown, missing from the list, or closed."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device ran out of memory while a session was made."""


class InputError(GraphRuntimeError, ValueError):
    """An input or output call with a name, shape or dtype that does not fit."""


class HandleError(GraphRuntimeError):
    """A tensor handle that leads nowhere any more; ``tensor`` is its id."""

    tensor: int | None = None


class ImplicitTransferError(GraphRuntimeError):
    """A transfer that the caller did not ask for by name, where ``no_implicit_transfer`` forbids such."""


class KernelError(GraphRuntimeError, RuntimeError):
    """A kernel reported failure; a RuntimeError, as torch raises for a remainder by 0."""


class RunCancelledError(KernelError):
    """Queued work that was cancelled before it began, or that reads what cancelled work should have made."""


class SessionBusyError(GraphRuntimeError):
    """A second thread called into a session that is running."""


class WriteError(GraphRuntimeError, OSError):
    """A file that could not be written: what was in its place is there still. ``errno`` says why, ``got``
    which."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.errno = fields.get("errno")  # which OSError has set to None


class WaitTimeoutError(GraphRuntimeError, TimeoutError):
    """The time of a wait is up; what was waited for goes on."""


class ClusterError(GraphRuntimeError):
    """A cluster that is not there, or that would let strangers in."""


class WorkerLost(ClusterError):
    """A worker ended, or gave no answer, while it had requests, and replaying them did not help. ``worker``:
    which one; ``cause``: what is known of its end; ``requests``: their ids."""

    worker: str = ""
    cause: str = ""
    requests: tuple[str, ...] = ()


class RequestError(GraphRuntimeError, ValueError):
    """A request of the inference protocol that is refused. ``status``: HTTP's; ``path``: where in its JSON;
    ``retry_after``: seconds after which it may be sent again, None where it never fits."""

    status: int = 400
    retry_after: float | None = None


def afresh(error: GraphRuntimeError) -> GraphRuntimeError:
    """An equal error that was never raised, for one that is kept, or raised about another: it holds no
    frames, nor what lives in them, and no error that may lead back to it."""
    return type(error)(error.args[0], **error.fields)


def throw(error: Exception | None) -> None:
    """Raise an error, if there is one, from a frame that does not keep it: an error that a frame of its own
    traceback holds lives, with all tensors in those frames, until Python's collector comes by."""
    try:
        if error is not None:
            raise error
    finally:
        del error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A text to append to an error about an unknown name: " (did you mean 'relu'?)", the known names if
    few, or ""."""
    name, names = str(name), [str(k) for k in islice(known, _MOST_NAMES)]
    if 0 < len(names) <= _FEW:
        return all_there_are(name, names)
    close = nearest(name, names)
    return f" (did you mean {close!r}?)" if close is not None else ""


def all_there_are(name: object, known: Iterable[str]) -> str:
    """As did_you_mean, with all names, however many: " (did you mean 'relu'?); there are: exp, relu"."""
    names = sorted(map(str, known))
    listed = f"there are: {', '.join(names) or 'none'}"
    meant = nearest(str(name), names)
    return f" (did you mean {meant!r}?); {listed}" if meant is not None else f" ({listed})"


def no_such(what: str, name: object, known: Iterable[str]) -> str:
    """The text of an error about an unknown word of a few: which was meant, and all that there are."""
    return f"there is no {what} {name!r}{all_there_are(name, known)}"


def refuse_words(unknown: Iterable[str], function: Callable[..., Any]) -> None:
    """Raise InputError for keywords that a function does not have: Python's own error lists none. They come
    as its ``**unknown: Never``, which type checkers refuse."""
    for name in unknown:
        code, listed = function.__code__, getattr(function, "__signature__", None)
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        known = own if listed is None else tuple(listed.parameters)
        called = function.__qualname__.removesuffix(".__init__")
        raise InputError(no_such(f"keyword of {called}()", name, known), got=name, wanted=list(known))


class _NoAttribute(AttributeError):
    """Makes its text when that is read: an import of a submodule asks for the name, too, and drops it."""

    def __init__(self, module: str, name: str, known: Sequence[str]):
        super().__init__(module, name, known, name=name)

    def __str__(self) -> str:
        module, name, known = self.args
        return f"module {module!r} has no attribute {name!r}{all_there_are(name, known)}"


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error of a module's ``__getattr__``."""
    return _NoAttribute(module, name, list(known))


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The name that was meant, if one is near."""
    import difflib  # errors alone need it

    if len(name) > _MOST_LETTERS:
        return None
    short = [k for k in names if len(k) <= _MOST_LETTERS]
    return next(iter(difflib.get_close_matches(name, short, n=1, cutoff=0.6)), None)


def as_path(value: object, what: str) -> Path:
    """A caller's path. Raises InputError, which says what was wanted, for anything that is none."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"{what} is given by a path, got {type(value).__name__}", got=type(value).__name__)
    return Path(value)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
