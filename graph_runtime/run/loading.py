"""load(): from a bundle to a GraphModule."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Never, cast

from ..base.errors import DocumentError, ForeignMachineError, InputError, refuse_words
from ..base.garbage import gc_paused
from ..base.machine.devices import is_afar, parse_list
from ..base.options import Options
from ..base.providers import provided
from ..build.bundles.bundle import KERNELS, Bundle, BundleProgram, read_bundle
from ..build.libraries.judge import LibraryFile
from ..build.libraries.offered import inplace_rules
from ..build.prepare import prepare
from ..build.trust import require_trust
from ..ir.graph import Graph
from ..plan import Plan
from ..plan.snapshot import read_snapshot
from .factory import adopt_params, create_flow, open_prepared, read_graph
from .library import Library, open_libraries
from .module import GraphModule
from .sessions.arena import Arena

if TYPE_CHECKING:
    from .flows.flow_module import FlowModule

__all__ = ["bundle_files", "bundle_libraries", "load", "open_program", "open_source", "read_runnable"]


def load(
    bundle: str | os.PathLike[str],
    devices: Any = None,
    program: str | None = None,
    *,
    threads: int | None = None,
    max_in_flight: int | None = None,
    libraries: bool = True,
    rebuild: bool = False,
    verify: str = "quick",
    unset_inputs: str | None = None,
    **unknown: Never,
) -> GraphModule:
    """A GraphModule from a bundle, with its libraries and parameters.

    ``devices``: by default those it was compiled for; with one as "node1/tt:0" it is opened by the cluster
    that is connected (gr.cluster.connect). ``program``: by default its first, or the FlowModule of a bundle
    with a flow. ``threads``, ``max_in_flight`` and ``unset_inputs`` as create; None: as it was compiled
    with. ``libraries``: False runs no native code of the bundle, but the kernels built in. ``rebuild``:
    neither; kernels are compiled anew from its graph. ``verify`` "full": parameters are read and compared
    with their sha256, not mapped (docs/bundles.md).

    Raises DocumentError, ParamsError, GraphError, PlanError, CheckError, DeviceError, CompileError,
    LibraryError: an UntrustedLibraryError for libraries that this user did not compile here and has not
    trusted (gr.trust).
    """
    refuse_words(unknown, load)
    if devices is not None and is_afar(devices):
        if rebuild or unset_inputs is not None:
            raise InputError("rebuild and unset_inputs are for devices of this machine")
        there = provided("cluster").load(
            bundle, devices, program, threads=threads, max_in_flight=max_in_flight, libraries=libraries
        )
        return cast("GraphModule", there)
    opened = read_bundle(bundle, verify)
    opened.kernels = _chosen_kernels(libraries, rebuild)
    words: dict[str, Any] = {
        "threads": threads,
        "max_in_flight": max_in_flight,
        "unset_inputs": unset_inputs,
    }
    if opened.flow is not None and program is None:
        from .flows.loaded import load_flow  # most bundles have none

        entry = partial(open_program, opened, devices=devices, **words)
        model = None if opened.source is None else partial(open_source, opened, devices, **words)
        return cast("GraphModule", load_flow(opened, entry, model))
    return open_program(opened, opened.program(program), devices, **words)


def open_source(bundle: Bundle, devices: Any = None, **words: Any) -> FlowModule:
    """The module of the model that is in a bundle, as the bundle was compiled, with the kernels that
    ``Bundle.kernels`` says."""
    assert bundle.source is not None, "the caller saw that there is one"
    options = Options.of(bundle.options, **words)
    if bundle.kernels != KERNELS[0]:
        options = replace(options, compile=bundle.kernels == KERNELS[2])
    member = bundle.member(bundle.source.model)
    folder = None if member.file == bundle.path else member.file.parent
    source = bundle.read(bundle.source.model)
    return create_flow(source, devices or bundle.devices, options, bundle.path.name, folder=folder)


def read_runnable(bundle: str | os.PathLike[str], libraries: bool = True, rebuild: bool = False) -> Bundle:
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
    arena: Arena | None = None,
) -> GraphModule:
    """load(), for a bundle that is open already, with the kernels that ``Bundle.kernels`` says. ``reserve``
    False: for submitting only, the module holds its parameters and takes no other memory before it is run
    itself. ``arena``: as Session's."""
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
        module = open_prepared(prepared, libraries, bundle.path.name, constants=False, arena=arena)
        _check_names(bundle, entry, module.session.graph, prepared.plan.aliases)
        mapped = bundle.mapped(entry)
        adopt_params(module, mapped.values, entry.params, mapped.digests, reserve)
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


def _snapshot(
    bundle: Bundle, entry: BundleProgram, devices: Any, libraries: Sequence[Library]
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


def bundle_libraries(bundle: Bundle) -> list[Library]:
    """A bundle's libraries, opened; none where its programs run with other kernels (``Bundle.kernels``).
    Raises as bundle_files, UntrustedLibraryError before anything of one runs."""
    return open_libraries(bundle_files(bundle)) if bundle.kernels == KERNELS[0] else []
