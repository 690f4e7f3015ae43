"""Rules about indices. For ops that read or write at given indices (gather.py, scatter.py): which indices are
accepted, and the elements that they select. For ops that find indices (axis.py, pool_indices.py): the dtype.

Indices are int32 or int64 (indices.dtype), on tt int32. A negative index counts from the back; an index out
of range is a kernel error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import KernelError
from ..graph import TensorType
from . import rules
from .registry import Attr, Attrs, Body, Suffix, Types

INDEX = Attr("dtype", "str", "int64", "dtype of the indices", ("int64", "int32"))


def narrow_found(inputs: Types, outputs: Types, attrs: Attrs) -> str | None:
    """Body.accepts of the tt kernels that find indices."""
    return None if attrs["dtype"] == "int32" else "tt has no int64; ask for the indices with dtype='int32'"


def check_indices(op: str, data: TensorType, indices: TensorType) -> None:
    """Raise GraphError unless an op may read ``data`` at indices of this type."""
    rules.one_dtype(op, [data], rules.ALL)
    if indices.dtype not in ("int32", "int64"):
        rules.fail(op, f"input 1 (indices) must be int32 or int64, got {indices}", got=indices.dtype)


def in_range(op: str, indices: np.ndarray, size) -> np.ndarray:
    """Indices counted from the front. Raises KernelError for an index out of range."""
    wrong = (indices < -size) | (indices >= size)
    if wrong.any():
        at = np.argwhere(wrong)[0]
        n = int(np.broadcast_to(size, indices.shape)[tuple(at)])
        raise KernelError(f"{op}: index {int(indices[tuple(at)])} is out of range for {n} elements", op=op)
    return np.where(indices < 0, indices + size, indices)


def bodies(name: str, suffix: Suffix) -> dict[str, Body]:
    return rules.bodies(name, rules.ALL, rules.TT_MOVED, suffix, accepts=rules.narrow_indices)


# ---------------------------------------------------------------- an index along an axis for each element


def along(op: str, data: TensorType, indices: TensorType, axis: int) -> None:
    """Raise GraphError unless indices of this type can select elements of ``data`` along the axis."""
    check_indices(op, data, indices)
    axis = rules.axis_of(op, axis, len(data.shape))
    rules.rank(op, "input 1 (indices)", indices, len(data.shape), "as many as input 0")
    for d, (n, m) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if d != axis and m > n and indices.size:
            rules.fail(op, f"indices {indices} leave dimension {d} of {data}", got=m, wanted=n)


def positions(op: str, data: np.ndarray, indices: np.ndarray, axis: int) -> tuple[Any, ...]:
    """The elements that indices select along an axis, as numpy's advanced index."""
    at = list(np.ix_(*map(np.arange, indices.shape)))
    at[axis] = in_range(op, indices, data.shape[axis]) if indices.size else indices
    return tuple(at)


# ---------------------------------------------------------------- a tuple of indices for each slice


def tuples(op: str, data: TensorType, indices: TensorType, batch: int) -> int:
    """k, the length of the tuples in gather_nd's and scatter_nd's indices [.., k]. Raises GraphError unless
    the indices fit the data."""
    check_indices(op, data, indices)
    if not 0 <= batch < max(len(indices.shape), 1) or indices.shape[:batch] != data.shape[:batch]:
        text = f"{data} and indices {indices} do not share {batch} batch dimensions in front"
        rules.fail(op, text, got=batch)
    k = indices.shape[-1] if indices.shape else 0
    if not 1 <= k <= len(data.shape) - batch:
        room = len(data.shape) - batch
        text = f"indices {indices} have {k} numbers each, but {data} has {room} dimensions for them"
        rules.fail(op, text, got=k, wanted=room)
    return k


def at_tuples(op: str, data: np.ndarray, indices: np.ndarray, batch: int) -> tuple[Any, ...]:
    """The elements that tuples of indices select, as numpy's advanced index."""
    k = indices.shape[-1]
    if not indices.size:
        indices = np.zeros(indices.shape, np.int64)
    else:
        indices = in_range(op, indices, np.array(data.shape[batch : batch + k]))
    lead = np.ix_(*map(np.arange, indices.shape[:batch])) if batch else ()
    rest = (1,) * (indices.ndim - 1 - batch)
    return (*(a.reshape(a.shape + rest) for a in lead), *np.moveaxis(indices, -1, 0))
