"""The rule that replaces products on cpu along an axis, if their matrix is nearly all zeros, by weighted sums
of a few elements. A resize has such a product for each axis.

    transpose, reshape, matmul(., matrix), reshape, transpose  ->  resample(x, indices, weights, axis)
"""

from __future__ import annotations

import numpy as np

from ...base.errors import MissingDataError
from ...ir.model import Constant
from ..formats.pack_weights import is_host
from ..matching import only_reader
from ..net import Net, NetNode, NetValue
from ..neutral import permutation

_MOST_TAPS = 8  # most elements of a sum
_GAIN = 4  # a row of the matrix has at least this many times more elements than a sum
_MOST_MATRIX = 4 * 2**20  # largest matrix in bytes that is examined


def resampling(net: Net) -> None:
    """Replace float32 products with a constant matrix that has few nonzero elements per row."""
    for node in net.nodes("matmul"):
        found = _taps(node)
        if found is None:
            continue
        x, axis = _source(node.inputs[0])
        last, steps = _result(node.output, len(x.shape), axis)
        if last is None or not net.together([node, last]):
            continue
        indices, weights = (
            net.constant(Constant.of(array, f"{what} of {node.name}"), f"{node.name}.{what}")
            for array, what in zip(found, ("indices", "weights"), strict=True)
        )
        for value in (indices, weights):
            value.device = node.device
        made = net.add("resample", [x, indices, weights], before=last, axis=axis, name=last.name)
        net.note(
            "resampling",
            f"{node.name}: sums of {found[0].shape[1]} elements along axis {axis}",
            [node, *steps],
        )
        net.replace(last.output, made)


def _taps(node: NetNode) -> tuple[np.ndarray, np.ndarray] | None:
    """(indices, weights) of the sum for each result of a product [.., n]; None unless its matrix has few
    nonzero elements per row."""
    matrix, attrs = node.inputs[1], node.attrs
    if (
        not is_host(node)
        or node.output.dtype != "float32"
        or matrix.constant is None
        or len(matrix.shape) != 2
        or len(node.inputs) != 2
        or attrs["transpose_a"]
        or attrs.get("epilogue")
        or matrix.type.nbytes > _MOST_MATRIX
        or not matrix.type.size
    ):
        return None
    try:
        weights = matrix.constant.read()
    except MissingDataError:  # as when a model without its weights is only estimated
        return None
    rows = weights if attrs["transpose_b"] else weights.T
    if np.count_nonzero(rows[0]) > _MOST_TAPS:  # the test of one row rules out most weights
        return None
    most = max(int(np.count_nonzero(rows, axis=1).max()), 1)
    if most > _MOST_TAPS or most * _GAIN > rows.shape[1]:
        return None
    at = np.argsort(rows == 0, axis=1, kind="stable")[:, :most]  # nonzero elements first, in order
    return at.astype(np.int32), np.ascontiguousarray(np.take_along_axis(rows, at, 1))


def _source(value: NetValue) -> tuple[NetValue, int]:
    """(x, axis) if a product's operand is x with this axis moved last and the others merged; else the operand
    and its last axis."""
    node = value.producer
    if node is not None and node.op == "reshape" and _keeps_last(node):
        value, node = node.inputs[0], node.inputs[0].producer
    ndim = len(value.shape)
    if node is not None and node.op == "transpose":
        axis = permutation(node)[-1]
        if permutation(node) == _brings_last(axis, ndim):
            return node.inputs[0], axis
    return value, ndim - 1


def _result(value: NetValue, ndim: int, axis: int) -> tuple[NetNode | None, list[NetNode]]:
    """(the node that moves the axis back to its place in x, or None; the nodes from the product to that
    node)."""
    steps: list[NetNode] = []
    node = value.maker
    if len(value.shape) != ndim:
        after = only_reader(value)
        if (
            after is None
            or after.op != "reshape"
            or not _keeps_last(after)
            or len(after.output.shape) != ndim
        ):
            return None, steps
        steps.append(after)
        node = after
    if axis != ndim - 1:
        after = only_reader(node.output)
        back = _brings_last(axis, ndim)
        if (
            after is None
            or after.op != "transpose"
            or permutation(after) != tuple(map(back.index, range(ndim)))
        ):
            return None, steps
        steps.append(after)
        node = after
    return node, steps


def _keeps_last(node: NetNode) -> bool:
    return node.inputs[0].shape[-1:] == node.output.shape[-1:]


def _brings_last(axis: int, ndim: int) -> tuple[int, ...]:
    return (*(d for d in range(ndim) if d != axis), axis)
