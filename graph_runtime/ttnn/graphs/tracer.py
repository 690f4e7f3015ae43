"""ttnn.tracer: the graph of what torch and ttnn compute inside of ``with trace()``.

A graph is a networkx.MultiDiGraph. Its nodes (Node) have ``operation``, ``shapes`` and ``dtypes`` of the
results, ``duration`` in seconds, and, for results of ttnn, ``layouts`` and ``memory_configs``. An edge says
which result (``source_output_index``) is which operand (``sink_input_index``). A call of a torch module is
one node, whose operation has a graph of its own. Tensors keep their classes: a TorchFunctionMode watches
torch's functions, and each traced tensor gets the attributes ``graph``, ``node`` and ``output_index``.
networkx comes with torch.
"""

from __future__ import annotations

import contextlib
import itertools
import time
import weakref
from collections.abc import Iterator
from typing import Any

from ..operations.operation import OBSERVERS, Operation
from ..tensors.tensor import Tensor
from .nodes import (
    Node,
    TorchFunction,
    TorchModule,
    TorchModuleInput,
    TorchParameter,
    TorchTensor,
    TTNNOperation,
    TTNNTensor,
    named_arguments,
    traced_tensors,
)

__all__ = [
    "disable_tracing",
    "enable_tracing",
    "is_tracing_enabled",
    "trace",
]

_numbers = itertools.count()


class _Frame:
    """The graph of one call, and the place (node, number of the node's result) of each tensor in that
    graph."""

    def __init__(self) -> None:
        import networkx  # type: ignore[import-untyped]

        self.graph = networkx.MultiDiGraph()
        self._places: dict[int, tuple[Any, Node, int]] = {}

    def place(self, tensor: Any) -> tuple[Node, int]:
        """The place that a tensor comes from; a new input node if no node of this graph made the tensor."""
        reference, node, index = self._places.get(id(tensor), (None, None, 0))
        if reference is None or reference() is not tensor:
            node, index = self.add(*_input(tensor), [], [tensor]), 0
        assert node is not None
        return node, index

    def add(self, name: str, operation: Any, inputs: list[Any], made: list[Any], **more: Any) -> Node:
        """Add a node with its edges and return the node; from now on the tensors ``made`` come from this
        node."""
        sources = [self.place(tensor) for tensor in inputs]
        number = next(_numbers)
        node = Node(f"{name}_{number}", number)
        attributes = {
            "operation": operation,
            "shapes": tuple(x.shape if isinstance(x, Tensor) else tuple(x.shape) for x in made),
            "dtypes": tuple(x.dtype for x in made),
        }
        if any(isinstance(x, Tensor) for x in made):
            attributes["layouts"] = tuple(getattr(x, "layout", None) for x in made)
            attributes["memory_configs"] = tuple(
                x.memory_config() if isinstance(x, Tensor) else None for x in made
            )
        self.graph.add_node(node, **attributes, **more)
        for at, (source, index) in enumerate(sources):
            self.graph.add_edge(source, node, source_output_index=index, sink_input_index=at)
        for index, tensor in enumerate(made):
            self._places[id(tensor)] = weakref.ref(tensor), node, index
            self.tag(tensor)
        return node

    def tag(self, tensor: Any) -> None:
        """Write onto a tensor its place in this graph."""
        _, node, index = self._places[id(tensor)]
        tensor.graph, tensor.node, tensor.output_index = self.graph, node, index


def _input(tensor: Any) -> tuple[str, Any]:
    import torch

    if isinstance(tensor, Tensor):
        return "ttnn_input", TTNNTensor()
    if isinstance(tensor, torch.nn.Parameter):
        return "torch_parameter", TorchParameter(tensor)
    return "torch_input", TorchTensor(tensor)


