"""Ops that read or write elements at indices of their own: take_along_axis gather_nd, scatter_elements
scatter_nd.

C contract (args are the inputs, then the output). Attribute words:
    take_along_axis    [0] axis (non-negative); args data, indices, out
    gather_nd          [0] batch_dims; args data, indices [.., k], out
    scatter_elements   [0] axis [1] reduction: 0 none, 1 add, 2 mul, 3 max, 4 min; args data, indices,
                       updates, out; may write over data (then it is not copied)
    scatter_nd         [0] reduction; args data, indices [.., k], updates, out; may write over data
Indices are int32 or int64 (indices.dtype), on tt int32; a negative one counts from the back, one that is out of range is a
kernel error. Updates are applied in order: of several to one element the last one stays (reduction none).
"""

from __future__ import annotations

import numpy as np

from .. import dtypes
from ..errors import KernelError
from ..graph import TensorType
from . import rules
from .registry import Attr, Body, Case, Op, register

_REDUCTIONS = ("none", "add", "mul", "max", "min")
_UFUNC = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_REDUCTION = Attr("reduction", "str", "none", "how an update joins the element that is there", _REDUCTIONS)


def _check_indices(op: str, data: TensorType, indices: TensorType) -> None:
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


def _bodies(name: str, suffix) -> dict[str, Body]:
    return {
        "cpu": Body(name, rules.ALL, suffix),
        "tt": Body(name, rules.TT_MOVED, accepts=rules.narrow_indices),
    }


def _scatter(data: np.ndarray, at: tuple, updates: np.ndarray, reduction: str) -> list[np.ndarray]:
    if reduction == "none":
        out = data.copy()
        out[at] = updates
        return [out]
    out, updates = (rules.wide_floats(a) for a in (data, updates))
    out = out.copy()
    with np.errstate(over="ignore"):
        _UFUNC[reduction].at(out, at, updates)
    return [rules.narrow(out, dtypes.from_numpy(data.dtype))]


_NMSE = rules.ROUNDED
_NARROW = {"float16": _NMSE | {"cpu": 1e-6}, "bfloat16": _NMSE | {"cpu": 1e-4}}


# ---------------------------------------------------------------- along an axis


def _along(op: str, data: TensorType, indices: TensorType, axis: int) -> int:
    _check_indices(op, data, indices)
    axis = rules.axis_of(op, axis, len(data.shape))
    rules.rank(op, "input 1 (indices)", indices, len(data.shape), "as many as input 0")
    for d, (n, m) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if d != axis and m > n and indices.size:
            rules.fail(op, f"indices {indices} leave dimension {d} of {data}", got=m, wanted=n)
    return axis


def _positions(op: str, data: np.ndarray, indices: np.ndarray, axis: int) -> tuple:
    at = list(np.ix_(*map(np.arange, indices.shape)))
    at[axis] = _in_range(op, indices, data.shape[axis]) if indices.size else indices
    return tuple(at)


def _take_along_infer(inputs, attrs):
    data, indices = inputs
    _along("take_along_axis", data, indices, attrs["axis"])
    return [TensorType(data.dtype, indices.shape)]


def _take_along_cases():
    for name, data, indices, axis, n in (
        ("columns", (33, 40), (33, 7), 1, 40),
        ("rows", (65, 33), (5, 33), 0, 65),
        ("part", (3, 33, 40), (2, 9, 20), 1, 33),
        ("vector", (40,), (65,), 0, 40),
        ("empty", (3, 4), (0, 4), 0, 3),
    ):
        for kind in ("int64", "int32"):
            yield Case(
                f"{name}_{kind}",
                (("float32", data), (kind, indices)),
                {"axis": axis},
                make=("normal", f"index:{n}"),
                nmse=rules.MOVED,
            )
    for t in rules.ALL:
        yield Case(
            t, ((t, (33, 9)), ("int32", (12, 9))), {"axis": 0}, make=("normal", "index:33"), nmse=rules.MOVED
        )


register(
    Op(
        "take_along_axis",
        "data at an index along an axis for each result, ONNX's GatherElements",
        (2, 2),
        _take_along_infer,
        lambda x, a: [x[0][_positions("take_along_axis", x[0], x[1], a["axis"] % x[0].ndim)]],
        lambda i, o, a: 0,
        attrs=(Attr("axis", "int", 0, "the axis of data that indices select from"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies=_bodies("take_along_axis", rules.by_bytes),
        cases=tuple(_take_along_cases()),
    )
)


def _scatter_elements_infer(inputs, attrs):
    data, indices, updates = inputs
    _along("scatter_elements", data, indices, attrs["axis"])
    _check_updates("scatter_elements", data, updates, indices.shape)
    return [data]


def _check_updates(op: str, data: TensorType, updates: TensorType, wanted: tuple[int, ...]) -> None:
    if updates.dtype != data.dtype:
        text = f"updates must be {data.dtype} as the data, got {updates}"
        rules.fail(op, text, got=updates.dtype, wanted=data.dtype)
    if updates.shape != wanted:
        text = f"updates must have shape {list(wanted)}, got {updates}"
        rules.fail(op, text, got=updates.shape, wanted=wanted)


def _scatter_elements(arrays, attrs):
    data, indices, updates = arrays
    at = _positions("scatter_elements", data, indices, attrs["axis"] % data.ndim)
    return _scatter(data, at, updates, attrs["reduction"])


def _scatter_cases(indices, updates, attrs, data=(33, 9)):
    """One case a dtype and a reduction of float32; several updates to an element among them."""
    for t in rules.ALL:
        attrs_of = attrs | {"reduction": "add"}
        kind = "int32" if t in rules.TT_MOVED else "int64"
        yield Case(
            t,
            ((t, data), (kind, indices), (t, updates)),
            attrs_of,
            make=("normal", "index:9"),
            nmse=_NARROW.get(t, _NMSE),
        )
    for reduction in _REDUCTIONS:
        yield Case(
            reduction,
            (("float32", data), ("int32", indices), ("float32", updates)),
            attrs | {"reduction": reduction},
            make=("normal", "index:9"),
            nmse=_NMSE,
        )


register(
    Op(
        "scatter_elements",
        "data with updates written at an index along an axis each, ONNX's ScatterElements",
        (3, 3),
        _scatter_elements_infer,
        _scatter_elements,
        lambda i, o, a: i[2].size,
        attrs=(Attr("axis", "int", 0, "the axis of data that indices select from"), _REDUCTION),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape), _REDUCTIONS.index(a["reduction"])],
        bodies=_bodies("scatter_elements", rules.by_dtype),
        inplace=(0,),
        cases=(
            *_scatter_cases((20, 9), (20, 9), {"axis": 0}),
            *(
                Case(
                    name + kind,
                    (("float32", data), (kind, indices), ("float32", indices)),
                    {"axis": axis},
                    make=("normal", f"index:{data[axis]}"),
                    nmse=rules.MOVED,
                )
                for kind in ("int64", "int32")
                for name, data, indices, axis in (
                    ("columns_", (3, 40), (2, 7), -1),
                    ("planes_", (5, 33, 40), (3, 33, 35), 0),
                    ("vector_", (70,), (90,), 0),
                )
            ),
        ),
    )
)


