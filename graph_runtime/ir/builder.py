"""Graphs by hand: GraphBuilder names, types and numbers the nodes, and writes canonical graph.json.

b = GraphBuilder()
x = b.input("x", (4, 64))
w = b.param("w", np.ones((64, 10), np.float32))
y = b.op("matmul", x, w, device="tt:0")
b.output(b.op("softmax", y, axis=-1))
b.to_json()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from ..base import dtypes
from ..base.errors import GraphError
from ..base.exact import exactly
from ..base.machine import devices
from .documents.draft import (
    DraftNode,
    OpCall,
    call_attrs,
    device_name,
    op_call,
    storage_ids,
    tensor_type,
    to_document,
)
from .documents.loader import graph_from_document
from .documents.write import graph_to_json
from .graph import COPY, NOP, Graph, TensorType
from .ops import registry

__all__ = ["GraphBuilder", "Value"]

DeviceLike = str | devices.Device | None
Storage = int | Sequence[int] | None  # a sequence has one id an output
Several = Literal[
    "compress",
    "dynamic_quantize",
    "gru",
    "lstm",
    "max_pool2d_indices",
    "non_max_suppression",
    "nonzero",
    "rnn",
    "topk",
    "unique",
]  # ops with several outputs; tests/ir/test_builder.py

_MOST_CALLS = 1024  # whose attrs are remembered


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor of a graph in the making: what input, param, op, call and copy return and take."""

    builder: GraphBuilder
    nid: int
    index: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)


