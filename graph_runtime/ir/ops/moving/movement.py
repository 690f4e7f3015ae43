"""Ops that only move elements: transpose concatenate take (slices: slicing.py). Their cpu bodies go by
element size (b1 b2 b4 b8).

C contract (args are the inputs, then the output). Attribute words:
    transpose      [0 .. ndim-1] perm: output dimension d is input dimension perm[d]
    concatenate    [0] axis (non-negative); nargs - 1 inputs
    take           [0] axis (non-negative); args data, indices, out;
                   out[a.., i.., b..] = data[a.., indices[i..], b..]; a negative index counts from the back,
                   one that is out of range is a kernel error. args[1].dtype is int32 or int64 (tt: int32)
"""

from __future__ import annotations

import numpy as np

from ....base.errors import KernelError
from ...graph import TensorType
from .. import rules
from ..registry import REQUIRED, Attr, Body, Case, Op, register

__all__ = ["bodies", "per_type"]

_MOST_INPUTS = 1 << 16


def bodies(name, prebuilt=rules.FOUR_BYTES):
    """The two bodies of an op that moves elements of any type; ``prebuilt`` as Body's."""
    return {"cpu": Body(name, rules.ALL, rules.by_bytes, prebuilt=prebuilt), "tt": Body(name, rules.TT_MOVED)}


def per_type(inputs, attrs, make=()):
    """One case a dtype; ``inputs(t)`` gives the typed shapes."""
    return tuple(Case(t, inputs(t), attrs, make=make, nmse=rules.MOVED) for t in rules.ALL[1:])


# ---------------------------------------------------------------- transpose


def _perm(inputs, attrs):
    ndim = len(inputs[0].shape)
    perm = attrs["perm"]
    if perm is None:
        return tuple(range(ndim))[::-1]
    perm = tuple(rules.axis_of("transpose", p, ndim, "perm") for p in perm)
    if sorted(perm) != list(range(ndim)):
        rules.fail(
            "transpose",
            f"perm {list(attrs['perm'])} is no permutation of the {ndim} dimensions of {inputs[0]}",
            got=attrs["perm"],
        )
    return perm


def _transpose_infer(inputs, attrs):
    rules.one_dtype("transpose", inputs, rules.ALL)
    return [TensorType(inputs[0].dtype, tuple(inputs[0].shape[p] for p in _perm(inputs, attrs)))]


def _transpose_cases():
    for name, shape, perm in (
        ("matrix", (65, 97), None),
        ("batch", (3, 33, 40), (0, 2, 1)),
        ("planes", (2, 3, 33, 5), (0, 2, 3, 1)),
        ("outer", (3, 4, 33), (1, 0, 2)),
        ("rank5", (2, 3, 4, 5, 33), (4, 2, 0, 3, 1)),
        ("scalar", (), None),
        ("same", (4, 33), (0, 1)),
        ("empty", (0, 3), None),
    ):
        yield Case(name, (("float32", shape),), {} if perm is None else {"perm": perm}, nmse=rules.MOVED)
    yield Case("halves", (("bfloat16", (2, 45, 3, 33)),), {"perm": (0, 2, 3, 1)}, nmse=rules.MOVED)
    yield Case("halves_few", (("bfloat16", (7, 70)),), {}, nmse=rules.MOVED)
    yield from per_type(lambda t: ((t, (3, 40, 33)),), {"perm": (2, 0, 1)})


register(
    Op(
        "transpose",
        "permute the dimensions",
        (1, 1),
        _transpose_infer,
        lambda x, a: [
            np.ascontiguousarray(x[0].transpose(a["perm"])).reshape(x[0].transpose(a["perm"]).shape)
        ],
        lambda i, o, a: 0,
        attrs=(
            Attr("perm", "ints", None, "output dimension d is input dimension perm[d]; reversed by default"),
        ),
        words=lambda i, o, a: list(_perm(i, a)),
        bodies=bodies("transpose"),
        moves=(),
        kind="movement",
        ttnn={"permute": {"dims": "perm"}},
        cases=tuple(_transpose_cases()),
    )
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
            rules.fail(
                "concatenate",
                f"inputs may differ along axis {axis} only, but input 0 is {first} and input {i} is {t}",
                got=t.shape,
                wanted=first.shape,
            )
    total = sum(t.shape[axis] for t in inputs)
    return [TensorType(dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))]


