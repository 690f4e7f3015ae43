"""What commands take as GRAPH: a graph.json or a bundle, and the devices that it asks for."""
from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bundle import Bundle, read_bundle
from ..devices import dl_kinds
from ..errors import DeviceError, DocumentError
from ..factory import create
from ..graph import Graph
from ..library import Library, load_library
from ..loader import load_graph
from ..module import GraphModule
from .trace import show_plan

__all__ = ["Program", "asked_devices", "is_bundle", "open_program"]

_MOST_DEVICES = 256  # of one kind, opened because a file says so


@dataclass(frozen=True, slots=True)
class Program:
    """A graph with its libraries, the devices it runs on, and parameters (None, a path or arrays)."""

    name: str
    graph: Graph
    libraries: list[Library]
    devices: Sequence[str]
    params: Any = None
    bundle: Bundle | None = None

    def module(self, options: Mapping[str, Any], threads: int | None = None) -> GraphModule:
        """Ready to run, parameters set."""
        module = create(self.graph, self.libraries, self.devices, params=self.params, threads=threads,
                        name=self.name, **options)
        show_plan(module)
        return module


def is_bundle(path: Path) -> bool:
    """A folder or a zip."""
    return path.is_dir() or (path.is_file() and zipfile.is_zipfile(path))


def open_program(path: Path, devices: Sequence[str] | None = None, libraries: Sequence[Path] | None = None,
                 params: Path | None = None) -> Program:
    """Read GRAPH. --device, --library and --params come before what a bundle brings.

    Raises DocumentError, GraphError, LibraryError.
    """
    opened = [load_library(file) for file in libraries or ()]
    if is_bundle(path):
        bundle = read_bundle(path)
        entry = bundle.program()
        opened = opened or [load_library(bundle.library_path(item), sha256=bundle.files[item.file])
                            for item in bundle.libraries]
        return Program(path.name, load_graph(bytes(bundle.read(entry.graph))), opened,
                       devices or bundle.devices, params or bundle.params(entry), bundle)
    if not path.is_file():
        raise DocumentError(f"there is no file {path}", got=str(path))
    graph = load_graph(path)
    return Program(path.name, graph, opened, devices or asked_devices(graph), params)


def asked_devices(graph: Graph) -> list[str]:
    """The devices that a file's columns name; cpu:0 where they name none.

    Raises DeviceError where they name more than a machine has.
    """
    hints = graph.hints
    if hints.device_type is None:
        return ["cpu:0"]
    found = []
    for number, kind in dl_kinds().items():
        of_kind = hints.device_type == number
        if of_kind.any():
            last = 0 if hints.device_id is None else int(hints.device_id[of_kind].max())
            if last >= _MOST_DEVICES:
                raise DeviceError(
                    f"the file's columns ask for {last + 1} {kind} devices: give --device for where it runs",
                    got=last + 1, wanted=_MOST_DEVICES, path="$.attrs.device_id")
            found += [f"{kind}:{i}" for i in range(last + 1)]
    return found or ["cpu:0"]
