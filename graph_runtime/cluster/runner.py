"""A bundle opened to run batches in this process: a replica without Ray.

runner = Runner(ServedSource("net.bundle"))
runner.served                     its inputs and outputs, and which rows may run together
runner.run(batch) -> Reply
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import orjson

from ..artifacts.bundles.bundle import Bundle, BundleProgram
from ..base.errors import DocumentError, GraphRuntimeError, InputError, KernelError
from ..base.files.mapped import as_path
from ..base.machine.devices import parse_list
from ..run.loading import load, open_program, read_runnable
from ..run.module import GraphModule
from ..run.tensors import journal
from ..run.tensors.tensor import aligned_empty
from .batch_rows import stack
from .batcher import RowBatch
from .independent_rows import RowProgram, Shapes, find_rows
from .ports import DATATYPES, OPEN, Port, Served


@dataclass(frozen=True, slots=True)
class ServedSource:
    """A bundle to serve. ``path``: path of the bundle; ``program``: name of a program, None: all programs
    with the same inputs as the first; ``devices``: names of devices, None: the devices that the bundle was
    compiled for. ``threads``: number of threads of a replica's pool; ``libraries``: whether native code of
    the bundle may run."""

    path: str
    program: str | None = None
    devices: tuple[str, ...] | None = None
    threads: int | None = None
    libraries: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a batch: ``outputs``: arrays by name; ``error``: text of the error, if the batch failed.
    ``kernel``: whether the error is a kernel's refusal of values, so that other requests of the batch may
    succeed. ``seconds``: run time; ``fallbacks``: operations that a host ran instead of a device. ``events``:
    events of a trace; ``zero``: the trace's time 0, by time.perf_counter_ns."""

    outputs: dict[str, np.ndarray]
    error: str = ""
    kernel: bool = False
    seconds: float = 0.0
    fallbacks: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    zero: int = 0


def read_source(source: ServedSource) -> Bundle:
    """The bundle of a source, read so that refusals are raised now and not later; no code of the bundle runs.
    Raises DocumentError, DeviceError, LibraryError, UntrustedLibraryError."""
    bundle = read_runnable(as_path(source.path, "a bundle"), libraries=source.libraries)
    if source.program is not None:
        bundle.program(source.program)
    parse_list(source.devices or bundle.devices)
    return bundle


def bundle_hash(bundle: Bundle) -> str:
    """The sha256 of a bundle's contents: the hashes of its files, and the description of its programs."""
    said = [(p.name, p.inputs, p.outputs, sorted(p.params.items())) for p in bundle.programs]
    return hashlib.sha256(orjson.dumps([sorted(bundle.files.items()), bundle.devices, said])).hexdigest()


class Runner:
    """A bundle's programs, ready to run. One batch runs at a time, while other threads wait. The constructor
    raises as gr.load, and InputError for a model that the protocol cannot serve."""

    def __init__(self, source: ServedSource):
        bundle = read_source(source)
        if bundle.flow is not None and source.program is None:
            inputs, outputs, programs = _of_flow(source)
        else:
            inputs, outputs, programs = _of_programs(bundle, source)
        for port in (*inputs, *outputs):
            if port.dtype not in DATATYPES:
                kind = port.dtype or "of any type"
                text = f"{source.path}: {port.name!r} is {kind}, which cannot be served"
                raise InputError(text, got=port.dtype, wanted=list(DATATYPES))
        self._lock = threading.Lock()
        names = [port.name for port in inputs]
        found, why = find_rows(programs, names, [port.dtype for port in inputs])
        self._by_rows = {rows: program for rows, (program, _) in found.items()}
        self._by_shapes = {program.shapes: program for program in programs}
        if self._by_rows:
            inputs, outputs = list(map(_by_row, inputs)), list(map(_by_row, outputs))
        self.served = Served(
            tuple(inputs),
            tuple(outputs),
            tuple(self._by_rows),
            tuple(self._by_shapes),
            why,
            source.devices or bundle.devices,
            bundle_hash(bundle),
            tuple(seconds for _, seconds in found.values()),
        )

    def run(self, batch: RowBatch) -> Reply:
        """Run a batch. Errors caused by the batch's values are returned in the reply, not raised."""
        with self._lock:
            start, fell = time.perf_counter(), _fallbacks()
            try:
                outputs, events, zero = self._run(batch)
            except GraphRuntimeError as error:
                return Reply({}, str(error), isinstance(error, KernelError), time.perf_counter() - start)
            seconds, fallbacks = time.perf_counter() - start, _fallbacks() - fell
            return Reply(outputs, "", False, seconds, fallbacks, events, zero)

    def _run(self, batch: RowBatch) -> tuple[dict[str, np.ndarray], list[dict[str, Any]], int]:
        program, inputs = self._inputs(batch)
        if batch.traced and program.traced is not None:
            found, events, zero = program.traced(inputs)
        else:
            found, events, zero = program.run(inputs), [], 0
        rows = slice(batch.filled or None)
        outputs = zip(self.served.outputs, found, strict=True)
        return {port.name: x[rows] if rows.stop else x for port, x in outputs}, events, zero

    def _inputs(self, batch: RowBatch) -> tuple[RowProgram, Mapping[str, np.ndarray]]:
        if batch.size:
            program = self._by_rows[batch.size]
            return program, stack(batch.requests, batch.size, program.memory)
        (inputs,) = batch.requests
        shapes = tuple(inputs[port.name].shape for port in self.served.inputs)
        return self._by_shapes[shapes], inputs


