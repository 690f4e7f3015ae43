"""The one door: any source of a user becomes a Plannable, or becomes Waiting if only a run gives sizes or
values of the model.

    open_source("model.onnx", options)      Plannable; Waiting if only a run finds sizes or values
    open_source("net.bundle")               Plannable, its first program; programs() are all of them

A source is examined only here. prepare(), create(), load(), serving, codegen and the commands take the
result.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import DocumentError, ForeignMachineError, GraphRuntimeError, InputError, afresh
from ..base.json_text import is_path
from ..base.machine.devices import parse_list
from ..base.options import Options
from ..base.progress import Tell, silent
from ..frontends import is_onnx, is_stablehlo
from ..ir.builder import GraphBuilder
from ..ir.documents.loader import load_graph, warn_of_columns
from ..ir.graph import Graph
from ..ir.model import Model
from ..plan.device_columns import asked_devices
from ..plan.types import Plan

if TYPE_CHECKING:
    from ..frontends.onnx.dynamic import Begun
    from ..frontends.stablehlo.op_stages import BegunText
    from .bundles.bundle import Bundle, BundleProgram
    from .libraries.judge import LibraryFile

BUNDLE, ONNX, STABLEHLO, GRAPH = "bundle", "onnx", "stablehlo", "graph"
_NO_ZIP = (".onnx", ".mlir")


def open_source(
    source: Any,
    options: Options | None = None,
    devices: Sequence[Any] | None = None,
    *,
    libraries: Sequence[LibraryFile] = (),
    params: Any = None,
    name: str | None = None,
    kernels: str | None = None,
    bundles: bool = True,
    unroll: bool = True,
    tell: Tell = silent,
) -> Plannable | Waiting:
    """The source, opened.

    ``source``: JSON text if it begins with "{", StableHLO text, else a path of a graph.json, an ONNX file, a
    .mlir file or a bundle; also the bytes of a graph.json, an ONNX file or a .mlir file, a ModelProto, a
    function that jax has lowered, a Graph, a GraphBuilder, a Model, a Plan, or an opened source. ``options``:
    options with the dims, batch and values of an ONNX file. ``devices``, ``libraries`` and ``params``: used
    instead of those of a bundle. ``name``: name that replaces the file's name. ``kernels``: source of the
    kernels for a bundle's programs (bundle.KERNELS). ``bundles``: whether a bundle is allowed. ``unroll``:
    whether every loop with a known end of a StableHLO text is unrolled; False: such a loop may stay a loop.

    Raises DocumentError, GraphError and UnsupportedOpError, which name the file, LibraryError, InputError for
    options that do not apply to the source.
    """
    if isinstance(source, (Plannable, Waiting)):
        return source
    options, kind = options or Options(), kind_of(source, bundles)
    name = name or _name_of(source)
    if kind == BUNDLE:
        if not bundles:
            raise DocumentError(f"{source} is a bundle: gr.load opens it", got=str(source))
        found = _open_bundle(Path(source), options, kernels, libraries)
    elif kind == GRAPH:
        found = _open_graph(source, name, options)
    else:
        tell("importing", 0, 0)
        found = _imported(source, name, options, kind, unroll)
    if isinstance(found, Waiting):
        return found if devices is None else replace(found, devices=devices)
    return replace(found, libraries=libraries or found.libraries, params=params, asked=devices)


def open_model(source: Any, options: Options | None = None, tell: Tell = silent) -> Plannable:
    """The Plannable of a source that is not a bundle and has one program, opened as by open_source. Raises
    Waiting.why for a model that has no single program."""
    found = open_source(source, options, bundles=False, tell=tell)
    if isinstance(found, Waiting):
        raise found.why
    return found


def begin(source: Any, name: str | None = None, folder: Path | None = None) -> Waiting:
    """A model of another system, read but not converted, for runs whose inputs give all sizes. ``folder``:
    folder with the external data of an ONNX model, if ``source`` is the model's bytes. Raises as open_source.
    """
    name = name or _name_of(source)
    if kind_of(source, bundles=False) == STABLEHLO:
        from ..frontends.stablehlo.op_stages import BegunText, read_source  # few sources are StableHLO texts

        return Waiting(name, BegunText(read_source(source)))
    from ..frontends.onnx.dynamic import begin_file  # needs onnx

    return Waiting(name, begin_file(source, folder))


def kind_of(source: Any, bundles: bool = True) -> str:
    """The kind of a source: BUNDLE, ONNX, STABLEHLO, or else GRAPH. ``bundles``: whether zips are
    examined."""
    if isinstance(source, (Graph, GraphBuilder, Model, Plan)):
        return GRAPH
    if isinstance(source, (str, os.PathLike)) and is_path(source) and "\n" not in os.fspath(source):
        if os.path.isdir(source):
            return BUNDLE
        suffix = os.path.splitext(source)[1]
        if suffix == ".json":
            return GRAPH
        if bundles and suffix not in _NO_ZIP and _is_zip(source):
            return BUNDLE
    return ONNX if is_onnx(source) else STABLEHLO if is_stablehlo(source) else GRAPH


def _is_zip(path: Any) -> bool:
    if not os.path.isfile(path):
        return False
    import zipfile  # the import takes 3 ms, and most names show that the file is no zip

    return zipfile.is_zipfile(path)


def _name_of(source: Any) -> str:
    text = isinstance(source, str) and ("\n" in source or not is_path(source))
    return Path(source).name if isinstance(source, (str, os.PathLike)) and not text else "session"


# **************** models of other systems ****************


def bound(waiting: Waiting, options: Options) -> Plannable | Waiting:
    """The same model with the dims and values of ``options``. Raises as open_source."""
    found = _imported(_begun(waiting), waiting.name, options)
    return replace(found, asked=waiting.devices) if isinstance(found, Plannable) else found


def begun_at(waiting: Waiting, options: Options) -> Begun | BegunText:
    """The model read with these options; parts that were converted with other options are not reused."""
    same = (options.dims, options.values) == (waiting.options.dims, waiting.options.values)
    return _begun(waiting) if same else _begun(waiting).anew()


def _begun(waiting: Waiting) -> Begun | BegunText:
    if waiting.known is not None:
        return waiting.known
    assert waiting.bundle is not None, "else its model was read"
    return _begun(model_of(waiting.bundle))


def _imported(source: Any, name: str, options: Options, kind: str = "", unroll: bool = True) -> Any:
    """The Plannable of another system's model, or a Waiting if sizes or values are missing. ``kind``: the
    kind of ``source``; "" if the source was read already."""
    if kind == STABLEHLO or hasattr(source, "text"):
        from ..frontends.stablehlo.op_stages import begin_text  # few sources are StableHLO texts

        _refuse_sizes(name, options)
        found: Any = begin_text(source, unroll)
    else:
        from ..frontends.onnx.dynamic import begin_model  # needs onnx

        try:
            found = begin_model(source, options.dims, options.values, options.batch)
        except GraphRuntimeError as error:
            raise _naming(source, error) from None
    if isinstance(found, Model):
        return Plannable(name, found, rewritable=True)
    why = None if found.why is None else _naming(source, found.why)
    return Waiting(name, replace(found, why=why), options)


def _naming(source: Any, error: GraphRuntimeError) -> GraphRuntimeError:
    """The error, with the name of the source's file."""
    if not isinstance(source, (str, os.PathLike)) or Path(source).name in str(error):
        return error
    return type(error)(f"{source}: {error.args[0]}", **error.fields)


