"""Normalisations beside softmax and layer_norm (reduce.py): log_softmax rms_norm lrn.

C contract (args are the inputs, then the output). Attribute words:
    log_softmax    [0] axis (non-negative)
    rms_norm       [0] axis: the dimensions axis .. last are normalised together; scale has their shape
                   [1] epsilon, the bits of a double
    lrn            [0] size [1] alpha [2] beta [3] bias, the bits of doubles
Sums are in double. log_softmax: x - log(sum of exp(x)). rms_norm: x / sqrt(mean(x^2) + epsilon) * scale.
lrn: x / (bias + alpha / size * sum of the squares of ``size`` neighbouring channels)^beta; they begin
(size - 1) / 2 channels before, rounded down.
"""

from __future__ import annotations

import numpy as np

from . import rules
from .registry import REQUIRED, Attr, Body, Case, Op, register

# ---------------------------------------------------------------- log_softmax


def _log_softmax_infer(inputs, attrs):
    rules.one_dtype("log_softmax", inputs, rules.FLOATS)
    rules.axis_of("log_softmax", attrs["axis"], len(inputs[0].shape))
    return [inputs[0]]


def _log_softmax(arrays, attrs):
    x, axis = rules.wide(arrays[0]), attrs["axis"]
    if not x.size:
        return [arrays[0].copy()]
    with np.errstate(invalid="ignore"):
        x = x - x.max(axis=axis, keepdims=True)
        y = x - np.log(np.exp(x).sum(axis=axis, keepdims=True))
    return [rules.narrow(y, arrays[0].dtype.name)]


register(
    Op(
        "log_softmax",
        "the logarithm of softmax along an axis",
        (1, 1),
        _log_softmax_infer,
        _log_softmax,
        lambda i, o, a: 5 * o[0].size,
        attrs=(Attr("axis", "int", -1, "the axis along which exp of the result sums to 1"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies={
            "cpu": Body("log_softmax", rules.FLOATS, rules.by_dtype),
            "tt": Body("log_softmax", rules.TT_FLOATS),
        },
        inplace=(0,),
        cases=(
            *(
                Case(name, (("float32", shape),), {"axis": axis}, nmse=rules.ROUNDED)
                for name, shape, axis in (
                    ("digits", (4, 10), -1),
                    ("tiles", (3, 65, 97), 2),
                    ("rows", (2, 33, 40), 1),
                    ("first", (33, 5, 6), 0),
                    ("empty", (0, 3), -1),
                )
            ),
            *(Case(t, ((t, (5, 40)),), nmse=rules.SUMMED[t]) for t in rules.FLOATS[1:]),
        ),
    )
)


# ---------------------------------------------------------------- rms_norm


def _rms_norm_infer(inputs, attrs):
    x, scale = inputs
    rules.one_dtype("rms_norm", inputs, rules.FLOATS)
    axis = rules.axis_of("rms_norm", attrs["axis"], len(x.shape))
    if not attrs["epsilon"] >= 0:
        rules.fail("rms_norm", f"epsilon must be at least 0, got {attrs['epsilon']}", got=attrs["epsilon"])
    if scale.shape != x.shape[axis:]:
        wanted = x.shape[axis:]
        text = f"scale must have shape {list(wanted)} (axis {axis} .. last of {x}), got {scale}"
        rules.fail("rms_norm", text, got=scale.shape, wanted=wanted)
    return [x]


def _rms_norm(arrays, attrs):
    x, scale = (rules.wide(a) for a in arrays)
    if not x.size:
        return [arrays[0].copy()]
    axes = tuple(range(attrs["axis"] % x.ndim, x.ndim))
    mean = (x * x).mean(axis=axes, keepdims=True)
    return [rules.narrow(x / np.sqrt(mean + attrs["epsilon"]) * scale, arrays[0].dtype.name)]


def _rms_norm_cases():
    for name, shape, axis in (
        ("tiles", (3, 65, 97), -1),
        ("planes", (2, 3, 33, 40), 2),
        ("vector", (31,), 0),
        ("empty", (0, 3), -1),
    ):
        scale = ("float32", shape[axis % len(shape) :])
        yield Case(name, (("float32", shape), scale), {"axis": axis}, nmse=rules.ROUNDED)
    for t in rules.FLOATS[1:]:
        yield Case(t, ((t, (6, 33)), (t, (33,))), {"epsilon": 0.5}, nmse=rules.SUMMED[t])


register(
    Op(
        "rms_norm",
        "divide the trailing dimensions by their root mean square, then scale",
        (2, 2),
        _rms_norm_infer,
        _rms_norm,
        lambda i, o, a: 5 * o[0].size,
        attrs=(
            Attr("axis", "int", -1, "the first of the dimensions that are normalised together"),
            Attr("epsilon", "float", 1e-5, "added to the mean square"),
        ),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape), rules.float_word(a["epsilon"])],
        bodies={
            "cpu": Body("rms_norm", rules.FLOATS, rules.by_dtype),
            "tt": Body("rms_norm", rules.TT_FLOATS),
        },
        inplace=(0,),
        cases=tuple(_rms_norm_cases()),
    )
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
        bodies={"cpu": Body("lrn", rules.FLOATS, rules.by_dtype)},
        cases=(
            Case("channels", (("float32", (2, 35, 5, 40)),), {"size": 3}, nmse=rules.ROUNDED),
            Case("even", (("float32", (1, 7, 9)),), {"size": 4, "alpha": 0.5}, nmse=rules.ROUNDED),
            *(
                Case(t, ((t, (2, 5, 33)),), {"size": 5, "bias": 2.0}, nmse=rules.SUMMED[t])
                for t in rules.FLOATS[1:]
            ),
        ),
    )
)
