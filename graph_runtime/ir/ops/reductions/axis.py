"""Ops that go along one axis: argmax argmin cumsum topk.

C contract (args are x, then the outputs). Attribute words:
    argmax, argmin   [0] axis (non-negative) [1] select_last_index; keepdims only changes the output's shape
    cumsum           [0] axis [1] exclusive [2] reverse
    topk             [0] axis [1] largest [2] total, for floats; args x, values, indices; k is the size of the
                     outputs along axis
Indices are int64, or int32 if the attribute dtype says so; tt takes int32 only. For argmax a NaN is the
greatest element, for argmin the least (as in numpy), for topk the greatest. With total, topk uses IEEE 754's
total order of floats: -NaN before all others, -0 before 0. Of equal elements the first one counts, or with
select_last_index the last; topk puts the lower index first. cumsum of floats adds in a wider type; integers
wrap.
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import indices, rules
from ..cases import case, cases, per_dtype
from ..registry import REQUIRED, Attr, Body, define
from ..work import Passes

_AXIS = Attr("axis", "int", 0, "the axis to go along")
_TYPES = rules.NUMBERS, rules.TT_NUMBERS


def _axis(op, inputs, attrs):
    rules.one_dtype(op, inputs, rules.NUMBERS)
    return rules.axis_of(op, attrs["axis"], len(inputs[0].shape))


# ---------------------------------------------------------------- argmax argmin


_ARG_ROWS = (
    ("last", (3, 65, 97), {"axis": -1}),
    ("rows", (3, 65, 40), {"axis": 1, "keepdims": False}),
    ("first", (33, 5)),
    ("ties", (3, 65, 40), {"axis": 1, "select_last_index": True}),
    ("last_ties", (3, 65), {"axis": 1, "select_last_index": True}),
    ("vector", (1000,), {"keepdims": False}),
    ("empty", (0, 4), {"axis": 1}),
)


def _arg(op: str, doc: str, compute) -> None:
    def infer(inputs, attrs):
        (x,) = inputs
        axis = _axis(op, inputs, attrs)
        if not x.shape[axis]:
            rules.fail(op, f"axis {axis} of {x} has no elements", got=x.shape)
        kept = (1,) if attrs["keepdims"] else ()
        return [TensorType(attrs["dtype"], x.shape[:axis] + kept + x.shape[axis + 1 :])]

    def reference(arrays, attrs):
        x, axis = arrays[0], attrs["axis"] % arrays[0].ndim
        x = rules.wide_floats(x)
        if attrs["select_last_index"]:
            found = x.shape[axis] - 1 - compute(np.flip(x, axis), axis=axis, keepdims=attrs["keepdims"])
        else:
            found = compute(x, axis=axis, keepdims=attrs["keepdims"])
        return [np.asarray(found, attrs["dtype"])]

    define(
        op,
        doc,
        (1, 1),
        infer,
        reference,
        lambda i, o, a: i[0].size,
        attrs=(
            _AXIS,
            Attr("keepdims", "bool", True, "keep the axis with size 1"),
            Attr("select_last_index", "bool", False, "index of the last of equal elements"),
            indices.INDEX,
        ),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape), int(a["select_last_index"])],
        bodies=rules.bodies(op, *_TYPES, accepts=indices.narrow_found),
        kind="reduction",
        parts="arg",
        walk="arg",
        cases=(
            *(
                case(f"{name}_{kind}", *row, make=("digits",), nmse=rules.EXACT, attrs={"dtype": kind})
                for name, *row in _ARG_ROWS
                for kind in ("int64", "int32")
            ),
            *per_dtype(rules.NUMBERS, (3, 33, 5), {"axis": 1, "dtype": "int32"}, nmse=rules.EXACT),
        ),
    )


_arg("argmax", "index of the greatest element along an axis", np.argmax)
_arg("argmin", "index of the least element along an axis", np.argmin)


# ---------------------------------------------------------------- cumsum


def _cumsum_infer(inputs, attrs):
    _axis("cumsum", inputs, attrs)
    return [inputs[0]]


def _cumsum(arrays, attrs):
    x, axis = arrays[0], attrs["axis"] % arrays[0].ndim
    wide = rules.wide_floats(x)
    wide = np.flip(wide, axis) if attrs["reverse"] else wide
    y = np.cumsum(wide, axis=axis, dtype=wide.dtype)
    if attrs["exclusive"]:
        first = np.zeros((*x.shape[:axis], min(x.shape[axis], 1), *x.shape[axis + 1 :]), y.dtype)
        y = np.concatenate([first, np.delete(y, -1, axis) if x.shape[axis] else y], axis=axis)
    return [rules.narrow(np.flip(y, axis) if attrs["reverse"] else y, x.dtype.name)]


define(
    "cumsum",
    "running sum along an axis",
    (1, 1),
    _cumsum_infer,
    _cumsum,
    lambda i, o, a: o[0].size,
    attrs=(
        _AXIS,
        Attr("exclusive", "bool", False, "without the element itself"),
        Attr("reverse", "bool", False, "from the end"),
    ),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape), int(a["exclusive"]), int(a["reverse"])],
    bodies=rules.bodies("cumsum", *_TYPES),
    pace={"cpu": "simple"},
    work=Passes(("matmul",)),  # a product with a triangle of ones
    parts="lines",
    cases=(
        *cases(
            (
                ("last", (3, 33, 97), {"axis": -1}),
                ("rows", (3, 65, 40), {"axis": 1}),
                ("exclusive", (33, 40), {"exclusive": True}),
                ("reverse", (33, 40), {"axis": 1, "reverse": True}),
                ("both", (5, 33), {"axis": 1, "reverse": True, "exclusive": True}),
                ("empty", (4, 0), {"axis": 1, "exclusive": True}),
            ),
            rules.ROUNDED,
        ),
        *per_dtype(rules.NUMBERS[1:], (3, 33, 5), {"axis": 1}, nmse=rules.SUMMED_OR_EXACT),
    ),
)


# ---------------------------------------------------------------- topk

# most elements that the default kernel keeps of a line, in a core's L1; each new one is put in its place
# among them, so for more it is quicker to sort the line
MOST_KEPT = 128
_SORTED_BYTES = 20  # scratch for an element (native/kernels/tt/topk.h)


def _topk_tt(inputs, outputs, attrs):
    if attrs["k"] > MOST_KEPT:
        return f"it keeps at most {MOST_KEPT} elements along that axis"
    return indices.narrow_found(inputs, outputs, attrs)


_TOPK_SORTED = Body(
    "topk_sorted",
    rules.TT_NUMBERS,
    scratch=lambda i, o, a: _SORTED_BYTES * i[0].size,
    accepts=indices.narrow_found,
)


def _topk_infer(inputs, attrs):
    (x,) = inputs
    axis = _axis("topk", inputs, attrs)
    if not 0 <= attrs["k"] <= x.shape[axis]:
        rules.fail("topk", f"k is {attrs['k']}, but axis {axis} of {x} has {x.shape[axis]}", got=attrs["k"])
    shape = (*x.shape[:axis], attrs["k"], *x.shape[axis + 1 :])
    return [TensorType(x.dtype, shape), TensorType(attrs["dtype"], shape)]


def _topk(arrays, attrs):
    x, axis = arrays[0], attrs["axis"] % arrays[0].ndim
    wide, n = rules.wide_floats(x), x.shape[attrs["axis"]]
    if attrs["total"] and wide.dtype.kind == "f":
        bits = wide.astype(np.float64).view(np.int64)
        wide = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    if attrs["largest"]:  # reversed twice, so that the lower index of equal elements comes first
        order = n - 1 - np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(wide, axis=axis, kind="stable")
    order = np.take(order, np.arange(attrs["k"]), axis=axis)
    return [np.take_along_axis(x, order, axis), order.astype(attrs["dtype"])]


define(
    "topk",
    "the k greatest or least elements along an axis, best first, and their indices",
    (1, 1),
    _topk_infer,
    _topk,
    lambda i, o, a: 2 * i[0].size,
    attrs=(
        Attr("k", "int", REQUIRED, "number of elements"),
        Attr("axis", "int", -1, "the axis to go along"),
        Attr("largest", "bool", True, "the greatest elements; else the least"),
        Attr(
            "total",
            "bool",
            False,
            "floats in total order: -NaN before all, -0 before 0; else NaN is last",
        ),
        Attr("sorted", "bool", True, "best first; they always are"),
        indices.INDEX,
    ),
    words=lambda i, o, a: [
        a["axis"] % len(i[0].shape),
        int(a["largest"]),
        int(a["total"] and i[0].dtype in rules.FLOATS),
    ],
    bodies=rules.bodies("topk", *_TYPES, accepts=_topk_tt),
    variants={"tt": (_TOPK_SORTED,)},
    kind="reduction",
    parts="moved",
    cases=(
        *(
            case(name + more, shape, attrs | dtype, make=(make,), nmse=rules.MOVED)
            for more, dtype in (("", {}), ("_int32", {"dtype": "int32"}))
            for name, shape, attrs, make in (
                ("last", (3, 65, 97), {"k": 5}, "normal"),
                ("rows", (3, 65, 33), {"k": 33, "axis": 1}, "normal"),
                ("long", (70, 40), {"k": 66, "axis": 0, "largest": False}, "digits"),
                ("planes", (5, 2, 33, 40), {"k": 3, "axis": 0}, "digits"),
                ("channels", (2, 5, 3, 33), {"k": 5, "axis": 1, "largest": False}, "normal"),
                ("ties", (40, 65), {"k": 40}, "digits"),
                ("least", (40, 65), {"k": 3, "largest": False}, "digits"),
                ("all", (33,), {"k": 33, "largest": False, "sorted": False}, "normal"),
                ("none", (33,), {"k": 0}, "normal"),
                ("many", (2, 3, 300), {"k": 200}, "digits"),
                ("many_rows", (3, 165, 33), {"k": 165, "axis": 1}, "normal"),
                ("many_planes", (1, 130, 3, 33), {"k": 129, "axis": 1, "largest": False}, "digits"),
                ("many_total", (3, 170), {"k": 170, "total": True, "largest": False}, "digits"),
                ("total", (40, 65), {"k": 40, "total": True}, "digits"),
            )
        ),
        *per_dtype(rules.NUMBERS[1:], (3, 33), {"k": 7, "dtype": "int32"}, nmse=rules.MOVED),
        *per_dtype(
            rules.NUMBERS[1:], (3, 140), {"k": 140, "dtype": "int32"}, nmse=rules.MOVED, name="many_of_{}"
        ),
    ),
)
