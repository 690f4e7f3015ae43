"""couple: probabilities of classes, computed from probabilities of pairs of classes.

C contract: args are between [rows, pairs], out [rows, classes]. For each pair of classes, between has the
probability of the first class on condition that one of the two classes is right. The pairs are (0, 1) (0, 2)
.. (1, 2) .. There are no attribute words.

The result p minimises the sum of (r_ji p_i - r_ij p_j)^2 (Wu, Lin and Weng 2004, algorithm 2), as in libsvm
and ONNX Runtime. Each row is iterated until it is within _TOLERANCE / classes of a solution, for at most
_ROUNDS or ``classes`` rounds, whichever is more. A row with a NaN stays at 1 / classes.
"""

from __future__ import annotations

import math

import numpy as np

from ..graph import TensorType
from . import rules
from .cases import case
from .registry import Body, define

_TOLERANCE, _ROUNDS, _SLOTS = 0.005, 100, 16  # GR_COUPLE_TOLERANCE and so on of native/kernels/cpu/coupling.h
_FLOATS = ("float32", "float64")


def _classes(pairs: int) -> int:
    return (1 + math.isqrt(1 + 8 * pairs)) // 2


def _infer(inputs, attrs):
    (between,) = inputs
    dtype = rules.one_dtype("couple", inputs, _FLOATS)
    rules.rank("couple", "between", between, 2, "rows, pairs")
    rows, pairs = between.shape
    count = _classes(pairs)
    if pairs != count * (count - 1) // 2:
        rules.fail("couple", f"{pairs} is not the number of pairs of any number of classes", got=pairs)
    return [TensorType(dtype, (rows, count))]


def _form(between: np.ndarray, classes: int) -> np.ndarray:
    """The matrix [classes, classes] q of the quadratic form p' q p, which p minimises."""
    r = np.zeros((classes, classes), between.dtype)
    r[np.triu_indices(classes, 1)] = between
    r += np.tril(1 - r.T, -1)
    return np.diag((r * r).sum(axis=0)) - r * r.T


def _coupled(between: np.ndarray, classes: int) -> np.ndarray:
    q = _form(between, classes)
    p = np.full(classes, 1 / classes, between.dtype)
    for _ in range(max(_ROUNDS, classes)):
        towards = q @ p
        value = p @ towards
        if not np.abs(towards - value).max() >= _TOLERANCE / classes:
            break
        for i in range(classes):
            step = (value - towards[i]) / q[i, i]
            p[i] += step
            value = (value + step * (step * q[i, i] + 2 * towards[i])) / (1 + step) / (1 + step)
            towards, p = (towards + step * q[i]) / (1 + step), p / (1 + step)
    return p


def _couple(arrays, attrs):
    (between,) = arrays
    count = _classes(between.shape[1])
    with np.errstate(all="ignore"):
        rows = [_coupled(row, count) for row in between]
    return [np.array(rows, between.dtype).reshape(len(between), count)]


def _scratch(inputs, outputs, attrs):
    """Bytes for _SLOTS slots, each with q and the product q p."""
    classes = outputs[0].shape[1]
    size = 4 if inputs[0].dtype == "float32" else 8
    return _SLOTS * classes * (classes + 1) * size


define(
    "couple",
    "probabilities of classes from the pairwise ones, by libsvm's iteration",
    (1, 1),
    _infer,
    _couple,
    lambda i, o, a: 40 * o[0].size * o[0].shape[1],
    bodies={"cpu": Body("couple", _FLOATS, rules.by_dtype, scratch=_scratch)},
    kind="windows",
    cases=tuple(
        case(
            f"{t}_{classes}",
            (rows, classes * (classes - 1) // 2),
            make=("share",),
            nmse=rules.ROUNDED,
            dtype=t,
        )
        for t in _FLOATS
        for classes, rows in ((2, 9), (3, 70), (7, 20), (1, 3), (4, 0))
    ),
)
