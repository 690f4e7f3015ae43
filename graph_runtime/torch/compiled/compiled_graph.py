"""A lowered graph as a program that is submitted: weights and activations are handles; a call waits only for
results that torch wants on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...base.errors import InputError
from ...base.files.writing import write_whole
from ...base.machine.devices import Device, cpu
from ...base.machine.layout import HOST
from ...ir.model import Model
from ...plan import plan
from ...plan.types import Plan
from ...rewrite import fuse, simplify
from ...rewrite.buckets import Bucket
from ...run.tensors import journal
from ...run.tensors.arrays import borrow
from ...run.tensors.spec import TensorSpec, spec_of
from ...run.tensors.tensor import Tensor
from ...simulation.simulation import simulate
from ...views.trace import trace_json
from .. import clock, content
from ..counters import Unsupported, count, note_host
from ..host import to_device
from ..kinds import array_of, kind_of, tensor_of, torch_dtype, values_of
from ..rules.operands import name_of
from ..store import Store, collect, devices, form_of, number_of, store_of, whole, wrap
from ..submitter import HandleSubmitter
from ..wide import narrowed, widened
from .backend_options import BackendOptions
from .emitter import Lowered, Output
from .fitting import Fit

_ALIGNMENT = 64  # alignment of host memory that kernels read in place


class CompiledGraph:
    """A lowered graph with its program. A call ``program(args)`` returns the graph's results as torch
    tensors, in torch's order. ``notes``: the rewrites of its nodes.

    Arguments on a device are read in place. If the program needs another layout, a copy is made once and kept
    with the storage until the storage is written. A program of a ``bucket`` is called with a Fit for the
    sizes of the arguments. Raises what planning and running raise; a call raises Unsupported if an integer of
    a CPU argument does not fit 32 bits.
    """

    name: str
    outputs: list[Output]
    on_cpu: dict[tuple[str, str, str], int]

    def __init__(self, lowered: Lowered, options: BackendOptions, name: str, bucket: Bucket | None = None):
        self.outputs, self.hoisted, self.name = lowered.outputs, lowered.hoisted, name
        self.on_cpu = dict(lowered.on_cpu)
        used = [d for d in (*devices(), cpu(0)) if str(d) in lowered.used]
        model = _rewritten(Model.from_builder(lowered.builder) if bucket is None else bucket.model, used)
        graph, self.notes = model.graph, model.notes
        self.plan: Plan | None = None
        self._in_cpp: Any = None
        self._inputs: list[tuple[int, str, TensorSpec]] = []
        self._random: list[tuple[str, Callable[[], torch.Tensor]]] = []
        self._said: list[str] = []
        if not graph.num_nodes or not len(graph.outputs):
            return
        self.plan = planned = plan(
            graph, used, formats=_present(options.formats, used), numerics=_present(options.arithmetic, used)
        )
        numbers = {key: i for i, key in enumerate(graph.input_names)}
        for argument, key in lowered.inputs:
            if key in numbers:
                eid = int(graph.input_eids[numbers[key]])
                device = planned.devices[int(planned.entry_did()[eid])]
                spec = spec_of(device, graph.entry_type(eid), planned.layout(eid))
                self._inputs.append((argument, key, spec))
        self._random = [(key, make) for key, make in lowered.hoisted if key in numbers]
        said = () if bucket is None else (*bucket.masks, *bucket.places)
        self._said = [key for key in said if key in numbers]
        constants = {numbers[key]: constant.read() for key, constant in model.constants.items()}
        names = (*(key for _, key, _ in self._inputs), *(key for key, _ in self._random), *self._said)
        given = [numbers[key] for key in names]
        self._submitter = HandleSubmitter(planned, f"torch {name}", constants, given)
        self._in_cpp = self._of_cpp()
        if options.trace is not None:
            write_whole(
                options.trace / f"{name}.json",
                trace_json(simulate(planned), notes=[note.text for note in self.notes]),
                parents=True,
            )

    def __call__(self, args: Sequence[Any], fit: Fit | None = None) -> list[Any]:
        if fit is None and self._in_cpp is not None:
            results = self._in_cpp(args)
            if results is not None:
                return [
                    results[output.number] if output.number is not None else self._result(output, (), args)
                    for output in self.outputs
                ]
        made: Sequence[Tensor] = ()
        collect()
        if self.plan is not None:
            for op, where, reason in self.on_cpu:
                journal.refuse(op, where, (), f"{reason} (in {self.name})")
            values = [
                self._value(args[number], spec) if fit is None else self._fitted(fit, key, args[number], spec)
                for number, key, spec in self._inputs
            ]
            made = self._submitter.submit([*values, *self._made_here(fit)])
            for (op, where, reason), times in self.on_cpu.items():
                journal.record(op, where, (), f"{reason} (in {self.name})", times=times)
            count("programs")
            if clock.running.on:
                self._tick()
            for x, value in zip((args[number] for number, *_ in self._inputs), values, strict=True):
                if x.is_cpu and isinstance(value, Tensor):
                    memory: Any = value.buffer  # not None, because the tensor borrows x's memory
                    memory.wait(write=True)  # torch may write the memory as soon as this method returns
        outputs: Sequence[Output] = self.outputs
        if fit is not None:
            outputs, made = fit.outputs, [fit.cut(number, value) for number, value in enumerate(made)]
        return [self._result(output, made, args) for output in outputs]

    def _of_cpp(self) -> Any:
        """A C++ function that submits arguments unchanged and makes torch tensors of the outputs; None if the
        program needs conversions or other work in Python."""
        made = {output.number: output for output in self.outputs if output.number is not None}
        if self.on_cpu or self._random or self._said or len(made) != len(self._submitter.slots_of_outputs):
            return None
        outputs = [made[number] for number in sorted(made)]
        if any(output.device.type == "cpu" or kind_of(output.dtype).raw for output in outputs):
            return None
        assert self.plan is not None
        types = [self.plan.graph.entry_type(int(eid)) for eid in self.plan.graph.outputs]
        forms = [form_of(output.dtype, type_.shape) for output, type_ in zip(outputs, types, strict=True)]

        def adopt(run: Any, pointers: Sequence[Any]) -> list[Store]:
            values = self._submitter.adopt(run, pointers)
            count("programs")
            if clock.running.on:
                self._tick()
            return [
                Store(value.device, number_of(value.device), form.nbytes, value, form.dtype)
                for value, form in zip(values, forms, strict=True)
            ]

        given = [(argument, torch_dtype(spec.type.dtype)) for argument, _, spec in self._inputs]
        return self._submitter.in_cpp(given, forms, adopt)

    def _tick(self) -> None:
        """Advance the device's clock by the program's time."""
        assert self.plan is not None
        for device in self.plan.devices:
            if device in devices():
                clock.submitted(number_of(device), self.name, self.plan)
                return

    # **************** arguments ****************

    def _value(self, x: torch.Tensor, spec: TensorSpec) -> Any:
        if x.is_cpu:
            return _on_host(x, spec.device)
        store = whole(x)
        base = None if store is None else store.base
        if base is None:
            base = _image(x)
        return base if base.spec is spec else prepared(x, base, spec.layout, spec.device)

    def _fitted(self, fit: Fit, name: str, x: torch.Tensor, spec: TensorSpec) -> Any:
        """An argument, padded to the sizes of the bucket."""
        if not fit.pads(name):
            return self._value(x, spec)
        if x.is_cpu:
            return fit.padded(name, values_of(_fitting(x) if x.dtype == torch.int64 else x))
        return fit.padded(name, _image(x))

    def _made_here(self, fit: Fit | None) -> list[Any]:
        """Values of the hoisted inputs, and of the inputs that tell the real sizes to the program."""
        if fit is None:
            return [array_of(make()) for _, make in self._random]
        makers = dict(fit.random)
        random = [fit.padded(key, array_of(makers[key]())) for key, _ in self._random]
        return [*random, *(fit.said[key] for key in self._said)]

    # **************** results ****************

    def _result(self, output: Output, made: Sequence[Tensor], args: Sequence[Any]) -> Any:
        if output.number is None:
            return output.constant if output.argument is None else args[output.argument]
        values = made[output.number]
        if output.device.type == "cpu":
            array = values.numpy()
            if kind_of(_narrow(output.dtype)).raw:  # the device stores values, not words of another dtype
                return torch.from_numpy(array.reshape(values.type.shape))
            return tensor_of(array, _narrow(output.dtype), values.type.shape).to(output.dtype)
        index = output.device.index or 0
        if kind_of(output.dtype).raw and output.dtype != torch.int64:
            host = torch.from_numpy(values.numpy().reshape(values.type.shape))
            return to_device(host.to(output.dtype), index)
        if output.dtype == torch.int64:
            return wrap(widened(values), torch.int64, index, values.type.shape)
        return wrap(values, output.dtype, index)


def _rewritten(model: Model, used: Sequence[Device]) -> Model:
    """The model after pattern rewrites and fusion of elementwise operations; weights are inputs, not
    constants."""
    if not model.graph.num_nodes:
        return model
    nodes = int((model.graph.func_id >= 0).sum())
    made = fuse(simplify(model, used), used)
    count("fused", max(0, nodes - int((made.graph.func_id >= 0).sum())))
    return made


def _present(options: Any, used: Sequence[Device]) -> Any:
    """The options that concern the devices and kinds that a program uses."""
    names = {str(d) for d in used} | {d.kind for d in used}
    return {key: value for key, value in options.items() if key in names} or None


def _narrow(dtype: torch.dtype) -> torch.dtype:
    return torch.int32 if dtype == torch.int64 else dtype


def _on_host(x: torch.Tensor, device: Device) -> Any:
    """A CPU tensor as an input: its memory is borrowed if kernels can read it in place, else the values are
    copied."""
    if x.dtype == torch.int64:
        x = _fitting(x)
    array = values_of(x)
    if device.descriptor.on_host and array.ctypes.data % _ALIGNMENT == 0 and array.size:
        return borrow(array)
    return array


def _fitting(x: torch.Tensor) -> torch.Tensor:
    """64-bit integers as 32-bit integers. Raises Unsupported if an integer does not fit."""
    narrow = x.to(torch.int32)
    if not torch.equal(narrow.to(torch.int64), x):
        text = f"an argument has the number {int(x[narrow != x].flatten()[0])}, which does not fit 32 bits"
        raise Unsupported(text)
    return narrow


def _image(x: torch.Tensor) -> Tensor:
    try:
        return narrowed(x) if x.dtype == torch.int64 else content.image(x)
    except Unsupported as refused:
        store, key = store_of(x), ("host", x.dtype, x.shape, x.stride(), x.storage_offset())
        found = store.images.get(key)
        if found is None:
            count("prepared")
            if kind_of(x.dtype).raw:
                raise InputError(
                    f"a compiled graph got {x.dtype}: {refused.args[0]}", got=name_of(x.dtype)
                ) from refused
            note_host("aten::clone", x, refused.args[0])
            found = store.keep(key, content.upload(content.fetch(x), store))
        return found


def prepared(x: torch.Tensor, base: Tensor, layout: Any, device: Device) -> Tensor:
    """The values of a tensor in the layout that a program needs. They are converted once and kept with the
    storage."""
    store = store_of(x)
    key = (layout, device, x.dtype, x.shape, x.stride(), x.storage_offset())
    found = store.images.get(key)
    if found is None:
        count("prepared")
        found = store.keep(key, base.to(device, None if layout.memory == HOST else layout))
    return found
