"""create(): from a document, and libraries, to a GraphModule. load() of a bundle: loading.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from ..artifacts.door import open_source
from ..artifacts.plannable import Plannable, Waiting
from ..artifacts.prepare import Prepared, prepare
from ..base.errors import CompileError, InputError, WriteError
from ..base.garbage import gc_paused
from ..base.machine.devices import is_afar
from ..base.option_words import takes_words
from ..base.options import Options
from ..base.progress import Tell, silent
from ..base.providers import provided
from ..binding import core
from ..ir.model import Constant, Model
from .module import GraphModule
from .sessions.arena import Arena
from .sessions.session import Session
from .sessions.sharing import link_constants, set_parameters, share_inputs

if TYPE_CHECKING:
    from ..artifacts.libraries.judge import LibraryFile
    from ..base.options import Words
    from .flows.flow_module import FlowModule
    from .library import Library

__all__ = [
    "adopt_params",
    "create",
    "create_flow",
    "open_prepared",
    "set_constants",
    "warn_of",
]


@takes_words()
def create(
    graph: Any,
    library: Any = None,
    devices: Any = ("cpu:0",),
    *,
    params: Any = None,
    options: Options | None = None,
    name: str | None = None,
    concurrent: int | None = None,
    **words: Unpack[Words],
) -> GraphModule:
    """A GraphModule.

    ``graph``: JSON text if it begins with "{", StableHLO text, else a path of a graph.json, an ONNX file or
    a .mlir file; also the bytes of these, a ModelProto, what jax has lowered, a Graph, a GraphBuilder (with
    the parameters that it holds), a Model, or a Plan, run as it is. ``library``: a path or Library of
    kernels, a list of them, or None for those built in. ``devices``: "cpu:0", or a list, whose first is the
    fallback: a node that the file puts elsewhere runs there, with a warning; TVM's (type, id) is a device,
    too; with a device as "node1/tt:0" it is a RemoteModule on the cluster that is connected. ``params``:
    values of inputs, what load_params takes. ``name``: the holder of memory in errors. ``words``: fields
    of ``options``, which come first: gr.Options says what each of them is; one that is None is as
    ``options`` has it. ``concurrent``: a ConcurrentModule of so many sessions over the
    same constants, which as many threads run at the same time.

    Raises DocumentError, GraphError, PlanError, LibraryError, DeviceError, ParamsError, InputError, and
    CompileError for compile=True.
    """
    chosen = Options.of(options, **words)
    if concurrent is not None:
        return _create_several(graph, library, devices, params, chosen, name, concurrent)
    if is_afar(devices):
        return _create_afar(graph, library, devices, params, chosen, name)
    with gc_paused():
        return _created(graph, _libraries(library), devices, params, chosen, name)


def _created(
    graph: Any, libraries: list[Library], devices: Any, params: Any, chosen: Options, name: str | None
) -> GraphModule:
    """As create, on devices of this machine."""
    found = _ready(graph, libraries, devices, params, chosen, name)
    if isinstance(found, tuple):
        return _open_warned(*found, libraries)
    return cast("GraphModule", found)


def _ready(
    graph: Any, libraries: list[Library], devices: Any, params: Any, chosen: Options, name: str | None
) -> tuple[Plannable, Prepared] | FlowModule:
    """What is to be opened, or a flow."""
    whole = params is not None or bool(libraries)
    found = open_source(graph, chosen, devices, name=name, bundles=False, unroll=whole)
    if not isinstance(found, Waiting):
        return found, prepare(found, devices, chosen, params=params, libraries=libraries)
    if whole:
        raise found.why
    return create_flow(found, devices, chosen)


def _create_several(
    graph: Any, library: Any, devices: Any, params: Any, options: Options, name: str | None, count: int
) -> GraphModule:
    """As create, a ConcurrentModule."""
    from .concurrent import ConcurrentModule, ModulePool  # most modules are one thread's

    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"concurrent is a number of sessions from 1, got {count!r}", got=count)
    if is_afar(devices):
        raise InputError("a module on nodes of a cluster has no concurrent: run_async queues several runs")
    libraries = _libraries(library)
    with gc_paused():
        found = _ready(graph, libraries, devices, params, options, name)
        if not isinstance(found, tuple):  # sessions of sizes are made when they are met
            return cast("GraphModule", ConcurrentModule(ModulePool(found, found.sibling, count)))
        opened, prepared = found
        first = _open_warned(opened, prepared, libraries)
        pool = ModulePool(first, partial(_sibling, first, prepared, libraries, opened.name), count)
        pool.fill()
    return cast("GraphModule", ConcurrentModule(pool))


def _sibling(first: GraphModule, prepared: Prepared, libraries: list[Library], name: str) -> GraphModule:
    """One more module of what was prepared, whose parameters live in the memory of the first."""
    if aliases := prepared.plan.aliases:
        written = ", ".join(first.session.graph.input_names[at] for _, at in aliases)
        text = f"runs write inputs of the graph ({written}), which are one session's: concurrent is 1 at most"
        raise InputError(text, got=written)
    made = open_prepared(prepared, libraries, name, constants=False)
    if first.params:
        share_inputs(made.session, first.session, sorted(first.params))
        made.params.update(first.params)
    return made


def _open_warned(opened: Plannable, prepared: Prepared, libraries: list[Library]) -> GraphModule:
    """What was prepared, ready to run; of a plan of its own the caller knows what it does."""
    if opened.plan is None:
        warn_of(prepared, stacklevel=5)
    return open_prepared(prepared, libraries, opened.name)


def _create_afar(
    graph: Any, library: Any, devices: Any, params: Any, options: Options, name: str | None
) -> GraphModule:
    """As create, by the cluster that is connected."""
    given = [] if library is None else library if isinstance(library, (list, tuple)) else [library]
    there = provided("cluster")().create(graph, devices, options, params=params, libraries=given, name=name)
    return cast("GraphModule", there)


def create_flow(waiting: Waiting, devices: Any = ("cpu:0",), options: Options | None = None) -> FlowModule:
    """A FlowModule of a model that is run at whatever sizes its inputs have; create() gives one where a
    source needs it. Programs are made when their sizes are first met. Raises as create."""
    from .flows.flow_module import open_flow  # most models have sizes

    def make(
        model: Model, chosen: Options, holder: str, shared: Callable[..., Any], arena: Arena
    ) -> GraphModule:
        prepared = prepare(model, devices, chosen)
        warn_of(prepared)
        module = open_prepared(prepared, name=holder, constants=False, arena=arena)
        adopt_params(module, shared(prepared.model.constants))
        return module

    return open_flow(waiting, make, options or Options())


def open_prepared(
    prepared: Prepared,
    libraries: Sequence[LibraryFile] = (),
    name: str = "session",
    *,
    tell: Tell = silent,
    constants: bool = True,
    arena: Arena | None = None,
) -> GraphModule:
    """What prepare() made, ready to run: kernels compiled where its options say so, and constants set.

    ``libraries``: those that it was prepared with; their code runs from here on. ``constants`` False: the
    caller sets them, or other values (adopt_params), and no memory is taken before. ``arena``: as Session's.
    Raises LibraryError, its
    UntrustedLibraryError, CompileError, DeviceMemoryError, and what reading a constant raises.
    """
    options, opened = prepared.options, _opened(libraries)
    opened += _compiled(prepared, opened, tell)
    session = Session(
        prepared.plan,
        opened,
        name=name,
        options=options,
        reserve=False,
        arena=arena,
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
    from .library import load_library

    try:
        built = cached_library([prepared.plan], libraries, tell=tell, built_in=core.generic_kernels())
    except (CompileError, WriteError) as error:
        if prepared.options.compile:
            raise
        text = f"{error}. Until then the kernels built into this installation serve; compile=False: at once"
        warnings.warn(text, stacklevel=4)
        built = None
    return [load_library(built)] if built else []


def warn_of(prepared: Prepared, stacklevel: int = 3) -> None:
    """Python warnings of what a plan does otherwise than the caller or the file asked: the first of it, and
    how much more, if the options let it. Raises InputError for what is no number of warnings."""
    plan, most = prepared.plan, prepared.options.most_warnings
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise InputError(f"most_warnings is a number of warnings from 0, got {most!r}", got=most)
    for text in plan.warnings[:most]:
        warnings.warn(text, stacklevel=stacklevel)
    if most and (more := len(plan.warnings) - most) > 0:
        warnings.warn(
            f"{more} more of these: plan.warnings, and graph-runtime plan, list all", stacklevel=stacklevel
        )


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


def _libraries(library: Any) -> list[Library]:
    if library is None:
        return []
    from ..artifacts.libraries.judge import LibraryFile, read_library  # most graphs run without a library

    items = library if isinstance(library, (list, tuple)) else [library]
    files: list[Any] = [getattr(item, "library", item) for item in items]  # what load_module returned has one
    return _opened([item if isinstance(item, LibraryFile) else read_library(item) for item in files])


def _opened(files: Sequence[LibraryFile]) -> list[Library]:
    """Raises as open_libraries."""
    if not files:
        return []
    from .library import open_libraries

    return open_libraries(files)
