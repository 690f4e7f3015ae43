"""Sparse tensors: Constant's attribute sparse_value, and a graph's sparse initialisers, which become Constant
nodes. In graphs they are dense, with zeros where the file gives no value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ...ir.graph import TensorType
from ...ir.model import Constant
from .elements import BY_CODE
from .nodes import subgraphs
from .read import ModelFile, check_size, dims_of, dtype_name, tensor_constant


def sparse_as_nodes(proto: Any) -> None:
    """Replace each sparse initialiser of a ModelProto by a Constant node at the beginning of its graph. An
    input of the same name, as in files before IR version 4, is removed."""
    _as_nodes(proto.graph)
    for function in proto.functions:
        _in_nodes(function.node)


def _in_nodes(nodes: Any) -> None:
    for node in nodes:
        for inner in subgraphs(node):
            _as_nodes(inner)


def _as_nodes(graph: Any) -> None:
    _in_nodes(graph.node)
    if not graph.sparse_initializer:
        return
    whole = type(graph)()
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        node = whole.node.add(op_type="Constant", name=name, output=[name])
        node.attribute.add(name="sparse_value", type=11).sparse_tensor.CopyFrom(sparse)
    made = {sparse.values.name for sparse in graph.sparse_initializer}
    whole.input.extend(info for info in graph.input if info.name not in made)
    whole.node.extend(graph.node)
    del graph.sparse_initializer[:], graph.node[:], graph.input[:]
    graph.MergeFrom(whole)


def sparse_constant(file: ModelFile, sparse: Any, what: str) -> Constant:
    """Constant of a SparseTensorProto, made dense when it is read. Raises GraphError if its parts do not fit
    each other, and as tensor_constant for each part."""
    dims = dims_of(sparse, what)
    if sparse.values.data_type in BY_CODE:
        name = dtype_name(sparse.values.data_type, what)
        raise GraphError(f"{what} is sparse and of {name}, which is not supported", got=name)
    values = tensor_constant(file, sparse.values, f"{what}.values")
    indices = tensor_constant(file, sparse.indices, f"{what}.indices")
    kind, count = TensorType(values.type.dtype, dims), values.type.size
    check_size(kind, what)
    fits = indices.type.shape in ((count,), (count, len(dims)))
    if len(values.type.shape) != 1 or indices.type.dtype != "int64" or not fits:
        text = (
            f"{what} has values {values.type} and indices {indices.type}: indices of {count} values are "
            f"int64[{count}] or int64[{count}, {len(dims)}]"
        )
        raise GraphError(text, got=str(indices.type), wanted=(count, len(dims)))

    def dense(of: np.ndarray, at: np.ndarray) -> np.ndarray:
        limits = np.array(dims if at.ndim == 2 else [math.prod(dims)], np.int64)
        places = at.reshape(count, len(limits))
        if ((places < 0) | (places >= limits)).any():
            raise GraphError(f"{what} has an index outside of {list(dims)}", wanted=dims)
        made = np.zeros(dims, dtypes.to_numpy(kind.dtype))
        if at.ndim == 2:
            made[tuple(places.T)] = of
        else:
            made.reshape(-1)[at] = of
        return made

    return Constant.derived(kind, dense, values, indices, source=f"{what} of {file.name}")
