"""ONNX's backend interface: onnx.backend.test.BackendTest(graph_runtime.compat.onnx_backend, ...).

A model is converted when it is prepared; one whose ops must know the values of graph inputs (Reshape's shape)
or the sizes of symbolic dimensions is converted anew for each run's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.backend.base import Backend, BackendRep

from ..base import dtypes
from ..base.errors import GraphRuntimeError, InputError
from ..base.machine.devices import boards
from ..frontends.onnx import load_model
from ..frontends.onnx.context import UnknownValueError
from ..frontends.onnx.read import DTYPES
from ..ir.model import Model
from ..run.factory import create
from ..run.module import GraphModule

__all__ = [
    "GraphRuntimeBackend",
    "GraphRuntimeBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

_CODES = {name: code for code, name in DTYPES.items()}


class GraphRuntimeBackendRep(BackendRep):
    """A model that is ready to run. ``devices``: as create() takes them."""

    def __init__(self, model: ModelProto, devices: Sequence[str], options: Mapping[str, Any]):
        self._proto, self._devices, self._options = model, list(devices), dict(options)
        initial = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [info for info in model.graph.input if info.name not in initial]
        self._module: GraphModule | None = None
        try:
            if not any(self._open_dims().values()):
                self._module = self._open(load_model(model))
        except UnknownValueError:
            pass  # converted when the values are there

    def run(self, inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray], **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the model's order. ``inputs``: arrays in the order of the model's inputs, or by
        name. Raises InputError for values that do not fit."""
        names = [info.name for info in self._inputs]
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(names):
                raise InputError(
                    f"the model has {len(names)} inputs, {len(inputs)} arrays were given",
                    got=len(inputs),
                    wanted=len(names),
                )
            inputs = dict(zip(names, inputs, strict=True))
        arrays = {name: np.asarray(inputs[name]) for name in names}
        module = self._module or self._specialised(arrays)
        for name in module.session.graph.input_names:
            if name in arrays:
                module.set_input(name, arrays[name])
        module.run()
        return tuple(module.get_output(i).numpy() for i in range(module.get_num_outputs()))

    def _open_dims(self) -> dict[str, dict[int, str]]:
        """{input: {axis: name of the symbolic dimension}}."""
        return {
            info.name: {
                axis: dim.dim_param or f"{info.name}.{axis}"
                for axis, dim in enumerate(info.type.tensor_type.shape.dim)
                if not dim.HasField("dim_value")
            }
            for info in self._inputs
        }

    def _specialised(self, arrays: Mapping[str, np.ndarray]) -> GraphModule:
        """The model for these arrays' sizes, and for as few of their values as its ops must know."""
        dims = {
            name: arrays[key].shape[axis]
            for key, axes in self._open_dims().items()
            for axis, name in axes.items()
        }
        values: dict[str, np.ndarray] = {}
        while True:
            try:
                return self._open(load_model(self._proto, dims=dims, values=values))
            except UnknownValueError as error:
                wanted = set(error.inputs) - set(values)
                if not wanted:
                    raise
                values |= {name: arrays[name] for name in wanted}

    def _open(self, model: Model) -> GraphModule:
        options = dict(self._options)
        module = create(model.graph, options.pop("library", None), self._devices, **options)
        for name, constant in model.constants.items():
            module.set_input(name, constant.read())
        return module


class GraphRuntimeBackend(Backend):
    """Devices are ONNX's ("CPU"), ours ("cpu:0"), or a list of ours ("cpu:0,tt:0")."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node can be converted; false where it can only be once values are known."""
        try:
            load_model(model)
        except GraphRuntimeError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> GraphRuntimeBackendRep:
        """``kwargs``: as create()'s (library, formats, place); rtol and atol are the caller's own. Raises
        what load_model and create raise."""
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
        """One node on arrays. ``outputs_info`` is not needed; ``opset_version``: of the node."""
        arrays = [np.asarray(a) for a in inputs]
        names = [name for name in node.input if name]
        given = [
            helper.make_tensor_value_info(name, _CODES[dtypes.from_numpy(a.dtype)], a.shape)
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
        """Whether the kind of every device is there. CUDA is not."""
        kinds = {board.kind for board in boards().values() if not board.test_only}
        return all(name.partition(":")[0] in kinds for name in _devices(device))


def _devices(device: str) -> list[str]:
    return ["cpu:0" if name.lower() == "cpu" else name.strip().lower() for name in device.split(",")]


is_compatible = GraphRuntimeBackend.is_compatible
prepare = GraphRuntimeBackend.prepare
run_model = GraphRuntimeBackend.run_model
run_node = GraphRuntimeBackend.run_node
supports_device = GraphRuntimeBackend.supports_device
