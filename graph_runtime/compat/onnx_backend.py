"""ONNX's backend interface: onnx.backend.test.BackendTest(graph_runtime.compat.onnx_backend, ...).

A model is converted when it is prepared. If ops depend on values of graph inputs (Reshape's shape) or on
sizes of symbolic dimensions, it is converted again for the values and sizes of each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.backend.base import Backend, BackendRep

from ..base.errors import GraphRuntimeError, InputError
from ..base.machine.devices import boards
from ..frontends.onnx import load_model
from ..frontends.onnx.elements import ELEMENTS, element_name
from ..frontends.onnx.read import DTYPES
from ..run.factory import create

__all__ = [
    "GraphRuntimeBackend",
    "GraphRuntimeBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

_CODES = {name: code for code, name in DTYPES.items()} | {e.name: e.code for e in ELEMENTS.values()}


class GraphRuntimeBackendRep(BackendRep):
    """A model that is ready to run. ``devices``: as in create()."""

    def __init__(self, model: ModelProto, devices: Sequence[str], options: Mapping[str, Any]):
        initial = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [info.name for info in model.graph.input if info.name not in initial]
        library = options.get("library")
        words = {key: value for key, value in options.items() if key != "library"}
        self._module = create(model, library, list(devices), compile=False, **words)

    def run(self, inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray], **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the model's order: arrays, and a list for a sequence. ``inputs``: arrays in the
        order of the model's inputs, or by name. Raises InputError for values of the wrong shape or dtype."""
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(self._inputs):
                text = f"the model has {len(self._inputs)} inputs, {len(inputs)} arrays were given"
                raise InputError(text, got=len(inputs), wanted=len(self._inputs))
            inputs = dict(zip(self._inputs, inputs, strict=True))
        for name, value in inputs.items():
            if self._module.get_input_index(name) >= 0:
                self._module.set_input(name, value)
        self._module.run()
        return tuple(_host(self._module.get_output(i)) for i in range(self._module.get_num_outputs()))


def _host(value: Any) -> Any:
    if value is None:
        return None
    return [each.numpy() for each in value] if isinstance(value, list) else value.numpy()


class GraphRuntimeBackend(Backend):
    """The backend. A device is named as in ONNX ("CPU"), as in this package ("cpu:0"), or by a list of this
    package's names ("cpu:0,tt:0")."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node can be converted; False also if the conversion depends on values of inputs."""
        try:
            load_model(model)
        except GraphRuntimeError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> GraphRuntimeBackendRep:
        """A model that is ready to run. ``kwargs``: keyword arguments of create() (library, formats, place);
        rtol and atol, which ONNX's tests pass, are ignored. Raises what load_model and create raise."""
        options = {key: value for key, value in kwargs.items() if key not in ("rtol", "atol")}
        return GraphRuntimeBackendRep(model, _devices(device), options)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node on arrays. ``outputs_info`` is ignored. ``opset_version``: opset version of
        the node."""
        arrays = [np.asarray(a) for a in inputs]
        names = [name for name in node.input if name]
        given = [
            helper.make_tensor_value_info(name, _CODES[element_name(a.dtype)], a.shape)
            for name, a in zip(names, arrays, strict=True)
        ]
        made = [
            helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output if name
        ]
        opset = helper.make_opsetid("", kwargs.pop("opset_version", 21))
        model = helper.make_model(helper.make_graph([node], "node", given, made), opset_imports=[opset])
        return cls.run_model(model, dict(zip(names, arrays, strict=True)), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the kinds of all named devices exist here; CUDA does not."""
        kinds = {board.kind for board in boards().values() if not board.test_only}
        return all(name.partition(":")[0] in kinds for name in _devices(device))


def _devices(device: str) -> list[str]:
    return ["cpu:0" if name.lower() == "cpu" else name.strip().lower() for name in device.split(",")]


is_compatible = GraphRuntimeBackend.is_compatible
prepare = GraphRuntimeBackend.prepare
run_model = GraphRuntimeBackend.run_model
run_node = GraphRuntimeBackend.run_node
supports_device = GraphRuntimeBackend.supports_device
