"""Reductions and normalisations: sum mean prod max min, all any, softmax, layer_norm.

C contract (args are the inputs, then the output). Attribute words:
    sum .. any       [0] mask of the reduced axes: bit d is set for axis d (keepdims shows in the
                     output's shape only)
    softmax          [0] axis (non-negative)
    layer_norm       [0] axis (non-negative): the dimensions axis .. last are normalised together;
                     scale and bias have their shape
                     [1] epsilon, the bits of a double
Floats are summed and multiplied in a wider type than they are stored in; integers wrap. max and min are NaN
where any element is. all and any run the bodies of min and max.
layer_norm: (x - mean) / sqrt(variance + epsilon) * scale + bias, variance without Bessel's correction.
"""

from __future__ import annotations

import numpy as np

from ..graph import TensorType
from . import rules
from .registry import Attr, Body, Case, Op, register

_NMSE = rules.SUMMED | dict.fromkeys((*rules.INTS, "bool"), rules.EXACT)


# ---------------------------------------------------------------- sum mean prod max min all any


def _axes(op, attrs, ndim):
    """The reduced axes, sorted; all of them by default (and for an empty list, as ONNX)."""
    given = attrs["axes"] or range(ndim)
    axes = sorted(rules.axis_of(op, a, ndim, "axes") for a in given)
    if len(set(axes)) != len(axes):
        rules.fail(op, f"axes {list(given)} name an axis twice", got=given)
    return tuple(axes)


def _reduction(op, doc, compute, allowed, empty_ok, tt=(), body=None):
    """``body``: the kernels' name where it is not the op's."""
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

    exact = op in ("max", "min", "all", "any")
    bodies = {"cpu": Body(body or op, allowed, rules.by_dtype)}
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


_NUMBERS = rules.FLOATS + rules.INTS
_reduction("sum", "sum over axes", np.sum, _NUMBERS, True, rules.TT_FLOATS)
_reduction("mean", "mean over axes", np.mean, rules.FLOATS, False, rules.TT_FLOATS)
_reduction("prod", "product over axes", np.prod, _NUMBERS, True, rules.TT_FLOATS)
_reduction("max", "greatest element over axes", np.max, rules.ALL, False, rules.TT_FLOATS)
_reduction("min", "least element over axes", np.min, rules.ALL, False, rules.TT_FLOATS)
_reduction("all", "whether all elements are true", np.all, ("bool",), True, body="min")
_reduction("any", "whether any element is true", np.any, ("bool",), True, body="max")


# ---------------------------------------------------------------- softmax


def _softmax_infer(inputs, attrs):
    (x,) = inputs
    rules.one_dtype("softmax", inputs, rules.FLOATS)
    rules.axis_of("softmax", attrs["axis"], len(x.shape))
    return [x]


def _softmax(arrays, attrs):
    x, axis = rules.wide(arrays[0]), attrs["axis"]
    if not x.size:
        return [arrays[0].copy()]
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return [rules.narrow(e / e.sum(axis=axis, keepdims=True), arrays[0].dtype.name)]


register(
    Op(
        "softmax",
        "exp(x) / sum of exp(x) along an axis",
        (1, 1),
        _softmax_infer,
        _softmax,
        lambda i, o, a: 5 * o[0].size,
        attrs=(Attr("axis", "int", -1, "the axis along which the result sums to 1"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies={"cpu": Body("softmax", rules.FLOATS, rules.by_dtype), "tt": Body("softmax", rules.TT_FLOATS)},
        cases=(
            Case("digits", (("float32", (4, 10)),), nmse=_NMSE["float32"]),
            Case("tiles", (("float32", (3, 65, 97)),), nmse=_NMSE["float32"]),
            Case("rows", (("float32", (2, 33, 40)),), {"axis": 1}, nmse=_NMSE["float32"]),
            Case("first", (("float32", (33, 5, 6)),), {"axis": 0}, nmse=_NMSE["float32"]),
            Case("vector", (("float32", (31,)),), nmse=_NMSE["float32"]),
            Case("one", (("float32", (3, 1)),), nmse=rules.EXACT),
            Case("empty", (("float32", (0, 3)),), nmse=rules.EXACT),
            *(Case(t, ((t, (5, 40)),), nmse=_NMSE[t]) for t in rules.FLOATS[1:]),
        ),
    )
)


# ---------------------------------------------------------------- layer_norm


def _layer_norm_infer(inputs, attrs):
    x, scale, bias = inputs
    rules.one_dtype("layer_norm", inputs, rules.FLOATS)
    axis = rules.axis_of("layer_norm", attrs["axis"], len(x.shape))
    if not attrs["epsilon"] >= 0:
        rules.fail("layer_norm", f"epsilon must be at least 0, got {attrs['epsilon']}", got=attrs["epsilon"])
    for what, t in (("scale", scale), ("bias", bias)):
        if t.shape != x.shape[axis:]:
            rules.fail(
                "layer_norm",
                f"{what} must have shape {list(x.shape[axis:])} (axis {axis} .. last of {x}), got {t}",
                got=t.shape,
                wanted=x.shape[axis:],
            )
    return [x]


def _layer_norm(arrays, attrs):
    x, scale, bias = (rules.wide(a) for a in arrays)
    if not x.size:
        return [arrays[0].copy()]
    axes = tuple(range(attrs["axis"] % x.ndim, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    return [rules.narrow(centred / np.sqrt(variance + attrs["epsilon"]) * scale + bias, arrays[0].dtype.name)]


def _layer_norm_cases():
    for name, shape, axis in (
        ("tiles", (3, 65, 97), -1),
        ("planes", (2, 3, 33, 40), 2),
        ("whole", (5, 33), 0),
        ("vector", (31,), -1),
        ("one", (4, 1), -1),
        ("empty", (0, 3), -1),
    ):
        tail = ("float32", shape[axis % len(shape) :])
        yield Case(name, (("float32", shape), tail, tail), {"axis": axis}, nmse=_NMSE["float32"])
    yield Case(
        "epsilon",
        (("float32", (4, 40)), ("float32", (40,)), ("float32", (40,))),
        {"epsilon": 0.5},
        nmse=_NMSE["float32"],
    )
    for t in rules.FLOATS[1:]:
        yield Case(t, ((t, (6, 33)), (t, (33,)), (t, (33,))), nmse=_NMSE[t])


register(
    Op(
        "layer_norm",
        "normalise the trailing dimensions, then scale and shift",
        (3, 3),
        _layer_norm_infer,
        _layer_norm,
        lambda i, o, a: 8 * o[0].size,
        attrs=(
            Attr("axis", "int", -1, "the first of the dimensions that are normalised together"),
            Attr("epsilon", "float", 1e-5, "added to the variance"),
        ),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape), rules.float_word(a["epsilon"])],
        bodies={
            "cpu": Body("layer_norm", rules.FLOATS, rules.by_dtype),
            "tt": Body("layer_norm", rules.TT_FLOATS),
        },
        cases=tuple(_layer_norm_cases()),
    )
)
