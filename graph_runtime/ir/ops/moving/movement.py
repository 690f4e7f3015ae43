"""Ops that only move elements: transpose concatenate take (slicing.py has slices). Their cpu bodies are
chosen by element size (b1 b2 b4 b8).

C contract (args are the inputs, then the output). Attribute words:
    transpose      [0 .. ndim-1] perm: output dimension d is input dimension perm[d]
    concatenate    [0] axis (non-negative); there are nargs - 1 inputs
    take           [0] axis (non-negative); args data, indices, out;
                   out[a.., i.., b..] = data[a.., indices[i..], b..]. A negative index counts from the back,
                   an index out of range is a kernel error. args[1].dtype is int32 or int64 (tt: int32)
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case, cases, per_dtype
from ..indices import check_indices, in_range
from ..registry import REQUIRED, Attr, define

_MOST_INPUTS = 1 << 16


def movement(
    name, doc, arity, infer, reference, *, words, cases, prebuilt=rules.FOUR_BYTES, accepts=None, **traits
):
    """Register an op that moves elements of any type; ``prebuilt`` and ``accepts`` are arguments of
    rules.bodies."""
    types = rules.ALL, rules.TT_MOVED, rules.by_bytes
    bodies = rules.bodies(name, *types, prebuilt=prebuilt, accepts=accepts)
    traits = {"moves": (), "kind": "movement", **traits}
    define(name, doc, arity, infer, reference, words=words, bodies=bodies, cases=tuple(cases), **traits)


# ---------------------------------------------------------------- transpose


def _perm(inputs, attrs):
    ndim = len(inputs[0].shape)
    perm = attrs["perm"]
    if perm is None:
        return tuple(range(ndim))[::-1]
    perm = tuple(rules.axis_of("transpose", p, ndim, "perm") for p in perm)
    if sorted(perm) != list(range(ndim)):
        text = f"perm {list(attrs['perm'])} is no permutation of the {ndim} dimensions of {inputs[0]}"
        rules.fail("transpose", text, got=attrs["perm"])
    return perm


def _transpose_infer(inputs, attrs):
    rules.one_dtype("transpose", inputs, rules.ALL)
    return [TensorType(inputs[0].dtype, tuple(inputs[0].shape[p] for p in _perm(inputs, attrs)))]


movement(
    "transpose",
    "permute the dimensions",
    (1, 1),
    _transpose_infer,
    lambda x, a: [np.ascontiguousarray(x[0].transpose(a["perm"])).reshape(x[0].transpose(a["perm"]).shape)],
    attrs=(Attr("perm", "ints", None, "output dimension d is input dimension perm[d]; reversed by default"),),
    words=lambda i, o, a: list(_perm(i, a)),
    ttnn={"permute": {"dims": "perm"}},
    cases=(
        *cases(
            (
                ("matrix", (65, 97)),
                ("batch", (3, 33, 40), {"perm": (0, 2, 1)}),
                ("planes", (2, 3, 33, 5), {"perm": (0, 2, 3, 1)}),
                ("outer", (3, 4, 33), {"perm": (1, 0, 2)}),
                ("rank5", (2, 3, 4, 5, 33), {"perm": (4, 2, 0, 3, 1)}),
                ("scalar", ()),
                ("same", (4, 33), {"perm": (0, 1)}),
                ("empty", (0, 3)),
                ("halves", ("bfloat16", (2, 45, 3, 33)), {"perm": (0, 2, 3, 1)}),
                ("halves_few", ("bfloat16", (7, 70))),
            ),
            rules.MOVED,
        ),
        *per_dtype(rules.ALL[1:], (3, 40, 33), {"perm": (2, 0, 1)}, nmse=rules.MOVED),
    ),
)


# ---------------------------------------------------------------- concatenate


def _concatenate_infer(inputs, attrs):
    dtype = rules.one_dtype("concatenate", inputs, rules.ALL)
    first = inputs[0]
    axis = rules.axis_of("concatenate", attrs["axis"], len(first.shape))
    for i, t in enumerate(inputs):
        if len(t.shape) != len(first.shape) or any(
            a != b for d, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if d != axis
        ):
            text = f"inputs may differ along axis {axis} only, but input 0 is {first} and input {i} is {t}"
            rules.fail("concatenate", text, got=t.shape, wanted=first.shape)
    total = sum(t.shape[axis] for t in inputs)
    return [TensorType(dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))]


movement(
    "concatenate",
    "join tensors along an axis",
    (1, _MOST_INPUTS),
    _concatenate_infer,
    lambda x, a: [np.concatenate(x, axis=a["axis"])],
    attrs=(Attr("axis", "int", REQUIRED, "the axis along which the inputs follow each other"),),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
    prebuilt=rules.ALL,
    ttnn={"concat": {"dim": "axis"}},
    parts="splice",
    cases=(
        *cases(
            (
                ("rows", (33, 40), (31, 40), {"axis": 0}),
                ("columns", (40, 33), (40, 65), (40, 1), {"axis": -1}),
                ("one", (3, 5), {"axis": 0}),
                ("channels", (2, 3, 5, 33), (2, 40, 5, 33), {"axis": 1}),
                ("vectors", (3,), (70,), {"axis": 0}),
                ("planes", (2, 33, 40), (3, 33, 40), {"axis": 0}),
                ("empty", (0, 3), (2, 3), {"axis": 0}),
            ),
            rules.MOVED,
        ),
        *per_dtype(rules.ALL[1:], (2, 33, 5), (2, 40, 5), {"axis": 1}, nmse=rules.MOVED),
    ),
)


# ---------------------------------------------------------------- take


def _take_infer(inputs, attrs):
    data, indices = inputs
    check_indices("take", data, indices)
    axis = rules.axis_of("take", attrs["axis"], len(data.shape))
    return [TensorType(data.dtype, data.shape[:axis] + indices.shape + data.shape[axis + 1 :])]


def _take(arrays, attrs):
    data, indices = arrays
    size = data.shape[attrs["axis"]]
    shape = data.shape[: attrs["axis"]] + indices.shape + data.shape[attrs["axis"] :][1:]
    if 0 in shape:  # nothing is taken, so no index is wrong
        return [np.empty(shape, data.dtype)]
    return [np.take(data, in_range("take", indices, size), axis=attrs["axis"])]


_INDEX_33 = ("normal", "index:33")
movement(
    "take",
    "elements of data at indices along an axis, ONNX's Gather",
    (2, 2),
    _take_infer,
    _take,
    attrs=(Attr("axis", "int", 0, "the axis of data that indices select from"),),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
    moves=(1,),
    prebuilt=rules.ALL,
    accepts=rules.narrow_indices,
    parts="embedding",
    weights=(0,),
    gathers=True,
    by_index=True,
    cases=(
        *(
            case(
                name,
                data,
                ("int32", indices),
                {"axis": axis},
                make=("normal", f"index:{n}"),
                nmse=rules.MOVED,
            )
            for name, data, indices, axis, n in (
                ("rows", (65, 97), (33,), 0, 65),
                ("columns", (33, 40), (70,), 1, 40),
                ("scalar", (5, 33), (), 0, 5),
                ("matrix", (50, 33), (4, 7), 0, 50),
                ("middle", (3, 9, 33), (2, 5), 1, 9),
                ("last", (4, 40), (3,), -1, 40),
                ("vector", (40,), (65,), 0, 40),
                ("nothing", (4, 3), (0,), 0, 4),
            )
        ),
        case("long_indices", (33, 40), ("int64", (9,)), make=_INDEX_33, nmse=rules.MOVED),
        *per_dtype(rules.ALL[1:], (33, 40), ("int32", (12,)), make=_INDEX_33, nmse=rules.MOVED),
    ),
)
