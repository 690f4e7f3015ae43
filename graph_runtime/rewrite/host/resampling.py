"""The rule that finds products on cpu along an axis whose matrix is nearly empty, as a resize has
one along each axis: they are weighted sums of a few elements.

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

__all__ = ["resampling"]

_MOST_TAPS = 8  # elements of a sum; so many times less work than a product at least:
_GAIN = 4
_MOST_MATRIX = 4 * 2**20  # bytes that are looked at


def resampling(net: Net) -> None:
    """Products of float32 with a constant matrix of few elements a row."""
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
    """(indices, weights) of each result of a product [.., n] with a matrix of few elements a row."""
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
    except MissingDataError:  # an estimate, say, of a model without its weights
        return None
    rows = weights if attrs["transpose_b"] else weights.T
    if np.count_nonzero(rows[0]) > _MOST_TAPS:  # as of nearly every other weight
        return None
    most = max(int(np.count_nonzero(rows, axis=1).max()), 1)
    if most > _MOST_TAPS or most * _GAIN > rows.shape[1]:
        return None
    at = np.argsort(rows == 0, axis=1, kind="stable")[:, :most]  # of elements that count first, in order
    return at.astype(np.int32), np.ascontiguousarray(np.take_along_axis(rows, at, 1))


def _source(value: NetValue) -> tuple[NetValue, int]:
    """(x, axis) of a product's operand: x with this axis last and others merged, or it is x itself."""
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
    """The node whose result has the axis where x has it, and the nodes up to it."""
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