def _fallbacks() -> int:
    return sum(journal.totals()[0].values())


def _by_row(port: Port) -> Port:
    """The port, with an open size in place of the number of rows."""
    return Port(port.name, port.dtype, (OPEN, *port.shape[1:]))


# **************** programs of a bundle ****************


def _of_programs(bundle: Bundle, source: ServedSource) -> tuple[list[Port], list[Port], list[RowProgram]]:
    """(inputs, outputs, programs) of a bundle whose programs differ only in sizes."""
    entries = bundle.programs if source.program is None else (bundle.program(source.program),)
    words: dict[str, Any] = {"threads": source.threads, "unset_inputs": "refuse"}
    opened = [open_program(bundle, entry, source.devices, **words) for entry in entries]
    ports = [_ports(module, entry) for module, entry in zip(opened, entries, strict=True)]
    for entry, own in zip(entries, ports, strict=True):
        if list(map(_signature, own)) != list(map(_signature, ports[0])):
            first = entries[0].name
            raise DocumentError(
                f"{source.path}: program {entry.name!r} has other inputs than {first!r}, so it is another "
                f"model: name each by its program, as PATH#{first} and PATH#{entry.name}",
                got=entry.name,
            )
    programs = [_program(module, inputs) for (inputs, _), module in zip(ports, opened, strict=True)]
    return _merged([own[0] for own in ports]), _merged([own[1] for own in ports]), programs


def _ports(module: GraphModule, entry: BundleProgram) -> tuple[list[Port], list[Port]]:
    shapes, kinds = module.get_input_info()
    made_shapes, made_kinds = module.get_output_info()
    return (
        [Port(name, kinds[name], shapes[name]) for name in entry.inputs],
        [Port(name, made_kinds[name], made_shapes[name]) for name in entry.outputs],
    )


def _signature(ports: Sequence[Port]) -> list[tuple[str, str, int]]:
    return [(port.name, port.dtype, len(port.shape)) for port in ports]


def _merged(ports: Sequence[Sequence[Port]]) -> list[Port]:
    """The ports of all programs as one list; sizes that differ between programs are open."""
    found = []
    for same in zip(*ports, strict=True):
        sizes = [set(size) for size in zip(*(port.shape for port in same), strict=True)]
        shape = tuple(size.pop() if len(size) == 1 else OPEN for size in sizes)
        found.append(Port(same[0].name, same[0].dtype, shape))
    return found


def _program(module: GraphModule, inputs: Sequence[Port]) -> RowProgram:
    """A program whose inputs are read in place, so that rows of requests are copied once."""
    memory: dict[str, np.ndarray] = {}
    for port in inputs:
        array = aligned_empty(port.shape, port.dtype)
        with contextlib.suppress(InputError):  # the input is not in host memory, or is also an output
            module.set_input_zero_copy(port.name, array)
            memory[port.name] = array
    count = module.get_num_outputs()

    def write(given: Mapping[str, np.ndarray]) -> None:
        for name, array in given.items():
            if name not in memory:
                module.set_input(name, array)
            elif array is not memory[name]:
                np.copyto(memory[name], array, casting="no")

    def read() -> list[np.ndarray]:
        return [module.get_output(at).numpy() for at in range(count)]

    def run(given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        write(given)
        module.run()
        return read()

    def traced(given: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], list[dict[str, Any]], int]:
        from ..views.measured import queued_run_at  # imported here because few servers write traces
        from ..views.trace import trace_events

        write(given)
        timeline, zero = queued_run_at(module.session)
        return read(), trace_events(timeline), zero

    return RowProgram(tuple(port.shape for port in inputs), run, memory, traced)


def _of_flow(source: ServedSource) -> tuple[list[Port], list[Port], list[RowProgram]]:
    """(inputs, outputs, programs) of a bundle with a flow; one program for each of the sizes that the bundle
    was compiled for."""
    made = load(source.path, source.devices, threads=source.threads, libraries=source.libraries)
    module = cast("Any", made)  # a FlowModule has all that is used here except a session
    for info in (*module.inputs, *module.outputs):
        if info.sequence or info.optional:
            raise InputError(f"{source.path}: {info.name!r} is {info}, which cannot be served", got=str(info))
    count = module.get_num_outputs()

    def run(given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        module.run(**given)
        return [module.get_output(at).numpy() for at in range(count)]

    shapes: list[Shapes] = [tuple(kind[0] for kind in kinds) for kinds in module.flow.steps]
    kinds = [(info.name, info.dtype) for info in module.inputs]
    inputs = _merged([[Port(*kind, shape) for kind, shape in zip(kinds, one, strict=True)] for one in shapes])
    outputs = [
        Port(info.name, info.dtype, tuple(n if isinstance(n, int) else OPEN for n in info.shape or ()))
        for info in module.outputs
    ]
    return inputs, outputs, [RowProgram(one, run) for one in shapes]
