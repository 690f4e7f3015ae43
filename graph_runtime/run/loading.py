"""load(): a GraphModule from a bundle."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from ..artifacts.bundles.bundle import KERNELS, Bundle, BundleProgram, read_bundle
from ..artifacts.door import Plannable, bundle_files, model_of, open_entry
from ..artifacts.prepare import Prepared, prepare
from ..artifacts.trust import require_trust
from ..base.errors import DocumentError, InputError
from ..base.machine.devices import is_afar
from ..base.option_fields import FLOWS, RUNNING
from ..base.option_words import takes_words
from ..base.options import Options, options_of
from ..base.progress import Tell, gc_paused, silent
from ..base.providers import provided
from ..ir.graph import Graph
from .factory import adopt_params, create_flow, open_prepared
from .library import Library, open_libraries
from .module import GraphModule
from .sessions.arena import Arena

if TYPE_CHECKING:
    from ..base.options import Words
    from .flows.flow_module import FlowModule


_AFAR = {"threads", "max_in_flight"}  # options of running that apply on machines of a cluster


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
    """A GraphModule from a bundle, with the bundle's libraries and parameters.

    ``devices``: devices to run on; None: the devices for which the bundle was compiled. A device "node1/tt:0"
    opens the bundle on the connected cluster (gr.cluster.connect). ``program``: name of a program of the
    bundle; None: the first program, or in a bundle with a flow its FlowModule. ``words``: options of running,
    as for create; an option given as None has the value used for compiling. ``libraries`` False: run the
    built-in kernels, and no native code of the bundle. ``rebuild``: whether to compile kernels anew from the
    bundle's graph. ``verify`` "full": read parameters and check their sha256, instead of mapping them
    (docs/bundles.md). Raises DocumentError, ParamsError, GraphError, PlanError, CheckError, DeviceError,
    CompileError, LibraryError: an UntrustedLibraryError for libraries that this user did not compile here and
    has not trusted (gr.trust)."""
    options_of(load, None, words)  # refuses words that are no options of running
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
    """The module of an open bundle with a flow. ``words`` as in open_program. Raises the errors of load."""
    from .flows.loaded import load_flow  # most bundles have no flow

    entry = partial(open_program, bundle, devices=devices, **words)
    model = None if bundle.source is None else partial(open_flow_model, bundle, devices, **words)
    return load_flow(bundle, entry, model)


def open_flow_model(bundle: Bundle, devices: Any = None, **words: Any) -> FlowModule:
    """The module of the model in a bundle, with the options of the bundle and the kernels that
    ``Bundle.kernels`` names."""
    options = Options.of(bundle.options, **words)
    if bundle.kernels != KERNELS[0]:
        options = replace(options, compile=bundle.rebuilt)
    waiting = model_of(bundle)
    return create_flow(waiting, devices or waiting.devices, options)


def read_runnable(bundle: str | os.PathLike[str], libraries: bool = True, rebuild: bool = False) -> Bundle:
    """A bundle whose programs will run with these kernels, as in load(). None of the bundle's code runs yet,
    but everything that would be refused on running is refused now. Raises DocumentError,
    UntrustedLibraryError."""
    opened = read_bundle(bundle)
    opened.kernels = chosen_kernels(libraries, rebuild)
    if opened.kernels == KERNELS[0]:
        require_trust(bundle_files(opened))
    return opened


def chosen_kernels(libraries: bool, rebuild: bool) -> str:
    """The word of bundle.KERNELS for the kernels that these arguments of load() ask for."""
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
    """As load(), for an open bundle, with the kernels that ``Bundle.kernels`` names. ``reserve`` False: for a
    module whose runs are only submitted; it holds its parameters and takes no other memory before it is run
    itself. ``arena``: as for Session."""
    with gc_paused():
        opened = open_entry(bundle, entry, bundle_libraries(bundle), devices or bundle.devices)
        running = replace(Options.of(bundle.options, **words).at(RUNNING), compile=bundle.rebuilt)
        # the other options have been followed in compiling: they are in the graph's columns
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
    """The module of a prepared source, ready to run. A bundle's parameters are mapped where they lie in its
    file, unless nodes were rewritten or other parameters were given. ``reserve`` as in open_program. Raises
    the errors of open_prepared.
    """
    bundle, entry = opened.bundle, opened.entry
    mapped = opened.params is None and not prepared.options.fuse
    own = bundle is None or not mapped
    libraries, name = opened.libraries, opened.name
    module = open_prepared(prepared, libraries, name, tell=tell, constants=own, arena=arena)
    if bundle is None or entry is None or not mapped:
        return module
    _check_names(bundle, entry, module.session.graph, prepared.plan.aliases)
    found = bundle.mapped(entry)
    adopt_params(module, found.values, entry.params, found.digests, reserve)
    return module


def _check_names(bundle: Bundle, entry: BundleProgram, graph: Graph, aliases: tuple[Any, ...]) -> None:
    """Raise DocumentError if the index does not list each graph input as an input or a parameter (any other
    input would be read without ever being set), or if its outputs or aliases are not the graph's."""
    said, wanted = {*entry.inputs, *entry.params}, set(graph.input_names)
    if said != wanted:
        text = (
            f"bundle {bundle.path}: inputs and params of program {entry.name!r} are not the "
            f"inputs of its graph: {', '.join(sorted(said ^ wanted)[:10])}"
        )
        raise DocumentError(text, got=sorted(said), wanted=sorted(wanted))
    for what, has, wants in (
        ("outputs", entry.outputs, graph.output_names),
        ("aliases", entry.aliases, aliases),
    ):
        if has != wants:
            text = (
                f"bundle {bundle.path}: {what} of program {entry.name!r} are not those of "
                f"its graph: {list(has)[:10]} and {list(wants)[:10]}"
            )
            raise DocumentError(text, got=has, wanted=wants)


def bundle_libraries(bundle: Bundle) -> list[Library]:
    """A bundle's libraries, opened; none if its programs run with other kernels (``Bundle.kernels``). Raises
    the errors of bundle_files, and UntrustedLibraryError before any of their code runs."""
    return open_libraries(bundle_files(bundle)) if bundle.kernels == KERNELS[0] else []
