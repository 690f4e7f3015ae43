"""What ai.onnx.ml's classifiers and regressors share: their input as one matrix, labels, and what becomes of
scores. Where ONNX is vague, it is as ONNX Runtime does it, which all exporters are written for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....base import dtypes
from ...context import Context
from ...tape import TapeValue
from ..reduce import softmax

CLASSICAL = "ai.onnx.ml"

_PROBIT = 0.147  # of Winitzki's approximation of the inverse error function, as ONNX Runtime takes it
_NEAR_ZERO = 1e-7  # what SOFTMAX_ZERO counts as zero


def features(ctx: Context, keep_double: bool = False) -> TapeValue:
    """[rows, features] of input 0, float32; float64 stays where ``keep_double``."""
    x = ctx.input(0)
    if x.rank not in (1, 2):
        ctx.fail(f"X of {x.type}: one or two dimensions are supported")
    x = x if x.rank == 2 else ctx.reshape(x, (1, x.shape[0]))
    return x if keep_double and is_double(x) else ctx.cast(x, "float32")


def is_double(x: TapeValue) -> bool:
    kind = dtypes.to_numpy(x.dtype)
    return kind.kind == "f" and kind.itemsize == 8


def labels_of(ctx: Context, ints: str, strings: str = "classlabels_strings") -> np.ndarray:
    """[classes], int64 or texts."""
    texts, numbers = ctx.attr(strings, None), ctx.attr(ints, None)
    if texts and numbers:
        ctx.fail(f"both {ints} and {strings} are given")
    return np.array(texts, object) if texts else np.array(numbers or [], np.int64)


def chosen(ctx: Context, positive: TapeValue, labels: np.ndarray) -> TapeValue:
    """[rows]: the second label where ``positive``, else the first."""
    second, first = (ctx.const(labels[i : i + 1]) for i in (1, 0))
    return ctx.op("where", ctx.reshape(positive, (positive.shape[0],)), second, first)


def best(ctx: Context, scores: TapeValue, labels: np.ndarray) -> TapeValue:
    """[rows]: the label of the greatest score, the first of equal ones."""
    at = ctx.op("argmax", scores, axis=1, keepdims=False, select_last_index=False)
    return ctx.op("take", ctx.const(labels), at, axis=0)


def transformed(ctx: Context, scores: TapeValue, how: str) -> TapeValue:
    """[rows, classes] after the attribute post_transform."""
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return ctx.op("sigmoid", scores)
    if how == "SOFTMAX":
        return softmax(ctx, scores, 1)
    if how == "SOFTMAX_ZERO":
        return _softmax_zero(ctx, scores)
    if how == "PROBIT":
        return probit(ctx, scores)
    ctx.fail(f"post_transform {how!r} is not supported")


def two_classes(ctx: Context, score: TapeValue, how: str, mixed: bool) -> TapeValue:
    """[rows, 2] of the one score [rows, 1] of two classes, the second one's behind: 1 - s and s, or -s and s
    where weights are ``mixed`` in sign."""
    if how == "PROBIT":
        ctx.fail("post_transform PROBIT of one score for two classes")
    if how == "LOGISTIC":
        other, score = ctx.op("sigmoid", ctx.op("negative", score)), ctx.op("sigmoid", score)
    elif not mixed:
        other = ctx.op("subtract", ctx.scalar(1, score), score)
    else:
        other = ctx.op("negative", score)
    return ctx.op("concatenate", other, score, axis=1)


def probit(ctx: Context, p: TapeValue) -> TapeValue:
    """sqrt(2) * erfinv(2 p - 1), erfinv by Winitzki's formula (its error is below 0.002)."""

    def number(value: float) -> TapeValue:
        return ctx.scalar(value, p)

    x = ctx.op("subtract", ctx.op("multiply", p, number(2)), number(1))
    log = ctx.op("log", ctx.op("multiply", ctx.op("subtract", number(1), x), ctx.op("add", number(1), x)))
    half = ctx.op("add", ctx.op("multiply", log, number(0.5)), number(2 / (math.pi * _PROBIT)))
    inner = ctx.op("subtract", ctx.op("square", half), ctx.op("multiply", log, number(1 / _PROBIT)))
    root = ctx.op("sqrt", ctx.op("subtract", ctx.op("sqrt", inner), half))
    return ctx.op("multiply", ctx.op("multiply", ctx.op("sign", x), root), number(math.sqrt(2)))


def greatest(ctx: Context, x: TapeValue) -> TapeValue:
    """[rows, 1]: the greatest number of each row, NaN aside, at least the lowest float."""
    lowest = ctx.scalar(float(np.finfo(np.float32).min), x)
    return ctx.op(
        "max", ctx.op("where", ctx.op("greater", x, lowest), x, lowest), axes=(x.rank - 1,), keepdims=True
    )


def _softmax_zero(ctx: Context, scores: TapeValue) -> TapeValue:
    """Softmax, but what is zero is not counted as exp(0), and NaN not at all."""
    top = greatest(ctx, scores)
    large = ctx.op("greater", ctx.op("abs", scores), ctx.scalar(_NEAR_ZERO, scores))
    small = ctx.op("multiply", scores, ctx.op("exp", ctx.op("negative", top)))
    counted = ctx.op("exp", ctx.op("subtract", scores, top))
    total = ctx.op("where", large, counted, ctx.scalar(0, scores))
    total = ctx.op("sum", total, axes=(1,), keepdims=True)
    return ctx.op("divide", ctx.op("where", large, counted, small), total)


def numbers(ctx: Context, name: str, dtype: Any = np.float32) -> np.ndarray:
    """A list attribute, or its form as a tensor; empty where it is not given."""
    listed, tensor = ctx.attr(name, None), ctx.attr(f"{name}_as_tensor", None)
    if listed and tensor is not None:
        ctx.fail(f"both {name} and {name}_as_tensor are given")
    return np.array(tensor.read() if tensor is not None else listed or [], dtype).ravel()
