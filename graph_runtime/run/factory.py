"""create(): a GraphModule made from a document and libraries. loading.py has load(), which makes one from a
bundle."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from ..artifacts.door import Plannable, Waiting, open_source
from ..artifacts.prepare import Prepared, prepare
from ..base.errors import CompileError, InputError, WriteError
from ..base.machine.devices import is_afar
from ..base.machine.layout import HOST
from ..base.option_words import takes_words
from ..base.options import Options
from ..base.progress import Tell, gc_paused, silent
from ..base.providers import provided
from ..binding import core
from ..ir.model import Constant, Model
from .module import GraphModule
from .sessions.arena import Arena
from .sessions.constants import set_parameters
from .sessions.session import Session
from .sessions.sharing import link_constants, share_inputs

if TYPE_CHECKING:
    from ..artifacts.libraries.judge import LibraryFile
    from ..base.options import Words
    from .flows.flow_module import FlowModule
    from .library import Library


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
    """A GraphModule, ready to run.

    ``graph``: JSON text if it begins with "{", StableHLO text, else a path of a graph.json, an ONNX file or a
    .mlir file; also the bytes of such a file, a ModelProto, a function that jax has lowered, a Graph, a
    GraphBuilder (whose parameters are used), a Model, or a Plan, which is run unchanged. ``library``: a
    library of kernels (a path or a Library), or a list of libraries; None: the built-in kernels. ``devices``:
    a device, such as "cpu:0", or a list of devices. The first device of a list is the fallback: it runs, with
    a warning, the nodes that the file puts on devices not in the list. TVM's (type, id) is a device, too. A
    device "node1/tt:0" gives a RemoteModule on the connected cluster. ``params``: values of inputs, in any
    form that load_params takes. ``name``: name of the module in out-of-memory errors. ``words``: fields of
    gr.Options, which override ``options`` unless they are None. ``concurrent``: number of sessions of a
    ConcurrentModule, and so of threads that run at the same time; the sessions share their constants. Raises
    DocumentError, GraphError, PlanError, LibraryError, DeviceError, ParamsError, InputError, and CompileError
    for compile=True."""
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
    """As create, for devices of this machine."""
    found = _ready(graph, libraries, devices, params, chosen, name)
    if isinstance(found, tuple):
        return _open_warned(*found, libraries)
    return cast("GraphModule", found)


def _ready(
    graph: Any, libraries: list[Library], devices: Any, params: Any, chosen: Options, name: str | None
) -> tuple[Plannable, Prepared] | FlowModule:
    """(source, its prepared plan). For a model whose sizes or values only a run finds, the result is the
    module of a flow instead."""
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
    """As create, but the result is a ConcurrentModule of ``count`` sessions."""
    from .concurrent import ConcurrentModule, ModulePool  # most modules belong to one thread

    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"concurrent is a number of sessions from 1, got {count!r}", got=count)
    if is_afar(devices):
        raise InputError("a module on nodes of a cluster has no concurrent: run_async queues several runs")
    libraries = _libraries(library)
    with gc_paused():
        found = _ready(graph, libraries, devices, params, options, name)
        if not isinstance(found, tuple):  # sessions of a flow are made when their sizes first occur
            return cast("GraphModule", ConcurrentModule(ModulePool(found, found.sibling, count)))
        opened, prepared = found
        first = _open_warned(opened, prepared, libraries)
        pool = ModulePool(first, partial(_sibling, first, prepared, libraries, opened.name), count)
        pool.fill()
    return cast("GraphModule", ConcurrentModule(pool))


def _sibling(first: GraphModule, prepared: Prepared, libraries: list[Library], name: str) -> GraphModule:
    """A further module of a prepared plan, whose parameters live in the memory of ``first``."""
    if aliases := prepared.plan.aliases:
        written = ", ".join(first.session.graph.input_names[at] for _, at in aliases)
        text = f"runs write inputs of the graph ({written}), so there is one session: concurrent must be 1"
        raise InputError(text, got=written)
    made = open_prepared(prepared, libraries, name, constants=False)
    if first.params:
        share_inputs(made.session, first.session, sorted(first.params))
        made.params.update(first.params)
    return made


def _open_warned(opened: Plannable, prepared: Prepared, libraries: list[Library]) -> GraphModule:
    """The module of a prepared plan. Gives the plan's warnings, unless the caller passed a Plan and so knows
    them."""
    if opened.plan is None:
        warn_of(prepared, stacklevel=5)
    return open_prepared(prepared, libraries, opened.name)


def _create_afar(
    graph: Any, library: Any, devices: Any, params: Any, options: Options, name: str | None
) -> GraphModule:
    """As create, for devices of the connected cluster."""
    given = [] if library is None else library if isinstance(library, (list, tuple)) else [library]
    there = provided("cluster")().create(graph, devices, options, params=params, libraries=given, name=name)
    return cast("GraphModule", there)


def create_flow(waiting: Waiting, devices: Any = ("cpu:0",), options: Options | None = None) -> FlowModule:
    """A FlowModule of a model that runs at any sizes of its inputs; create() calls this for such sources. A
    specialization is made when its sizes first occur. Raises the errors of create."""
    from .flows.flow_module import open_flow  # most models have fixed sizes

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
    """A module of a prepared plan, ready to run: kernels are compiled if its options say so, and constants
    are set.

    ``libraries``: the libraries with which the plan was prepared; this call opens them, so their code runs.
    ``constants`` False: the caller sets constants (adopt_params), and no memory is taken before that.
    ``arena``: as for Session. Raises LibraryError, UntrustedLibraryError, CompileError, DeviceMemoryError,
    and the errors of reading a constant."""
    options, opened = prepared.options, _opened(libraries)
    opened += _compiled(prepared, opened, tell)
    session = Session(prepared.plan, opened, name=name, options=options, reserve=False, arena=arena)
    module = GraphModule(session)
    if opened:
        link_constants(session, prepared.model.graph, opened)
    return set_constants(module, prepared.model.constants) if constants else module


def _compiled(prepared: Prepared, libraries: Sequence[Library], tell: Tell) -> list[Library]:
    """The library of the kernels that are worth compiling, built now or found in the cache. The list is empty
    if no kernel is worth it, or if compiling fails and the caller did not ask for it."""
    if not prepared.compiles:
        return []
    from ..codegen.build import cached_library  # needed only if something is compiled
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
    """Warn of a plan's deviations from the caller's or the file's wishes: of the first ``most_warnings``
    deviations one by one, then of the number of all others. Raises InputError if ``most_warnings`` is no
    number."""
    plan, most = prepared.plan, prepared.options.most_warnings
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise InputError(f"most_warnings is a number of warnings from 0, got {most!r}", got=most)
    for text in plan.warnings[:most]:
        warnings.warn(text, stacklevel=stacklevel)
    if most and (more := len(plan.warnings) - most) > 0:
        text = f"{more} more of these: plan.warnings, and graph-runtime plan, list all"
        warnings.warn(text, stacklevel=stacklevel)


def adopt_params(
    module: GraphModule,
    params: Mapping[str, np.ndarray],
    keys: Mapping[str, str] | None = None,
    digests: dict[str, bytes] | None = None,
    reserve: bool = True,
) -> None:
    """Set parameters whose arrays stay where they are: inputs on the host live in these arrays for good,
    other inputs get copies. The module must not have been used yet. ``keys`` {input name: key of its hash in
    ``digests``}; hashes that had to be computed are added to ``digests``. ``reserve``: as in
    constants.set_parameters, whose errors are raised."""
    index = {name: module.get_input_index(name) for name in params}
    keys, digests = keys or {}, {} if digests is None else digests
    known = {index[name]: digests[keys[name]] for name in params if keys.get(name) in digests}
    arrays = {index[name]: array for name, array in params.items()}
    made = set_parameters(module.session, arrays, staying=True, digests=known, reserve=reserve)
    module.params.update(params)
    digests.update({keys[name]: made[at] for name, at in index.items() if at in made and name in keys})


def set_constants(module: GraphModule, constants: Mapping[str, Constant]) -> GraphModule:
    """The module with a model's constants set by name, biggest first; each constant is read, copied and
    dropped before the next. Raises InputError and the errors of reading a constant (MissingDataError)."""
    largest = sorted(constants, key=lambda name: -constants[name].type.nbytes)
    found = {module.get_input_index(name): constants[name] for name in largest}
    session = module.session
    if any(layout.memory != HOST for layout in session.plan.layouts):
        set_parameters(session, found)
    else:  # all values are in host memory, which sessions cannot share
        session.reserve()
        for index, constant in found.items():
            session.set_input(index, constant.read())
    module.params.update(constants)
    return module


def _libraries(library: Any) -> list[Library]:
    if library is None:
        return []
    from ..artifacts.libraries.judge import LibraryFile, read_library  # most graphs run without a library

    items = library if isinstance(library, (list, tuple)) else [library]
    files: list[Any] = [getattr(item, "library", item) for item in items]  # load_module's results
    return _opened([item if isinstance(item, LibraryFile) else read_library(item) for item in files])


def _opened(files: Sequence[LibraryFile]) -> list[Library]:
    if not files:
        return []
    from .library import open_libraries

    return open_libraries(files)
