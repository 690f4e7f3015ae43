"""Ops that only move elements: transpose concatenate slice slice_update take. Their cpu bodies go by element size (b1 b2 b4 b8).

C contract (args are the inputs, then the output). Attribute words:
    transpose      [0 .. ndim-1] perm: output dimension d is input dimension perm[d]
    concatenate    [0] axis (non-negative); nargs - 1 inputs
    slice          [2d] start and [2d+1] step of every input dimension d, normalised: 0 <= start, step may be negative;
                   out[i0, i1, ..] = x[start0 + i0*step0, start1 + i1*step1, ..]; the counts are the output's shape
    slice_update   the same words for x; args x, update, out: out = x, but out[start + i*step] = update[i];
                   may write over x (then x is not copied: out's address equals x's)
    take           [0] axis (non-negative); args data, indices, out;
                   out[a.., i.., b..] = data[a.., indices[i..], b..]; a negative index counts from the back, one that is out of
                   range is a kernel error. args[1].dtype is int32 or int64 (tt: int32)
"""
from __future__ import annotations

import numpy as np

from ..errors import KernelError
from ..graph import TensorType
from . import rules
from .registry import REQUIRED, Attr, Body, Case, Op, register

_MOST_INPUTS = 1 << 16


def _bodies(name):
    return {"cpu": Body(name, rules.ALL, rules.by_bytes), "tt": Body(name, rules.TT_MOVED)}


def _per_type(inputs, attrs, make=()):
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
        rules.fail("transpose", f"perm {list(attrs['perm'])} is no permutation of the {ndim} dimensions of {inputs[0]}",
                   got=attrs["perm"])
    return perm


def _transpose_infer(inputs, attrs):
    rules.one_dtype("transpose", inputs, rules.ALL)
    return [TensorType(inputs[0].dtype, tuple(inputs[0].shape[p] for p in _perm(inputs, attrs)))]


def _transpose_cases():
    for name, shape, perm in (("matrix", (65, 97), None), ("batch", (3, 33, 40), (0, 2, 1)), ("planes", (2, 3, 33, 5), (0, 2, 3, 1)),
                              ("outer", (3, 4, 33), (1, 0, 2)), ("rank5", (2, 3, 4, 5, 33), (4, 2, 0, 3, 1)), ("scalar", (), None),
                              ("same", (4, 33), (0, 1)), ("empty", (0, 3), None)):
        yield Case(name, (("float32", shape),), {} if perm is None else {"perm": perm}, nmse=rules.MOVED)
    yield from _per_type(lambda t: ((t, (3, 40, 33)),), {"perm": (2, 0, 1)})


register(Op(
    "transpose", "permute the dimensions", (1, 1), _transpose_infer,
    lambda x, a: [np.ascontiguousarray(x[0].transpose(a["perm"])).reshape(x[0].transpose(a["perm"]).shape)],
    lambda i, o, a: 0, attrs=(Attr("perm", "ints", None, "output dimension d is input dimension perm[d]; reversed by default"),),
    words=lambda i, o, a: list(_perm(i, a)), bodies=_bodies("transpose"), cases=tuple(_transpose_cases()),
))


# ---------------------------------------------------------------- concatenate

def _concatenate_infer(inputs, attrs):
    dtype = rules.one_dtype("concatenate", inputs, rules.ALL)
    first = inputs[0]
    axis = rules.axis_of("concatenate", attrs["axis"], len(first.shape))
    for i, t in enumerate(inputs):
        if len(t.shape) != len(first.shape) or any(a != b for d, (a, b) in enumerate(zip(t.shape, first.shape, strict=True))
                                                   if d != axis):
            rules.fail("concatenate", f"inputs may differ along axis {axis} only, but input 0 is {first} and input {i} is {t}",
                       got=t.shape, wanted=first.shape)
    total = sum(t.shape[axis] for t in inputs)
    return [TensorType(dtype, (*first.shape[:axis], total, *first.shape[axis + 1:]))]


def _concatenate_cases():
    for name, shapes, axis in (("rows", ((33, 40), (31, 40)), 0), ("columns", ((40, 33), (40, 65), (40, 1)), -1), ("one", ((3, 5),), 0),
                               ("channels", ((2, 3, 5, 33), (2, 40, 5, 33)), 1), ("vectors", ((3,), (70,)), 0),
                               ("planes", ((2, 33, 40), (3, 33, 40)), 0), ("empty", ((0, 3), (2, 3)), 0)):
        yield Case(name, tuple(("float32", s) for s in shapes), {"axis": axis}, nmse=rules.MOVED)
    yield from _per_type(lambda t: ((t, (2, 33, 5)), (t, (2, 40, 5))), {"axis": 1})


