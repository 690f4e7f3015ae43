"""resample: each result along an axis is a weighted sum of a few elements. A resize is one resample for each
axis.

C contract (args: x, indices int32 [m, k], weights [m, k], out). Attribute words: [0] axis (non-negative).
out[.., i, ..] = sum over k of weights[i, k] * x[.., indices[i, k], ..], in x's compute type. A negative index
counts from the back.
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case, per_dtype
from ..indices import in_range
from ..registry import Attr, define


def _infer(inputs, attrs):
    x, indices, weights = inputs
    dtype = rules.one_dtype("resample", [x, weights], rules.FLOATS)
    axis = rules.axis_of("resample", attrs["axis"], len(x.shape))
    if indices.dtype != "int32" or len(indices.shape) != 2 or weights.shape != indices.shape:
        text = f"indices must be int32 [m, k] and weights [m, k], got {indices} and {weights}"
        rules.fail("resample", text, got=indices.shape)
    return [TensorType(dtype, (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :]))]


def _resample(arrays, attrs):
    x, indices, weights = arrays
    axis = attrs["axis"] % x.ndim
    indices = in_range("resample", indices, x.shape[axis])
    wide = np.moveaxis(rules.wide(x), axis, -1)
    made = np.einsum("...mk,mk->...m", wide[..., indices], rules.wide(weights))
    return [rules.narrow(np.ascontiguousarray(np.moveaxis(made, -1, axis)), x.dtype.name)]


def _cases():
    for name, shape, axis, m, k in (
        ("rows", (2, 9, 35, 3), 1, 18, 2),
        ("columns", (3, 4, 33), -1, 70, 2),
        ("cubic", (2, 12, 40), 1, 7, 4),
        ("picked", (5, 33, 2), 1, 9, 1),
        ("none", (2, 3, 4), 1, 0, 2),
        ("empty", (0, 3, 4), 1, 2, 2),
    ):
        row, make = (shape, ("int32", (m, k)), (m, k)), ("normal", f"index:{shape[axis]}", "normal")
        yield case(name, *row, {"axis": axis}, make=make, nmse=rules.ROUNDED)
    row, make = ((2, 9, 5), ("int32", (6, 3)), (6, 3)), ("normal", "index:9", "normal")
    yield from per_dtype(rules.FLOATS[1:], *row, {"axis": 1}, make=make, nmse=rules.SUMMED)


define(
    "resample",
    "weighted sums of a few elements along an axis, as in a resize",
    (3, 3),
    _infer,
    _resample,
    lambda i, o, a: 2 * o[0].size * i[1].shape[1],
    attrs=(Attr("axis", "int", -1, "the axis to resample"),),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
    bodies=rules.bodies("resample", rules.FLOATS, prebuilt=rules.PREBUILT),
    kind="windows",
    pace={"cpu": "simple"},
    by_index=True,
    gathers=True,
    sums=True,
    cases=tuple(_cases()),
)
