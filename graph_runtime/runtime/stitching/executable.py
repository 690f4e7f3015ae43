"""Executable: one program of a bundle, loaded for a device, with its inputs and outputs.

Bundle + program + OpenDevice --executable()--> Executable --stitching.submit--> Tensors
"""

from __future__ import annotations

import hashlib
import weakref
from functools import cached_property
from typing import NamedTuple

from ...artifacts.bundles.bundle import Bundle, BundleProgram
from ...artifacts.door import open_entry
from ...base.errors import HandleError, InputError
from ...base.locks import new_lock
from ...base.machine.devices import Device, parse
from ...base.machine.layout import Layout
from ...ir.graph import TensorType
from ...plan import plan as make_plan
from ...run.loading import open_program
from ...run.queues.blocks import let_go
from ...run.sessions.constants import digest
from ...run.sessions.running import most_in_flight
from . import constants
from .open_device import OpenDevice, opened


class InputSpec(NamedTuple):
    """One input of a program. ``index``: its number among the graph's inputs; then the device, type and
    layout that it must have."""

    index: int  # type: ignore[assignment]  # in the place of tuple.index
    name: str
    type: TensorType
    device: Device
    layout: Layout


def program_entry(bundle: Bundle, program: str | int | None) -> BundleProgram:
    """A bundle's program by name or number; the first program for None. Raises InputError, DocumentError."""
    if not isinstance(bundle, Bundle):
        text = f"a bundle is wanted, got {type(bundle).__name__}: load_bundle gives one"
        raise InputError(text, got=type(bundle).__name__)
    if isinstance(program, int) and not isinstance(program, bool):
        if not 0 <= program < len(bundle.programs):
            text = f"program {program} is out of range: bundle {bundle.path.name} has {len(bundle.programs)}"
            raise InputError(text, got=program, wanted=len(bundle.programs))
        return bundle.programs[program]
    if program is not None and not isinstance(program, str):
        raise InputError(
            f"a program is named by a string or a number, got {type(program).__name__}", got=repr(program)
        )
    return bundle.program(program)


def input_layout(bundle: Bundle, program: str | int | None, which: int | str) -> Layout:
    """The layout that a compiled program of a bundle needs for an input. No device is opened and no memory is
    allocated. Raises InputError for an unknown input, and what planning raises."""
    entry = program_entry(bundle, program)
    layouts = bundle.memo.get(entry.name)
    if layouts is None:
        planned = make_plan(open_entry(bundle, entry).graph, bundle.devices)
        eids = dict(zip(planned.graph.input_names, planned.graph.input_eids.tolist(), strict=True))
        layouts = bundle.memo[entry.name] = tuple(planned.layout(eids[name]) for name in entry.inputs)
    if isinstance(which, str) and which in entry.inputs:
        which = entry.inputs.index(which)
    if not isinstance(which, int) or not 0 <= which < len(layouts):
        text = f"program {entry.name!r} has no input {which!r}: it has {', '.join(entry.inputs)}"
        raise InputError(text, got=which, wanted=list(entry.inputs))
    return layouts[which]


def executable(
    device: OpenDevice, bundle: Bundle, program: str | int | None, max_in_flight: int | None = None
) -> Executable:
    """The program, loaded once for an open device. ``max_in_flight``: from now on, most submissions of the
    program that may be queued. Raises what factory.load raises, DeviceError for a closed device, InputError.
    """
    entry = program_entry(bundle, program)
    with opened(device).alive().lock:
        loaded = device.programs.setdefault(bundle, {})
        found = loaded.get(entry.name)
        if found is None:
            found = loaded[entry.name] = Executable(device, bundle, entry)
        if max_in_flight is not None:
            found.session.max_in_flight = most_in_flight(max_in_flight)
        return found


