"""Programs of a bundle as what can be planned, and the libraries that have their kernels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..base.errors import ForeignMachineError
from ..base.machine.devices import parse_list
from ..ir.documents.loader import load_graph
from ..ir.model import Model
from ..plan.snapshot import read_snapshot
from ..plan.types import Plan
from .bundles.bundle import Bundle, BundleProgram
from .libraries.judge import LibraryFile
from .libraries.offered import inplace_rules
from .plannable import Plannable

__all__ = ["bundle_files", "open_entry", "programs_of"]


def programs_of(opened: Plannable) -> list[Plannable]:
    """All programs of its bundle; of any other source itself."""
    if opened.bundle is None:
        return [opened]
    return [
        opened
        if entry is opened.entry
        else replace(opened, model=_graph_of(opened.bundle, entry), entry=entry)
        for entry in opened.bundle.programs
    ]


def open_entry(
    bundle: Bundle, entry: BundleProgram, libraries: Sequence[LibraryFile] = (), devices: Any = None
) -> Plannable:
    """A program of an open bundle. ``devices``: those that it will run on: its plan is followed as it is
    where the bundle has it ready for these."""
    if devices is not None and (ready := _snapshot(bundle, entry, devices, libraries)) is not None:
        model = Model(ready.graph)
    else:
        ready, model = None, _graph_of(bundle, entry)
    return Plannable(bundle.path.name, model, ready, False, libraries, devices, None, bundle, entry)


def _graph_of(bundle: Bundle, entry: BundleProgram) -> Model:
    return Model(load_graph(bytes(bundle.read(entry.graph))))


def _snapshot(
    bundle: Bundle, entry: BundleProgram, devices: Any, libraries: Sequence[LibraryFile]
) -> Plan | None:
    """The program's plan, where the bundle has it ready for these devices. Linked constants of a library that
    others made are found by columns of the graph's file, so that one is read then."""
    if entry.plan is None or any(library.manifest is None for library in libraries):
        return None
    return read_snapshot(bundle.read(entry.plan), parse_list(devices), inplace_rules(libraries))


def bundle_files(bundle: Bundle) -> list[LibraryFile]:
    """A bundle's libraries, judged by their bytes: nothing of them runs. One that was built for another
    processor is left out with a warning: where functions of it have gr.op, the kernels built in serve, which
    are slower.

    Raises LibraryError, DocumentError for one that is damaged.
    """
    found = []
    for item in bundle.libraries:
        try:
            found.append(bundle.judge(item))
        except ForeignMachineError as error:
            warnings.warn(
                f"{error}. Until then the kernels built into this installation serve, which may be slower",
                stacklevel=4,
            )
    return found
