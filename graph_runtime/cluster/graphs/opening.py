"""Graphs and bundles on devices of several machines -> RemoteModule.

create(fleet, source, devices, options)     plans here, cuts, sends each part to its machine
load(fleet, bundle, devices)                sends a bundle for one machine unchanged
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

from ...artifacts.bundles.bundle import Bundle, BundleProgram, read_bundle
from ...artifacts.door import open_entry, open_model
from ...artifacts.libraries.judge import LibraryFile, read_library
from ...artifacts.prepare import Prepared, prepare
from ...base.errors import InputError
from ...base.files.temporary import temporary_folder
from ...base.machine.devices import Device, parse_list
from ...base.machine.interconnect import Interconnect
from ...base.options import Options
from ...ir.graph import TensorType
from ...ir.model import Constant, Model
from .cut import Cut, MachineStage, cut
from .fleet import Fleet, Terms
from .part_opening import RemotePart
from .remote_session import RemoteModule, RemoteSession
from .sheets import sheets, whole_sheet

Measured = Callable[[Sequence[str]], Interconnect]


def connected_options(fleet: Fleet, devices: Any, options: Options, measured: Measured) -> Options:
    """The options; if they have no links and a policy may need links, the measured links between the machines
    of these devices are added. Raises DeviceError for an unknown machine."""
    machines = list(dict.fromkeys(device.node for device in parse_list(devices)))
    for machine in machines:
        fleet.member(machine)  # raises before anything is compiled, if the machine is unknown
    if options.interconnect is not None or len(machines) < 2 or options.place:
        return options
    return replace(options, interconnect=measured(machines))


def create(
    fleet: Fleet,
    source: Any,
    devices: Any,
    options: Options,
    terms: Terms,
    *,
    params: Any = None,
    libraries: Sequence[Any] = (),
    name: str | None = None,
) -> RemoteModule:
    """Plan a source for these devices as gr.create does, cut the plan, and have each machine open its part.
    ``libraries``: paths of libraries with kernels to include. Raises as prepare and build_bundle do, and
    ClusterError and the machines' errors."""
    listed = parse_list(devices)
    files = [item if isinstance(item, LibraryFile) else read_library(item) for item in libraries]
    opened = open_model(source, options)
    prepared = prepare(opened, listed, options, params=params, libraries=files, kept=True)
    return _open(fleet, prepared, name or opened.name, terms, files)


def load(
    fleet: Fleet,
    bundle: str | os.PathLike[str],
    devices: Any,
    program: str | None,
    terms: Terms,
    *,
    libraries: bool = True,
    **words: Any,
) -> RemoteModule:
    """Load a program of a bundle. If the devices are on one machine, that machine gets the bundle with its
    libraries, and judges itself whether to trust them. Otherwise the program's graph is planned and cut for
    the machines. Raises as gr.load and create."""
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
    machine, graph, constants = devices[0].node, prepared.plan.graph, tuple(entry.params)
    state = tuple(graph.input_names[i] for _, i in entry.aliases)
    sheet = whole_sheet(machine, entry.name, entry.inputs, entry.outputs, state)
    spellings = tuple(device.at_home.spelling for device in devices)
    part = RemotePart(bundle.path, sheet, frozenset(entry.inputs), state, spellings, libraries)
    outputs = [(machine, value) for value in entry.outputs]
    session = RemoteSession(fleet, prepared, {machine: part}, outputs, constants, bundle.path.name, terms)
    return RemoteModule(session, constants)


def _open(
    fleet: Fleet, prepared: Prepared, name: str, terms: Terms, libraries: Sequence[LibraryFile] = ()
) -> RemoteModule:
    """Open each part of a prepared model on its machine."""
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
    session = RemoteSession(fleet, prepared, parts, pieces.outputs, constants, name, terms)
    finalize(session, shutil.rmtree, folder, ignore_errors=True)
    return RemoteModule(session, constants)


# **************** bundles of parts ****************


def write_parts(
    prepared: Prepared, cut: Cut, folder: Path, libraries: Sequence[LibraryFile] = ()
) -> dict[str, Path]:
    """{machine: its bundle}, written into ``folder``, each with the caller's ``libraries``. Raises as
    build_bundle."""
    from ...codegen.build import build_bundle  # imported here: only needed when parts are compiled

    chosen = prepared.options
    options = Options(
        fuse=False,
        compile=prepared.compiles if chosen.compile is None else chosen.compile,
        reuse=chosen.reuse,
        threads=chosen.threads,
        max_in_flight=chosen.max_in_flight,
        unset_inputs=chosen.unset_inputs,
    )
    found = {}
    for at, (machine, part) in enumerate(cut.parts.items()):
        path = folder / f"{at}_{machine or 'caller'}.bundle"
        models = {stage.program: _model(stage, prepared) for stage in part.stages}
        devices = [device.spelling for device in part.devices]
        found[machine] = build_bundle(models, devices, path, options, libraries=libraries)
    return found


def _model(stage: MachineStage, prepared: Prepared) -> Model:
    constants = {}
    for name, of in stage.constants.items():
        eid = int(stage.graph.input_eids[stage.graph.input_names.index(name)])
        constants[name] = _shaped(prepared.model.constants[of], stage.graph.entry_type(eid))
    return Model(stage.graph, constants)


def _shaped(constant: Constant, type_: TensorType) -> Constant:
    """The same values in another shape."""
    if constant.type == type_:
        return constant
    return replace(
        constant,
        type=type_,
        read=lambda: constant.read().reshape(type_.shape),
        key=(constant.key, "in shape", type_.shape),
    )
