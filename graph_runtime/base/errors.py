"""Every exception that this package raises on purpose.

    GraphRuntimeError               root; carries fields, and a text of one line: what, where, what to do
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

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
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
    "did_you_mean",
    "nearest",
    "no_attribute",
    "no_such",
    "refuse_words",
    "throw",
]


_LONGEST, _END = 4000, 1000  # most characters of an error's text; characters of its end that a cut keeps
_FEW = 12  # the text of an error lists all known names if they are no more than this
_MOST_NAMES, _MOST_LETTERS = 2000, 60  # most names, letters: the search could take minutes


class GraphRuntimeError(Exception):
    """Root of all exceptions of this package.

    These fields always exist, and are None if they do not apply: ``path`` (JSON path in the document),
    ``node`` (name), ``op``, ``device``, ``got``, ``wanted``. The code that raises an error may add other
    fields; ``fields`` holds all that were given."""

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
        if len(message) > _LONGEST:  # long names and keys of a file can make the text too long to read
            message = f"{message[: _LONGEST - _END]} ... {message[-_END:]}"
        super().__init__(message)


class DocumentError(GraphRuntimeError):
    """Bytes that are no valid document."""


class ParamsError(DocumentError):
    """A parameter file that is truncated or malformed; ``offset``: position of the faulty byte."""

    offset: int | None = None


class MissingDataError(DocumentError):
    """The file with the values of a constant is missing; ``path`` names the file."""


class GraphError(GraphRuntimeError):
    """A well-formed document that is no valid graph."""


class UnsupportedOpError(GraphError):
    """An op, attribute or dtype that is not implemented."""


class PlanError(GraphRuntimeError):
    """An impossible placement, layout or storage assignment."""


class CheckError(PlanError):
    """The independent checker refused a plan; ``rule`` is the broken rule."""

    rule: str | None = None


class CapacityError(PlanError):
    """A plan needs more memory than its device has."""


class LibraryError(GraphRuntimeError):
    """A module library that does not fit this graph or this machine."""


class ForeignMachineError(LibraryError):
    """A library built for another architecture or instruction set; ``got`` names it."""


class UntrustedLibraryError(LibraryError):
    """Native code that came with a bundle, was not compiled here by this user and is not trusted; ``sha256``
    are the hashes of the refused libraries."""

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
    """A tensor handle whose tensor is gone; ``tensor`` is the handle's id."""

    tensor: int | None = None


class ImplicitTransferError(GraphRuntimeError):
    """A transfer that the caller did not ask for by name, inside ``no_implicit_transfer``."""


class KernelError(GraphRuntimeError, RuntimeError):
    """A kernel failed; also a RuntimeError, as torch raises for a remainder by 0."""


class RunCancelledError(KernelError):
    """Queued work that was cancelled before it began, or that reads outputs of cancelled work."""


class SessionBusyError(GraphRuntimeError):
    """A second thread called into a session that is running."""


class WriteError(GraphRuntimeError, OSError):
    """A file could not be written; an earlier file in its place is unchanged. ``errno``: the reason; ``got``:
    the file."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.errno = fields.get("errno")  # OSError's own __init__ has set it to None


class WaitTimeoutError(GraphRuntimeError, TimeoutError):
    """The timeout of a wait has passed; the work goes on."""


class ClusterError(GraphRuntimeError):
    """A cluster that is not there, or that would let strangers in."""


class WorkerLost(ClusterError):
    """A worker ended, or gave no answer, while it had requests, and replaying them did not help. ``worker``:
    its name; ``cause``: the cause of its end, if known; ``requests``: the ids of the requests."""

    worker: str = ""
    cause: str = ""
    requests: tuple[str, ...] = ()


class RequestError(GraphRuntimeError, ValueError):
    """A request of the inference protocol is refused. ``status``: the HTTP status; ``path``: place of the
    fault in the request's JSON; ``retry_after``: seconds after which the request may be sent again, None if
    sending it again would not help."""

    status: int = 400
    retry_after: float | None = None


def afresh(error: GraphRuntimeError) -> GraphRuntimeError:
    """An equal error that was never raised, to be kept or raised elsewhere. The new error refers to no
    frames, to no objects in frames, and to no error that refers back to the new one."""
    return type(error)(error.args[0], **error.fields)


def throw(error: Exception | None) -> None:
    """Raise an error, if there is one, from a frame that does not keep the error. If a frame of an error's
    traceback refers to that error, both live until Python's garbage collector runs, and so do all tensors in
    the traceback's frames."""
    try:
        if error is not None:
            raise error
    finally:
        del error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Text to append to an error about an unknown name: " (did you mean 'relu'?)", a list of the known names
    if they are few, or ""."""
    name, names = str(name), [str(k) for k in islice(known, _MOST_NAMES)]
    if 0 < len(names) <= _FEW:
        return all_there_are(name, names)
    close = nearest(name, names)
    return f" (did you mean {close!r}?)" if close is not None else ""


def all_there_are(name: object, known: Iterable[str]) -> str:
    """The text of did_you_mean with all known names, however many: " (did you mean 'relu'?); there are: exp,
    relu"."""
    names = sorted(map(str, known))
    listed = f"there are: {', '.join(names) or 'none'}"
    meant = nearest(str(name), names)
    return f" (did you mean {meant!r}?); {listed}" if meant is not None else f" ({listed})"


def no_such(what: str, name: object, known: Iterable[str]) -> str:
    """Error text for an unknown word, with the word that was probably meant and all known ones."""
    return f"there is no {what} {name!r}{all_there_are(name, known)}"


def refuse_words(unknown: Iterable[str], function: Callable[..., Any]) -> None:
    """Raise InputError for keywords that a function does not have. The text lists the keywords that it has,
    which Python's own TypeError does not. The unknown keywords arrive as the function's ``**unknown: Never``,
    which type checkers refuse."""
    for name in unknown:
        code, listed = function.__code__, getattr(function, "__signature__", None)
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        known = own if listed is None else tuple(listed.parameters)
        called = function.__qualname__.removesuffix(".__init__")
        raise InputError(no_such(f"keyword of {called}()", name, known), got=name, wanted=list(known))


class _NoAttribute(AttributeError):
    """An AttributeError that builds its text when the text is read: importing a submodule asks the package
    for the submodule's name first, and drops the error."""

    def __init__(self, module: str, name: str, known: Sequence[str]):
        super().__init__(module, name, known, name=name)

    def __str__(self) -> str:
        module, name, known = self.args
        return f"module {module!r} has no attribute {name!r}{all_there_are(name, known)}"


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error that a module's ``__getattr__`` raises."""
    return _NoAttribute(module, name, list(known))


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The known name that was probably meant, None if no name is near."""
    import difflib  # only errors need it

    if len(name) > _MOST_LETTERS:
        return None
    short = [k for k in names if len(k) <= _MOST_LETTERS]
    return next(iter(difflib.get_close_matches(name, short, n=1, cutoff=0.6)), None)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
