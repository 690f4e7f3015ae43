"""The one door: what a user names or holds -> what can be planned, or what only runs complete.

    open_source("model.onnx", options)      Plannable; Waiting where sizes or values are a run's to find
    open_source("net.bundle")               Plannable, its first program; programs() are all of them

A source is looked at once, here. prepare(), create(), load(), serving, codegen and the commands take what is
found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import DocumentError, GraphRuntimeError, InputError
from ..base.options import Options
from ..base.progress import Tell, silent
from ..frontends import is_onnx, is_stablehlo
from ..ir.builder import GraphBuilder
from ..ir.documents.document import is_path
from ..ir.documents.loader import load_graph, warn_of_columns
from ..ir.graph import Graph
from ..ir.model import Model
from ..plan.types import Plan
from .plannable import Plannable, Waiting

if TYPE_CHECKING:
    from ..frontends.onnx.begun import Begun
    from ..frontends.stablehlo.begun_text import BegunText
    from .bundles.bundle import Bundle
    from .libraries.judge import LibraryFile

__all__ = [
    "BUNDLE",
    "GRAPH",
    "ONNX",
    "STABLEHLO",
    "begin",
    "begun_at",
    "bound",
    "kind_of",
    "model_of",
    "open_model",
    "open_source",
]

BUNDLE, ONNX, STABLEHLO, GRAPH = "bundle", "onnx", "stablehlo", "graph"
_NO_ZIP = (".json", ".onnx", ".mlir")


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
    """What a source is.

    ``source``: JSON text if it begins with "{", StableHLO text, else a path of a graph.json, an ONNX file, a
    .mlir file or a bundle; also the bytes of the first four, a ModelProto, what jax has lowered, a Graph, a
    GraphBuilder, a Model, a Plan, or what is opened already. ``options``: dims, batch and values of an ONNX
    file. ``devices``, ``libraries`` and ``params`` come before what a bundle brings. ``name``: in place of
    the file's. ``kernels``: which a bundle's programs run with (bundle.KERNELS). ``bundles``: whether it may
    be one. ``unroll`` False: a loop of a StableHLO text may stay one, though its end is known.

    Raises DocumentError, GraphError and UnsupportedOpError, which name the file, LibraryError, InputError for
    options that it has no use for.
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
    """As open_source, what is no bundle and has one program. Raises ``why`` for any other."""
    found = open_source(source, options, bundles=False, tell=tell)
    if isinstance(found, Waiting):
        raise found.why
    return found


def begin(source: Any, name: str | None = None, folder: Path | None = None) -> Waiting:
    """A model of another system, read and not converted: for runs that bring all sizes. ``folder``: where
    external data of an ONNX model in bytes is. Raises as open_source."""
    name = name or _name_of(source)
    if kind_of(source, bundles=False) == STABLEHLO:
        from ..frontends.stablehlo.begun_text import BegunText, read_source  # few sources are such texts

        return Waiting(name, BegunText(read_source(source)))
    from ..frontends.onnx.begun import begin_file  # needs onnx

    return Waiting(name, begin_file(source, folder))


def kind_of(source: Any, bundles: bool = True) -> str:
    """BUNDLE, ONNX, STABLEHLO, or GRAPH for all else. ``bundles`` False: a zip is not looked for."""
    if isinstance(source, (Graph, GraphBuilder, Model, Plan)):
        return GRAPH
    if isinstance(source, (str, os.PathLike)) and is_path(source) and "\n" not in os.fspath(source):
        if os.path.isdir(source):
            return BUNDLE
        if bundles and os.path.splitext(source)[1] not in _NO_ZIP and _is_zip(source):
            return BUNDLE
    return ONNX if is_onnx(source) else STABLEHLO if is_stablehlo(source) else GRAPH


def _is_zip(path: Any) -> bool:
    if not os.path.isfile(path):
        return False
    import zipfile  # takes 3 ms, and most sources say by their names that they are none

    return zipfile.is_zipfile(path)


def _name_of(source: Any) -> str:
    text = isinstance(source, str) and ("\n" in source or not is_path(source))
    return Path(source).name if isinstance(source, (str, os.PathLike)) and not text else "session"


# **************** models of other systems ****************


def bound(waiting: Waiting, options: Options) -> Plannable | Waiting:
    """The same model with other dims and values. Raises as open_source."""
    found = _imported(_begun(waiting), waiting.name, options)
    return replace(found, asked=waiting.devices) if isinstance(found, Plannable) else found


def begun_at(waiting: Waiting, options: Options) -> Begun | BegunText:
    """What is known of a model with these options: nothing that was converted with others."""
    same = (options.dims, options.values) == (waiting.options.dims, waiting.options.values)
    return _begun(waiting) if same else _begun(waiting).anew()


def _begun(waiting: Waiting) -> Begun | BegunText:
    if waiting.known is not None:
        return waiting.known
    assert waiting.bundle is not None, "else its model was read"
    return _begun(model_of(waiting.bundle))


def _imported(source: Any, name: str, options: Options, kind: str = "", unroll: bool = True) -> Any:
    """A model of another system, or what is begun of one. ``kind``: of what is not begun."""
    if kind == STABLEHLO or hasattr(source, "text"):
        from ..frontends.stablehlo.begun_text import begin_text  # few sources are such texts

        _refuse_sizes(name, options)
        found: Any = begin_text(source, unroll)
    else:
        from ..frontends.onnx.begun import begin_model  # needs onnx

        try:
            found = begin_model(source, options.dims, options.values, options.batch)
        except GraphRuntimeError as error:
            raise _naming(source, error) from None
    if isinstance(found, Model):
        return Plannable(name, found, rewritable=True)
    why = None if found.why is None else _naming(source, found.why)
    return Waiting(name, replace(found, why=why), options)


def _naming(source: Any, error: GraphRuntimeError) -> GraphRuntimeError:
    """An error that names the file which it is about."""
    if not isinstance(source, (str, os.PathLike)) or Path(source).name in str(error):
        return error
    return type(error)(f"{source}: {error.args[0]}", **error.fields)


# **************** graphs ****************


def _open_graph(source: Any, name: str, options: Options) -> Plannable:
    """A Graph or what holds one, a graph.json, a Model or a Plan."""
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
    """Raise InputError where an option that only an ONNX file has is given for another source."""
    given = {
        "dims (--dim)": dict(options.dims),
        "batch (--batch)": options.batch,
        "values (--value)": list(options.values),
    }
    for word, value in given.items():
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
    """A bundle's first program, or the model in a bundle that has none."""
    from .bundle_programs import bundle_files, open_entry  # most sources are no bundles
    from .bundles.bundle import KERNELS, read_bundle

    bundle = read_bundle(path)
    bundle.kernels = kernels or KERNELS[0]
    if libraries and bundle.kernels != KERNELS[0]:
        raise InputError(
            "--no-native and --rebuild run without libraries, --library names one: give one of these",
            got=str(libraries[0].path),
        )
    if not bundle.programs:
        return Waiting(path.name, None, options, bundle.devices, bundle)
    _refuse_sizes(path.name, options)
    found = libraries or (bundle_files(bundle) if bundle.kernels == KERNELS[0] else ())
    return open_entry(bundle, bundle.programs[0], found)


def model_of(bundle: Bundle) -> Waiting:
    """The model that is in a bundle, for programs of other sizes and values."""
    assert bundle.source is not None, "the caller saw that there is one"
    member = bundle.member(bundle.source.model)
    folder = None if member.file == bundle.path else member.file.parent
    found = begin(bundle.read(bundle.source.model), bundle.path.name, folder)
    return replace(found, devices=bundle.devices)
