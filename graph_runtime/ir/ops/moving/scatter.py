"""Ops that write elements at indices of their own: scatter_elements scatter_nd.

C contract (args are data, indices, updates, then the output, which may be written over the data; indices.py).
Attribute words:
    scatter_elements   [0] axis (non-negative) [1] reduction: 0 none, 1 add, 2 mul, 3 max, 4 min
    scatter_nd         [0] reduction; indices are [.., k]
Updates are applied in order: of several to one element the last one stays (reduction none).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..indices import along, at_tuples, bodies, positions, tuples
from ..registry import Attr, Case, Op, register

_REDUCTIONS = ("none", "add", "mul", "max", "min")
_UFUNC = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_REDUCTION = Attr("reduction", "str", "none", "how an update joins the element that is there", _REDUCTIONS)


def _scatter(data: np.ndarray, at: tuple[Any, ...], updates: np.ndarray, reduction: str) -> list[np.ndarray]:
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
_NARROW = {t: rules.SUMMED[t] for t in dtypes.NARROW_FLOATS}


# ---------------------------------------------------------------- along an axis


def _scatter_elements_infer(inputs, attrs):
    data, indices, updates = inputs
    along("scatter_elements", data, indices, attrs["axis"])
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
    at = positions("scatter_elements", data, indices, attrs["axis"] % data.ndim)
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
        bodies=bodies("scatter_elements", rules.by_dtype),
        moves=(1,),
        inplace=(0,),
        kind="movement",
        parts="embedding",
        by_index=True,
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


def _scatter_nd_infer(inputs, attrs):
    data, indices, updates = inputs
    k = tuples("scatter_nd", data, indices, 0)
    _check_updates("scatter_nd", data, updates, indices.shape[:-1] + data.shape[k:])
    return [data]


def _scatter_nd(arrays, attrs):
    data, indices, updates = arrays
    return _scatter(data, at_tuples("scatter_nd", data, indices, 0), updates, attrs["reduction"])


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
        bodies=bodies("scatter_nd", rules.by_dtype),
        moves=(1,),
        inplace=(0,),
        kind="movement",
        parts="embedding",
        by_index=True,
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