register(Op(
    "concatenate", "join tensors along an axis", (1, _MOST_INPUTS), _concatenate_infer,
    lambda x, a: [np.concatenate(x, axis=a["axis"])], lambda i, o, a: 0,
    attrs=(Attr("axis", "int", REQUIRED, "the axis along which the inputs follow each other"),),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape)], bodies=_bodies("concatenate"), cases=tuple(_concatenate_cases()),
))


# ---------------------------------------------------------------- slice and slice_update

def _per_axis(op, attrs, ndim, names):
    """{axis: (value of each named attribute)}; axes default to the first ones, steps to 1."""
    count = len(attrs["starts"])
    columns = [attrs[n] if attrs[n] is not None else (1,) * count for n in names]
    axes = attrs["axes"] if attrs["axes"] is not None else tuple(range(count))
    for name, column in (*zip(names, columns, strict=True), ("axes", axes)):
        if len(column) != count:
            rules.fail(op, f"{name} {list(column)} and starts {list(attrs['starts'])} must have equal lengths", got=column)
    axes = [rules.axis_of(op, a, ndim, "axes") for a in axes]
    if len(set(axes)) != count:
        rules.fail(op, f"axes {list(attrs['axes'])} name an axis twice", got=attrs["axes"])
    rows = dict(zip(axes, zip(*columns, strict=True), strict=True))
    if any(row[-1] == 0 for row in rows.values()):
        rules.fail(op, "steps must not be 0", got=attrs["steps"])
    return rows


def _slices(inputs, attrs):
    """(start, count, step) of each dimension of input 0, by ONNX's rules: negative counts from the back, then clamp."""
    shape = inputs[0].shape
    rows = _per_axis("slice", attrs, len(shape), ("starts", "ends", "steps"))
    out = []
    for d, n in enumerate(shape):
        start, end, step = rows.get(d, (0, n, 1))
        start, end, step = slice(start, end, step).indices(n)
        count = len(range(start, end, step))
        out.append((start if count else 0, count, step if count > 1 else 1))
    return out


def _slice_infer(inputs, attrs):
    rules.one_dtype("slice", inputs, rules.ALL)
    return [TensorType(inputs[0].dtype, tuple(count for _, count, _ in _slices(inputs, attrs)))]


def _positions(slices):
    return np.ix_(*(start + step * np.arange(count) for start, count, step in slices))


def _slice(arrays, attrs):
    x = arrays[0]
    return [np.array(x[_positions(_slices([TensorType(x.dtype.name, x.shape)], attrs))])]


def _updates(inputs, attrs):
    """(start, count, step) of each dimension of x that update covers. Raises GraphError where it does not fit inside x."""
    x, update = inputs
    rows = _per_axis("slice_update", attrs, len(x.shape), ("starts", "steps"))
    rules.rank("slice_update", "input 1 (update)", update, len(x.shape), "as many as input 0")
    out = []
    for d, (n, count) in enumerate(zip(x.shape, update.shape, strict=True)):
        start, step = rows.get(d, (0, 1))
        start += n if start < 0 else 0
        last = start + (count - 1) * step
        if d not in rows and count != n:
            rules.fail("slice_update", f"dimension {d} has no start, so update must have {n} there, got {update}", got=count, wanted=n)
        if count and not (0 <= start < n and 0 <= last < n):
            rules.fail("slice_update", f"update {update} from {start} by {step} leaves dimension {d} of {x}", got=last, wanted=n)
        out.append((start if count else 0, count, step if count > 1 else 1))
    return out


def _slice_update_infer(inputs, attrs):
    rules.one_dtype("slice_update", inputs, rules.ALL)
    _updates(inputs, attrs)
    return [inputs[0]]


def _slice_update(arrays, attrs):
    x, update = arrays
    out = x.copy()
    out[_positions(_updates([TensorType(a.dtype.name, a.shape) for a in arrays], attrs))] = update
    return [out]


def _words(slices):
    return [word for start, _, step in slices for word in (start, step)]


_STARTS = Attr("starts", "ints", REQUIRED, "first index of each of axes; negative counts from the back")
_AXES = Attr("axes", "ints", None, "the axes that starts is about; the first ones by default")
_STEPS = Attr("steps", "ints", None, "step of each of axes; 1 by default, may be negative")


