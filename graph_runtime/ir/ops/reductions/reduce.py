"""Reductions: sum sum_abs sum_squares mean prod max min, all any. What each does in C is a line of
native/kernels/folds.h.

C contract (args are the input, then the output). Attribute words:
    [0] mask of the reduced axes: bit d is set for axis d (keepdims shows in the output's shape only)
Floats are joined in a wider type than they are stored in; integers wrap. max and min are NaN
where any element is. all and any run the bodies of min and max.
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..registry import Attr, Body, Case, Op, register

_NMSE = rules.SUMMED | dict.fromkeys((*rules.INTS, *rules.BOOL), rules.EXACT)


def _axes(op, attrs, ndim):
    """The reduced axes, sorted; all of them by default (and for an empty list, as ONNX)."""
    given = attrs["axes"] or range(ndim)
    return tuple(sorted(rules.axes_of(op, given, ndim)))


def _reduction(
    op, doc, compute, allowed, tt=(), empty_ok=True, exact=False, body=None, neutral=0.0, onnx="", **traits
):
    """A reduction of the dtypes ``allowed``, on tt of ``tt``. ``compute``: numpy's, of array, axis, keepdims.
    ``empty_ok``: no elements have a result, the fold's start. ``exact``: a result is one of the elements.
    ``body``: the kernels' name where it is not the op's. ``neutral``: as in Op. ``onnx``: its name there."""

    def infer(inputs, attrs):
        (x,) = inputs
        rules.one_dtype(op, inputs, allowed)
        axes = _axes(op, attrs, len(x.shape))
        shape = [1 if d in axes else n for d, n in enumerate(x.shape)]
        if not empty_ok and 0 not in shape and x.size == 0:
            rules.fail(op, f"cannot reduce {x} over axes {list(axes)}: there are no elements", got=x.shape)
        return [
            TensorType(x.dtype, tuple(n for d, n in enumerate(shape) if attrs["keepdims"] or d not in axes))
        ]

    def reference(arrays, attrs):
        (x,) = arrays
        empty = x.size == 0 and not empty_ok  # only the shape is left to say, which np.max does not
        wide = rules.wide_floats(x)
        with np.errstate(over="ignore"):
            y = (np.sum if empty else compute)(
                wide, axis=_axes(op, attrs, x.ndim), keepdims=attrs["keepdims"]
            )
        return [rules.narrow(y, x.dtype.name)]

    bodies = {"cpu": Body(body or op, allowed, rules.by_dtype, prebuilt=rules.PREBUILT)}
    if tt:
        bodies["tt"] = Body(body or op, tt)
    register(
        Op(
            op,
            doc,
            (1, 1),
            infer,
            reference,
            lambda i, o, a: i[0].size,
            attrs=(
                Attr("axes", "ints", None, "the axes to reduce; all of them by default"),
                Attr("keepdims", "bool", True, "keep the reduced axes with size 1"),
            ),
            words=lambda i, o, a: [rules.axes_mask(_axes(op, a, len(i[0].shape)))],
            bodies=bodies,
            kind="reduction",
            walk="reduce",
            neutral=neutral,
            onnx={onnx: {"keepdims": "keepdims"}} if onnx else {},
            **traits,
            cases=tuple(_reduction_cases(allowed, exact, empty_ok)),
        )
    )


def _reduction_cases(allowed, exact, empty_ok):
    first = allowed[0]
    for name, shape, attrs in (
        ("all", (3, 40, 33), {}),
        ("last", (3, 65, 97), {"axes": (-1,)}),
        ("rows", (3, 65, 97), {"axes": (1,), "keepdims": False}),
        ("first", (5, 33, 40), {"axes": (0,)}),
        ("ends", (3, 4, 33, 5), {"axes": (0, 3), "keepdims": False}),
        ("planes", (2, 3, 33, 35), {"axes": (2, 3)}),
        ("middle", (2, 3, 4, 5, 33), {"axes": (1, 3)}),
        ("scalar", (), {}),
        ("vector", (1000,), {"axes": (0,), "keepdims": False}),
        ("empty", (0, 4), {"axes": (1,)}),
    ):
        yield Case(name, ((first, shape),), attrs, nmse=rules.EXACT if exact else _NMSE[first])
    if empty_ok:
        yield Case("nothing", ((first, (4, 0)),), {"axes": (1,)}, nmse=rules.EXACT)
    for t in allowed[1:]:
        yield Case(t, ((t, (3, 33, 20)),), {"axes": (0, 2)}, nmse=rules.EXACT if exact else _NMSE[t])


def _summed(of):
    """The sum over axes of what ``of`` makes of each element, which integers wrap in."""
    return lambda x, axis, keepdims: np.sum(of(x), axis=axis, keepdims=keepdims)


_SUM = {"allowed": rules.NUMBERS, "tt": rules.TT_NUMBERS, "sums": True}
_reduction("sum", "sum over axes", np.sum, **_SUM, onnx="ReduceSum")
_reduction("sum_abs", "sum of |x| over axes", _summed(np.abs), **_SUM, onnx="ReduceL1")
_reduction("sum_squares", "sum of x * x over axes", _summed(np.square), **_SUM, onnx="ReduceSumSquare")
_reduction(
    "mean",
    "mean over axes",
    np.mean,
    rules.FLOATS,
    rules.TT_FLOATS,
    empty_ok=False,
    onnx="ReduceMean",
    sums=True,
)
_reduction(
    "prod", "product over axes", np.prod, rules.NUMBERS, rules.TT_NUMBERS, neutral=1.0, onnx="ReduceProd"
)
_EXTREME = {"allowed": rules.ALL, "tt": rules.TT_MOVED, "empty_ok": False, "exact": True}
_reduction("max", "greatest element over axes", np.max, **_EXTREME, neutral=-np.inf, onnx="ReduceMax")
_reduction("min", "least element over axes", np.min, **_EXTREME, neutral=np.inf, onnx="ReduceMin")
_BOOLS = {"allowed": rules.BOOL, "tt": rules.BOOL, "exact": True}
_reduction("all", "whether all elements are true", np.all, **_BOOLS, body="min", neutral=1.0)
_reduction("any", "whether any element is true", np.any, **_BOOLS, body="max")
