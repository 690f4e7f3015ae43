"""Normalisations: softmax log_softmax layer_norm rms_norm lrn.

C contract (args are the inputs, then the output). Attribute words:
    softmax, log_softmax    [0] axis (non-negative)
    layer_norm, rms_norm    [0] axis (non-negative): the dimensions axis .. last are normalised together;
                            scale and bias have their shape
                            [1] epsilon, the bits of a double
    lrn                     [0] size [1] alpha [2] beta [3] bias, the bits of doubles
Sums are in double; softmax and norms of contiguous float32 rows sum in lanes of float first. log_softmax:
x - log(sum of exp(x)). layer_norm: (x - mean) / sqrt(variance + epsilon) * scale + bias, variance without
Bessel's correction. rms_norm: x / sqrt(mean(x^2) + epsilon) * scale.
lrn: x / (bias + alpha / size * sum of the squares of ``size`` neighbouring channels)^beta; they begin
(size - 1) / 2 channels before, rounded down.
"""

from __future__ import annotations

import numpy as np

from .. import rules
from ..registry import REQUIRED, Attr, Body, Case, Op, register
from ..work import SOFTMAX, Passes

# ---------------------------------------------------------------- softmax log_softmax


_SOFTMAX_ROWS = (
    ("digits", (4, 10), -1),
    ("tiles", (3, 65, 97), -1),
    ("rows", (2, 33, 40), 1),
    ("first", (33, 5, 6), 0),
    ("vector", (31,), -1),
    ("wide", (2, 3001), -1),
    ("one", (3, 1), -1),
    ("empty", (0, 3), -1),
)


def _softmax(name, doc, finish, axis_meaning, work, inplace=(), ttnn=(), prebuilt=()):
    """``finish(x, e, total)``: the result, from x less its maximum, exp of that, and the sum of that."""

    def infer(inputs, attrs):
        rules.one_dtype(name, inputs, rules.FLOATS)
        rules.axis_of(name, attrs["axis"], len(inputs[0].shape))
        return [inputs[0]]

    def reference(arrays, attrs):
        x, axis = rules.wide(arrays[0]), attrs["axis"]
        if not x.size:
            return [arrays[0].copy()]
        with np.errstate(invalid="ignore"):
            x = x - x.max(axis=axis, keepdims=True)
            e = np.exp(x)
            y = finish(x, e, e.sum(axis=axis, keepdims=True))
        return [rules.narrow(y, arrays[0].dtype.name)]

    register(
        Op(
            name,
            doc,
            (1, 1),
            infer,
            reference,
            lambda i, o, a: 5 * o[0].size,
            attrs=(Attr("axis", "int", -1, axis_meaning),),
            words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
            bodies={
                "cpu": Body(name, rules.FLOATS, rules.by_dtype, prebuilt=prebuilt),
                "tt": Body(name, rules.TT_FLOATS),
            },
            inplace=inplace,
            pace={"cpu": "function"},
            work=work,
            parts="softmax",
            walk="softmax",
            ttnn={there: {"dim": "axis"} for there in ttnn},
            cases=(
                *(
                    Case(case, (("float32", shape),), {"axis": axis}, nmse=rules.ROUNDED)
                    for case, shape, axis in _SOFTMAX_ROWS
                ),
                *(Case(t, ((t, (5, 40)),), nmse=rules.SUMMED[t]) for t in rules.FLOATS[1:]),
            ),
        )
    )


_softmax(
    "softmax",
    "exp(x) / sum of exp(x) along an axis",
    lambda x, e, total: e / total,
    "the axis along which the result sums to 1",
    SOFTMAX,
    ttnn=("softmax",),
    prebuilt=("float32",),
)
_softmax(
    "log_softmax",
    "the logarithm of softmax along an axis",
    lambda x, e, total: x - np.log(total),
    "the axis along which exp of the result sums to 1",
    Passes(SOFTMAX.whole, (*SOFTMAX.rows, "log")),
    inplace=(0,),
)


# ---------------------------------------------------------------- layer_norm rms_norm


def _norm(name, doc, parameters, compute, epsilon, flops, whole, inplace=()):
    """Over the dimensions axis .. last. ``parameters``: the inputs after x, which have their shape.
    ``compute(x, mean, epsilon, *parameters)``; mean(array): over those dimensions. ``whole``: what tt does to
    all tiles of x."""

    def infer(inputs, attrs):
        x = inputs[0]
        rules.one_dtype(name, inputs, rules.FLOATS)
        axis = rules.axis_of(name, attrs["axis"], len(x.shape))
        if not attrs["epsilon"] >= 0:
            rules.fail(name, f"epsilon must be at least 0, got {attrs['epsilon']}", got=attrs["epsilon"])
        wanted = x.shape[axis:]
        for what, t in zip(parameters, inputs[1:], strict=True):
            if t.shape != wanted:
                text = f"{what} must have shape {list(wanted)} (axis {axis} .. last of {x}), got {t}"
                rules.fail(name, text, got=t.shape, wanted=wanted)
        return [x]

    def reference(arrays, attrs):
        x, *given = (rules.wide(a) for a in arrays)
        if not x.size:
            return [arrays[0].copy()]
        axes = tuple(range(attrs["axis"] % x.ndim, x.ndim))
        y = compute(x, lambda a: a.mean(axis=axes, keepdims=True), attrs["epsilon"], *given)
        return [rules.narrow(y, arrays[0].dtype.name)]

    register(
        Op(
            name,
            doc,
            (1 + len(parameters), 1 + len(parameters)),
            infer,
            reference,
            lambda i, o, a: flops * o[0].size,
            attrs=(
                Attr("axis", "int", -1, "the first of the dimensions that are normalised together"),
                Attr("epsilon", "float", 1e-5, epsilon),
            ),
            words=lambda i, o, a: [a["axis"] % len(i[0].shape), rules.float_word(a["epsilon"])],
            bodies={
                "cpu": Body(name, rules.FLOATS, rules.by_dtype, prebuilt=("float32",)),
                "tt": Body(name, rules.TT_FLOATS),
            },
            inplace=inplace,
            pace={"cpu": "simple"},
            work=Passes(whole, ("sqrt", "reciprocal")),
            parts=name,
            weights=tuple(range(1, 1 + len(parameters))),
            walk="layer_norm",
            cases=tuple(_norm_cases(len(parameters))),
        )
    )


