"""FlowModule: GraphModule's names over a flow, for models whose sizes a run brings."""

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
from ...artifacts.door import begun_at
from ...artifacts.plannable import Waiting
from ...base.errors import DocumentError, GraphRuntimeError, InputError, SessionBusyError, did_you_mean
from ...base.options import Options
from ...base.progress import Tell, silent
from ...frontends.onnx.dynamic import PortInfo, open_dynamic
from ...frontends.onnx.elements import elements_of, numpy_dtype
from ...frontends.onnx.importer import Importer
from ...frontends.onnx.stages import first_nodes
from ...frontends.stablehlo.begun_text import BegunText
from ...frontends.stablehlo.op_stages import check, first_ops, ports
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
from .flow_values import Value, array_of, kind_of, type_of
from .given import fitting
from .origins import OnnxOrigin, StableHloOrigin
from .programs import Make, Programs, SizedProgram
from .saving import flow_document, save_flow

__all__ = ["FlowModule", "open_flow"]


def open_flow(waiting: Waiting, make: Make, options: Options) -> FlowModule:
    """A module of a model that its runs complete. ``options``: dims and values bind some of the file's;
    ``make``: what makes a program. Raises as the front-end's load_model, but for what runs find."""
    programs = Programs(make, options, waiting.name, options.programs)
    begun = begun_at(waiting, options)
    if isinstance(begun, BegunText):
        return _open_stablehlo(begun.text, programs, options)
    file = open_dynamic(begun.file, options.dims, options.values)
    nodes = first_nodes(file.file.file.proto.graph)
    names = tuple(info.name for info in file.outputs)
    flow = Flow(OnnxOrigin(file.file), nodes, names, file.known, programs, options.most_steps)
    module = FlowModule(file.inputs, file.outputs, flow, file.check, options, file.buckets)
    if begun.importer is not None:
        module.begin(begun.importer)
    return module


def _open_stablehlo(source: Source, programs: Programs, options: Options) -> FlowModule:
    inputs, outputs = ports(source)
    names = tuple(info.name for info in outputs)
    flow = Flow(StableHloOrigin(source), first_ops(source), names, {}, programs, options.most_steps)
    return FlowModule(inputs, outputs, flow, partial(check, source), options)


