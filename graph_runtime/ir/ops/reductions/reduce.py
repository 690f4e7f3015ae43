"""Reductions: sum sum_abs sum_squares mean prod max min, all any. The C of each is a line of
native/kernels/folds.h.

C contract (args are the input, then the output). Attribute words:
    [0] mask of the reduced axes: bit d is set for axis d (keepdims only changes the output's shape)
Floats are joined in a type wider than their own; integers wrap. max and min are NaN if any element is NaN.
all and any run the bodies of min and max.
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import cases, per_dtype
from ..registry import Attr, define

_ROWS = (
    ("all", (3, 40, 33)),
    ("last", (3, 65, 97), {"axes": (-1,)}),
    ("rows", (3, 65, 97), {"axes": (1,), "keepdims": False}),
    ("first", (5, 33, 40), {"axes": (0,)}),
    ("ends", (3, 4, 33, 5), {"axes": (0, 3), "keepdims": False}),
    ("planes", (2, 3, 33, 35), {"axes": (2, 3)}),
    ("middle", (2, 3, 4, 5, 33), {"axes": (1, 3)}),
    ("scalar", ()),
    ("vector", (1000,), {"axes": (0,), "keepdims": False}),
    ("empty", (0, 4), {"axes": (1,)}),
)
_NOTHING = (("nothing", (4, 0), {"axes": (1,)}),)


def _axes(op, attrs, ndim):
    """The reduced axes, sorted. No attribute and an empty list mean all axes, as in ONNX."""
    given = attrs["axes"] or range(ndim)
    return tuple(sorted(rules.axes_of(op, given, ndim)))


def _reduction(
    op, doc, compute, allowed, tt=(), empty_ok=True, exact=False, body=None, neutral=0.0, onnx="", **traits
):
    """Register a reduction for the dtypes ``allowed``, on tt for ``tt``. ``compute(array, axis, keepdims)``:
    the numpy function. ``empty_ok``: whether a reduction of no elements is allowed and gives the start value
    in folds.h. ``exact``: whether every result is one of the elements. ``body``: name of the kernels if it
    differs from the op's. ``neutral``: the element that changes no result, as in Op. ``onnx``: ONNX's name.
    """

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
        empty = x.size == 0 and not empty_ok  # np.max would refuse; only the shape matters
        wide = rules.wide_floats(x)
        with np.errstate(over="ignore"):
            y = (np.sum if empty else compute)(
                wide, axis=_axes(op, attrs, x.ndim), keepdims=attrs["keepdims"]
            )
        return [rules.narrow(y, x.dtype.name)]

    bound = rules.EXACT if exact else rules.SUMMED_OR_EXACT
    define(
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
        bodies=rules.bodies(body or op, allowed, tt, prebuilt=rules.PREBUILT),
        kind="reduction",
        walk="reduce",
        neutral=neutral,
        onnx={onnx: {"keepdims": "keepdims"}} if onnx else {},
        **traits,
        cases=(
            *cases(_ROWS, bound, dtype=allowed[0]),
            *cases(_NOTHING if empty_ok else (), rules.EXACT, dtype=allowed[0]),
            *per_dtype(allowed[1:], (3, 33, 20), {"axes": (0, 2)}, nmse=bound),
        ),
    )


def _summed(of):
    """The numpy function that sums ``of(x)`` over axes; integers wrap."""
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
