"""load(): from a bundle to a GraphModule."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from ..artifacts.bundle_programs import bundle_files, open_entry
from ..artifacts.bundles.bundle import KERNELS, Bundle, BundleProgram, read_bundle
from ..artifacts.door import model_of
from ..artifacts.plannable import Plannable
from ..artifacts.prepare import Prepared, prepare
from ..artifacts.trust import require_trust
from ..base.errors import DocumentError, InputError
from ..base.garbage import gc_paused
from ..base.machine.devices import is_afar
from ..base.option_fields import FLOWS, RUNNING
from ..base.option_words import options_of, takes_words
from ..base.options import Options
from ..base.progress import Tell, silent
from ..base.providers import provided
from ..ir.graph import Graph
from .factory import adopt_params, create_flow, open_prepared
from .library import Library, open_libraries
from .module import GraphModule
from .sessions.arena import Arena

if TYPE_CHECKING:
    from ..base.options import Words
    from .flows.flow_module import FlowModule

__all__ = [
    "bundle_libraries",
    "chosen_kernels",
    "load",
    "open_flow_model",
    "open_module",
    "open_program",
    "open_saved_flow",
    "read_runnable",
]


_AFAR = {"threads", "max_in_flight"}  # options of runs that machines of a cluster follow


@takes_words(RUNNING, FLOWS)
def load(
    bundle: str | os.PathLike[str],
    devices: Any = None,
    program: str | None = None,
    *,
    libraries: bool = True,
    rebuild: bool = False,
    verify: str = "quick",
    **words: Unpack[Words],
) -> GraphModule:
    """A GraphModule from a bundle, with its libraries and parameters.

    ``devices``: by default those it was compiled for; with one as "node1/tt:0" it is opened by the cluster
    that is connected (gr.cluster.connect). ``program``: by default its first, or the FlowModule of a bundle
    with a flow. ``words``: options of running, as create; None: as it was compiled with. ``libraries``:
    False runs no native code of the bundle, but the kernels built in. ``rebuild``: neither; kernels are
    compiled anew from its graph. ``verify`` "full": parameters are read and compared with their sha256, not
    mapped (docs/bundles.md).

    Raises DocumentError, ParamsError, GraphError, PlanError, CheckError, DeviceError, CompileError,
    LibraryError: an UntrustedLibraryError for libraries that this user did not compile here and has not
    trusted (gr.trust).
    """
    options_of(load, None, words)  # refuses others
    if devices is not None and is_afar(devices):
        given: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
        if here := [*(given.keys() - _AFAR), *(["rebuild"] if rebuild else [])]:
            raise InputError(f"{' and '.join(sorted(here))}: for devices of this machine only", got=here)
        there = provided("cluster")().load(bundle, devices, program, libraries=libraries, **given)
        return cast("GraphModule", there)
    opened = read_bundle(bundle, verify)
    opened.kernels = chosen_kernels(libraries, rebuild)
    if opened.flow is not None and program is None:
        return cast("GraphModule", open_saved_flow(opened, devices, **words))
    return open_program(opened, opened.program(program), devices, **words)


def open_saved_flow(bundle: Bundle, devices: Any = None, **words: Any) -> FlowModule:
    """The module of an open bundle with a flow. ``words`` as open_program's. Raises as load."""
    from .flows.loaded import load_flow  # most bundles have none

    entry = partial(open_program, bundle, devices=devices, **words)
    model = None if bundle.source is None else partial(open_flow_model, bundle, devices, **words)
    return load_flow(bundle, entry, model)


def open_flow_model(bundle: Bundle, devices: Any = None, **words: Any) -> FlowModule:
    """The module of the model that is in a bundle, as the bundle was compiled, with the kernels that
    ``Bundle.kernels`` says."""
    options = Options.of(bundle.options, **words)
    if bundle.kernels != KERNELS[0]:
        options = replace(options, compile=bundle.rebuilt)
    waiting = model_of(bundle)
    return create_flow(waiting, devices or waiting.devices, options)


def read_runnable(bundle: str | os.PathLike[str], libraries: bool = True, rebuild: bool = False) -> Bundle:
    """A bundle whose programs will be run, with the kernels asked for, as load(). Nothing of it runs: what
    would be refused then is refused now. Raises DocumentError, UntrustedLibraryError."""
    opened = read_bundle(bundle)
    opened.kernels = chosen_kernels(libraries, rebuild)
    if opened.kernels == KERNELS[0]:
        require_trust(bundle_files(opened))
    return opened


def chosen_kernels(libraries: bool, rebuild: bool) -> str:
    """One of bundle.KERNELS."""
    return KERNELS[2] if rebuild else KERNELS[0] if libraries else KERNELS[1]


def open_program(
    bundle: Bundle,
    entry: BundleProgram,
    devices: Any = None,
    *,
    reserve: bool = True,
    arena: Arena | None = None,
    **words: Unpack[Words],
) -> GraphModule:
    """load(), for a bundle that is open already, with the kernels that ``Bundle.kernels`` says. ``reserve``
    False: for submitting only, the module holds its parameters and takes no other memory before it is run
    itself. ``arena``: as Session's."""
    with gc_paused():
        opened = open_entry(bundle, entry, bundle_libraries(bundle), devices or bundle.devices)
        running = replace(Options.of(bundle.options, **words).at(RUNNING), compile=bundle.rebuilt)
        # the others have been followed: they are in the graph's columns
        prepared = prepare(opened, options=running)
        return open_module(opened, prepared, reserve=reserve, arena=arena)


def open_module(
    opened: Plannable,
    prepared: Prepared,
    *,
    tell: Tell = silent,
    reserve: bool = True,
    arena: Arena | None = None,
) -> GraphModule:
    """What was prepared of ``opened``, ready to run. A bundle's parameters are mapped where they lie, unless
    nodes were rewritten or others were given. ``reserve`` as open_program's. Raises as open_prepared."""
    bundle, entry = opened.bundle, opened.entry
    mapped = opened.params is None and not prepared.options.fuse
    module = open_prepared(
        prepared,
        opened.libraries,
        opened.name,
        tell=tell,
        constants=bundle is None or not mapped,
        arena=arena,
    )
    if bundle is None or entry is None or not mapped:
        return module
    _check_names(bundle, entry, module.session.graph, prepared.plan.aliases)
    found = bundle.mapped(entry)
    adopt_params(module, found.values, entry.params, found.digests, reserve)
    return module


def _check_names(bundle: Bundle, entry: BundleProgram, graph: Graph, aliases: tuple[Any, ...]) -> None:
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


def bundle_libraries(bundle: Bundle) -> list[Library]:
    """A bundle's libraries, opened; none where its programs run with other kernels (``Bundle.kernels``).
    Raises as bundle_files, UntrustedLibraryError before anything of one runs."""
    return open_libraries(bundle_files(bundle)) if bundle.kernels == KERNELS[0] else []
