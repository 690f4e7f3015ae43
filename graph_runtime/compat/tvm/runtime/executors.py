"""Executors with TVM's interface: GraphModules on NDArrays, each with a raw module under it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import InputError, did_you_mean
from ....base.machine.devices import Device
from ....run.module import GraphModule
from ....run.tensors.arrays import borrow
from ...tvm_files.debugger import DebugModule
from ...tvm_files.dump import GraphModuleDebug
from .device import TvmDevice, opened
from .ndarray import NDArray, converted, shaped, tensor_of
from .packed import PackedModule

__all__ = [
    "ExecutorModule",
    "TvmDebugModule",
    "TvmGraphModule",
    "UnknownInputError",
    "checked",
    "devices_of",
    "executor_of",
]


class UnknownInputError(InputError, RuntimeError):
    """An unknown input name, for which TVM raises a RuntimeError."""


class ExecutorModule(PackedModule):
    """The raw module of an executor, which gives the executor's functions by name. ``executor``: the
    GraphModule that has them."""

    def __init__(self, executor: Any):
        self.executor = executor

    @property
    def type_key(self) -> str:  # type: ignore[override]
        return "GraphExecutorDebug" if isinstance(self.executor, DebugModule) else "GraphExecutor"

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The executor's function called ``name``. Raises AttributeError if the executor has no such
        function."""
        known = self.executor.functions
        if name not in known:
            raise AttributeError(f"Module has no function {name!r}{did_you_mean(name, known)}")
        found: Callable[..., Any] = getattr(self.executor, name)
        if name in ("get_input_info", "get_output_info"):
            return lambda: dict(zip(("shape", "dtype"), found(), strict=True))
        return found

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {id(self.executor):x})"


class _Shape:
    """Mixin that makes a GraphModule behave as TVM's: inputs and outputs are NDArrays, and numpy values are
    converted as by NDArray.copyfrom."""

    session: Any
    _input_index: dict[str, int]

    @property
    def module(self) -> ExecutorModule:
        return ExecutorModule(self)

    def _value(self, key: Any, value: Any) -> Any:
        if isinstance(key, str) and key not in self._input_index:
            close = did_you_mean(key, self._input_index)
            raise UnknownInputError(f"Could not find {key!r} in graph's inputs{close}", got=key)
        index = self._input_index.get(key, key)
        eids = self.session.graph.input_eids
        if not isinstance(index, int) or not 0 <= index < len(eids):
            return tensor_of(value)  # unchanged: the executor raises the error
        wanted = self.session.graph.entry_type(int(eids[index]))
        return converted(value, wanted.shape, wanted.dtype)

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Set inputs as GraphModule.set_input; values other than NDArrays are converted to the input's dtype.
        Keywords that are not inputs are skipped with a warning, because scripts pass all of a model's
        parameters. Raises UnknownInputError for an unknown ``key``, ValueError for a value of another shape.
        """
        known = {name: one for name, one in params.items() if name in self._input_index}
        if skipped := [name for name in params if name not in known]:
            close = did_you_mean(skipped[0], self._input_index)
            listed = ", ".join(map(repr, skipped[:10])) + (" ..." if len(skipped) > 10 else "")
            warnings.warn(f"the graph has no inputs for {listed}: they were left out{close}", stacklevel=2)
        given = {name: self._value(name, one) for name, one in known.items()}
        if key is not None:
            super().set_input(key, self._value(key, value))  # type: ignore[misc]
        for name in sorted(given, key=lambda name: -math.prod(given[name].shape)):
            super().set_input(name, given[name])  # type: ignore[misc]

    def set_input_zero_copy(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Bind an input as GraphModule.set_input_zero_copy."""
        params = {name: tensor_of(one) for name, one in params.items()}
        super().set_input_zero_copy(key, tensor_of(value), **params)  # type: ignore[misc]

    def set_output_zero_copy(self, key: Any, value: Any) -> None:
        """Bind an output as GraphModule.set_output_zero_copy."""
        super().set_output_zero_copy(key, tensor_of(value))  # type: ignore[misc]

    def get_input(self, index: Any, out: Any = None) -> Any:
        """The array over an input's memory. If ``out`` is given, copy the input's values into ``out`` and
        return ``out``."""
        found = super().get_input(index, tensor_of(out))  # type: ignore[misc]
        return shaped(found) if out is None else out

    def get_output(self, index: Any, out: Any = None) -> Any:
        """The array over an output's memory. If ``out`` is given, copy the output's values into ``out`` and
        return ``out``."""
        found = super().get_output(index, tensor_of(out))  # type: ignore[misc]
        return shaped(found) if out is None else out

    def share_params(self, other: Any, params_bytes: Any) -> None:
        """Share parameters as GraphModule.share_params; ``other`` may be a raw module."""
        super().share_params(getattr(other, "executor", other), params_bytes)  # type: ignore[misc]

    def run_from_inputs(self, device_type: Any, device_id: int, *pairs: Any) -> list[NDArray]:
        """Run as GraphModule.run_from_inputs."""
        found = super().run_from_inputs(device_type, device_id, *pairs)  # type: ignore[misc]
        return [shaped(one) for one in found]


class TvmGraphModule(_Shape, GraphModule):  # type: ignore[misc]
    """GraphModule of tvm.contrib.graph_executor. ``module``: a raw module, or a GraphModule."""

    def __init__(self, module: Any):
        super().__init__(getattr(module, "executor", module))


class _RawDebug(_Shape, DebugModule):  # type: ignore[misc]
    """The executor that debug_create makes, in the form that its raw module needs."""


class TvmDebugModule(_Shape, GraphModuleDebug):  # type: ignore[misc]
    """GraphModuleDebug of tvm.contrib.debugger.debug_executor."""

    def __init__(self, module: Any, device: Any, graph_json_str: Any, dump_root: Any = None):
        super().__init__(getattr(module, "executor", module), opened(device), graph_json_str, dump_root)
        self._dump_root = str(self.debug_datum.root)
        self._dump_path = str(self.dump_path)

    def _execute_node(self, index: int) -> None:
        self.execute_node(index)

    def _get_node_output(self, index: int, output: int) -> Any:
        return NDArray(borrow(self.get_node_output(index, output)))

    def debug_get_output(self, node: Any, out: Any = None) -> Any:
        """A node's first result, as DebugModule.debug_get_output."""
        found = super().debug_get_output(node, tensor_of(out))
        return found if out is None else out


def executor_of(made: GraphModule) -> ExecutorModule:
    """The raw module of an executor that a factory made. The module's get_input_info lists parameters, too,
    as in TVM."""
    made.params.clear()
    return ExecutorModule(_RawDebug(made) if isinstance(made, DebugModule) else TvmGraphModule(made))


def devices_of(numbers: Sequence[int]) -> list[Device]:
    """Devices of graph_runtime for the numbers [type, id, type, id, ...]. Raises ValueError for an odd count
    of numbers, DeviceError for a missing device."""
    if not numbers or len(numbers) % 2:
        raise ValueError(f"devices are given as type, id, type, id, ...: got {len(numbers)} numbers")
    return [TvmDevice(*pair).opened() for pair in zip(numbers[::2], numbers[1::2], strict=True)]


def checked(devices: Any) -> Any:
    """Devices of graph_runtime for a device or a list of devices. Raises ValueError for any other value,
    DeviceError for a missing device."""
    items = devices if isinstance(devices, (list, tuple)) else [devices]
    if not all(isinstance(one, (TvmDevice, Device)) for one in items):
        raise ValueError("dev has to be the type of Device or a list of Device")
    return opened(list(items))