def _norm_cases(parameters):
    for name, shape, axis in (
        ("tiles", (3, 65, 97), -1),
        ("planes", (2, 3, 33, 40), 2),
        ("whole", (5, 33), 0),
        ("vector", (31,), -1),
        ("one", (4, 1), -1),
        ("empty", (0, 3), -1),
    ):
        more = (("float32", shape[axis % len(shape) :]),) * parameters
        yield Case(name, (("float32", shape), *more), {"axis": axis}, nmse=rules.ROUNDED)
    for t in rules.FLOATS:
        inputs = ((t, (6, 33)), *((t, (33,)),) * parameters)
        yield Case(f"epsilon_{t}", inputs, {"epsilon": 0.5}, nmse=rules.SUMMED[t])


def _layer_norm(x, mean, epsilon, scale, bias):
    centred = x - mean(x)
    return centred / np.sqrt(mean(centred * centred) + epsilon) * scale + bias


def _rms_norm(x, mean, epsilon, scale):
    return x / np.sqrt(mean(x * x) + epsilon) * scale


_norm(
    "layer_norm",
    "normalise the trailing dimensions, then scale and shift",
    ("scale", "bias"),
    _layer_norm,
    "added to the variance",
    flops=8,
    whole=("reduce", "subtract", "multiply", "reduce", "multiply", "multiply", "add"),
)
_norm(
    "rms_norm",
    "divide the trailing dimensions by their root mean square, then scale",
    ("scale",),
    _rms_norm,
    "added to the mean square",
    flops=5,
    whole=("multiply", "reduce", "multiply", "multiply"),
    inplace=(0,),
)


# ---------------------------------------------------------------- lrn


def _lrn_infer(inputs, attrs):
    (x,) = inputs
    rules.one_dtype("lrn", inputs, rules.FLOATS)
    if len(x.shape) < 2:
        rules.fail("lrn", f"input 0 must have at least 2 dimensions [N,C,..], got {x}", got=x.shape)
    rules.limit("lrn", "size", (attrs["size"],), 1, 1)
    return [x]


def _lrn(arrays, attrs):
    x, size = rules.wide(arrays[0]), attrs["size"]
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = np.zeros_like(x)
    for c in range(x.shape[1]):
        squares[:, c] = (x[:, max(0, c - before) : c + after + 1] ** 2).sum(axis=1)
    y = x / (attrs["bias"] + attrs["alpha"] / size * squares) ** attrs["beta"]
    return [rules.narrow(y, arrays[0].dtype.name)]


register(
    Op(
        "lrn",
        "local response normalisation over neighbouring channels",
        (1, 1),
        _lrn_infer,
        _lrn,
        lambda i, o, a: (2 * a["size"] + 8) * o[0].size,
        attrs=(
            Attr("size", "int", REQUIRED, "channels that are summed"),
            Attr("alpha", "float", 1e-4, "factor of the mean square"),
            Attr("beta", "float", 0.75, "exponent"),
            Attr("bias", "float", 1.0, "added to the mean square"),
        ),
        words=lambda i, o, a: [a["size"], *(rules.float_word(a[k]) for k in ("alpha", "beta", "bias"))],
        bodies={"cpu": Body("lrn", rules.FLOATS, rules.by_dtype), "tt": Body("lrn", rules.TT_FLOATS)},
        pace={"cpu": "scalar"},
        work=Passes(("multiply", "reduce", "log", "multiply", "exp", "multiply")),
        parts="whole",
        cases=(
            Case("channels", (("float32", (2, 35, 5, 40)),), {"size": 3}, nmse=rules.ROUNDED),
            Case("even", (("float32", (1, 7, 9)),), {"size": 4, "alpha": 0.5}, nmse=rules.ROUNDED),
            Case("volumes", (("float32", (2, 6, 3, 4, 35)),), {"size": 5, "alpha": 0.5}, nmse=rules.ROUNDED),
            Case("columns", (("float32", (3, 70)),), {"size": 40, "alpha": 0.5}, nmse=rules.ROUNDED),
            Case("wide", (("float32", (2, 3, 5, 4)),), {"size": 9, "alpha": 0.5}, nmse=rules.ROUNDED),
            Case("empty", (("float32", (2, 3, 0, 4)),), {"size": 3}, nmse=rules.ROUNDED),
            *(
                Case(t, ((t, (2, 5, 33)),), {"size": 5, "bias": 2.0}, nmse=rules.SUMMED[t])
                for t in rules.FLOATS[1:]
            ),
        ),
    )
)
