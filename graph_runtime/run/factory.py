"""create() and load(): from documents and libraries to a GraphModule."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import CompileError, DocumentError, ForeignMachineError, WriteError
from ..base.garbage import gc_paused
from ..base.machine.devices import Device, parse_list
from ..base.options import Options
from ..base.progress import Tell, silent
from ..build.bundles.bundle import KERNELS, Bundle, BundleProgram, read_bundle
from ..build.libraries.judge import LibraryFile, inplace_rules, read_library
from ..build.prepare import Prepared, prepare
from ..build.trust import require_trust
from ..ir.builder import GraphBuilder
from ..ir.documents.loader import load_graph
from ..ir.graph import Graph
from ..ir.model import Constant
from ..plan import Plan
from ..plan.snapshot import read_snapshot
from .library import Library, load_library, open_libraries
from .module import GraphModule
from .sessions.session import Session
from .sessions.sharing import link_constants, set_parameters

__all__ = [
    "adopt_params",
    "bundle_files",
    "bundle_libraries",
    "create",
    "load",
    "open_prepared",
    "open_program",
    "read_graph",
    "read_runnable",
    "set_constants",
    "warn_of",
]

_MOST_WARNINGS = 5


def create(
    graph: Any,
    library: Any = None,
    devices: Any = ("cpu:0",),
    *,
    params: Any = None,
    options: Options | None = None,
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    fuse: bool | None = None,
    compile: bool | None = None,
    place: Mapping[str, str | Device] | None = None,
    device_map: Mapping[str, str | Device] | None = None,
    strict: bool | None = None,
    placement: str | Callable | None = None,
    objective: str | None = None,
    fallback: str | None = None,
    formats: Mapping[str, str] | None = None,
    layouts: Mapping[str, str] | None = None,
    numerics: Mapping[str, Mapping[str, str]] | None = None,
    policy: str | None = None,
    reuse: str | None = None,
    threads: int | None = None,
    queues: str | None = None,
    max_in_flight: int | None = None,
    unset_inputs: str | None = None,
) -> GraphModule:
    """A GraphModule.

    ``graph``: JSON text if it begins with "{", else a path of a graph.json or ONNX file; also bytes, a Graph,
    a GraphBuilder (with the parameters that it holds), a Model, or a Plan, run as it is. ``library``: a path
    or Library of kernels, a list of them, or None for the kernels built in. ``devices``: "cpu:0", or a list,
    whose first is the fallback: a node that the file puts elsewhere runs there, with a warning; TVM's (type,
    id) is a device, too. ``params``: values of inputs, what load_params takes. ``name``: the holder of
    memory in errors. ``options``, and all keywords after ``name``, which are fields of it and come first:
    gr.Options says what each of them is; one that is None is as ``options`` has it.

    Raises DocumentError, GraphError, PlanError, LibraryError, DeviceError, ParamsError, InputError, and
    CompileError for compile=True.
    """
    chosen = Options.of(
        options,
        dims=dims,
        fuse=fuse,
        compile=compile,
        place=place,
        device_map=device_map,
        strict=strict,
        placement=placement,
        objective=objective,
        fallback=fallback,
        formats=formats,
        layouts=layouts,
        numerics=numerics,
        policy=policy,
        reuse=reuse,
        threads=threads,
        queues=queues,
        max_in_flight=max_in_flight,
        unset_inputs=unset_inputs,
    )
    with gc_paused():
        libraries = _libraries(library)
        prepared = prepare(graph, devices, chosen, params=params, libraries=libraries)
        if not isinstance(graph, Plan):
            warn_of(prepared.plan)
        return open_prepared(prepared, libraries, name or _name_of(graph))


def open_prepared(
    prepared: Prepared,
    libraries: Sequence[LibraryFile] = (),
    name: str = "session",
    *,
    tell: Tell = silent,
    constants: bool = True,
) -> GraphModule:
    """What prepare() made, ready to run: kernels compiled where its options say so, and constants set.

    ``libraries``: those that it was prepared with; their code runs from here on. ``constants`` False: the
    caller sets them, or other values (adopt_params), and no memory is taken before. Raises LibraryError, its
    UntrustedLibraryError, CompileError, DeviceMemoryError, and what reading a constant raises.
    """
    options, opened = prepared.options, open_libraries(libraries)
    opened += _compiled(prepared, opened, tell)
    session = Session(
        prepared.plan,
        opened,
        options.threads,
        name=name,
        queues=options.queues,
        max_in_flight=options.max_in_flight,
        reserve=False,
        unset_inputs=options.unset_inputs,
    )
    module = GraphModule(session)
    link_constants(session, prepared.model.graph, opened)
    return set_constants(module, prepared.model.constants) if constants else module


def _compiled(prepared: Prepared, libraries: Sequence[Library], tell: Tell) -> list[Library]:
    """The library of the kernels that are worth it, compiled or found in the cache; none where there are
    none, or where compiling fails that was not asked for."""
    if not prepared.compiles:
        return []
    from ..codegen.build import cached_library  # needed where something is compiled only

    try:
        built = cached_library([prepared.plan], libraries, tell=tell)
    except (CompileError, WriteError) as error:
        if prepared.options.compile:
            raise
        text = f"{error}. Until then the kernels built into this installation serve; compile=False: at once"
        warnings.warn(text, stacklevel=4)
        built = None
    return [load_library(built)] if built else []


def warn_of(plan: Plan, stacklevel: int = 3) -> None:
    """Python warnings of what a plan does otherwise than the caller or the file asked: the first of it, and
    how much more."""
    for text in plan.warnings[:_MOST_WARNINGS]:
        warnings.warn(text, stacklevel=stacklevel)
    if (more := len(plan.warnings) - _MOST_WARNINGS) > 0:
        warnings.warn(
            f"{more} more of these: plan.warnings, and graph-runtime plan, list all", stacklevel=stacklevel
        )


def load(
    bundle: str | os.PathLike,
    devices: Any = None,
    program: str | None = None,
    *,
    threads: int | None = None,
    max_in_flight: int | None = None,
    libraries: bool = True,
    rebuild: bool = False,
    verify: str = "quick",
    unset_inputs: str | None = None,
) -> GraphModule:
    """A GraphModule from a bundle, with its libraries and parameters.

    ``devices``: by default those it was compiled for. ``program``: by default its first. ``threads``,
    ``max_in_flight`` and ``unset_inputs`` as create; None: as it was compiled with. ``libraries``: False runs
    no native code of the bundle, but the kernels built in. ``rebuild``: neither; kernels are compiled anew
    from its graph. ``verify`` "full": parameters are read and compared with their sha256, not mapped
    (docs/bundles.md).

    Raises DocumentError, ParamsError, GraphError, PlanError, CheckError, DeviceError, CompileError,
    LibraryError: an UntrustedLibraryError for libraries that this user did not compile here and has not
    trusted (gr.trust).
    """
    opened = read_bundle(bundle, verify)
    opened.kernels = _chosen_kernels(libraries, rebuild)
    return open_program(
        opened,
        opened.program(program),
        devices,
        threads=threads,
        max_in_flight=max_in_flight,
        unset_inputs=unset_inputs,
    )


def read_runnable(bundle: str | os.PathLike, libraries: bool = True, rebuild: bool = False) -> Bundle:
    """A bundle whose programs will be run, with the kernels asked for, as load(). Nothing of it runs: what
    would be refused then is refused now. Raises DocumentError, UntrustedLibraryError."""
    opened = read_bundle(bundle)
    opened.kernels = _chosen_kernels(libraries, rebuild)
    if opened.kernels == KERNELS[0]:
        require_trust(bundle_files(opened))
    return opened


def _chosen_kernels(libraries: bool, rebuild: bool) -> str:
    return KERNELS[2] if rebuild else KERNELS[0] if libraries else KERNELS[1]


def open_program(
    bundle: Bundle,
    entry: BundleProgram,
    devices: Any = None,
    *,
    threads: int | None = None,
    max_in_flight: int | None = None,
    reserve: bool = True,
    unset_inputs: str | None = None,
) -> GraphModule:
    """load(), for a bundle that is open already, with the kernels that ``Bundle.kernels`` says. ``reserve``
    False: for submitting only, the module holds its parameters and takes no other memory before it is run
    itself."""
    with gc_paused():
        libraries, devices = bundle_libraries(bundle), devices or bundle.devices
        options = Options.of(
            bundle.options,
            threads=threads,
            max_in_flight=max_in_flight,
            unset_inputs=unset_inputs,
        )
        running = Options(
            compile=bundle.kernels == KERNELS[2],
            threads=options.threads,
            queues=options.queues,
            max_in_flight=options.max_in_flight,
            unset_inputs=options.unset_inputs,
        )  # the others have been followed: they are in the graph's columns
        planned = _snapshot(bundle, entry, devices, libraries)
        source = read_graph(bytes(bundle.read(entry.graph))) if planned is None else planned
        prepared = prepare(source, devices, running, libraries=libraries)
        module = open_prepared(prepared, libraries, bundle.path.name, constants=False)
        _check_names(bundle, entry, module.session.graph, prepared.plan.aliases)
        mapped = bundle.mapped(entry)
        adopt_params(module, mapped.values, entry.params, mapped.digests, reserve)
    return module


def _check_names(bundle: Bundle, entry: BundleProgram, graph: Graph, aliases: tuple) -> None:
    """Raise DocumentError where the index does not say of each graph input whether runs or parameters set it:
    one that neither sets would be read as it lies in memory; and where it has other outputs or aliases."""
    said, wanted = {*entry.inputs, *entry.params}, set(graph.input_names)
    if said != wanted:
        raise DocumentError(
            f"bundle {bundle.path}: inputs and params of program {entry.name!r} are not the "
            f"inputs of its graph: {', '.join(sorted(said ^ wanted)[:10])}",
            got=sorted(said),
            wanted=sorted(wanted),
        )
    for what, has, wants in (
        ("outputs", entry.outputs, graph.output_names),
        ("aliases", entry.aliases, aliases),
    ):
        if has != wants:
            raise DocumentError(
                f"bundle {bundle.path}: {what} of program {entry.name!r} are not those of "
                f"its graph: {list(has)[:10]} and {list(wants)[:10]}",
                got=has,
                wanted=wants,
            )


def _snapshot(
    bundle: Bundle, entry: BundleProgram, devices: Any, libraries: Sequence[Library]
) -> Plan | None:
    """The program's plan, where the bundle has it ready for these devices. Linked constants of a library that
    others made are found by columns of the graph's file, so that one is read then."""
    if entry.plan is None or any(library.manifest is None for library in libraries):
        return None
    return read_snapshot(bundle.read(entry.plan), parse_list(devices), inplace_rules(libraries))