class FlowModule:
    """An ONNX model that is run at whatever sizes its inputs have.

    Sizes that are met for the first time cost an import and a plan; ``programs`` counts what was made and
    dropped, ``describe()`` shows the flow, ``save()`` writes it as a bundle. ``inputs`` and ``outputs`` say
    what the file says of them. The methods are GraphModule's, where a model without sizes can have them. One
    thread at a time.

    ``check``: raises InputError for sizes that the file does not allow, and says which dimensions have
    several sizes. ``options``: those that it was made with. ``more`` opens the model of a bundle, which
    serves what the bundle's programs do not.
    """

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
        self.flow, self.programs, self._check, self._options = flow, flow.programs, check, options
        self._more = more
        self._opened: FlowModule | None = None
        self._unmet: set[Any] = set()  # kinds of inputs for which the bundle's programs do not serve
        self._choices = buckets
        self._bucketed = BucketedRuns(flow, inputs, buckets) if buckets else None
        self._index = {info.name: i for i, info in enumerate(inputs)}
        self._dtypes = tuple(numpy_dtype(i.dtype) if i.dtype else None for i in inputs)
        self._values: dict[str, Value] = {}
        self._outputs: list[Value] | None = None
        self._checked: dict[Any, str] = {}  # kinds of inputs, and which dimensions have several sizes there
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{info.name} {info}" for info in self.inputs)
        return f"<FlowModule of {inputs}: {len(self.programs)} programs>"

    def __getattr__(self, name: str) -> NoReturn:
        """What a GraphModule has and a flow cannot: it has no one program."""
        text = f"a FlowModule has no {name!r}"
        if name == "session" or hasattr(GraphModule, name):
            text += ": it has a program for each size, module.programs.modules() are those of the runs so far"
        raise AttributeError(text)

    def sibling(self) -> FlowModule:
        """A module of the same model, to be run by another thread; constants are in memory once for both.
        Raises InputError for one of a bundle."""
        if self.flow.origin is None:
            raise InputError("this module is of a bundle: open the bundle once more for another thread")
        return FlowModule(
            self.inputs, self.outputs, self.flow.sibling(), self._check, self._options, self._choices
        )

    # **************** running ****************

    def run(self, **inputs: Any) -> None:
        """Set the inputs given by name, then run. Raises InputError, GraphError and UnsupportedOpError for
        what cannot be converted at these sizes, KernelError, SessionBusyError; after each the module can be
        run again."""
        if inputs:
            self.set_input(**inputs)
        self._enter()
        try:
            self._outputs = self._run()
        finally:
            self._lock.release()
        if self.programs.unmatched:
            self._warn_of_globs()

    def _warn_of_globs(self) -> None:
        """Once: a pin may be meant for a program that no run has needed yet, or be misspelt."""
        names, self.programs.unmatched = sorted(self.programs.unmatched), set()
        warnings.warn(f"no node of the programs so far is named by {', '.join(names)}", stacklevel=3)

    def _enter(self) -> None:
        """Keeps other threads out until the lock is released."""
        if not self._lock.acquire(blocking=False):
            raise SessionBusyError(
                "another thread runs this module: one at a time, or create(..., concurrent=N)"
            )

    def _key(self, values: Mapping[str, Value]) -> Any:
        """Of what kind the inputs are. Raises InputError where one is missing or has other sizes."""
        if len(values) < len(self.inputs):
            missing = [info.name for info in self.inputs if info.name not in values]
            raise InputError(f"inputs without a value: {', '.join(missing)}", wanted=missing)
        key = tuple([kind_of(values[name]) for name in self._index])
        if key not in self._checked:
            kinds = {name: type_of(value) for name, value in values.items()}
            plain = {name: kind for name, kind in kinds.items() if isinstance(kind, TensorType)}
            self._checked[key] = self._check(plain) or ""
        return key

    def _run(self) -> list[Value]:
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
            if self.flow.origin is not None:  # a mistake of this package's
                raise
            text = f"the flow of the bundle does not fit its programs: {type(error).__name__}: {error}"
            raise DocumentError(text) from error

    def _run_model(self, values: Mapping[str, Value]) -> list[Value]:
        """A run by the model of the bundle."""
        model = self._model()
        model._values = dict(values)
        return model._run()

    def _model(self) -> FlowModule:
        """The module of the model that is in the bundle."""
        assert self._more is not None, "a bundle without its model serves what it has met"
        if self._opened is None:
            self._opened = self._more()
        return self._opened

    @property
    def modules(self) -> tuple[FlowModule, ...]:
        """This module; of a bundle, too, that of its model, once that was needed."""
        return (self,) if self._opened is None else (self, self._opened)

    @property
    def buckets(self) -> Buckets | None:
        """Which buckets served runs and why others did not, where ``dims`` gives buckets."""
        return None if self._bucketed is None else self._bucketed.buckets

    def stats(self) -> dict[str, Any]:
        """What it did: ``programs`` kept, ``made`` and ``dropped``, ``hits`` (stages whose program was
        there); with buckets ``bucket_runs``, ``exact_runs``, ``padded`` elements of inputs, and ``reasons``
        {sizes: why no bucket serves them}."""
        several = [module.programs for module in self.modules]
        found: dict[str, Any] = {
            "programs": sum(map(len, several)),
            "made": sum(programs.made for programs in several),
            "dropped": sum(programs.dropped for programs in several),
            "hits": sum(programs.hits for programs in several),
        }
        if (buckets := self.modules[-1].buckets) is not None:
            found |= {"bucket_runs": buckets.runs, "exact_runs": buckets.exact, "padded": buckets.padded}
            found["reasons"] = dict(buckets.reasons)
        return found

    def prepare(self) -> None:
        """Make the first program of inputs whose sizes are all known now, so that the first run need not, and
        what cannot be converted is known before it. Raises as run."""
        self.flow.prepare(self._stubs({}))

    def begin(self, importer: Importer) -> None:
        """Take over what an importer has converted of the first program. Raises as run."""
        self.flow.begin(importer, self._stubs({}))

    def first_model(self, dims: Mapping[str, Any]) -> Model | None:
        """What its first program is made of where open dimensions have these sizes; None where the first
        thing that runs do is a loop, and for inputs that are no tensors. Raises as run."""
        if any(info.sequence or info.optional for info in self.inputs):
            return None
        return self.flow.first(self._stubs(dims)).stage.model

    def _stubs(self, dims: Mapping[str, Any]) -> dict[str, Value]:
        """Values that stand for the inputs, of the sizes that are known."""
        stubs: dict[str, Value] = {}
        for info in self.inputs:
            shape = dims.get(info.name, ()) if info.shape is None else info.shape
            sizes = [dims.get(size, size) if isinstance(size, str) else size for size in shape]
            stubs[info.name] = elements_of(info.dtype, [size for size in sizes if isinstance(size, int)])
        return stubs

    @property
    def proto(self) -> Any:
        """The ModelProto, without the values of its initialisers. Raises InputError for a closed bundle."""
        if self.flow.origin is None:
            if self._more is None:
                raise InputError("this bundle has not the model that it was made of")
            return self._model().proto
        return self.flow.origin.proto

    def run_async(
        self, out: Mapping[str | int, Tensor] | Sequence[Tensor | None] | None = None, **inputs: Any
    ) -> Run:
        """Queue a run with these inputs, as GraphModule.run_async, of a model that is one program at their
        sizes; buckets are not looked at. Raises InputError for one that finds sizes or values while it runs:
        what comes next is known when those are there."""
        values = {**self._values, **self._fitted(inputs)}
        self._enter()
        try:
            program = self._program(values, self._key(values))
        finally:
            self._lock.release()
        graph = program.session.graph
        given = {graph.input_names[at]: values[graph.input_names[at]] for at in program.inputs}
        return program.module.run_async(out, **given)

    def _program(self, values: Mapping[str, Value], key: Any) -> SizedProgram:
        """The one program of a run at these sizes. Raises InputError where there is more to it."""
        try:
            step = self.flow.first({name: values[name] for name in self._index})
        except UnmetError:
            if self._more is None:
                raise
            return self._model()._program(values, key)
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
        """Number of inputs that are no constants."""
        return len(self.inputs)

    def get_num_outputs(self) -> int:
        """Number of outputs."""
        return len(self.outputs)

    def get_input_index(self, name: str) -> int:
        """The index of an input, -1 for a name that there is not."""
        return self._index.get(name, -1)

    def get_input_info(self) -> tuple[dict[str, tuple[int | str, ...] | None], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the inputs; sizes that are open by their names."""
        return _info(self.inputs)

    def get_output_info(self) -> tuple[dict[str, tuple[int | str, ...] | None], dict[str, str]]:
        """As get_input_info, of the outputs."""
        return _info(self.outputs)

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Give inputs values, which stay the caller's: they are read when it runs. Dtypes must be equal or a
        same_kind cast apart, and hold each value. Raises InputError, before any is set, for what does not
        fit."""
        if key is not None:
            params = {self._name(key): value, **params}
        self._values |= self._fitted(params)

    def _fitted(self, params: Mapping[str, Any]) -> dict[str, Value]:
        at = {name: self._at(name) for name in params}
        return {name: fitting(self.inputs[i], self._dtypes[i], params[name]) for name, i in at.items()}

    def get_output(self, index: str | int, out: Any = None) -> Any:
        """A tensor, or a list of them for a sequence: the next run overwrites it; an ElementArray for texts
        and elements of few bits, of which there are no tensors. With ``out`` (an array) a
        copy of it, written there. Raises InputError."""
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

    # **************** what it is ****************

    def describe(self) -> str:
        """The flow as far as runs have found it out: steps by what leads to them, their programs, loops."""
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
        """Write a bundle: the programs of the sizes, values and branches that runs have met, and the model,
        of which the session that opens it makes those of others. ``closed``: without the model, so that there
        are no others. Raises InputError for a closed one before a run and for a module of a bundle, and as
        gr.build_bundle."""
        if self.flow.origin is None:
            raise InputError("this module is of a bundle: copy that")
        ports = self.inputs, self.outputs
        return save_flow(self.flow, ports, path, devices, options or self._options, tell, closed)


def _info(ports: tuple[PortInfo, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    return {p.name: p.shape for p in ports}, {p.name: p.dtype for p in ports}


def _tensor(value: Value) -> Tensor | ElementArray:
    return value if isinstance(value, Tensor) else tensor_of(value)