class GraphBuilder:
    """Collects nodes in execution order. Types are inferred, so a mistake is an error at the call that makes
    it.

    ``device``: where an op goes that names none, once any node names one; before that, the file has no device
    columns and everything runs on the first device. ``params``: {name: array} of the parameters that were
    given with their values.
    """

    def __init__(self, *, device: str | devices.Device = "cpu:0"):
        self.params: dict[str, np.ndarray] = {}
        self._device = device_name(device)
        self._nodes: list[DraftNode] = []
        self._calls: dict[int, tuple[OpCall, dict[str, str]]] = {}  # by the id of the call, which is held
        self._names: dict[str, int] = {}
        self._signatures: dict[str, tuple[Any, ...]] = {}
        self._outputs: list[Value] = []
        self._aliases: list[tuple[int, int]] = []

    def __repr__(self) -> str:
        return f"<GraphBuilder: {len(self._nodes)} nodes, {len(self._outputs)} outputs>"

    # ---------------------------------------------------------------- nodes

    def has(self, name: str) -> bool:
        """Whether a node has this name."""
        return name in self._names

    def input(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str | np.dtype = "float32",
        *,
        device: DeviceLike = None,
        storage: Storage = None,
    ) -> Value:
        """A graph input, set by name before a run. Raises GraphError for a name that is taken."""
        if name in self._names:
            raise GraphError(f"the name {name!r} is taken: inputs and parameters are set by name", node=name)
        return self._add(name, [tensor_type(dtype, shape, name)], [], None, device, storage)[0]

    def param(
        self,
        name: str,
        value: Any,
        dtype: str | None = None,
        *,
        device: DeviceLike = None,
        storage: Storage = None,
    ) -> Value:
        """A parameter: an array, kept in ``params``, or a shape (a tuple of integers), whose values come
        later.

        ``dtype`` converts an array; of a shape it is float32 unless given.
        """
        if isinstance(value, tuple) and all(isinstance(d, (int, np.integer)) for d in value):
            return self.input(name, value, dtype or "float32", device=device, storage=storage)
        array = np.asarray(value)
        if dtype is not None:
            wanted = dtypes.to_numpy(tensor_type(dtype, (), name).dtype)
            array = exactly(array, wanted, f"parameter {name!r}")
        made = self.input(name, array.shape, array.dtype, device=device, storage=storage)
        self.params[name] = array
        return made

    @overload
    def op(  # type: ignore[overload-overlap]  # the names of the first are no others' names
        self,
        op: Several,
        *inputs: Value,
        name: str | None = None,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        **attrs: Any,
    ) -> tuple[Value, ...]: ...

    @overload
    def op(
        self,
        op: str,
        *inputs: Value,
        name: str | None = None,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        **attrs: Any,
    ) -> Value: ...

    def op(
        self,
        op: str,
        *inputs: Value,
        name: str | None = None,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        **attrs: Any,
    ) -> Value | tuple[Value, ...]:
        """A node of a registered op: its output, or a tuple if it has several. Attributes are the op's
        (docs/ops.md).

        Equal calls share one function, whose name is made of the op and a hash unless ``func_name`` gives it.
        Raises UnsupportedOpError for an unknown op, GraphError for attributes or input types that its rule
        refuses.
        """
        call = op_call(op, self._types(op, inputs), attrs)
        if func_name not in (None, NOP) and registry.require(call.op).is_nop:
            text = f"op {op} moves no data, so it calls no function: leave func_name out"
            raise GraphError(text, op=op, got=func_name)
        return self._one_or_all(self.add(call, inputs, name or op, func_name, device, storage))

    def add(
        self,
        call: OpCall,
        inputs: Sequence[Value],
        name: str,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
    ) -> tuple[Value, ...]:
        """The results of a call that ir.documents.draft.op_call made for inputs of these types: see op."""
        if device is None and registry.require(call.op).is_nop:
            device = self._nodes[inputs[0].nid].device  # it moves no data, so it stays where its input is
        attrs = self._attrs_of(call, func_name, len(inputs))
        return self._add(self._unique(name), call.made, tuple(inputs), attrs, device, storage)

    def call(
        self,
        func_name: str,
        inputs: Sequence[Value],
        out_types: Sequence[tuple[str, Sequence[int]]],
        *,
        name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        flatten: bool = False,
        attrs: Mapping[str, str] | None = None,
    ) -> Value | tuple[Value, ...]:
        """A node that calls a function of a library. ``out_types``: (dtype, shape) of each output.
        ``flatten`` passes every tensor as one dimension. ``attrs``: further strings to stand in the file.
        """
        types = self._types(func_name, inputs)
        made = [tensor_type(dtype, shape, func_name) for dtype, shape in out_types]
        self._function(func_name, ("", [], list(map(str, types)), list(map(str, made))))
        raw = {**(attrs or {}), "flatten_data": str(int(flatten))}
        return self._one_or_all(self._call(func_name, raw, name or func_name, inputs, made, device, storage))

    def copy(
        self,
        source: Value,
        device: str | devices.Device,
        *,
        name: str | None = None,
        storage: Storage = None,
    ) -> Value:
        """A copy of a tensor on another device. Copies that are not written are inserted where a device needs
        one.
        """
        types = self._types(COPY, [source])
        return self._call(COPY, {}, name or COPY, [source], types, device, storage)[0]

    def output(self, *values: Value) -> None:
        """Add outputs of the graph, in order."""
        self._types("output", values)
        self._outputs += values

    def alias(self, output: Value, source: Value) -> None:
        """Have an output written into the buffer of an input of equal type. Both must be known by then."""
        names = [n for n, node in enumerate(self._nodes) if node.attrs is None]
        at = [
            i
            for i, value in enumerate(self._outputs)
            if (value.nid, value.index) == (output.nid, output.index)
        ]
        if not at or source.nid not in names:
            raise GraphError(
                "alias needs an output that was given to output(), and an input or parameter of the graph"
            )
        self._aliases.append((at[0], names.index(source.nid)))

    # ---------------------------------------------------------------- result

    def build(self) -> Graph:
        """The graph. Raises GraphError for what the calls could not see: conflicts of devices and storage."""
        outputs = [(value.nid, value.index) for value in self._outputs]
        return graph_from_document(*to_document(self._nodes, outputs, self._aliases, self._device))

    def finish(self) -> Graph:
        """build, of a builder that is not used any more: its nodes go before there is a graph of them."""
        outputs = [(value.nid, value.index) for value in self._outputs]
        document, nodes = to_document(self._nodes, outputs, self._aliases, self._device)
        self._nodes, self._names, self._outputs = [], {}, []
        return graph_from_document(document, nodes)

    def to_json(self) -> str:
        """Canonical graph.json (ir/documents/write.py)."""
        return graph_to_json(self.build()).decode()

    # ---------------------------------------------------------------- making nodes

    def _types(self, what: str, inputs: Sequence[Value]) -> list[TensorType]:
        for i, value in enumerate(inputs):
            if not isinstance(value, Value) or value.builder is not self:
                raise GraphError(
                    f"{what}: input {i} must be a tensor of this builder, got {type(value).__name__}",
                    got=value,
                )
        return [value.type for value in inputs]

    def _function(self, func_name: str, signature: tuple[Any, ...]) -> str:
        """The name, held against the calls that had it before. Raises GraphError where they differ."""
        known = self._signatures.setdefault(func_name, signature)
        if func_name != NOP and known != signature:
            raise GraphError(
                f"func_name {func_name!r} stands for {_text(known)} already and cannot for "
                f"{_text(signature)}",
                op=signature[0],
                got=func_name,
            )
        return func_name

    def _attrs_of(self, call: OpCall, func_name: str | None, inputs: int) -> dict[str, str]:
        """The attrs of a node that makes this call; nodes of one call share them."""
        known = self._calls.get(id(call))
        if known is not None and func_name is None:
            return known[1]
        function = self._function(func_name or call.func_name, call.signature)
        attrs = call_attrs(function, inputs, len(call.made), call.raw)
        if func_name is None:
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            self._calls[id(call)] = call, attrs
        return attrs

    def _call(
        self,
        function: str,
        raw: Mapping[str, str],
        name: str,
        inputs: Sequence[Value],
        made: Sequence[TensorType],
        device: DeviceLike,
        storage: Storage,
    ) -> tuple[Value, ...]:
        attrs = call_attrs(function, len(inputs), len(made), raw)
        return self._add(self._unique(name), made, tuple(inputs), attrs, device, storage)

    def _unique(self, name: str) -> str:
        while name in self._names:
            stem = name
            self._names[stem] += 1
            name = f"{stem}_{self._names[stem]}"
        return name

    def _add(
        self,
        name: str,
        types: Sequence[TensorType],
        reads: Sequence[Value],
        attrs: dict[str, str] | None,
        device: DeviceLike,
        storage: Storage,
    ) -> tuple[Value, ...]:
        if not isinstance(name, str):
            raise GraphError(f"a name is a string, got {name!r}", got=name)
        nid = len(self._nodes)
        on = None if device is None else device_name(device)
        self._nodes.append(DraftNode(name, types, reads, attrs, on, storage_ids(storage, len(types), name)))
        self._names[name] = 0
        return tuple(Value(self, nid, i, t.dtype, t.shape) for i, t in enumerate(types))

    @staticmethod
    def _one_or_all(values: tuple[Value, ...]) -> Value | tuple[Value, ...]:
        return values[0] if len(values) == 1 else values


def _text(signature: tuple[Any, ...]) -> str:
    op, attrs, inputs, outputs = signature
    return f"{op}({', '.join(inputs)}{''.join(f', {k}={v}' for k, v in attrs)}) -> {', '.join(outputs)}"