def unload_program(device: OpenDevice, bundle: Bundle, program: str | int | None = None) -> int:
    """Unload a program from an open device, or for None all programs of the bundle. This frees the program's
    parameters (unless another program uses them), its cached results, and the memory that its runs left idle.
    The call does not wait: memory of queued work is freed when that ends. A later submit or load_program
    loads the program again. Dropping the last reference to a bundle unloads all of its programs.

    Returns the number of programs unloaded. Raises DeviceError for a closed device, InputError,
    DocumentError.
    """
    entry = None if program is None else program_entry(bundle, program)
    with opened(device).alive().lock:
        loaded = device.programs.get(bundle, {})
        names = list(loaded) if entry is None else [entry.name] if entry.name in loaded else []
        for name in names:
            del loaded[name]
    let_go(device.handle)
    return len(names)


class Executable:
    """One loaded program. It lives as long as its bundle, but does not keep the bundle alive.

    ``inputs``: specs of the inputs in the bundle's order, without parameters.
    ``aliases``: {position of an input: number of the output that is written into it}.
    ``const``: whether outputs may be kept for equal inputs.
    ``lock``: lock that is held by runs in the session's own memory.
    """

    entry: BundleProgram
    opened: OpenDevice
    name: str
    inputs: tuple[InputSpec, ...]
    aliases: dict[int, int]
    const: bool

    def __init__(self, opened: OpenDevice, bundle: Bundle, entry: BundleProgram):
        self._bundle, self.entry, self.opened = weakref.ref(bundle), entry, opened
        self.name = f"program {entry.name!r} of {bundle.path.name}"  # the program's name in errors
        self.module = open_program(bundle, entry, _on(opened.device, bundle), reserve=False)
        self.session = session = self.module.session
        graph, plan = session.graph, session.plan
        index = {name: i for i, name in enumerate(graph.input_names)}
        self.inputs = tuple(self._spec(index[name], name) for name in entry.inputs)
        position = {spec.index: at for at, spec in enumerate(self.inputs)}
        self.aliases = {position[to]: out for out, to in plan.aliases if to in position}
        self.const = entry.const
        self.lock = new_lock()
        for handle in session.handles:
            weakref.finalize(self, let_go, handle).atexit = False
        if self.const:
            weakref.finalize(self, constants.forget, self.fingerprint, opened.device).atexit = False

    @property
    def bundle(self) -> Bundle:
        """The bundle, which the caller of submit keeps alive. Raises HandleError if the bundle no longer
        exists."""
        found = self._bundle()
        if found is None:
            text = f"the bundle of {self.name} is gone: keep a reference to it while hooks run"
            raise HandleError(text, device=str(self.opened.device))
        return found

    def _spec(self, index: int, name: str) -> InputSpec:
        session = self.session
        eid = int(session.graph.input_eids[index])
        device = session.plan.devices[int(session.plan.entry_did()[eid])]
        return InputSpec(index, name, session.graph.entry_type(eid), device, session.plan.layout(eid))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the program's computation, which is equal in all bundles that contain the program.
        Parameters enter by their contents, because the hash of their file in the index was not verified."""
        bundle, entry = self.bundle, self.entry
        parts = [bundle.files[file] for file in (entry.graph, entry.plan) if file]
        parts += [bundle.kernels, *(bundle.files[library.file] for library in bundle.libraries)]
        values = bundle.mapped(entry).values
        held = [(name, digest(values[name]).hex()) for name in sorted(values)]
        return hashlib.sha256(repr((parts, held, entry.inputs)).encode()).hexdigest()


def _on(device: Device, bundle: Bundle) -> list[Device]:
    """The bundle's devices, where the opened device replaces the first device of its kind."""
    devices = [parse(name) for name in bundle.devices]
    if device in devices:
        return devices
    for at, other in enumerate(devices):
        if other.kind == device.kind:
            return [*devices[:at], device, *devices[at + 1 :]]
    text = (
        f"bundle {bundle.path.name} was compiled for {', '.join(bundle.devices)}: it has no part for {device}"
    )
    raise InputError(text, got=str(device), wanted=list(bundle.devices))
