"""What a source is once it is open (door.py): what can be planned, or a model that only runs complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base.errors import DeviceError, GraphRuntimeError, InputError, afresh
from ..base.machine.devices import dl_kinds
from ..base.options import Options
from ..ir.graph import Graph
from ..ir.model import Model
from ..plan.types import Plan

if TYPE_CHECKING:
    from ..frontends.onnx.begun import Begun
    from ..frontends.stablehlo.begun_text import BegunText
    from .bundles.bundle import Bundle, BundleProgram
    from .libraries.judge import LibraryFile

__all__ = ["Plannable", "Waiting", "asked_devices"]

_HOST = ("cpu:0",)
_MOST_DEVICES = 256  # of one kind, opened because a file says so


@dataclass(frozen=True, eq=False)
class Plannable:
    """What can be planned.

    ``model``: of a graph one without constants. ``plan``: followed as it is, where there is one.
    ``rewritable``: it says what to compute only; others say how they want to be run, too. ``libraries``:
    judged by their bytes; nothing of them has run. ``asked``, ``params``: the devices and values that its
    caller gave, if any. ``entry``: which program of ``bundle`` it is.
    """

    name: str
    model: Model
    plan: Plan | None = None
    rewritable: bool = False
    libraries: Sequence[LibraryFile] = ()
    asked: Sequence[Any] | None = None
    params: Any = None
    bundle: Bundle | None = None
    entry: BundleProgram | None = None

    @property
    def graph(self) -> Graph:
        return self.model.graph

    @property
    def devices(self) -> Sequence[Any]:
        """Where it runs: as its caller says, else as the bundle or the file does. Raises DeviceError."""
        if self.asked is not None:
            return self.asked
        if self.bundle is not None:
            return self.bundle.devices
        return _HOST if self.rewritable else asked_devices(self.graph)

    @property
    def has_flow(self) -> bool:
        """Whether runs of its bundle find out which of its programs they need."""
        return self.bundle is not None and self.bundle.flow is not None

    @property
    def rebuilt(self) -> bool:
        """Whether its kernels are compiled anew, in place of a bundle's."""
        return self.bundle is not None and self.bundle.rebuilt

    @property
    def values(self) -> Any:
        """The parameters, as read_params takes them: those given, else the bundle's; None where none are."""
        if self.bundle is None or self.entry is None or self.params is not None:
            return self.params
        return self.bundle.params(self.entry)


@dataclass(frozen=True, eq=False)
class Waiting:
    """A model of which only runs find sizes or values: each brings a program (run/flows).

    ``known``: what is read, and converted with ``options``; None where it lies in ``bundle``, which has no
    programs. ``devices`` as Plannable's.
    """

    name: str
    known: Begun | BegunText | None
    options: Options = field(default_factory=Options)
    devices: Sequence[Any] = _HOST
    bundle: Bundle | None = None

    @property
    def why(self) -> GraphRuntimeError:
        """What is missing before a run, to be raised where one program is asked for."""
        if self.bundle is not None:
            text = f"{self.bundle.path} has no programs, but a model of open sizes: run, plan or estimate it"
            return InputError(text, got=str(self.bundle.path))
        missing = self.known and self.known.why
        return afresh(missing) if missing else InputError(f"the runs of {self.name} bring its sizes")


def asked_devices(graph: Graph) -> list[str]:
    """The devices that a file's columns name; cpu:0 where they name none.

    Raises DeviceError where they name more than a machine has.
    """
    hints, found = graph.hints, list[str]()
    if hints.device_type is None:
        return list(_HOST)
    for number, kind in dl_kinds().items():
        of_kind = hints.device_type == number
        if of_kind.any():
            last = 0 if hints.device_id is None else int(hints.device_id[of_kind].max())
            if last >= _MOST_DEVICES:
                raise DeviceError(
                    f"the file's columns ask for {last + 1} {kind} devices: give --device for where it runs",
                    got=last + 1,
                    wanted=_MOST_DEVICES,
                    path="$.attrs.device_id",
                )
            found += [f"{kind}:{i}" for i in range(last + 1)]
    return found or list(_HOST)
