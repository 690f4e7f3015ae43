"""Normalisations: softmax log_softmax layer_norm rms_norm lrn.

C contract (args are the inputs, then the output). Attribute words:
    softmax, log_softmax    [0] axis (non-negative)
    layer_norm, rms_norm    [0] axis (non-negative): the dimensions axis .. last are normalised together;
                            scale and bias have the shape of these dimensions
                            [1] epsilon, the bits of a double
    lrn                     [0] size [1] alpha [2] beta [3] bias, the bits of doubles
Formulas:
    log_softmax   x - log(sum of exp(x))
    layer_norm    (x - mean) / sqrt(variance + epsilon) * scale + bias, variance without Bessel's correction
    rms_norm      x / sqrt(mean(x^2) + epsilon) * scale
    lrn           x / (bias + alpha / size * sum of the squares of ``size`` neighbouring channels)^beta; the
                  first of these channels is (size - 1) / 2, rounded down, before x's
Sums are in double; softmax and norms of contiguous float32 rows first sum in lanes of float.
"""

from __future__ import annotations

import numpy as np

from .. import rules
from ..cases import case, cases, per_dtype
from ..registry import REQUIRED, Attr, define
from ..work import SOFTMAX, Passes

# ---------------------------------------------------------------- softmax log_softmax


_SOFTMAX_ROWS = (
    ("digits", (4, 10), {"axis": -1}),
    ("tiles", (3, 65, 97), {"axis": -1}),
    ("rows", (2, 33, 40), {"axis": 1}),
    ("first", (33, 5, 6), {"axis": 0}),
    ("vector", (31,), {"axis": -1}),
    ("wide", (2, 3001), {"axis": -1}),
    ("one", (3, 1), {"axis": -1}),
    ("empty", (0, 3), {"axis": -1}),
)


def _softmax(name, doc, finish, axis_meaning, work, inplace=(), ttnn=(), prebuilt=()):
    """Register a softmax. ``finish(x, e, total)``: the result, from x less its maximum, e = exp(x), and the
    total of e."""

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

    define(
        name,
        doc,
        (1, 1),
        infer,
        reference,
        lambda i, o, a: 5 * o[0].size,
        attrs=(Attr("axis", "int", -1, axis_meaning),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies=rules.bodies(name, rules.FLOATS, rules.TT_FLOATS, prebuilt=prebuilt),
        inplace=inplace,
        pace={"cpu": "function"},
        work=work,
        parts="softmax",
        walk="softmax",
        ttnn={there: {"dim": "axis"} for there in ttnn},
        cases=(
            *cases(_SOFTMAX_ROWS, rules.ROUNDED),
            *per_dtype(rules.FLOATS[1:], (5, 40), nmse=rules.SUMMED),
        ),
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
    """Register a norm over the dimensions axis .. last. ``parameters``: names of the inputs after x, which
    have the shape of these dimensions. ``compute(x, mean, epsilon, *parameters)``: the result; mean(array) is
    the mean over these dimensions. ``whole``: the ops of tt that pass over all tiles of x."""

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

    define(
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
        bodies=rules.bodies(name, rules.FLOATS, rules.TT_FLOATS, prebuilt=("float32",)),
        inplace=inplace,
        pace={"cpu": "simple"},
        work=Passes(whole, ("sqrt", "reciprocal")),
        parts=name,
        weights=tuple(range(1, 1 + len(parameters))),
        walk="layer_norm",
        cases=tuple(_norm_cases(len(parameters))),
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
        more = (shape[axis % len(shape) :],) * parameters
        yield case(name, shape, *more, {"axis": axis}, nmse=rules.ROUNDED)
    inputs = ((6, 33), *((33,),) * parameters)
    yield from per_dtype(rules.FLOATS, *inputs, {"epsilon": 0.5}, nmse=rules.SUMMED, name="epsilon_{}")


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


define(
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
    bodies=rules.bodies("lrn", rules.FLOATS, rules.TT_FLOATS),
    pace={"cpu": "scalar"},
    work=Passes(("multiply", "reduce", "log", "multiply", "exp", "multiply")),
    parts="whole",
    cases=(
        *cases(
            (
                ("channels", (2, 35, 5, 40), {"size": 3}),
                ("even", (1, 7, 9), {"size": 4, "alpha": 0.5}),
                ("volumes", (2, 6, 3, 4, 35), {"size": 5, "alpha": 0.5}),
                ("columns", (3, 70), {"size": 40, "alpha": 0.5}),
                ("wide", (2, 3, 5, 4), {"size": 9, "alpha": 0.5}),
                ("empty", (2, 3, 0, 4), {"size": 3}),
            ),
            rules.ROUNDED,
        ),
        *per_dtype(rules.FLOATS[1:], (2, 5, 33), {"size": 5, "bias": 2.0}, nmse=rules.SUMMED),
    ),
)
