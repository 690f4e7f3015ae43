"""Graphs written in Python: GraphBuilder names, types and numbers the nodes, and writes canonical graph.json.

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
from .value import Value, with_constants

DeviceLike = str | devices.Device | None
Storage = int | Sequence[int] | None  # one storage id, or a sequence with one id for each output
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
]  # ops with several outputs (as tests/ir/test_builder.py checks)

_MOST_CALLS = 1024  # most calls whose attrs are kept for later nodes with the same call


@dataclass(frozen=True, slots=True, eq=False)
class NodeValue(Value):
    """A Value that is an output of a node. input, param, op, call and copy return NodeValues, and take them
    as operands."""

    builder: GraphBuilder
    nid: int
    index: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    def __bool__(self) -> bool:
        text = "a value is not true or false before it is run: where(c, a, b), &, | and ~ choose by elements"
        raise TypeError(text)

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Any:
        """Add a node, and return its result; numbers among the operands become parameters."""
        emitter = self.builder.emitter or self.builder
        return emitter.op(op, *with_constants(op, operands, emitter.scalar), **attrs)

    def scalar(self, number: Any, dtype: str | None = None) -> NodeValue:
        """A number as a value: a parameter of the builder, or a constant of the builder's emitter if it has
        one."""
        return (self.builder.emitter or self.builder).scalar(number, dtype or self.dtype)


class GraphBuilder:
    """Collects nodes in execution order. Types are inferred at once, so the call that makes a mistake raises
    its error.

    ``device``: device of ops that name no device. This default counts only if some node names a device;
    otherwise the file has no device columns, and everything runs on the first device. ``params``: {name:
    array} of the parameters given with values. ``emitter``: the object that adds the nodes for operators of
    values; None: the builder itself.
    """

    emitter: Any = None

    def __init__(self, *, device: str | devices.Device = "cpu:0"):
        self.params: dict[str, np.ndarray] = {}
        self._device = device_name(device)
        self._nodes: list[DraftNode] = []
        self._calls: dict[int, tuple[OpCall, dict[str, str]]] = {}  # {id() of a call: (the call, attrs)}
        self._names: dict[str, int] = {}
        self._signatures: dict[str, tuple[Any, ...]] = {}
        self._outputs: list[NodeValue] = []
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
    ) -> NodeValue:
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
    ) -> NodeValue:
        """A parameter. ``value``: an array, which is kept in ``params``, or a shape (a tuple of integers),
        whose values come later. ``dtype``: dtype of the parameter, to which an array is converted; None: the
        array's own dtype, or float32 for a shape.
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

    def scalar(self, number: Any, dtype: str) -> NodeValue:
        """A parameter without dimensions, named number, number_1 and so on. Raises InputError for a number
        that the dtype cannot hold."""
        return self.param(self._unique("number"), np.asarray(number), dtype)

    @overload
    def op(  # type: ignore[overload-overlap]  # the names of the first are no others' names
        self,
        op: Several,
        *inputs: NodeValue,
        name: str | None = None,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        **attrs: Any,
    ) -> tuple[NodeValue, ...]: ...

    @overload
    def op(
        self,
        op: str,
        *inputs: NodeValue,
        name: str | None = None,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        **attrs: Any,
    ) -> NodeValue: ...

    def op(
        self,
        op: str,
        *inputs: NodeValue,
        name: str | None = None,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        **attrs: Any,
    ) -> NodeValue | tuple[NodeValue, ...]:
        """Add a node of a registered op; return its output, or a tuple if the op has several. The attributes
        are those of the op (docs/ops.md).

        Equal calls share one function, whose name is the op and a hash unless ``func_name`` gives it. Raises
        UnsupportedOpError for an unknown op, GraphError for attributes or input types that the op's rule
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
        inputs: Sequence[NodeValue],
        name: str,
        func_name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
    ) -> tuple[NodeValue, ...]:
        """Add a node for a call that ir.documents.draft.op_call made for these inputs; return its results.
        The other arguments are those of ``op``."""
        if device is None and registry.require(call.op).is_nop:
            device = self._nodes[inputs[0].nid].device  # a reshape moves no data, so it stays on this device
        attrs = self._attrs_of(call, func_name, len(inputs))
        return self._add(self._unique(name), call.made, tuple(inputs), attrs, device, storage)

    def call(
        self,
        func_name: str,
        inputs: Sequence[NodeValue],
        out_types: Sequence[tuple[str, Sequence[int]]],
        *,
        name: str | None = None,
        device: DeviceLike = None,
        storage: Storage = None,
        flatten: bool = False,
        attrs: Mapping[str, str] | None = None,
    ) -> NodeValue | tuple[NodeValue, ...]:
        """Add a node that calls a function of a library. ``out_types``: (dtype, shape) of each output.
        ``flatten``: pass every tensor with one dimension. ``attrs``: further strings that the node has in the
        file.
        """
        types = self._types(func_name, inputs)
        made = [tensor_type(dtype, shape, func_name) for dtype, shape in out_types]
        self._function(func_name, ("", [], list(map(str, types)), list(map(str, made))))
        raw = {**(attrs or {}), "flatten_data": str(int(flatten))}
        all_attrs = call_attrs(func_name, len(inputs), len(made), raw)
        name = self._unique(name or func_name)
        return self._one_or_all(self._add(name, made, tuple(inputs), all_attrs, device, storage))

    def copy(
        self,
        source: NodeValue,
        device: str | devices.Device,
        *,
        name: str | None = None,
        storage: Storage = None,
    ) -> NodeValue:
        """A copy of a tensor on another device. All other copies that devices need are inserted by the
        plan."""
        types, attrs = self._types(COPY, [source]), call_attrs(COPY, 1, 1)
        return self._add(self._unique(name or COPY), types, (source,), attrs, device, storage)[0]

    def output(self, *values: NodeValue) -> None:
        """Add outputs of the graph, in order."""
        self._types("output", values)
        self._outputs += values

    def alias(self, output: NodeValue, source: NodeValue) -> None:
        """Let an output be written into the buffer of an input of equal type. Output and input must exist
        already."""
        names = [n for n, node in enumerate(self._nodes) if node.attrs is None]
        outputs = [(value.nid, value.index) for value in self._outputs]
        wanted = output.nid, output.index
        if wanted not in outputs or source.nid not in names:
            text = "alias needs an output that was given to output(), and an input or parameter of the graph"
            raise GraphError(text)
        self._aliases.append((outputs.index(wanted), names.index(source.nid)))

    # ---------------------------------------------------------------- result

    def build(self) -> Graph:
        """The graph. Raises GraphError for conflicts of devices or storage ids, which show only in the whole
        graph."""
        outputs = [(value.nid, value.index) for value in self._outputs]
        return graph_from_document(*to_document(self._nodes, outputs, self._aliases, self._device))

    def finish(self) -> Graph:
        """The graph, as ``build`` makes it. The builder cannot be used afterwards: its nodes are freed before
        the graph is made."""
        outputs = [(value.nid, value.index) for value in self._outputs]
        document, nodes = to_document(self._nodes, outputs, self._aliases, self._device)
        self._nodes, self._names, self._outputs = [], {}, []
        return graph_from_document(document, nodes)

    def to_json(self) -> str:
        """Canonical graph.json (ir/documents/write.py)."""
        return graph_to_json(self.build()).decode()

    # ---------------------------------------------------------------- making nodes

    def _types(self, what: str, inputs: Sequence[NodeValue]) -> list[TensorType]:
        for i, value in enumerate(inputs):
            if not isinstance(value, NodeValue) or value.builder is not self:
                text = f"{what}: input {i} must be a tensor of this builder, got {type(value).__name__}"
                raise GraphError(text, got=value)
        return [value.type for value in inputs]

    def _function(self, func_name: str, signature: tuple[Any, ...]) -> str:
        """``func_name``. Raises GraphError if an earlier call with this name has another signature."""
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
        """The attrs of a node with this call; all nodes of the call share them."""
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
        reads: Sequence[NodeValue],
        attrs: dict[str, str] | None,
        device: DeviceLike,
        storage: Storage,
    ) -> tuple[NodeValue, ...]:
        if not isinstance(name, str):
            raise GraphError(f"a name is a string, got {name!r}", got=name)
        nid = len(self._nodes)
        on = None if device is None else device_name(device)
        self._nodes.append(DraftNode(name, types, reads, attrs, on, storage_ids(storage, len(types), name)))
        self._names[name] = 0
        return tuple(NodeValue(self, nid, i, t.dtype, t.shape) for i, t in enumerate(types))

    @staticmethod
    def _one_or_all(values: tuple[NodeValue, ...]) -> NodeValue | tuple[NodeValue, ...]:
        return values[0] if len(values) == 1 else values


def _text(signature: tuple[Any, ...]) -> str:
    op, attrs, inputs, outputs = signature
    return f"{op}({', '.join(inputs)}{''.join(f', {k}={v}' for k, v in attrs)}) -> {', '.join(outputs)}"
