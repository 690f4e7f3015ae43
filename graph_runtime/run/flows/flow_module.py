"""FlowModule: GraphModule's methods over a flow, for models whose sizes are known only at a run."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ...artifacts.bundles.flow_text import flow_text
from ...artifacts.door import Waiting, begun_at
from ...base.errors import DocumentError, GraphRuntimeError, InputError, SessionBusyError, did_you_mean
from ...base.options import Options
from ...base.progress import Tell, silent
from ...frontends.onnx.dynamic import PortInfo, open_dynamic
from ...frontends.onnx.elements import elements_of, numpy_dtype
from ...frontends.onnx.importer import Importer
from ...frontends.onnx.stages import first_nodes
from ...frontends.stablehlo.op_stages import BegunText, check, first_ops, ports
from ...frontends.stablehlo.source import Source
from ...ir.graph import TensorType
from ...ir.model import Model
from ...rewrite.buckets import Buckets
from ..module import GraphModule
from ..queues.run import Run
from ..tensors.tensor import Tensor
from .bucketed_runs import BucketedRuns
from .element_array import ElementArray, tensor_of
from .flow import Flow, UnmetError
from .flow_values import FlowValue, array_of, fitting, kind_of, type_of
from .origins import OnnxOrigin, StableHloOrigin
from .saving import flow_document, save_flow
from .specializations import Make, Specialization, Specializations


def open_flow(waiting: Waiting, make: Make, options: Options) -> FlowModule:
    """The module of a model whose sizes or values are known only at a run. ``options``: options whose
    ``dims`` and ``values`` fix some sizes and inputs of the file; ``make``: function that makes a
    specialization. Raises the errors of the front-end's load_model, except those that only a run can find."""
    specializations = Specializations(make, options, waiting.name, options.programs)
    begun = begun_at(waiting, options)
    if isinstance(begun, BegunText):
        return _open_stablehlo(begun.text, specializations, options)
    file = open_dynamic(begun.file, options.dims, options.values)
    nodes = first_nodes(file.file.file.proto.graph)
    names = tuple(info.name for info in file.outputs)
    flow = Flow(OnnxOrigin(file.file), nodes, names, file.known, specializations, options.most_steps)
    module = FlowModule(file.inputs, file.outputs, flow, file.check, options, file.buckets)
    if begun.importer is not None:
        module.begin(begun.importer)
    return module


def _open_stablehlo(source: Source, specializations: Specializations, options: Options) -> FlowModule:
    inputs, outputs = ports(source)
    names = tuple(info.name for info in outputs)
    flow = Flow(StableHloOrigin(source), first_ops(source), names, {}, specializations, options.most_steps)
    return FlowModule(inputs, outputs, flow, partial(check, source), options)