def adopt_params(
    module: GraphModule,
    params: Mapping[str, np.ndarray],
    keys: Mapping[str, str] | None = None,
    digests: dict[str, bytes] | None = None,
    reserve: bool = True,
) -> None:
    """Set parameters that stay where they are: inputs on the host live in these arrays for good, others are
    copied. For a module that did nothing yet. ``keys`` {input name: key of its hash in ``digests``}, to which
    those are added that had to be made. ``reserve`` as sharing.set_parameters, whose errors it raises."""
    index = {name: module.get_input_index(name) for name in params}
    keys, digests = keys or {}, {} if digests is None else digests
    known = {index[name]: digests[keys[name]] for name in params if keys.get(name) in digests}
    made = set_parameters(
        module.session,
        {index[name]: array for name, array in params.items()},
        staying=True,
        digests=known,
        reserve=reserve,
    )
    module.params.update(params)
    digests.update({keys[name]: made[at] for name, at in index.items() if at in made and name in keys})


def set_constants(module: GraphModule, constants: Mapping[str, Constant]) -> GraphModule:
    """Set a model's constants by name, biggest first, each read, copied and let go before the next; returns
    the module, which has its memory then.
    Raises InputError, and what reading them raises (MissingDataError)."""
    largest = sorted(constants, key=lambda name: -constants[name].type.nbytes)
    found = {module.get_input_index(name): constants[name] for name in largest}
    set_parameters(module.session, found)
    module.params.update(constants)
    return module


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


def bundle_libraries(bundle: Bundle) -> list[Library]:
    """A bundle's libraries, opened; none where its programs run with other kernels (``Bundle.kernels``).
    Raises as bundle_files, UntrustedLibraryError before anything of one runs."""
    return open_libraries(bundle_files(bundle)) if bundle.kernels == KERNELS[0] else []


def read_graph(source: Any) -> Graph:
    """The Graph of what create() takes: JSON text or bytes, a path, a Graph or a GraphBuilder."""
    if isinstance(source, Graph):
        return source
    return source.build() if isinstance(source, GraphBuilder) else load_graph(source)


def _name_of(source: Any) -> str:
    text = isinstance(source, str) and source.lstrip().startswith("{")
    return Path(source).name if isinstance(source, (str, os.PathLike)) and not text else "session"


def _libraries(library: Any) -> list[Library]:
    if library is None:
        return []
    items = library if isinstance(library, (list, tuple)) else [library]
    files: list[Any] = [getattr(item, "library", item) for item in items]  # what load_module returned has one
    return open_libraries([item if isinstance(item, LibraryFile) else read_library(item) for item in files])