# ---------------------------------------------------------------- by tuples of indices


def _tuples(op: str, data: TensorType, indices: TensorType, batch: int) -> int:
    """Checks gather_nd's and scatter_nd's indices [.., k]; returns k."""
    _check_indices(op, data, indices)
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


def _at(op: str, data: np.ndarray, indices: np.ndarray, batch: int) -> tuple:
    """numpy's advanced index of the tuples."""
    k = indices.shape[-1]
    if not indices.size:
        indices = np.zeros(indices.shape, np.int64)
    else:
        indices = _in_range(op, indices, np.array(data.shape[batch : batch + k]))
    lead = np.ix_(*map(np.arange, indices.shape[:batch])) if batch else ()
    rest = (1,) * (indices.ndim - 1 - batch)
    return (*(a.reshape(a.shape + rest) for a in lead), *np.moveaxis(indices, -1, 0))


def _gather_nd_infer(inputs, attrs):
    data, indices = inputs
    k = _tuples("gather_nd", data, indices, attrs["batch_dims"])
    return [TensorType(data.dtype, indices.shape[:-1] + data.shape[attrs["batch_dims"] + k :])]


def _gather_nd_cases():
    for name, data, indices, batch, n in (
        ("rows", (33, 40), (7, 1), 0, 33),
        ("elements", (33, 35), (5, 9, 2), 0, 33),
        ("planes", (5, 6, 33), (4, 2), 0, 5),
        ("batch", (3, 33, 40), (3, 7, 1), 1, 33),
        ("batches", (2, 3, 33), (2, 3, 5, 1), 2, 33),
    ):
        for kind in ("int64", "int32"):
            yield Case(
                f"{name}_{kind}",
                (("float32", data), (kind, indices)),
                {"batch_dims": batch},
                make=("normal", f"index:{n}"),
                nmse=rules.MOVED,
            )
    for t in rules.ALL:
        yield Case(t, ((t, (33, 9)), ("int32", (12, 1))), {}, make=("normal", "index:33"), nmse=rules.MOVED)


register(
    Op(
        "gather_nd",
        "slices of data, each at a tuple of indices, ONNX's GatherND",
        (2, 2),
        _gather_nd_infer,
        lambda x, a: [np.array(x[0][_at("gather_nd", x[0], x[1], a["batch_dims"])])],
        lambda i, o, a: 0,
        attrs=(Attr("batch_dims", "int", 0, "dimensions in front that data and indices share"),),
        words=lambda i, o, a: [a["batch_dims"]],
        bodies=_bodies("gather_nd", rules.by_bytes),
        cases=tuple(_gather_nd_cases()),
    )
)


def _scatter_nd_infer(inputs, attrs):
    data, indices, updates = inputs
    k = _tuples("scatter_nd", data, indices, 0)
    _check_updates("scatter_nd", data, updates, indices.shape[:-1] + data.shape[k:])
    return [data]


def _scatter_nd(arrays, attrs):
    data, indices, updates = arrays
    return _scatter(data, _at("scatter_nd", data, indices, 0), updates, attrs["reduction"])


register(
    Op(
        "scatter_nd",
        "data with slices written, each at a tuple of indices, ONNX's ScatterND",
        (3, 3),
        _scatter_nd_infer,
        _scatter_nd,
        lambda i, o, a: i[2].size,
        attrs=(_REDUCTION,),
        words=lambda i, o, a: [_REDUCTIONS.index(a["reduction"])],
        bodies=_bodies("scatter_nd", rules.by_dtype),
        inplace=(0,),
        cases=(
            *_scatter_cases((20, 1), (20, 9), {}),
            *(
                Case(
                    name + kind,
                    (("float32", data), (kind, indices), ("float32", updates)),
                    {},
                    make=("normal", "index:5"),
                    nmse=rules.MOVED,
                )
                for kind in ("int64", "int32")
                for name, data, indices, updates in (
                    ("elements_", (33, 40), (6, 2), (6,)),
                    ("planes_", (5, 33, 40), (2, 1), (2, 33, 40)),
                    ("rows_", (5, 33, 40), (3, 4, 2), (3, 4, 40)),
                    ("nothing_", (5, 33), (0, 1), (0, 33)),
                )
            ),
        ),
    )
)
