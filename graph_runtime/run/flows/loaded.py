"""A flow from a bundle, which has the bundle's steps and finds no others.

load_flow(bundle, open) -> FlowModule"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...artifacts.bundles.bundle import Bundle, BundleProgram
from ...artifacts.bundles.flow_check import constant_array, read_flow
from ...base.options import Options
from ...frontends.onnx.dynamic import PortInfo
from ...frontends.onnx.stages import Read, Stage
from ...frontends.onnx.tape import TapeValue
from ...ir.graph import TensorType
from ...ir.model import Constant, Model
from ..module import GraphModule
from .flow import Flow, Step
from .flow_module import FlowModule
from .loops import Loop, LoopNode
from .specializations import Specialization, Specializations, specialization_of


def flow_of_bundle(bundle: Bundle) -> dict[str, Any]:
    """The checked flow.json of a bundle, which must have one. Raises DocumentError."""
    programs = {p.name: (p.inputs, p.outputs) for p in bundle.programs}
    assert bundle.flow is not None, "the caller saw that there is one"
    return read_flow(bytes(bundle.read(bundle.flow)), programs, f"bundle {bundle.path}: {bundle.flow}")


def load_flow(
    bundle: Bundle, open_entry: Callable[..., GraphModule], open_model: Callable[[], FlowModule] | None = None
) -> FlowModule:
    """The module of a bundle with a flow. ``open_entry``: function that opens a BundleProgram (in an
    ``arena``) before its first run; ``open_model``: function that opens the bundle's model, for inputs that
    no program serves. Raises DocumentError, and the errors of opening the first program."""
    document = flow_of_bundle(bundle)
    options = Options.of(bundle.options, most_steps=document["most_steps"])
    specializations = _Opened(bundle, open_entry, options)
    inputs, outputs = (tuple(map(_port, document[what])) for what in ("inputs", "outputs"))
    flow = _Reader(document, bundle, specializations).flow(0)
    module = FlowModule(inputs, outputs, flow, lambda types: None, options, more=open_model)
    for step in list(flow.steps.values())[:1]:
        if step.stage.model is not None:
            specializations.of(step.stage.model)  # opens the program now, so that its errors are raised now
    return module


@dataclass(frozen=True, eq=False)
class _Saved:
    """A program of the bundle, used where a Flow has a model."""

    entry: BundleProgram


class _Opened(Specializations):
    """Specializations of a bundle's flow, which are the programs of the bundle."""

    def __init__(self, bundle: Bundle, open_entry: Callable[..., GraphModule], options: Options):
        super().__init__(cast("Any", None), options, bundle.path.name, options.programs)
        self._open = open_entry
        self.unmatched.clear()  # the pins were applied when the bundle was compiled

    def _make(self, model: Model, several: bool) -> Specialization:
        entry = cast("_Saved", model).entry
        module = self._open(entry, arena=self.arena)
        self.sizes.append(entry.name)
        return specialization_of(module, entry.inputs)


class _Reader:
    def __init__(self, document: Mapping[str, Any], bundle: Bundle, specializations: Specializations):
        self.document, self.bundle, self.specializations = document, bundle, specializations
        self.constants = {
            key: constant_array(raw, str(bundle.path), f"$.constants[{key!r}]")
            for key, raw in document["constants"].items()
        }

    def flow(self, at: int) -> Flow:
        raw = self.document["flows"][at]
        steps = {tuple(map(_kind, f["kinds"])): self._step(f["step"]) for f in raw["first"]}
        most = self.document["most_steps"]
        return Flow(None, (), tuple(raw["outputs"]), {}, self.specializations, most, steps)

    def _step(self, at: int) -> Step:
        raw = self.document["steps"][at]
        model = None if raw["program"] is None else _Saved(self.bundle.program(raw["program"]))
        stage = Stage(
            cast("Model | None", model),
            tuple(Read(read["name"], read["index"], TensorType("", ())) for read in raw["reads"]),
            {n: tuple(p) if isinstance(p, list) else p for n, p in raw["makes"].items()},
            {n: (bound["size"], bound["axis"]) for n, bound in raw["bounds"].items()},
            {},
            (),
            tuple(raw["asks"]),
            {n: self._known(n, key) for n, key in raw["constants"].items()},
            () if raw["last"] else (("$", None),),
        )
        children = {
            (tuple(map(bytes.fromhex, c["asked"])), tuple(map(_kind, c["kinds"]))): self._step(c["step"])
            for c in raw["then"]
        }
        return Step(stage, [self._loop(loop) for loop in raw["loops"]], tuple(raw["sized"]), children)

    def _known(self, name: str, key: str) -> TapeValue:
        constant = Constant.of(self.constants[key], name)
        return TapeValue(constant.type, name, constant)

    def _loop(self, raw: Mapping[str, Any]) -> Loop:
        return Loop(
            LoopNode(raw["op"], raw["name"], raw["path"]),
            tuple(raw["reads"]),
            tuple(raw["results"]),
            self.flow(raw["flow"]),
            tuple(raw["names"]),
            tuple(raw["around"]),
            raw["states"],
            raw["attributes"],
            {n: self.constants[key] for n, key in raw["constants"].items()},
            tuple(TensorType(kind["dtype"], tuple(kind["shape"])) for kind in raw["stacked"]),
        )


def _port(raw: Mapping[str, Any]) -> PortInfo:
    shape = None if raw["shape"] is None else tuple(raw["shape"])
    return PortInfo(raw["name"], raw["dtype"], shape, raw["sequence"], raw["optional"])


def _kind(raw: Any) -> Any:
    """The kind of a value (flow_values.kind_of), read from the JSON form of the kind."""
    if raw is None:
        return None
    if isinstance(raw, list):
        return tuple(map(_kind, raw))
    return tuple(raw["shape"]), raw["dtype"]
