"""Ops that read elements at indices of their own: take_along_axis gather_nd.

C contract (args are data, indices, then the output; indices.py). Attribute words:
    take_along_axis    [0] axis (non-negative)
    gather_nd          [0] batch_dims; indices are [.., k]
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..indices import along, at_tuples, bodies, positions, tuples
from ..registry import Attr, Case, Op, register

# ---------------------------------------------------------------- along an axis


def _take_along_infer(inputs, attrs):
    data, indices = inputs
    along("take_along_axis", data, indices, attrs["axis"])
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
        lambda x, a: [x[0][positions("take_along_axis", x[0], x[1], a["axis"] % x[0].ndim)]],
        lambda i, o, a: 0,
        attrs=(Attr("axis", "int", 0, "the axis of data that indices select from"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies=bodies("take_along_axis", rules.by_bytes),
        moves=(1,),
        kind="movement",
        parts="embedding",
        gathers=True,
        by_index=True,
        cases=tuple(_take_along_cases()),
    )
)


# ---------------------------------------------------------------- by tuples of indices


def _gather_nd_infer(inputs, attrs):
    data, indices = inputs
    k = tuples("gather_nd", data, indices, attrs["batch_dims"])
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
        lambda x, a: [np.array(x[0][at_tuples("gather_nd", x[0], x[1], a["batch_dims"])])],
        lambda i, o, a: 0,
        attrs=(Attr("batch_dims", "int", 0, "dimensions in front that data and indices share"),),
        words=lambda i, o, a: [a["batch_dims"]],
        bodies=bodies("gather_nd", rules.by_bytes),
        moves=(1,),
        kind="movement",
        parts="embedding",
        gathers=True,
        by_index=True,
        cases=tuple(_gather_nd_cases()),
    )
)
