"""A flow as a document: the steps that runs have found, and the models of their specializations.

flow_document(module.flow, ...) gives the value of flow.json and {program: Model}; save_flow() writes these as
a bundle.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson

from ...artifacts.bundles.flow_check import check_flow
from ...base import dtypes
from ...base.errors import InputError
from ...base.options import Options
from ...base.progress import Tell, silent
from ...binding import core
from ...frontends.onnx.dynamic import PortInfo
from ...frontends.onnx.stages import Read, Stage
from ...ir.model import Model
from .flow import Flow, Step
from .flow_values import constant_of
from .loops import Loop
from .origins import HostNode
from .specializations import Specializations, options_for


def flow_document(
    flow: Flow, inputs: Sequence[PortInfo], outputs: Sequence[PortInfo]
) -> tuple[dict[str, Any], dict[str, Model]]:
    """(the document, the models of its programs by name), for the sizes and values of the runs so far."""
    writer = _Writer()
    writer.flow(flow, [info.name for info in inputs])
    document = {
        "format": "graph_runtime.flow",
        "version": 1,
        "inputs": [_port(info) for info in inputs],
        "outputs": [_port(info) for info in outputs],
        "most_steps": flow.most_steps,
        "constants": writer.constants,
        "flows": writer.flows,
        "steps": writer.steps,
    }
    return document, writer.models


def flow_of_models(models: Sequence[Model]) -> Flow:
    """The flow of several models, which are one model at several sizes. A run takes the model whose input
    sizes are those of the run."""
    steps = {}
    for model in models:
        graph = model.graph
        kinds = {n: graph.entry_type(e) for n, e in zip(graph.input_names, graph.input_eids, strict=True)}
        names = list(model.input_names)
        reads = tuple(Read(name, None, kinds[name]) for name in names)
        makes = {name: name for name in graph.output_names}
        stage = Stage(model, reads, makes, {}, {}, (), (), {}, ())
        steps[tuple((kinds[name].shape, kinds[name].dtype) for name in names)] = Step(stage, [], ())
    options = Options()
    specializations = Specializations(cast("Any", None), options, "models", len(steps))
    return Flow(None, (), tuple(models[0].graph.output_names), {}, specializations, options.most_steps, steps)


def save_flow(
    flow: Flow,
    ports: tuple[Sequence[PortInfo], Sequence[PortInfo]],
    out: Any,
    devices: Any,
    options: Options,
    tell: Tell = silent,
    closed: bool = True,
) -> Path:
    """Write a bundle of the steps found so far: the specializations, as programs, and the flow that chooses
    among them. Unless the bundle is ``closed`` it also has the model, from which a session makes further
    specializations. Raises InputError for a closed bundle if there was no run yet, and the errors of
    build_bundle."""
    document, models = flow_document(flow, *ports)
    _refuse_elements(flow.steps.values())
    source = {} if closed or flow.origin is None else _source(flow.origin.files(), Path(out))
    if not (models or source):
        said = "there is nothing to save yet: first run the model at the sizes to save"
        raise InputError(said)
    programs = {name: (model.input_names, model.output_names) for name, model in models.items()}
    check_flow(document, programs, "the flow")
    from ...codegen.build import prepare_programs, write_prepared  # needed only if something is compiled

    bound = replace(options, dims={}, values={})  # the models' sizes and values are fixed already
    prepared: dict[str, Any] = {}
    for name, model in models.items():
        prepared |= prepare_programs({name: model}, devices, options_for(model, bound), tell=tell)
    text = orjson.dumps(document)
    return write_prepared(
        prepared,
        out,
        options,
        tell=tell,
        flow=text,
        source=source,
        devices=devices,
        built_in=core.generic_kernels(),
    )


def _source(files: Mapping[str, memoryview | Path], out: Path) -> dict[str, memoryview | Path]:
    """{name in a bundle: contents} of a model's files. Raises InputError for a zip if the model has external
    data."""
    if out.suffix == ".zip" and len(files) > 1:
        raise InputError(
            f"{out} is a zip, and external data is read from files beside the model: write a folder, or "
            "leave the model out (closed)",
            got=list(files)[1:],
        )
    return {f"source/{name}": data for name, data in files.items()}


def _refuse_elements(steps: Iterable[Step]) -> None:
    """Raise InputError for steps with values that bundles cannot have yet: strings, elements of few bits,
    random numbers."""
    for step in steps:
        if step.stage.has_elements or any(isinstance(loop, HostNode) for loop in step.loops):
            has = "strings, elements of few bits or random numbers"
            raise InputError(f"this model has {has}, which bundles do not have yet")
        _refuse_elements(step.children.values())


def _port(info: PortInfo) -> dict[str, Any]:
    shape = None if info.shape is None else list(info.shape)
    own = {"name": info.name, "dtype": info.dtype, "shape": shape}
    return {**own, "sequence": info.sequence, "optional": info.optional}


class _Writer:
    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self.flows: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.models: dict[str, Model] = {}

    def flow(self, flow: Flow, inputs: Sequence[str]) -> int:
        at = len(self.flows)
        made: dict[str, Any] = {"inputs": list(inputs), "outputs": list(flow.outputs), "first": []}
        self.flows.append(made)
        for kinds, step in flow.steps.items():
            made["first"].append({"kinds": list(map(_kind, kinds)), "step": self._step(flow, step)})
        return at

    def _step(self, flow: Flow, step: Step) -> int:
        at, stage = len(self.steps), step.stage
        name = None if stage.model is None else f"step{at}"
        made: dict[str, Any] = {}
        self.steps.append(made)
        if name is not None and stage.model is not None:
            self.models[name] = stage.model
        known = {n: stage.known[n] for n in flow.outputs if step.last and n in stage.known}
        made |= {
            "program": name,
            "reads": [{"name": read.name, "index": read.index} for read in stage.reads],
            "makes": {n: list(p) if isinstance(p, tuple) else p for n, p in stage.makes.items()},
            "bounds": {n: {"size": size, "axis": axis} for n, (size, axis) in stage.bounds.items()},
            "loops": [self._loop(loop) for loop in step.loops],
            "asks": list(stage.asks),
            "sized": list(step.sized),
            "constants": {
                n: self._constant(n, constant_of(value, flow.strings)) for n, value in known.items()
            },
            "last": step.last,
            "then": [
                {
                    "asked": [b.hex() for b in asked],
                    "kinds": list(map(_kind, kinds)),
                    "step": self._step(flow, child),
                }
                for (asked, kinds), child in step.children.items()
            ],
        }
        return at

    def _loop(self, loop: Loop | HostNode) -> dict[str, Any]:
        if isinstance(loop, HostNode):
            return {"op": loop.node.op_type, "name": loop.node.name, "results": list(loop.results)}
        body = loop.body
        assert isinstance(body, Flow), "the body of a loop that was found is a flow"
        return {
            "op": loop.node.op_type,
            "name": loop.node.name,
            "path": loop.node.path,
            "reads": list(loop.reads),
            "results": list(loop.results),
            "flow": self.flow(body, [*loop.names, *loop.around]),
            "names": list(loop.names),
            "around": list(loop.around),
            "states": loop.num_states,
            "attributes": _attributes(loop.attrs),
            "constants": {n: self._constant(n, value) for n, value in loop.known.items()},
            "stacked": [{"dtype": t.dtype, "shape": list(t.shape)} for t in loop.stacked],
        }

    def _constant(self, name: str, value: Any) -> str:
        if not isinstance(value, np.ndarray):
            raise InputError(f"{name!r} is a constant sequence, which bundles cannot have", got=name)
        key = f"{len(self.constants)}/{name}"
        data = base64.b64encode(np.asarray(value, order="C").tobytes()).decode()
        own = {"dtype": dtypes.from_numpy(value.dtype), "shape": list(value.shape), "data": data}
        self.constants[key] = own
        return key


def _kind(kind: Any) -> Any:
    """The JSON form of a kind (flow_values.kind_of)."""
    if kind is None:
        return None
    if len(kind) == 2 and isinstance(kind[1], str):
        return {"dtype": kind[1], "shape": list(kind[0])}
    return [_kind(each) for each in kind]


def _attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON form of a Scan's attributes."""
    lists = [f"scan_{side}_{what}" for side in ("input", "output") for what in ("axes", "directions")]
    found = {name: attrs[name] for name in ("num_scan_inputs", *lists) if attrs.get(name) is not None}
    return {name: value if isinstance(value, int) else list(value) for name, value in found.items()}
