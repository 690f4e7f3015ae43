"""FlowModule: GraphModule's names over a flow, for models whose sizes a run brings."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, GraphRuntimeError, InputError, SessionBusyError, did_you_mean
from ...base.options import Options
from ...base.progress import Tell, silent
from ...build.bundles.flow_text import flow_text
from ...frontends import is_stablehlo
from ...frontends.onnx.dynamic import PortInfo, open_dynamic
from ...frontends.onnx.elements import ELEMENTS, STRING, element_name, elements_of, numpy_dtype
from ...frontends.onnx.stages import first_nodes
from ...frontends.stablehlo.op_stages import check, first_ops, ports
from ...frontends.stablehlo.source import Source, read_source
from ...ir.graph import TensorType
from ...rewrite.buckets import Buckets
from ..module import GraphModule
from ..tensors.tensor import Tensor
from .bucketed_runs import BucketedRuns
from .element_array import ElementArray, tensor_of
from .flow import Flow
from .flow_values import Value, array_of, kind_of, type_of
from .origins import OnnxOrigin, StableHloOrigin
from .programs import Make, Programs
from .saving import flow_document, save_flow

__all__ = ["FlowModule", "open_flow"]


def open_flow(source: Any, make: Make, options: Options, name: str) -> FlowModule:
    """A module of an ONNX file, whatever its sizes, or of a StableHLO text. ``options``: dims and values bind
    some of the file's; ``make``: what makes a program. Raises as the front-end's load_model, but for what
    runs find."""
    programs = Programs(make, options, name, options.programs)
    if is_stablehlo(source):
        return _open_stablehlo(read_source(source), programs, options)
    file = open_dynamic(source, options.dims, options.values)
    nodes = first_nodes(file.file.file.proto.graph)
    names = tuple(info.name for info in file.outputs)
    flow = Flow(OnnxOrigin(file.file), nodes, names, file.known, programs, options.most_steps)
    return FlowModule(file.inputs, file.outputs, flow, file.check, file.buckets)


def _open_stablehlo(source: Source, programs: Programs, options: Options) -> FlowModule:
    inputs, outputs = ports(source)
    names = tuple(info.name for info in outputs)
    flow = Flow(StableHloOrigin(source), first_ops(source), names, {}, programs, options.most_steps)
    return FlowModule(inputs, outputs, flow, partial(check, source))


class FlowModule:
    """An ONNX model that is run at whatever sizes its inputs have.

    Sizes that are met for the first time cost an import and a plan; ``programs`` counts what was made and
    dropped, ``describe()`` shows the flow, ``save()`` writes it as a bundle. ``inputs`` and ``outputs`` say
    what the file says of them. The methods are GraphModule's, where a model without sizes can have them. One
    thread at a time.
    """

    def __init__(
        self,
        inputs: Sequence[PortInfo],
        outputs: Sequence[PortInfo],
        flow: Flow,
        check: Callable[[Mapping[str, TensorType]], None],
        buckets: Mapping[str, Sequence[int]] | None = None,
    ):
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.flow, self.programs, self._check = flow, flow.programs, check
        self._bucketed = BucketedRuns(flow, inputs, buckets) if buckets else None
        self._index = {info.name: i for i, info in enumerate(inputs)}
        self._dtypes = {i.name: numpy_dtype(i.dtype) if i.dtype else None for i in inputs}
        self._values: dict[str, Value] = {}
        self._outputs: list[Value] | None = None
        self._checked: set[Any] = set()
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

    # **************** running ****************

    def run(self, **inputs: Any) -> None:
        """Set the inputs given by name, then run. Raises InputError, GraphError and UnsupportedOpError for
        what cannot be converted at these sizes, KernelError, SessionBusyError; after each the module can be
        run again."""
        if inputs:
            self.set_input(**inputs)
        if not self._lock.acquire(blocking=False):
            raise SessionBusyError("another thread runs this module: one at a time, or a module for each")
        try:
            self._outputs = self._run()
        finally:
            self._lock.release()

    def _run(self) -> list[Value]:
        if len(self._values) < len(self.inputs):
            missing = [info.name for info in self.inputs if info.name not in self._values]
            raise InputError(f"inputs without a value: {', '.join(missing)}", wanted=missing)
        own = self._values
        values = {name: own[name] for name in self._index}
        key = tuple([kind_of(value) for value in values.values()])
        if key not in self._checked:
            kinds = {name: type_of(value) for name, value in values.items()}
            self._check({name: kind for name, kind in kinds.items() if isinstance(kind, TensorType)})
            self._checked.add(key)
        if self._bucketed is not None and (found := self._bucketed.run(values, key)) is not None:
            return found
        try:
            return self.flow.run(values, key)
        except GraphRuntimeError:
            raise
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            if self.flow.origin is not None:  # a mistake of this package's
                raise
            text = f"the flow of the bundle does not fit its programs: {type(error).__name__}: {error}"
            raise DocumentError(text) from error

    @property
    def buckets(self) -> Buckets | None:
        """Which buckets served runs and why others did not, where ``dims`` gives buckets."""
        return None if self._bucketed is None else self._bucketed.buckets

    def stats(self) -> dict[str, Any]:
        """What it did: ``programs`` kept, ``made`` and ``dropped``, ``hits`` (stages whose program was
        there); with buckets ``bucket_runs``, ``exact_runs``, ``padded`` elements of inputs, and ``reasons``
        {sizes: why no bucket serves them}."""
        programs = self.programs
        found: dict[str, Any] = {
            "programs": len(programs),
            "made": programs.made,
            "dropped": programs.dropped,
            "hits": programs.hits,
        }
        if (buckets := self.buckets) is not None:
            found |= {"bucket_runs": buckets.runs, "exact_runs": buckets.exact, "padded": buckets.padded}
            found["reasons"] = dict(buckets.reasons)
        return found

    def prepare(self) -> None:
        """Make the first program of inputs whose sizes are all known now, so that the first run need not, and
        what cannot be converted is known before it. Raises as run."""
        stubs: dict[str, Value] = {}
        for info in self.inputs:
            sizes = [size for size in info.shape or () if isinstance(size, int)]
            stubs[info.name] = elements_of(info.dtype, sizes)
        self.flow.prepare(stubs)

    @property
    def proto(self) -> Any:
        """The ModelProto, without the values of its initialisers. Raises InputError for a bundle."""
        if self.flow.origin is None:
            raise InputError("a bundle has not the model that it was made of")
        return self.flow.origin.proto

    def run_async(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: what a flow runs next depends on values that a run finds."""
        raise InputError(
            "this model finds sizes or values while it runs, so its runs cannot be queued: call run(), or "
            "bind all of them (dims, values)"
        )

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
        same_kind cast apart. Raises InputError, before any is set, for a name or value that does not fit."""
        if key is not None:
            params = {self._name(key): value, **params}
        found = {name: self._fitting(self.inputs[self._at(name)], each) for name, each in params.items()}
        self._values |= found

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

    def _fitting(self, info: PortInfo, value: Any) -> Value:
        if type(value) is np.ndarray and value.dtype == self._dtypes[info.name] and value.flags.c_contiguous:
            if info.shape is not None and len(info.shape) == value.ndim:
                return value  # as nearly all are
        if info.optional and value is None:
            return None
        if info.sequence:
            return [_typed(info, each) for each in value]
        if isinstance(value, Tensor) and value.dtype == info.dtype:
            return value
        array = _typed(info, value)
        if info.shape is not None and len(info.shape) != array.ndim:
            raise InputError(
                f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}", got=array.shape
            )
        return array

    # **************** what it is ****************

    def describe(self) -> str:
        """The flow as far as runs have found it out: steps by what leads to them, their programs, loops."""
        return flow_text(flow_document(self.flow, self.inputs, self.outputs)[0])

    def save(
        self,
        path: str | os.PathLike[str],
        devices: Any = ("cpu:0",),
        options: Options | None = None,
        *,
        tell: Tell = silent,
    ) -> Path:
        """Write a bundle: of the sizes, values and branches that runs have met, and no others. Raises
        InputError before a run, and as gr.build_bundle."""
        ports = self.inputs, self.outputs
        return save_flow(self.flow, ports, path, devices, options or self.programs.options, tell)


def _info(ports: tuple[PortInfo, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    return {p.name: p.shape for p in ports}, {p.name: p.dtype for p in ports}


def _tensor(value: Value) -> Tensor | ElementArray:
    return value if isinstance(value, Tensor) else tensor_of(value)


def _typed(info: PortInfo, value: Any) -> np.ndarray:
    try:
        array = value.numpy() if isinstance(value, (Tensor, ElementArray)) else np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"input {info.name!r}: {error}", got=type(value).__name__) from error
    if array.dtype.name == info.dtype and array.flags.c_contiguous:
        return array
    if info.dtype in ELEMENTS or array.dtype.kind in "OUST":
        return _typed_elements(info, array)
    wanted = dtypes.to_numpy(info.dtype) if info.dtype else array.dtype
    if array.dtype != wanted:
        plain = not hasattr(value, "dtype") and np.array_equal(array, array.astype(wanted))
        if not (plain or np.can_cast(array.dtype, wanted, "same_kind")):
            raise InputError(
                f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}",
                got=array.dtype.name,
                wanted=info.dtype,
            )
        array = array.astype(wanted)
    return np.asarray(array, order="C")


def _typed_elements(info: PortInfo, array: np.ndarray) -> np.ndarray:
    """An array of an input whose elements, or the array's, no graph has a dtype for."""
    wanted = info.dtype
    if array.dtype.kind in "OUST" and wanted in ("", STRING.name):
        return np.asarray(array, object, order="C")
    if wanted in ELEMENTS and array.dtype.kind not in "OUST":
        dtype = ELEMENTS[wanted].numpy()
        same = array.dtype == dtype or element_name(array.dtype) == wanted
        with np.errstate(all="ignore"):
            cast = array if same else array.astype(dtype)
        if same or np.array_equal(cast.astype(np.float64), array.astype(np.float64)):
            return np.asarray(cast, order="C")
        raise InputError(
            f"input {info.name!r} is {info}, which does not hold all values of what is given, "
            f"{array.min()} to {array.max()}",
            got=(array.min(), array.max()),
            wanted=wanted,
        )
    raise InputError(
        f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}",
        got=array.dtype.name,
        wanted=wanted,
    )