class _Tracer:
    """The tracing in progress. ``quiet``: number of the ttnn operations in progress, inside of which torch is
    not traced."""

    def __init__(self) -> None:
        import torch
        from torch.overrides import TorchFunctionMode

        tracer = self

        class Mode(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                start = time.perf_counter()
                made = func(*args, **(kwargs or {}))
                tracer.function(func, args, kwargs or {}, made, time.perf_counter() - start)
                return made

        self.frames, self.quiet, self.calls = [_Frame()], 0, itertools.count()
        self.mode, self.module_call = Mode(), torch.nn.Module.__call__
        self.mode.__enter__()
        plain = self.module_call
        torch.nn.Module.__call__ = lambda module, *a, **k: tracer.module(plain, module, a, k)  # type: ignore
        OBSERVERS.append(self.operation)

    def close(self) -> None:
        import torch

        OBSERVERS.remove(self.operation)
        torch.nn.Module.__call__ = self.module_call  # type: ignore[method-assign]
        self.mode.__exit__(None, None, None)

    def function(self, function: Any, args: Any, kwargs: Any, made: Any, seconds: float) -> None:
        """Record a call of torch that made tensors."""
        found = [] if self.quiet else list(traced_tensors(made))
        if found and getattr(function, "__name__", "") not in ("__get__", "__set__"):
            operation = TorchFunction(function, named_arguments(args, kwargs))
            name = getattr(function, "__name__", "function")
            inputs = list(traced_tensors([args, kwargs]))
            self.frames[-1].add(name, operation, inputs, found, duration=seconds)

    @contextlib.contextmanager
    def operation(self, operation: Operation, args: Any, kwargs: Any) -> Iterator[Any]:
        """An observer (operation.OBSERVERS) that runs a call of ttnn and records it."""
        inputs = list(traced_tensors([args, kwargs]))
        for tensor in inputs:
            self.frames[-1].place(tensor)  # note places before the call frees or writes a tensor
        self.quiet += 1
        start = time.perf_counter()
        results: list[Any] = []
        try:
            yield lambda made: results.extend(traced_tensors(made))
        finally:
            self.quiet -= 1
        if results:
            name = operation.python_fully_qualified_name
            node = TTNNOperation(name, operation, named_arguments(args, kwargs))
            more = {"operation_id": next(self.calls), "duration": time.perf_counter() - start}
            self.frames[-1].add(name, node, inputs, results, **more)

    def module(self, call: Any, module: Any, args: Any, kwargs: Any) -> Any:
        """Record a call of a module: a node with a graph of the module's own calls."""
        if self.quiet:
            return call(module, *args, **kwargs)
        _name_parts(module)
        inputs, outer = list(traced_tensors([args, kwargs])), self.frames[-1]
        for tensor in inputs:
            outer.place(tensor)
        inner = _Frame()
        taken = [
            (inner.add("module_input", TorchModuleInput(f"input_{at}"), [], [x]), 0)
            for at, x in enumerate(inputs)
        ]
        self.frames.append(inner)
        start = time.perf_counter()
        try:
            made = call(module, *args, **kwargs)
        finally:
            self.frames.pop()
            for tensor in inputs:
                outer.tag(tensor)
        seconds, results = time.perf_counter() - start, list(traced_tensors(made))
        given = [inner.place(tensor) for tensor in results]
        operation = TorchModule(module, inner.graph, taken, given, named_arguments(args, kwargs))
        name = module.__ttnn_tracer_name__ or type(module).__name__
        outer.add(name, operation, inputs, results, duration=seconds)
        return made


def _name_parts(module: Any) -> None:
    """Name a module, its parts and its parameters by their paths from the first module that is called."""
    if hasattr(module, "__ttnn_tracer_name__"):
        return
    for name, part in module.named_modules():
        part.__ttnn_tracer_name__ = name
    for name, parameter in module.named_parameters():
        parameter.__ttnn_tracer_name__ = name


_current: list[_Tracer] = []


def enable_tracing() -> None:
    """Start tracing. Raises RuntimeError if it has been started."""
    if _current:
        raise RuntimeError("Cannot nest trace calls")
    _current.append(_Tracer())


def disable_tracing() -> None:
    while _current:
        _current.pop().close()


def is_tracing_enabled() -> bool:
    return bool(_current)


@contextlib.contextmanager
def trace() -> Iterator[None]:
    """Trace a with block."""
    enable_tracing()
    try:
        yield
    finally:
        disable_tracing()
