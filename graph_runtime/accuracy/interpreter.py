"""The reference for devices: numpy alone runs a graph, without devices, plan, storage or compiled code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import GraphError, InputError, UnsupportedOpError, did_you_mean
from ..ir.graph import COPY, NOP, Graph, NodeView, TensorType
from ..ir.ops import require

Inputs = Mapping[str, np.ndarray] | Sequence[np.ndarray]


def interpret(
    graph: Graph,
    inputs: Inputs,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    settle: Callable[[int, np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The value of every entry, in the order of eid, as the ops' numpy references compute it.

    ``inputs``: {name: array}, or arrays in the order of the graph's inputs; they must have the graph's dtypes
    and shapes. ``functions``: {func_name: callable} for functions without gr.op; each is called with the
    input arrays, and returns one array or several. ``settle(eid, value)`` is called for each computed entry,
    and returns the value that other nodes read.

    Raises InputError for inputs that do not fit, UnsupportedOpError for an undefined function, GraphError if
    a function's result has another type than in the graph, KernelError if a reference fails, for example for
    an index out of range.
    """
    values: list[Any] = [None] * graph.num_entries  # value of each entry; None until it is computed
    for eid, array in zip(graph.input_eids.tolist(), _ordered(graph, inputs), strict=True):
        values[eid] = array
    for nid in range(graph.num_nodes):
        node = graph.node(nid)
        if node.func is None:
            if values[node.outputs[0]] is None:
                text = f"node {node.name!r} is neither a graph input nor the result of a function"
                raise InputError(text, node=node.name)
            continue
        made = call_node(node, [values[e] for e in node.inputs], functions or {})
        for eid, type_, array in zip(node.outputs, node.output_types, made, strict=True):
            values[eid] = _checked(node, type_, array)
            if settle is not None:
                values[eid] = settle(eid, values[eid])
    return values


def heads(graph: Graph, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The values of the graph's outputs, selected from the values of all entries."""
    return [values[eid] for eid in graph.outputs.tolist()]


def _ordered(graph: Graph, inputs: Inputs) -> list[np.ndarray]:
    names = graph.input_names
    if isinstance(inputs, Mapping):
        for name in inputs:
            if name not in names:
                raise InputError(f"the graph has no input {name!r}{did_you_mean(name, names)}", got=name)
        missing = [name for name in names if name not in inputs]
        if missing:
            raise InputError(f"no value for input {missing[0]!r}", wanted=missing)
        inputs = [inputs[name] for name in names]
    if len(inputs) != len(names):
        text = f"the graph has {len(names)} inputs, but {len(inputs)} arrays were given"
        raise InputError(text, got=len(inputs), wanted=len(names))
    arrays = []
    for name, eid, value in zip(names, graph.input_eids.tolist(), inputs, strict=True):
        array, type_ = np.asarray(value), graph.entry_type(eid)
        if array.shape != type_.shape or array.dtype != dtypes.to_numpy(type_.dtype):
            text = f"input {name!r} is {type_}, got {array.dtype.name}{list(array.shape)}"
            raise InputError(text, got=array.shape, wanted=type_)
        arrays.append(array)
    return arrays


def call_node(
    node: NodeView, arrays: list[np.ndarray], functions: Mapping[str, Callable[..., Any]]
) -> Sequence[np.ndarray]:
    """The results of a node for the given arrays, by the op's numpy reference or by ``functions``. Raises the
    errors of interpret."""
    func = node.callee
    if func.name == NOP:
        return [_nop(node, arrays[0])]
    if func.name == COPY:
        return [_reinterpret(node, np.array(arrays[0])).reshape(node.output_types[0].shape)]
    if func.takes_flat:
        arrays = [a.reshape(-1) for a in arrays]
    if func.op is not None:
        made = require(func.op).reference(arrays, func.attrs)
    elif func.name in functions:
        made = functions[func.name](*arrays)
        made = list(made) if isinstance(made, (tuple, list)) else [made]
    else:
        raise UnsupportedOpError(
            f"node {node.name!r}: function {func.name!r} has no gr.op, so there is no numpy reference; pass "
            f"functions={{{func.name!r}: callable}}",
            node=node.name,
            got=func.name,
        )
    if len(made) != len(node.outputs):
        text = f"node {node.name!r} has {len(node.outputs)} outputs, its function returned {len(made)}"
        raise GraphError(text, node=node.name, got=len(made), wanted=len(node.outputs))
    if func.takes_flat:
        made = [
            np.asarray(a).reshape(t.shape) if np.size(a) == t.size else a
            for a, t in zip(made, node.output_types, strict=True)
        ]
    return made


def _nop(node: NodeView, array: np.ndarray) -> np.ndarray:
    type_ = node.output_types[0]
    if array.size != type_.size:
        text = f"node {node.name!r}: __nop cannot make {type_} of {node.input_types[0]}"
        raise GraphError(text, node=node.name, wanted=type_)
    return _reinterpret(node, array.reshape(type_.shape))


def _reinterpret(node: NodeView, array: np.ndarray) -> np.ndarray:
    """The same bytes as an array of the output's dtype, as TVM's __copy and __nop do."""
    type_ = node.output_types[0]
    dtype = dtypes.to_numpy(type_.dtype)
    if array.dtype == dtype:
        return array
    if array.size * array.itemsize != type_.nbytes:
        raise GraphError(
            f"node {node.name!r}: {node.callee.name} cannot make {type_} of {node.input_types[0]}: "
            "other bytes",
            node=node.name,
            wanted=type_,
        )
    return np.frombuffer(array.tobytes(), dtype).reshape(type_.shape)


def _checked(node: NodeView, type_: TensorType, value: np.ndarray) -> np.ndarray:
    array = np.asarray(value)
    if array.shape != type_.shape or array.dtype != dtypes.to_numpy(type_.dtype):
        raise GraphError(
            f"node {node.name!r} ({node.op}): the graph says {type_}, the function made "
            f"{array.dtype.name}{list(array.shape)}",
            node=node.name,
            op=node.op,
            wanted=type_,
        )
    return array
