"""slice and slice_update: a part of a tensor, read or written. Their cpu bodies are chosen by element size.

C contract (args are the inputs, then the output). Attribute words:
    slice          [2d] start and [2d+1] step of every input dimension d, normalised: start >= 0, step may be
                   negative; out[i0, i1, ..] = x[start0 + i0*step0, start1 + i1*step1, ..]. The counts are the
                   output's shape
    slice_update   the same words, for x. Args are x, update, out: out = x, except that
                   out[start + i*step] = update[i]. out may be x itself (equal addresses), which
                   is then not copied
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import cases, per_dtype
from ..registry import REQUIRED, Attr
from .movement import movement


def _per_axis(op, attrs, ndim, names):
    """{axis: (values of the attributes ``names`` for the axis)}. By default the axes are the first ones, and
    the steps 1."""
    count = len(attrs["starts"])
    columns = [attrs[n] if attrs[n] is not None else (1,) * count for n in names]
    axes = attrs["axes"] if attrs["axes"] is not None else tuple(range(count))
    for name, column in (*zip(names, columns, strict=True), ("axes", axes)):
        if len(column) != count:
            text = f"{name} {list(column)} and starts {list(attrs['starts'])} must have equal lengths"
            rules.fail(op, text, got=column)
    axes = rules.axes_of(op, axes, ndim)
    rows = dict(zip(axes, zip(*columns, strict=True), strict=True))
    if any(row[-1] == 0 for row in rows.values()):
        rules.fail(op, "steps must not be 0", got=attrs["steps"])
    return rows


def slices_of(inputs, attrs):
    """(start, count, step) of each dimension of input 0, by ONNX's rules: negative numbers count from the
    back, then all are clamped to the dimension."""
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
    return [TensorType(inputs[0].dtype, tuple(count for _, count, _ in slices_of(inputs, attrs)))]


def _positions(slices):
    return np.ix_(*(start + step * np.arange(count) for start, count, step in slices))


def _slice(arrays, attrs):
    x = arrays[0]
    return [np.array(x[_positions(slices_of([TensorType(x.dtype.name, x.shape)], attrs))])]


def _updates(inputs, attrs):
    """(start, count, step) of each dimension: the part of x that ``update`` replaces. Raises GraphError if
    the part does not fit into x."""
    x, update = inputs
    rows = _per_axis("slice_update", attrs, len(x.shape), ("starts", "steps"))
    rules.rank("slice_update", "input 1 (update)", update, len(x.shape), "as many as input 0")
    out = []
    for d, (n, count) in enumerate(zip(x.shape, update.shape, strict=True)):
        start, step = rows.get(d, (0, 1))
        start += n if start < 0 else 0
        last = start + (count - 1) * step
        if d not in rows and count != n:
            text = f"dimension {d} has no start, so update must have {n} there, got {update}"
            rules.fail("slice_update", text, got=count, wanted=n)
        if count and not (0 <= start < n and 0 <= last < n):
            text = f"update {update} from {start} by {step} leaves dimension {d} of {x}"
            rules.fail("slice_update", text, got=last, wanted=n)
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


_STARTS = Attr("starts", "ints", REQUIRED, "first index along each of axes; negative counts from the back")
_AXES = Attr("axes", "ints", None, "the axes of starts; the first ones by default")
_STEPS = Attr("steps", "ints", None, "step along each of axes; 1 by default, may be negative")


movement(
    "slice",
    "a part of a tensor, ONNX's Slice",
    (1, 1),
    _slice_infer,
    _slice,
    attrs=(
        _STARTS,
        Attr("ends", "ints", REQUIRED, "index after the last along each of axes; clamped"),
        _AXES,
        _STEPS,
    ),
    words=lambda i, o, a: _words(slices_of(i, a)),
    prebuilt=rules.ALL,
    gathers=True,
    cases=(
        *cases(
            (
                ("columns", (40, 97), {"starts": (5,), "ends": (70,), "axes": (1,)}),
                ("tiles", (3, 97, 65), {"starts": (1, 31), "ends": (3, 97)}),
                ("aligned", (96, 64), {"starts": (32, 32), "ends": (96, 64)}),
                ("strided", (33, 65), {"starts": (1, 0), "ends": (33, 65), "steps": (2, 3)}),
                ("reversed", (5, 40), {"starts": (-1,), "ends": (-(2**63),), "axes": (1,), "steps": (-1,)}),
                ("back", (2, 33, 40), {"starts": (-10, -20), "ends": (2**63 - 1, -3), "axes": (1, 2)}),
                ("clamped", (4, 5), {"starts": (-100, 2), "ends": (100, 100)}),
                ("rank5", (2, 3, 4, 5, 33), {"starts": (1, 2), "ends": (3, 4), "axes": (1, 3)}),
                ("nothing", (4, 5), {"starts": (3,), "ends": (1,)}),
            ),
            rules.MOVED,
        ),
        *per_dtype(
            rules.ALL[1:],
            (3, 40, 33),
            {"starts": (1, 2, 3), "ends": (3, 39, 30), "steps": (1, 1, 2)},
            nmse=rules.MOVED,
        ),
    ),
)
movement(
    "slice_update",
    "a copy of x in which a slice is replaced by update",
    (2, 2),
    _slice_update_infer,
    _slice_update,
    attrs=(_STARTS, _AXES, _STEPS),
    words=lambda i, o, a: _words(_updates(i, a)),
    inplace=(0,),
    parts="splice",
    cases=(
        *cases(
            (
                ("row", (40, 65), (1, 65), {"starts": (33,)}),
                ("block", (3, 65, 97), (2, 33, 40), {"starts": (1, 31, -40)}),
                ("cache", (2, 4, 70, 33), (2, 4, 3, 33), {"starts": (64,), "axes": (2,)}),
                ("strided", (33, 40), (5, 40), {"starts": (32,), "steps": (-2,)}),
                ("whole", (33,), (33,), {"starts": (0,)}),
                ("nothing", (4, 5), (0, 5), {"starts": (2,)}),
            ),
            rules.MOVED,
        ),
        *per_dtype(rules.ALL[1:], (3, 40, 33), (3, 7, 33), {"starts": (20,), "axes": (1,)}, nmse=rules.MOVED),
    ),
)
