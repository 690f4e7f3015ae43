"""Ops that write elements at given indices: scatter_elements scatter_nd.

C contract (args are data, indices, updates, then the output, which may be written over the data; indices.py).
Attribute words:
    scatter_elements   [0] axis (non-negative) [1] reduction: 0 none, 1 add, 2 mul, 3 max, 4 min
    scatter_nd         [0] reduction; indices are [.., k]
Updates are applied in order. With reduction none, the last of several updates of one element stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..cases import case
from ..indices import along, at_tuples, bodies, positions, tuples
from ..registry import Attr, define

_REDUCTIONS = ("none", "add", "mul", "max", "min")
_UFUNC = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_REDUCTION = Attr("reduction", "str", "none", "how an update joins the element that is there", _REDUCTIONS)
_NMSE = dict.fromkeys(rules.ALL, rules.ROUNDED) | {t: rules.SUMMED[t] for t in dtypes.NARROW_FLOATS}


def _scattered(data: np.ndarray, at: tuple[Any, ...], updates: np.ndarray, reduction: str) -> np.ndarray:
    if reduction == "none":
        out = data.copy()
        out[at] = updates
        return out
    out, updates = rules.wide_floats(data).copy(), rules.wide_floats(updates)
    with np.errstate(over="ignore"):
        _UFUNC[reduction].at(out, at, updates)
    return rules.narrow(out, dtypes.from_numpy(data.dtype))


def _scatter(op, doc, updated, at, attrs, words, cases):
    """``updated(data, indices, attrs)``: the shape of the updates. ``at(data, indices, attrs)``: the elements
    that the updates change, as numpy's index."""

    def infer(inputs, given):
        data, indices, updates = inputs
        wanted = updated(data, indices, given)
        if updates.dtype != data.dtype:
            text = f"updates must be {data.dtype} as the data, got {updates}"
            rules.fail(op, text, got=updates.dtype, wanted=data.dtype)
        if updates.shape != wanted:
            text = f"updates must have shape {list(wanted)}, got {updates}"
            rules.fail(op, text, got=updates.shape, wanted=wanted)
        return [data]

    def reference(arrays, given):
        data, indices, updates = arrays
        return [_scattered(data, at(data, indices, given), updates, given["reduction"])]

    define(
        op,
        doc,
        (3, 3),
        infer,
        reference,
        lambda i, o, a: i[2].size,
        attrs=(*attrs, _REDUCTION),
        words=lambda i, o, a: [*words(i, a), _REDUCTIONS.index(a["reduction"])],
        bodies=bodies(op, rules.by_dtype),
        moves=(1,),
        inplace=(0,),
        kind="movement",
        parts="embedding",
        by_index=True,
        cases=tuple(cases),
    )


def _cases(indices, attrs, rows):
    """One case for each dtype and for each reduction of float32, in which some elements get several updates.
    Then cases of ``rows`` (name, shapes of data, indices and updates, attributes, number of elements that
    indices select from), each with both dtypes of indices."""
    typed = [(t, t, "int32" if t in rules.TT_MOVED else "int64", "add") for t in rules.ALL]
    for name, t, kind, reduction in (*typed, *((r, "float32", "int32", r) for r in _REDUCTIONS)):
        row = (33, 9), (kind, indices), (t, (20, 9)), attrs | {"reduction": reduction}
        yield case(name, *row, make=("normal", "index:9"), nmse=_NMSE, dtype=t)
    for kind in ("int64", "int32"):
        for name, data, at, updates, own, n in rows:
            row = data, (kind, at), updates, own
            yield case(name + kind, *row, make=("normal", f"index:{n}"), nmse=rules.MOVED)


def _elements_updated(data: TensorType, indices: TensorType, attrs):
    along("scatter_elements", data, indices, attrs["axis"])
    return indices.shape


def _slices_updated(data: TensorType, indices: TensorType, attrs):
    return indices.shape[:-1] + data.shape[tuples("scatter_nd", data, indices, 0) :]


_scatter(
    "scatter_elements",
    "data with updates written at an index along an axis each, ONNX's ScatterElements",
    _elements_updated,
    lambda data, indices, a: positions("scatter_elements", data, indices, a["axis"] % data.ndim),
    (Attr("axis", "int", 0, "the axis of data that indices select from"),),
    lambda i, a: [a["axis"] % len(i[0].shape)],
    _cases(
        (20, 9),
        {"axis": 0},
        (
            ("columns_", (3, 40), (2, 7), (2, 7), {"axis": -1}, 40),
            ("planes_", (5, 33, 40), (3, 33, 35), (3, 33, 35), {"axis": 0}, 5),
            ("vector_", (70,), (90,), (90,), {"axis": 0}, 70),
        ),
    ),
)
_scatter(
    "scatter_nd",
    "data with slices written, each at a tuple of indices, ONNX's ScatterND",
    _slices_updated,
    lambda data, indices, a: at_tuples("scatter_nd", data, indices, 0),
    (),
    lambda i, a: [],
    _cases(
        (20, 1),
        {},
        (
            ("elements_", (33, 40), (6, 2), (6,), {}, 5),
            ("planes_", (5, 33, 40), (2, 1), (2, 33, 40), {}, 5),
            ("rows_", (5, 33, 40), (3, 4, 2), (3, 4, 40), {}, 5),
            ("nothing_", (5, 33), (0, 1), (0, 33), {}, 5),
        ),
    ),
)