def _concatenate_cases():
    for name, shapes, axis in (
        ("rows", ((33, 40), (31, 40)), 0),
        ("columns", ((40, 33), (40, 65), (40, 1)), -1),
        ("one", ((3, 5),), 0),
        ("channels", ((2, 3, 5, 33), (2, 40, 5, 33)), 1),
        ("vectors", ((3,), (70,)), 0),
        ("planes", ((2, 33, 40), (3, 33, 40)), 0),
        ("empty", ((0, 3), (2, 3)), 0),
    ):
        yield Case(name, tuple(("float32", s) for s in shapes), {"axis": axis}, nmse=rules.MOVED)
    yield from per_type(lambda t: ((t, (2, 33, 5)), (t, (2, 40, 5))), {"axis": 1})


register(
    Op(
        "concatenate",
        "join tensors along an axis",
        (1, _MOST_INPUTS),
        _concatenate_infer,
        lambda x, a: [np.concatenate(x, axis=a["axis"])],
        lambda i, o, a: 0,
        attrs=(Attr("axis", "int", REQUIRED, "the axis along which the inputs follow each other"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies=bodies("concatenate", rules.ALL),
        moves=(),
        kind="movement",
        ttnn={"concat": {"dim": "axis"}},
        parts="splice",
        cases=tuple(_concatenate_cases()),
    )
)


# ---------------------------------------------------------------- take


def _take_infer(inputs, attrs):
    data, indices = inputs
    rules.one_dtype("take", inputs[:1], rules.ALL)
    if indices.dtype not in ("int32", "int64"):
        rules.fail("take", f"input 1 (indices) must be int32 or int64, got {indices}", got=indices.dtype)
    axis = rules.axis_of("take", attrs["axis"], len(data.shape))
    return [TensorType(data.dtype, data.shape[:axis] + indices.shape + data.shape[axis + 1 :])]


def _take(arrays, attrs):
    data, indices = arrays
    size = data.shape[attrs["axis"]]
    shape = data.shape[: attrs["axis"]] + indices.shape + data.shape[attrs["axis"] :][1:]
    if 0 in shape:  # nothing is taken, so that no index can be wrong
        return [np.empty(shape, data.dtype)]
    wrong = (indices < -size) | (indices >= size)
    if wrong.any():
        raise KernelError(
            f"take: index {int(indices[wrong].flat[0])} is out of range for {size} elements", op="take"
        )
    return [np.take(data, indices, axis=attrs["axis"])]


def _take_cases():
    for name, data, indices, axis, n in (
        ("rows", (65, 97), (33,), 0, 65),
        ("columns", (33, 40), (70,), 1, 40),
        ("scalar", (5, 33), (), 0, 5),
        ("matrix", (50, 33), (4, 7), 0, 50),
        ("middle", (3, 9, 33), (2, 5), 1, 9),
        ("last", (4, 40), (3,), -1, 40),
        ("vector", (40,), (65,), 0, 40),
        ("nothing", (4, 3), (0,), 0, 4),
    ):
        yield Case(
            name,
            (("float32", data), ("int32", indices)),
            {"axis": axis},
            make=("normal", f"index:{n}"),
            nmse=rules.MOVED,
        )
    yield Case(
        "long_indices",
        (("float32", (33, 40)), ("int64", (9,))),
        {},
        make=("normal", "index:33"),
        nmse=rules.MOVED,
    )
    yield from per_type(lambda t: ((t, (33, 40)), ("int32", (12,))), {}, make=("normal", "index:33"))


register(
    Op(
        "take",
        "elements of data at indices along an axis, ONNX's Gather",
        (2, 2),
        _take_infer,
        _take,
        lambda i, o, a: 0,
        attrs=(Attr("axis", "int", 0, "the axis of data that indices select from"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        moves=(1,),
        bodies={
            "cpu": Body("take", rules.ALL, rules.by_bytes, prebuilt=rules.ALL),
            "tt": Body("take", rules.TT_MOVED, accepts=rules.narrow_indices),
        },
        kind="movement",
        parts="embedding",
        weights=(0,),
        gathers=True,
        by_index=True,
        cases=tuple(_take_cases()),
    )
)