class FlowModule:
    """An ONNX model that runs at any sizes of its inputs.

    New sizes cost an import and a plan. ``programs`` holds the specializations and counts those made and
    dropped, ``describe()`` shows the flow, ``save()`` writes it as a bundle. ``inputs`` and ``outputs`` are
    as the file declares them. The class has GraphModule's methods, except those that need sizes. One thread
    at a time may use a module.

    ``check``: function that returns the dimensions that have several sizes, and raises InputError for sizes
    that the file forbids. ``options``: the options of the module. ``more``: function that opens the model of
    a bundle, for sizes that the bundle's programs do not serve."""

    def __init__(
        self,
        inputs: Sequence[PortInfo],
        outputs: Sequence[PortInfo],
        flow: Flow,
        check: Callable[[Mapping[str, TensorType]], str | None],
        options: Options,
        buckets: Mapping[str, Sequence[int]] | None = None,
        more: Callable[[], FlowModule] | None = None,
    ):
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.flow, self.programs, self._check, self._options = flow, flow.specializations, check, options
        self._more = more
        self._opened: FlowModule | None = None
        self._unmet: set[Any] = set()  # kinds of inputs that the bundle's programs do not serve
        self._choices = buckets
        self._bucketed = BucketedRuns(flow, inputs, buckets) if buckets else None
        self._index = {info.name: i for i, info in enumerate(inputs)}
        self._dtypes = tuple(numpy_dtype(i.dtype) if i.dtype else None for i in inputs)
        self._values: dict[str, FlowValue] = {}
        self._outputs: list[FlowValue] | None = None
        self._checked: dict[Any, str] = {}  # {kinds of inputs: the dimensions that have several sizes}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{info.name} {info}" for info in self.inputs)
        return f"<FlowModule of {inputs}: {len(self.programs)} specializations>"

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse the names that GraphModule has but a flow, which has no single program, cannot have."""
        text = f"a FlowModule has no {name!r}"
        if name == "session" or hasattr(GraphModule, name):
            text += ": it is specialized for each size; module.programs.modules() has those of runs so far"
        raise AttributeError(text)

    def sibling(self) -> FlowModule:
        """A module of the same model for another thread; both share one copy of the constants. Raises
        InputError for a module of a bundle."""
        if self.flow.origin is None:
            raise InputError("this module is of a bundle: open the bundle once more for another thread")
        return FlowModule(
            self.inputs, self.outputs, self.flow.sibling(), self._check, self._options, self._choices
        )

    # **************** running ****************

    def run(self, **inputs: Any) -> None:
        """Set the inputs given by name, then run. Raises InputError, GraphError and UnsupportedOpError for a
        graph that cannot be converted at these sizes, KernelError, SessionBusyError; after each of these
        errors the module can run again."""
        if inputs:
            self.set_input(**inputs)
        self._enter()
        try:
            self._outputs = self._run()
        finally:
            self._lock.release()
        if self.programs.unmatched:  # globs for a later specialization, or misspelt globs
            names, self.programs.unmatched = ", ".join(sorted(self.programs.unmatched)), set()
            warnings.warn(f"no node of the specializations so far is named by {names}", stacklevel=2)

    def _enter(self) -> None:
        """Lock out other threads until the lock is released. Raises SessionBusyError."""
        if not self._lock.acquire(blocking=False):
            text = "another thread runs this module: one at a time, or create(..., concurrent=N)"
            raise SessionBusyError(text)

    def _key(self, values: Mapping[str, FlowValue]) -> Any:
        """The kinds of the inputs, as a key. Raises InputError if an input is missing or has a wrong size."""
        if len(values) < len(self.inputs):
            missing = [info.name for info in self.inputs if info.name not in values]
            raise InputError(f"inputs without a value: {', '.join(missing)}", wanted=missing)
        key = tuple([kind_of(values[name]) for name in self._index])
        if key not in self._checked:
            kinds = {name: type_of(value) for name, value in values.items()}
            plain = {name: kind for name, kind in kinds.items() if isinstance(kind, TensorType)}
            self._checked[key] = self._check(plain) or ""
        return key

    def _run(self) -> list[FlowValue]:
        own = self._values
        key = self._key(own)
        values = {name: own[name] for name in self._index}
        if self._bucketed is not None and (found := self._bucketed.run(values, key)) is not None:
            return found
        if self._unmet and key in self._unmet:
            return self._run_model(own)
        try:
            return self.flow.run(values, key)
        except UnmetError:
            if self._more is None:
                raise
            self._unmet.add(key)
            return self._run_model(own)
        except GraphRuntimeError as error:
            if several := self._checked[key]:
                raise InputError(f"{several}: {error}", **error.fields) from error
            raise
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            if self.flow.origin is not None:  # not a bundle's flow: the error is a bug of this package
                raise
            text = f"the flow of the bundle does not fit its programs: {type(error).__name__}: {error}"
            raise DocumentError(text) from error

    def _run_model(self, values: Mapping[str, FlowValue]) -> list[FlowValue]:
        """Run the model in the bundle instead of the bundle's programs."""
        model = self._model()
        model._values = dict(values)
        return model._run()

    def _model(self) -> FlowModule:
        """The module of the model in the bundle, opened when it is first needed."""
        assert self._more is not None, "a bundle without its model serves what it has met"
        if self._opened is None:
            self._opened = self._more()
        return self._opened

    @property
    def modules(self) -> tuple[FlowModule, ...]:
        """This module; for a bundle also the module of its model, if a run has needed that."""
        return (self,) if self._opened is None else (self, self._opened)

    @property
    def buckets(self) -> Buckets | None:
        """The buckets, which also record which of them served runs, and why the others did not. None if
        ``dims`` gives no buckets."""
        return None if self._bucketed is None else self._bucketed.buckets

    def stats(self) -> dict[str, Any]:
        """Counters: ``programs`` (specializations) kept, ``made`` and ``dropped``; ``hits`` (number of stages
        whose specialization was still kept). With buckets also ``bucket_runs`` and ``exact_runs`` (number of
        runs with and without a bucket), ``padded`` (number of elements added to inputs), and ``reasons``
        {sizes: why no bucket serves them}."""
        several = [module.programs for module in self.modules]
        found: dict[str, Any] = {
            "programs": sum(map(len, several)),
            "made": sum(each.made for each in several),
            "dropped": sum(each.dropped for each in several),
            "hits": sum(each.hits for each in several),
        }
        if (buckets := self.modules[-1].buckets) is not None:
            found |= {"bucket_runs": buckets.runs, "exact_runs": buckets.exact, "padded": buckets.padded}
            found["reasons"] = dict(buckets.reasons)
        return found

    def prepare(self) -> None:
        """Make the first specialization now, for inputs whose sizes are all known. The first run is then
        faster, and a graph that cannot be converted is refused here. Raises the errors of run."""
        self.flow.prepare(self._stubs({}))

    def begin(self, importer: Importer) -> None:
        """Use the nodes that an importer has converted for the first specialization. Raises the errors of
        run."""
        self.flow.begin(importer, self._stubs({}))

    def first_model(self, dims: Mapping[str, Any]) -> Model | None:
        """The model of the first specialization for these sizes of open dimensions; None if runs begin with a
        loop, or if an input is no tensor. Raises the errors of run."""
        if any(info.sequence or info.optional for info in self.inputs):
            return None
        return self.flow.first(self._stubs(dims)).stage.model

    def _stubs(self, dims: Mapping[str, Any]) -> dict[str, FlowValue]:
        """Placeholder values of the inputs, with the sizes that are known."""
        stubs: dict[str, FlowValue] = {}
        for info in self.inputs:
            shape = dims.get(info.name, ()) if info.shape is None else info.shape
            sizes = [dims.get(size, size) if isinstance(size, str) else size for size in shape]
            stubs[info.name] = elements_of(info.dtype, [size for size in sizes if isinstance(size, int)])
        return stubs

    @property
    def proto(self) -> Any:
        """The ModelProto without the values of its initialisers. Raises InputError for a closed bundle."""
        if self.flow.origin is None:
            if self._more is None:
                raise InputError("this bundle has not the model that it was made of")
            return self._model().proto
        return self.flow.origin.proto

    def run_async(
        self, out: Mapping[str | int, Tensor] | Sequence[Tensor | None] | None = None, **inputs: Any
    ) -> Run:
        """Queue a run with these inputs, as GraphModule.run_async does. The model must be one specialization
        at the inputs' sizes; buckets are not used. Raises InputError for a model that finds sizes or values
        while it runs, because the next step of its run is known only after the step before."""
        values = {**self._values, **self._fitted(inputs)}
        self._enter()
        try:
            specialization = self._specialization(values, self._key(values))
        finally:
            self._lock.release()
        graph = specialization.session.graph
        given = {graph.input_names[at]: values[graph.input_names[at]] for at in specialization.inputs}
        return specialization.module.run_async(out, **given)

    def _specialization(self, values: Mapping[str, FlowValue], key: Any) -> Specialization:
        """The only specialization of a run at these sizes. Raises InputError if a run takes several steps."""
        try:
            step = self.flow.first({name: values[name] for name in self._index})
        except UnmetError:
            if self._more is None:
                raise
            return self._model()._specialization(values, key)
        model = step.stage.model
        plain = step.last and not step.stage.has_elements and not step.stage.bounds
        whole = step.stage.makes.items() >= {(info.name, info.name) for info in self.outputs}
        if not (plain and whole and model) or any(read.index is not None for read in step.stage.reads):
            raise InputError(
                "this model finds sizes or values while it runs, so its runs cannot be queued: call run(), "
                "or bind all of them (dims, values)"
            )
        return self.programs.of(model)

    # **************** inputs and outputs ****************

    def get_num_inputs(self) -> int:
        """Number of inputs that are not constants."""
        return len(self.inputs)

    def get_num_outputs(self) -> int:
        return len(self.outputs)

    def get_input_index(self, name: str) -> int:
        """The index of an input, -1 for an unknown name."""
        return self._index.get(name, -1)

    def get_input_info(self) -> tuple[dict[str, tuple[int | str, ...] | None], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the inputs; an open size is given by its name."""
        return _info(self.inputs)

    def get_output_info(self) -> tuple[dict[str, tuple[int | str, ...] | None], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the outputs."""
        return _info(self.outputs)

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Set inputs to values that stay the caller's and that the run reads. A value's dtype must be the
        input's or cast to it as "same_kind", and the input's dtype must hold each element. Raises InputError,
        before any input is set, for a value that does not fit."""
        if key is not None:
            params = {self._name(key): value, **params}
        self._values |= self._fitted(params)

    def _fitted(self, params: Mapping[str, Any]) -> dict[str, FlowValue]:
        at = {name: self._at(name) for name in params}
        return {name: fitting(self.inputs[i], self._dtypes[i], params[name]) for name, i in at.items()}

    def get_output(self, index: str | int, out: Any = None) -> Any:
        """An output of the last run, which the next run overwrites: a tensor, a list of tensors for a
        sequence, or an ElementArray for strings and elements of few bits, which tensors cannot hold. With
        ``out`` (an array) the output is copied there. Raises InputError."""
        names = [info.name for info in self.outputs]
        if isinstance(index, str):
            if index not in names:
                raise InputError(f"there is no output {index!r}{did_you_mean(index, names)}", got=index)
            index = names.index(index)
        if self._outputs is None:
            raise InputError("there are no outputs before a run")
        if not 0 <= index < len(names):
            raise InputError(f"output {index} is out of range: there are {len(names)}", got=index)
        found = self._outputs[index]
        if found is None:
            return None
        if out is None:
            return [_tensor(each) for each in found] if isinstance(found, list) else _tensor(found)
        np.copyto(out, array_of(found))
        return out

    def _name(self, key: str | int) -> str:
        if isinstance(key, str):
            return key
        if not 0 <= key < len(self.inputs):
            raise InputError(f"input {key} is out of range: there are {len(self.inputs)}", got=key)
        return self.inputs[key].name

    def _at(self, name: str) -> int:
        if name not in self._index:
            raise InputError(f"there is no input {name!r}{did_you_mean(name, self._index)}", got=name)
        return self._index[name]

    # **************** information ****************

    def describe(self) -> str:
        """The flow as far as runs have found it: steps, the sizes and values that lead to each step, and the
        step's specialization and loops."""
        texts = [flow_text(flow_document(m.flow, m.inputs, m.outputs)[0]) for m in self.modules]
        return "\nby the model itself:\n".join(texts)

    def save(
        self,
        path: str | os.PathLike[str],
        devices: Any = ("cpu:0",),
        options: Options | None = None,
        *,
        closed: bool = False,
        tell: Tell = silent,
    ) -> Path:
        """Write a bundle: the specializations for sizes, values and branches that occurred in runs, and the
        model, from which a session makes specializations for other sizes, values and branches. ``closed``:
        whether to leave the model out, so that the bundle refuses other sizes. Raises InputError for a closed
        bundle before a run and for a module of a bundle, and the errors of gr.build_bundle."""
        if self.flow.origin is None:
            raise InputError("this module is of a bundle: copy that")
        ports = self.inputs, self.outputs
        return save_flow(self.flow, ports, path, devices, options or self._options, tell, closed)


def _info(ports: tuple[PortInfo, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    return {p.name: p.shape for p in ports}, {p.name: p.dtype for p in ports}


def _tensor(value: FlowValue) -> Tensor | ElementArray:
    return value if isinstance(value, Tensor) else tensor_of(value)
