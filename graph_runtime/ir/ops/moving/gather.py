"""Ops that read elements at given indices: take_along_axis gather_nd.

C contract (args are data, indices, then the output; indices.py). Attribute words:
    take_along_axis   [0] axis (non-negative)
    gather_nd         [0] batch_dims; indices are [.., k]
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case, per_dtype
from ..indices import along, at_tuples, bodies, positions, tuples
from ..registry import Attr, define


def _take_along_infer(inputs, attrs):
    data, indices = inputs
    along("take_along_axis", data, indices, attrs["axis"])
    return [TensorType(data.dtype, indices.shape)]


def _gather_nd_infer(inputs, attrs):
    data, indices = inputs
    k = tuples("gather_nd", data, indices, attrs["batch_dims"])
    return [TensorType(data.dtype, indices.shape[:-1] + data.shape[attrs["batch_dims"] + k :])]


def _cases(rows, attr, typed_indices, typed_attrs):
    """Cases of rows (name, shapes of data and indices, attribute, number of elements that indices select
    from), each with both dtypes of indices; then one case for each dtype."""
    for name, data, indices, value, n in rows:
        for kind in ("int64", "int32"):
            row = data, (kind, indices), {attr: value}
            yield case(f"{name}_{kind}", *row, make=("normal", f"index:{n}"), nmse=rules.MOVED)
    row = (33, 9), ("int32", typed_indices), typed_attrs
    yield from per_dtype(rules.ALL, *row, make=("normal", "index:33"), nmse=rules.MOVED)


def _gather(name, doc, infer, reference, attr, words, cases):
    define(
        name,
        doc,
        (2, 2),
        infer,
        reference,
        attrs=(attr,),
        words=words,
        bodies=bodies(name, rules.by_bytes),
        moves=(1,),
        kind="movement",
        parts="embedding",
        gathers=True,
        by_index=True,
        cases=tuple(cases),
    )


_gather(
    "take_along_axis",
    "data at an index along an axis for each result, ONNX's GatherElements",
    _take_along_infer,
    lambda x, a: [x[0][positions("take_along_axis", x[0], x[1], a["axis"] % x[0].ndim)]],
    Attr("axis", "int", 0, "the axis of data that indices select from"),
    lambda i, o, a: [a["axis"] % len(i[0].shape)],
    _cases(
        (
            ("columns", (33, 40), (33, 7), 1, 40),
            ("rows", (65, 33), (5, 33), 0, 65),
            ("part", (3, 33, 40), (2, 9, 20), 1, 33),
            ("vector", (40,), (65,), 0, 40),
            ("empty", (3, 4), (0, 4), 0, 3),
        ),
        "axis",
        (12, 9),
        {"axis": 0},
    ),
)
_gather(
    "gather_nd",
    "slices of data, each at a tuple of indices, ONNX's GatherND",
    _gather_nd_infer,
    lambda x, a: [np.array(x[0][at_tuples("gather_nd", x[0], x[1], a["batch_dims"])])],
    Attr("batch_dims", "int", 0, "dimensions in front that data and indices share"),
    lambda i, o, a: [a["batch_dims"]],
    _cases(
        (
            ("rows", (33, 40), (7, 1), 0, 33),
            ("elements", (33, 35), (5, 9, 2), 0, 33),
            ("planes", (5, 6, 33), (4, 2), 0, 5),
            ("batch", (3, 33, 40), (3, 7, 1), 1, 33),
            ("batches", (2, 3, 33), (2, 3, 5, 1), 2, 33),
        ),
        "batch_dims",
        (12, 1),
        {},
    ),
)