# **************** graphs ****************


def _open_graph(source: Any, name: str, options: Options) -> Plannable:
    """The Plannable of a Graph, an object that contains a Graph, a graph.json, a Model or a Plan."""
    if isinstance(source, Plan):
        graph = source.graph if source.placement is None else source.placement.graph
        return Plannable(name, Model(graph), source)
    if isinstance(source, Model) and options.dims.items() <= source.dims.items():
        return Plannable(name, source, rewritable=True)
    _refuse_sizes(name, options)
    if isinstance(source, GraphBuilder):
        return Plannable(name, Model.from_builder(source))
    graph = source if isinstance(source, Graph) else load_graph(source)
    if options.strict:
        warn_of_columns(graph, strict=True)
    return Plannable(name, Model(graph))


def _refuse_sizes(name: str, options: Options) -> None:
    """Raise InputError if an option that only an ONNX file has is given for another source."""
    values = list(options.values)
    given = (("dims (--dim)", options.dims), ("batch (--batch)", options.batch), ("values (--value)", values))
    for word, value in given:
        if value:
            raise InputError(
                f"{word} needs an ONNX file; {name} has the sizes and inputs that it was written with, and "
                "its inputs become constants by params (--params)",
                got=value,
            )


# **************** bundles ****************


def _open_bundle(
    path: Path, options: Options, kernels: str | None, libraries: Sequence[LibraryFile]
) -> Plannable | Waiting:
    """A bundle's first program, or the model in a bundle without programs."""
    from .bundles.bundle import KERNELS, read_bundle

    bundle = read_bundle(path)
    bundle.kernels = kernels or KERNELS[0]
    if libraries and bundle.kernels != KERNELS[0]:
        text = "--no-native and --rebuild run without libraries, --library names one: give one of these"
        raise InputError(text, got=str(libraries[0].path))
    if not bundle.programs:
        return Waiting(path.name, None, options, bundle.devices, bundle)
    _refuse_sizes(path.name, options)
    found = libraries or (bundle_files(bundle) if bundle.kernels == KERNELS[0] else ())
    return open_entry(bundle, bundle.programs[0], found)


