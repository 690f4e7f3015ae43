"""Graphs and bundles on devices of several machines -> RemoteModule.

create(fleet, source, devices, options)     planned here, cut, each part sent to its machine
load(fleet, bundle, devices)                a bundle on one machine goes there as it is
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...artifacts.bundle_programs import open_entry
from ...artifacts.bundles.bundle import Bundle, BundleProgram, read_bundle
from ...artifacts.door import open_model
from ...artifacts.libraries.judge import LibraryFile, read_library
from ...artifacts.prepare import Prepared, prepare
from ...base.errors import InputError
from ...base.machine.devices import Device, parse_list
from ...base.machine.interconnect import Interconnect
from ...base.options import Options
from ...base.progress import Tell, silent
from ...base.temporary import temporary_folder
from .cut import cut
from .fleet import SECONDS, Fleet
from .part_bundles import write_parts
from .part_opening import RemotePart
from .remote_module import RemoteModule
from .remote_session import RemoteSession
from .sheets import sheets, whole_sheet

__all__ = ["create", "load"]

Measured = Callable[[Sequence[str]], Interconnect]


def create(
    fleet: Fleet,
    source: Any,
    devices: Any,
    options: Options,
    *,
    params: Any = None,
    libraries: Sequence[Any] = (),
    name: str | None = None,
    deadline: float = SECONDS,
    checkpoint_every: int = 0,
    measured: Measured | None = None,
    tell: Tell = silent,
) -> RemoteModule:
    """Plan a source for these devices, as gr.create does, cut it, and have each machine open its part.
    ``libraries``: paths of kernels that go along; ``measured``: what says how machines are connected, where
    the options do not. Raises what prepare and
    build_bundle raise; DeviceError for a node that there is not; ClusterError, and what machines refuse."""
    listed = parse_list(devices)
    machines = [d.node for d in listed]
    for machine in dict.fromkeys(machines):
        fleet.member(machine)  # raises for one that there is not, before anything is compiled
    if measured is not None and options.interconnect is None and len(set(machines)) > 1 and not options.place:
        options = replace(options, interconnect=measured(list(dict.fromkeys(machines))))
    files = [item if isinstance(item, LibraryFile) else read_library(item) for item in libraries]
    opened = open_model(source, options, tell)
    prepared = prepare(opened, listed, options, params=params, libraries=files, kept=True, tell=tell)
    return _open(fleet, prepared, name or opened.name, deadline, checkpoint_every, files, tell)


def load(
    fleet: Fleet,
    bundle: str | os.PathLike[str],
    devices: Any,
    program: str | None = None,
    *,
    threads: int | None = None,
    max_in_flight: int | None = None,
    libraries: bool = True,
    deadline: float = SECONDS,
    checkpoint_every: int = 0,
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
    chosen = Options.of(opened.options, threads=threads, max_in_flight=max_in_flight)
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
        return _open(fleet, prepared, opened.path.name, deadline, checkpoint_every)
    prepared = prepare(found.graph, listed, replace(plain, compile=False))
    return _whole(fleet, opened, entry, listed, prepared, libraries, deadline, checkpoint_every)


def _whole(
    fleet: Fleet,
    bundle: Bundle,
    entry: BundleProgram,
    devices: Sequence[Device],
    prepared: Prepared,
    libraries: bool,
    deadline: float,
    checkpoint_every: int,
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
        graph,
        prepared.plan,
        {machine: part},
        [(machine, value) for value in entry.outputs],
        constants=tuple(entry.params),
        name=bundle.path.name,
        threads=prepared.options.threads,
        max_in_flight=prepared.options.max_in_flight,
        deadline=deadline,
        checkpoint_every=checkpoint_every,
    )
    return RemoteModule(session, tuple(entry.params))


def _open(
    fleet: Fleet,
    prepared: Prepared,
    name: str,
    deadline: float,
    checkpoint_every: int,
    libraries: Sequence[LibraryFile] = (),
    tell: Tell = silent,
) -> RemoteModule:
    """The parts of what was prepared, each on its machine."""
    constants = tuple(prepared.model.constants)
    pieces = cut(prepared.plan, constants)
    if not pieces.parts:
        raise InputError(f"{name} computes nothing: there is nothing to run on {prepared.plan.devices[0]}")
    folder = Path(tempfile.mkdtemp(dir=temporary_folder()))
    paths = write_parts(prepared, pieces, folder, libraries, tell)
    said = sheets(pieces)
    parts = {
        machine: RemotePart(paths[machine], said[machine], frozenset(part.given), part.state)
        for machine, part in pieces.parts.items()
    }
    session = RemoteSession(
        fleet,
        prepared.plan.graph,
        prepared.plan,
        parts,
        pieces.outputs,
        constants=constants,
        name=name,
        threads=prepared.options.threads,
        max_in_flight=prepared.options.max_in_flight,
        deadline=deadline,
        checkpoint_every=checkpoint_every,
        folder=folder,
    )
    return RemoteModule(session, constants)
