"""Nodes of traced graphs: the functions that were called, and their arguments."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from ..tensors.tensor import Tensor

__all__ = [
    "InputTensorIndex",
    "Node",
    "PositionalArgumentName",
    "TTNNOperation",
    "TTNNTensor",
    "TorchFunction",
    "TorchModule",
    "TorchModuleInput",
    "TorchParameter",
    "TorchTensor",
    "traced_tensors",
]


@dataclasses.dataclass(frozen=True)
class Node:
    """A node's key: its name and number."""

    name: str
    unique_id: int

    def __lt__(self, other: Node) -> bool:
        return self.unique_id < other.unique_id


@dataclasses.dataclass(frozen=True)
class PositionalArgumentName:
    """The name of an argument that is given by position only."""

    index: int

    def __repr__(self) -> str:
        return str(self.index)


@dataclasses.dataclass(frozen=True)
class InputTensorIndex:
    """The number of an operand, which stands for a tensor among the arguments."""

    index: int

    def __repr__(self) -> str:
        return f"${self.index}"


class _Shown:
    """A node's operation, which can be written as text; ``verbose`` adds the operation's arguments to the
    text."""

    shown = ""

    def to_string(self, verbose: bool = False) -> str:
        pairs = getattr(self, "arg_name_value_pairs", ())
        said = ", ".join(f"{v}" if isinstance(k, PositionalArgumentName) else f"{k}={v}" for k, v in pairs)
        return f"{self._name()}({said})" if verbose and pairs else self._name()

    def _name(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return self.to_string()


@dataclasses.dataclass(repr=False)
class TorchTensor(_Shown):
    tensor: Any
    shown = "torch.Tensor"


@dataclasses.dataclass(repr=False)
class TorchParameter(_Shown):
    parameter: Any

    def _name(self) -> str:
        own = getattr(self.parameter, "__ttnn_tracer_name__", "")
        return f"torch.nn.Parameter\n{own}" if own else "torch.nn.Parameter"


@dataclasses.dataclass(repr=False)
class TorchFunction(_Shown):
    function: Any
    arg_name_value_pairs: list[Any]

    def _name(self) -> str:
        function = self.function
        holder = getattr(function, "__objclass__", None)
        name = getattr(function, "__name__", str(function))
        if holder is not None:
            return f"torch.Tensor.{name}" if holder.__module__.startswith("torch") else f"{holder}.{name}"
        module = getattr(function, "__module__", None) or "torch"
        for inner, shown in (("torch._tensor", "torch.Tensor"), ("torch._C._nn", "torch.nn.functional")):
            module = module.replace(inner, shown)
        return f"{module.replace('torch._C', 'torch')}.{name}"


@dataclasses.dataclass(repr=False)
class TorchModuleInput(_Shown):
    name: str

    def _name(self) -> str:
        return self.name


@dataclasses.dataclass(repr=False)
class TorchModule(_Shown):
    """A call of a torch module. ``inputs``, ``outputs``: places of the tensors in ``graph``, each (node,
    number of the node's result)."""

    module: Any
    graph: Any
    inputs: list[tuple[Node, int]]
    outputs: list[tuple[Node, int]]
    arg_name_value_pairs: list[Any]

    def _name(self) -> str:
        own = getattr(self.module, "__ttnn_tracer_name__", "")
        kind = f"{type(self.module).__module__}.{type(self.module).__name__}"
        return f"{kind}\n{own}" if own else kind


class TTNNTensor(_Shown):
    shown = "ttnn.Tensor"


@dataclasses.dataclass(repr=False)
class TTNNOperation(_Shown):
    pretty_name: str
    operation: Any
    arg_name_value_pairs: list[Any]

    def _name(self) -> str:
        return self.pretty_name


def traced_tensors(value: Any) -> Iterator[Any]:
    """The tensors of torch and ttnn in a value, its lists, dicts and dataclasses."""
    import torch

    if isinstance(value, (torch.Tensor, Tensor)):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from traced_tensors(one)
    elif isinstance(value, dict):
        yield from traced_tensors(list(value.values()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from traced_tensors(getattr(value, field.name))


def named_arguments(args: Any, kwargs: Any) -> list[Any]:
    """(name, value) of each argument, with numbers in place of tensors."""
    count = itertools.count()

    def shown(value: Any) -> Any:
        if next(traced_tensors(value), None) is value:
            return InputTensorIndex(next(count))
        if isinstance(value, (list, tuple)) and next(traced_tensors(value), None) is not None:
            return [shown(one) for one in value]
        return value

    found = [(PositionalArgumentName(at), shown(value)) for at, value in enumerate(args)]
    return found + [(name, shown(value)) for name, value in kwargs.items()]