def model_of(bundle: Bundle) -> Waiting:
    """The model in the bundle, for programs of other sizes and values."""
    assert bundle.source is not None, "the caller saw that there is one"
    member = bundle.member(bundle.source.model)
    folder = None if member.file == bundle.path else member.file.parent
    found = begin(bundle.read(bundle.source.model), bundle.path.name, folder)
    return replace(found, devices=bundle.devices)


# **************** opened sources ****************

_HOST = ("cpu:0",)


@dataclass(frozen=True, eq=False)
class Plannable:
    """A source that can be planned.

    ``model``: the source's Model; the Model of a graph has no constants. ``plan``: the source's plan, which
    is used unchanged, or None. ``rewritable``: whether the source gives only the computation; other sources
    also determine how nodes run. ``libraries``: libraries that were judged by their bytes; no code of them
    has run. ``asked`` and ``params``: devices and parameters that the caller gave, if any. ``entry``: the
    program's entry in ``bundle``.
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
        """The devices given by the caller, else those of the bundle or the file. Raises DeviceError."""
        if self.asked is not None:
            return self.asked
        if self.bundle is not None:
            return self.bundle.devices
        says_none = self.rewritable or self.graph.hints.device_type is None
        return _HOST if says_none else asked_devices(self.graph)

    @property
    def has_flow(self) -> bool:
        """Whether a run of the source's bundle finds out which of the bundle's programs it needs."""
        return self.bundle is not None and self.bundle.flow is not None

    @property
    def rebuilt(self) -> bool:
        """Whether the program's kernels are compiled anew, instead of taken from the bundle."""
        return self.bundle is not None and self.bundle.rebuilt

    @property
    def values(self) -> Any:
        """The parameters given by the caller, else those of the bundle, in a form that read_params takes;
        None without any."""
        if self.bundle is None or self.entry is None or self.params is not None:
            return self.params
        return self.bundle.params(self.entry)


@dataclass(frozen=True, eq=False)
class Waiting:
    """A model whose sizes or values are known only in a run; each run makes its own program (run/flows).

    ``known``: the model, read and converted with ``options``; None if the model is in ``bundle``, which then
    has no programs. ``devices``: property as in Plannable.
    """

    name: str
    known: Begun | BegunText | None
    options: Options = field(default_factory=Options)
    devices: Sequence[Any] = _HOST
    bundle: Bundle | None = None

    @property
    def why(self) -> GraphRuntimeError:
        """The error to raise if the caller needs a single program; its text names what only a run gives."""
        if self.bundle is not None:
            text = f"{self.bundle.path} has no programs, but a model of open sizes: run, plan or estimate it"
            return InputError(text, got=str(self.bundle.path))
        missing = self.known and self.known.why
        return afresh(missing) if missing else InputError(f"the runs of {self.name} bring its sizes")


# **************** programs of a bundle ****************


def programs_of(opened: Plannable) -> list[Plannable]:
    """All programs of the source's bundle; for a source that is no bundle, only the source itself."""
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
    """A program of an open bundle. ``devices``: devices that will run the program. If the bundle has a plan
    for these devices, the plan is used unchanged."""
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
    """The program's stored plan; None if it is for other devices. None, too, if a library is from another
    system: columns of the graph's file are needed to find the constants linked into that library."""
    if entry.plan is None or any(library.manifest is None for library in libraries):
        return None
    from ..plan.snapshot import read_snapshot
    from .libraries.judge import inplace_rules

    return read_snapshot(bundle.read(entry.plan), parse_list(devices), inplace_rules(libraries))


def bundle_files(bundle: Bundle) -> list[LibraryFile]:
    """A bundle's libraries, judged by their bytes; no code of them runs. A library built for another
    processor is left out with a warning: slower built-in kernels replace its functions that have gr.op.

    Raises LibraryError, DocumentError for a damaged library.
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