def _slice_cases():
    for name, shape, attrs in (
        ("columns", (40, 97), {"starts": (5,), "ends": (70,), "axes": (1,)}),
        ("tiles", (3, 97, 65), {"starts": (1, 31), "ends": (3, 97)}),
        ("aligned", (96, 64), {"starts": (32, 32), "ends": (96, 64)}),
        ("strided", (33, 65), {"starts": (1, 0), "ends": (33, 65), "steps": (2, 3)}),
        ("reversed", (5, 40), {"starts": (-1,), "ends": (-(2**63),), "axes": (1,), "steps": (-1,)}),
        ("back", (2, 33, 40), {"starts": (-10, -20), "ends": (2**63 - 1, -3), "axes": (1, 2)}),
        ("clamped", (4, 5), {"starts": (-100, 2), "ends": (100, 100)}),
        ("rank5", (2, 3, 4, 5, 33), {"starts": (1, 2), "ends": (3, 4), "axes": (1, 3)}),
        ("nothing", (4, 5), {"starts": (3,), "ends": (1,)}),
    ):
        yield Case(name, (("float32", shape),), attrs, nmse=rules.MOVED)
    yield from _per_type(lambda t: ((t, (3, 40, 33)),), {"starts": (1, 2, 3), "ends": (3, 39, 30), "steps": (1, 1, 2)})


register(Op(
    "slice", "a part of a tensor, ONNX's Slice", (1, 1), _slice_infer, _slice, lambda i, o, a: 0,
    attrs=(_STARTS, Attr("ends", "ints", REQUIRED, "index behind the last of each of axes; clamped"), _AXES, _STEPS),
    words=lambda i, o, a: _words(_slices(i, a)), bodies=_bodies("slice"), cases=tuple(_slice_cases()),
))


def _slice_update_cases():
    for name, x, update, attrs in (
        ("row", (40, 65), (1, 65), {"starts": (33,)}),
        ("block", (3, 65, 97), (2, 33, 40), {"starts": (1, 31, -40)}),
        ("cache", (2, 4, 70, 33), (2, 4, 3, 33), {"starts": (64,), "axes": (2,)}),
        ("strided", (33, 40), (5, 40), {"starts": (32,), "steps": (-2,)}),
        ("whole", (33,), (33,), {"starts": (0,)}),
        ("nothing", (4, 5), (0, 5), {"starts": (2,)}),
    ):
        yield Case(name, (("float32", x), ("float32", update)), attrs, nmse=rules.MOVED)
    yield from _per_type(lambda t: ((t, (3, 40, 33)), (t, (3, 7, 33))), {"starts": (20,), "axes": (1,)})


register(Op(
    "slice_update", "a copy of x in which a slice is replaced by update", (2, 2), _slice_update_infer, _slice_update,
    lambda i, o, a: 0, attrs=(_STARTS, _AXES, _STEPS), words=lambda i, o, a: _words(_updates(i, a)),
    bodies=_bodies("slice_update"), inplace=(0,), cases=tuple(_slice_update_cases()),
))


# ---------------------------------------------------------------- take

def _take_infer(inputs, attrs):
    data, indices = inputs
    rules.one_dtype("take", inputs[:1], rules.ALL)
    if indices.dtype not in ("int32", "int64"):
        rules.fail("take", f"input 1 (indices) must be int32 or int64, got {indices}", got=indices.dtype)
    axis = rules.axis_of("take", attrs["axis"], len(data.shape))
    return [TensorType(data.dtype, data.shape[:axis] + indices.shape + data.shape[axis + 1:])]


def _take(arrays, attrs):
    data, indices = arrays
    size = data.shape[attrs["axis"]]
    wrong = (indices < -size) | (indices >= size)
    if wrong.any():
        raise KernelError(f"take: index {int(indices[wrong].flat[0])} is out of range for {size} elements", op="take")
    return [np.take(data, indices, axis=attrs["axis"])]


def _take_tt(inputs, outputs, attrs):
    return None if inputs[1].dtype == "int32" else "tt has no int64; give the indices as int32"


def _take_cases():
    for name, data, indices, axis, n in (("rows", (65, 97), (33,), 0, 65), ("columns", (33, 40), (70,), 1, 40), ("scalar", (5, 33), (), 0, 5),
                                         ("matrix", (50, 33), (4, 7), 0, 50), ("middle", (3, 9, 33), (2, 5), 1, 9), ("last", (4, 40), (3,), -1, 40),
                                         ("vector", (40,), (65,), 0, 40), ("nothing", (4, 3), (0,), 0, 4)):
        yield Case(name, (("float32", data), ("int32", indices)), {"axis": axis}, make=("normal", f"index:{n}"), nmse=rules.MOVED)
    yield Case("long_indices", (("float32", (33, 40)), ("int64", (9,))), {}, make=("normal", "index:33"), nmse=rules.MOVED)
    yield from _per_type(lambda t: ((t, (33, 40)), ("int32", (12,))), {}, make=("normal", "index:33"))


register(Op(
    "take", "elements of data at indices along an axis, ONNX's Gather", (2, 2), _take_infer, _take, lambda i, o, a: 0,
    attrs=(Attr("axis", "int", 0, "the axis of data that indices select from"),),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
    bodies={"cpu": Body("take", rules.ALL, rules.by_bytes), "tt": Body("take", rules.TT_MOVED, accepts=_take_tt)},
    cases=tuple(_take_cases()),
))
