"""What MODEL of commands is: an ONNX or .mlir file, a graph.json, a bundle; and devices that it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from ..base.errors import DeviceError, DocumentError, InputError
from ..base.machine.devices import dl_kinds
from ..base.options import Options
from ..base.progress import Tell, silent
from ..build.bundles.bundle import Bundle, BundleProgram, read_bundle
from ..build.libraries.judge import LibraryFile, read_library
from ..build.prepare import Prepared, prepare, read_model
from ..frontends import is_model_file, is_onnx
from ..ir.documents.loader import load_graph
from ..ir.documents.params import read_params
from ..ir.graph import Graph
from ..ir.model import Constant, Model
from ..run.factory import adopt_params, open_prepared, warn_of
from ..run.library import open_libraries
from ..run.loading import bundle_files
from ..run.module import GraphModule
from .trace import show_plan

__all__ = ["OpenedProgram", "asked_devices", "is_bundle", "open_program", "open_programs"]

_MOST_DEVICES = 256  # of one kind, opened because a file says so


@dataclass(frozen=True, slots=True)
class OpenedProgram:
    """A graph with its libraries, the devices it runs on, and parameters (None, a path or arrays).

    ``source``: the Model of an ONNX or .mlir file, else the Graph. ``libraries``: judged by their bytes;
    ``open`` runs their code. ``entry``: which program of ``bundle`` it is. ``rebuild``: its kernels are
    compiled anew.
    """

    name: str
    source: Model | Graph
    libraries: list[LibraryFile]
    devices: Sequence[str]
    params: Any = None
    bundle: Bundle | None = None
    entry: BundleProgram | None = None
    rebuild: bool = False

    @property
    def graph(self) -> Graph:
        return self.source.graph if isinstance(self.source, Model) else self.source

    @property
    def is_model(self) -> bool:
        """Whether it is an ONNX file's, which may be rewritten and is placed by cost."""
        return isinstance(self.source, Model)

    @property
    def constants(self) -> Mapping[str, Constant]:
        """Of an ONNX file."""
        return self.source.constants if isinstance(self.source, Model) else {}

    @property
    def values(self) -> Any:
        """The parameters, as read_params takes them: those given, else the bundle's; None where none are."""
        if self.bundle is None or self.entry is None or self.params is not None:
            return self.params
        return self.bundle.params(self.entry)

    def arrays(self) -> Any:
        """All that is known before a run, to be written: as values, and what an ONNX file holds."""
        constants = {name: constant.read() for name, constant in self.constants.items()}
        given = read_params(self.values) if self.values is not None else {}
        return {**constants, **given} or None

    def prepare(self, options: Options, tell: Tell = silent) -> Prepared:
        """Rewritten where it may be, and planned."""
        if self.rebuild:
            options = replace(options, compile=True)
        if isinstance(self.source, Model):
            options = replace(options, dims=self.source.dims)  # those that it was read with
        return prepare(
            self.source, self.devices, options, params=self.values, libraries=self.libraries, tell=tell
        )

    def open(self, prepared: Prepared, tell: Tell = silent) -> GraphModule:
        """What prepare() gave, ready to run, parameters set: those of a bundle where they are mapped. Raises
        UntrustedLibraryError where the user did not ask for the libraries' code."""
        warn_of(prepared.plan)
        self.libraries[:] = open_libraries(self.libraries)
        mapped = self.bundle is not None and self.params is None and not prepared.options.fuse
        module = open_prepared(prepared, self.libraries, self.name, tell=tell, constants=not mapped)
        if mapped:
            adopt_params(module, self.values)
        show_plan(module)
        return module


def is_bundle(path: Path) -> bool:
    """A folder or a zip."""
    if not path.is_file():
        return path.is_dir()
    import zipfile  # takes 3 ms, and a folder needs none

    return zipfile.is_zipfile(path)


def open_program(
    path: Path,
    devices: Sequence[str] | None = None,
    libraries: Sequence[Path] | None = None,
    params: Path | None = None,
    options: Options | None = None,
    tell: Tell = silent,
    *,
    native: bool = True,
    rebuild: bool = False,
) -> OpenedProgram:
    """Read MODEL; of a bundle the first program, and say so on stderr where there are more. As
    open_programs."""
    programs = open_programs(path, devices, libraries, params, options, tell, native=native, rebuild=rebuild)
    if not programs:
        raise InputError(
            f"{path} has no programs, but a model of open sizes: run, plan or estimate it", got=str(path)
        )
    first = programs[0]
    if len(programs) > 1 and first.entry is not None:
        names = ", ".join(program.entry.name for program in programs[:8] if program.entry)
        more = f" and {len(programs) - 8} more" if len(programs) > 8 else ""
        typer.echo(
            f"{path.name} has {len(programs)} programs: {names}{more}; what follows is of {first.entry.name} "
            f"alone, {_sizes(first)}",
            err=True,
        )
    return first


def _sizes(program: OpenedProgram) -> str:
    """The inputs of a bundle's program, with their types."""
    assert program.entry is not None, "of a bundle"
    graph = program.graph
    types = dict(zip(graph.input_names, map(graph.entry_type, graph.input_eids), strict=True))
    return ", ".join(f"{name} {types[name]}" for name in program.entry.inputs) or "which has no inputs"


def open_programs(
    path: Path,
    devices: Sequence[str] | None = None,
    libraries: Sequence[Path] | None = None,
    params: Path | None = None,
    options: Options | None = None,
    tell: Tell = silent,
    *,
    native: bool = True,
    rebuild: bool = False,
) -> list[OpenedProgram]:
    """Read MODEL: every program of a bundle, or one. Nothing of a library runs. --device, --library and
    --params come before what a bundle brings. ``options``: --dim, --batch and --value, for ONNX files.
    ``native``, ``rebuild``: of --no-native, --rebuild, for bundles: their libraries are left out.

    Raises DocumentError, GraphError, LibraryError, InputError.
    """
    found = [read_library(file) for file in libraries or ()]
    _onnx_only(path, options or Options())
    if found and not (native and not rebuild):
        raise InputError(
            "--no-native and --rebuild run without libraries, --library names one: give one of these",
            got=str(found[0].path),
        )
    if is_bundle(path):
        bundle = read_bundle(path)
        found = found or (bundle_files(bundle) if native and not rebuild else [])
        return [
            OpenedProgram(
                path.name,
                load_graph(bytes(bundle.read(entry.graph))),
                found,
                devices or bundle.devices,
                params,
                bundle,
                entry,
                rebuild,
            )
            for entry in bundle.programs
        ]
    if not path.is_file():
        raise DocumentError(f"there is no file {path}", got=str(path))
    if is_model_file(path):
        model = read_model(path, options, tell)
        return [OpenedProgram(path.name, model, found, devices or ["cpu:0"], params)]
    graph = load_graph(path)
    return [OpenedProgram(path.name, graph, found, devices or asked_devices(graph), params)]


def _onnx_only(path: Path, options: Options) -> None:
    """Raise InputError where an option that only an ONNX file has is given for another one."""
    given = {"--dim": options.dims, "--batch": options.batch, "--value": options.values}
    flags = [flag for flag, value in given.items() if value]
    if flags and (is_bundle(path) or not is_onnx(path)):
        raise InputError(
            f"{flags[0]} needs an ONNX file; {path} has the sizes and inputs that it was written with",
            got=str(path),
        )


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
                    got=last + 1,
                    wanted=_MOST_DEVICES,
                    path="$.attrs.device_id",
                )
            found += [f"{kind}:{i}" for i in range(last + 1)]
    return found or ["cpu:0"]
