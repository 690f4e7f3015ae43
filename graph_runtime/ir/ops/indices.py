"""What the ops that go by indices of their own share (gather.py, scatter.py): which indices they take, and
where these point to; and of those that find indices (axis.py, pool_indices.py), which they make.

Indices are int32 or int64 (indices.dtype), on tt int32; a negative one counts from the back, one that is out
of range is a kernel error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import KernelError
from ..graph import TensorType
from . import rules
from .registry import Attr, Attrs, Body, Types

__all__ = ["INDEX", "along", "at_tuples", "bodies", "check_indices", "narrow_found", "positions", "tuples"]

INDEX = Attr("dtype", "str", "int64", "of the indices", ("int64", "int32"))


def narrow_found(inputs: Types, outputs: Types, attrs: Attrs) -> str | None:
    """Body.accepts of the tt kernels that find indices."""
    return None if attrs["dtype"] == "int32" else "tt has no int64; ask for the indices with dtype='int32'"


def check_indices(op: str, data: TensorType, indices: TensorType) -> None:
    """Raise GraphError unless an op may read ``data`` by indices of this type."""
    rules.one_dtype(op, [data], rules.ALL)
    if indices.dtype not in ("int32", "int64"):
        rules.fail(op, f"input 1 (indices) must be int32 or int64, got {indices}", got=indices.dtype)


def _in_range(op: str, indices: np.ndarray, size) -> np.ndarray:
    """Indices counted from the front. Raises KernelError for one that is out of range."""
    wrong = (indices < -size) | (indices >= size)
    if wrong.any():
        at = np.argwhere(wrong)[0]
        n = int(np.broadcast_to(size, indices.shape)[tuple(at)])
        raise KernelError(f"{op}: index {int(indices[tuple(at)])} is out of range for {n} elements", op=op)
    return np.where(indices < 0, indices + size, indices)


def bodies(name: str, suffix) -> dict[str, Body]:
    return {
        "cpu": Body(name, rules.ALL, suffix),
        "tt": Body(name, rules.TT_MOVED, accepts=rules.narrow_indices),
    }


# ---------------------------------------------------------------- an index along an axis for each element


def along(op: str, data: TensorType, indices: TensorType, axis: int) -> int:
    check_indices(op, data, indices)
    axis = rules.axis_of(op, axis, len(data.shape))
    rules.rank(op, "input 1 (indices)", indices, len(data.shape), "as many as input 0")
    for d, (n, m) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if d != axis and m > n and indices.size:
            rules.fail(op, f"indices {indices} leave dimension {d} of {data}", got=m, wanted=n)
    return axis


def positions(op: str, data: np.ndarray, indices: np.ndarray, axis: int) -> tuple[Any, ...]:
    at = list(np.ix_(*map(np.arange, indices.shape)))
    at[axis] = _in_range(op, indices, data.shape[axis]) if indices.size else indices
    return tuple(at)


# ---------------------------------------------------------------- a tuple of indices for each slice


def tuples(op: str, data: TensorType, indices: TensorType, batch: int) -> int:
    """Checks gather_nd's and scatter_nd's indices [.., k]; returns k."""
    check_indices(op, data, indices)
    if not 0 <= batch < max(len(indices.shape), 1) or indices.shape[:batch] != data.shape[:batch]:
        rules.fail(
            op, f"{data} and indices {indices} do not share {batch} batch dimensions in front", got=batch
        )
    k = indices.shape[-1] if indices.shape else 0
    if not 1 <= k <= len(data.shape) - batch:
        room = len(data.shape) - batch
        text = f"indices {indices} have {k} numbers each, but {data} has {room} dimensions for them"
        rules.fail(op, text, got=k, wanted=room)
    return k


def at_tuples(op: str, data: np.ndarray, indices: np.ndarray, batch: int) -> tuple[Any, ...]:
    """numpy's advanced index of the tuples."""
    k = indices.shape[-1]
    if not indices.size:
        indices = np.zeros(indices.shape, np.int64)
    else:
        indices = _in_range(op, indices, np.array(data.shape[batch : batch + k]))
    lead = np.ix_(*map(np.arange, indices.shape[:batch])) if batch else ()
    rest = (1,) * (indices.ndim - 1 - batch)
    return (*(a.reshape(a.shape + rest) for a in lead), *np.moveaxis(indices, -1, 0))
