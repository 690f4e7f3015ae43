"""Graphs and bundles on devices of several machines -> RemoteModule.

create(fleet, source, devices, options)     planned here, cut, each part sent to its machine
load(fleet, bundle, devices)                a bundle on one machine goes there as it is
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import finalize

from ...artifacts.bundle_programs import open_entry
from ...artifacts.bundles.bundle import Bundle, BundleProgram, read_bundle
from ...artifacts.door import open_model
from ...artifacts.libraries.judge import LibraryFile, read_library
from ...artifacts.prepare import Prepared, prepare
from ...base.errors import InputError
from ...base.files.temporary import temporary_folder
from ...base.machine.devices import Device, parse_list
from ...base.machine.interconnect import Interconnect
from ...base.options import Options
from .cut import cut
from .fleet import Fleet, Terms
from .part_bundles import write_parts
from .part_opening import RemotePart
from .remote_module import RemoteModule
from .remote_session import RemoteSession
from .sheets import sheets, whole_sheet

__all__ = ["connected_options", "create", "load"]

Measured = Callable[[Sequence[str]], Interconnect]


def connected_options(fleet: Fleet, devices: Any, options: Options, measured: Measured) -> Options:
    """With how the machines of these devices are connected, as ``measured`` says it, where the options do not
    and a policy may ask. Raises DeviceError for a machine that there is not."""
    machines = list(dict.fromkeys(device.node for device in parse_list(devices)))
    for machine in machines:
        fleet.member(machine)  # raises before anything is compiled
    if options.interconnect is not None or len(machines) < 2 or options.place:
        return options
    return replace(options, interconnect=measured(machines))


def create(
    fleet: Fleet,
    source: Any,
    devices: Any,
    options: Options,
    *,
    params: Any = None,
    libraries: Sequence[Any] = (),
    name: str | None = None,
    terms: Terms,
) -> RemoteModule:
    """Plan a source for these devices, as gr.create does, cut it, and have each machine open its part.
    ``libraries``: paths of kernels that go along. Raises what prepare and build_bundle raise; ClusterError,
    and what machines refuse."""
    listed = parse_list(devices)
    files = [item if isinstance(item, LibraryFile) else read_library(item) for item in libraries]
    opened = open_model(source, options)
    prepared = prepare(opened, listed, options, params=params, libraries=files, kept=True)
    return _open(fleet, prepared, name or opened.name, terms, files)


def load(
    fleet: Fleet,
    bundle: str | os.PathLike[str],
    devices: Any,
    program: str | None = None,
    *,
    libraries: bool = True,
    terms: Terms,
    **words: Any,
) -> RemoteModule:
    """A program of a bundle. All devices on one machine: the bundle goes there by its content, with its
    libraries, which that machine judges; else its graph is planned and cut for them. Raises as gr.load and
    create."""
    opened = read_bundle(bundle)
    if opened.flow is not None and program is None:
        raise InputError(
            f"{opened.path.name} has a flow of programs, which runs on one machine: name a program of it, or "
            "open it there",
            got=str(opened.path),
        )
    listed, entry = parse_list(devices), opened.program(program)
    chosen = Options.of(opened.options, **words)
    found = open_entry(opened, entry)
    plain = Options(
        fuse=False,
        compile=bool(opened.libraries) and libraries,
        threads=chosen.threads,
        max_in_flight=chosen.max_in_flight,
        reuse=chosen.reuse,
    )
    if len({device.node for device in listed}) > 1:
        prepared = prepare(found, listed, plain, kept=True)
        return _open(fleet, prepared, opened.path.name, terms)
    prepared = prepare(found.graph, listed, replace(plain, compile=False))
    return _whole(fleet, opened, entry, listed, prepared, libraries, terms)


def _whole(
    fleet: Fleet,
    bundle: Bundle,
    entry: BundleProgram,
    devices: Sequence[Device],
    prepared: Prepared,
    libraries: bool,
    terms: Terms,
) -> RemoteModule:
    machine, graph = devices[0].node, prepared.plan.graph
    state = tuple(graph.input_names[i] for _, i in entry.aliases)
    part = RemotePart(
        bundle.path,
        whole_sheet(machine, entry.name, entry.inputs, entry.outputs, state),
        frozenset(entry.inputs),
        state,
        tuple(device.at_home.spelling for device in devices),
        libraries,
    )
    session = RemoteSession(
        fleet,
        prepared.plan,
        {machine: part},
        [(machine, value) for value in entry.outputs],
        constants=tuple(entry.params),
        name=bundle.path.name,
        options=prepared.options,
        terms=terms,
    )
    return RemoteModule(session, tuple(entry.params))


def _open(
    fleet: Fleet,
    prepared: Prepared,
    name: str,
    terms: Terms,
    libraries: Sequence[LibraryFile] = (),
) -> RemoteModule:
    """The parts of what was prepared, each on its machine."""
    constants = tuple(prepared.model.constants)
    pieces = cut(prepared.plan, constants)
    if not pieces.parts:
        raise InputError(f"{name} computes nothing: there is nothing to run on {prepared.plan.devices[0]}")
    folder = Path(tempfile.mkdtemp(dir=temporary_folder()))
    paths = write_parts(prepared, pieces, folder, libraries)
    said = sheets(pieces)
    parts = {
        machine: RemotePart(paths[machine], said[machine], frozenset(part.given), part.state)
        for machine, part in pieces.parts.items()
    }
    session = RemoteSession(
        fleet,
        prepared.plan,
        parts,
        pieces.outputs,
        constants=constants,
        name=name,
        options=prepared.options,
        terms=terms,
    )
    finalize(session, shutil.rmtree, folder, ignore_errors=True)
    return RemoteModule(session, constants)
