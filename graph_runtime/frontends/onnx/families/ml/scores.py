"""Parts shared by ai.onnx.ml's classifiers and regressors: the input as one matrix, labels, transforms of
scores. Where ONNX is vague, these parts follow ONNX Runtime, because all exporters write files for it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....base import dtypes
from .....compositions.special import erfinv_winitzki
from .....ir.value import where
from ...context import Context
from ...tape import TapeValue

CLASSICAL = "ai.onnx.ml"

_NEAR_ZERO = 1e-7  # greatest magnitude that SOFTMAX_ZERO treats as zero


def features(ctx: Context, keep_double: bool = False) -> TapeValue:
    """Input 0 as [rows, features] in float32; with ``keep_double`` a float64 input stays float64."""
    x = ctx.input(0)
    if x.rank not in (1, 2):
        ctx.fail(f"X of {x.type}: one or two dimensions are supported")
    x = x if x.rank == 2 else ctx.reshape(x, (1, x.shape[0]))
    return x if keep_double and is_double(x) else x.cast("float32")


def is_double(x: TapeValue) -> bool:
    kind = dtypes.to_numpy(x.dtype)
    return kind.kind == "f" and kind.itemsize == 8


def labels_of(ctx: Context, ints: str, strings: str = "classlabels_strings") -> np.ndarray:
    """Labels [classes], as int64 or texts."""
    texts, numbers = ctx.attr(strings, None), ctx.attr(ints, None)
    if texts and numbers:
        ctx.fail(f"both {ints} and {strings} are given")
    return np.array(texts, object) if texts else np.array(numbers or [], np.int64)


def chosen(ctx: Context, positive: TapeValue, labels: np.ndarray) -> TapeValue:
    """Labels [rows]: the second label where ``positive`` holds, else the first."""
    second, first = (ctx.const(labels[i : i + 1]) for i in (1, 0))
    return where(ctx.reshape(positive, (positive.shape[0],)), second, first)


def best(ctx: Context, scores: TapeValue, labels: np.ndarray) -> TapeValue:
    """Labels [rows] of the greatest score in each row; of equal scores the first counts."""
    at = ctx.op("argmax", scores, axis=1, keepdims=False, select_last_index=False)
    return ctx.op("take", ctx.const(labels), at, axis=0)


def transformed(ctx: Context, scores: TapeValue, how: str) -> TapeValue:
    """Scores [rows, classes] after the transform that the attribute post_transform names."""
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return scores.sigmoid()
    if how == "SOFTMAX":
        return scores.op("softmax", axis=1)
    if how == "SOFTMAX_ZERO":
        return _softmax_zero(scores)
    if how == "PROBIT":
        return probit(scores)
    ctx.fail(f"post_transform {how!r} is not supported")


def two_classes(ctx: Context, score: TapeValue, how: str, mixed: bool) -> TapeValue:
    """[rows, 2]: scores of both classes from s [rows, 1], the second class's score. The first class's score
    is 1 - s, or -s if the weights have ``mixed`` signs."""
    if how == "PROBIT":
        ctx.fail("post_transform PROBIT of one score for two classes")
    if how == "LOGISTIC":
        other, score = (-score).sigmoid(), score.sigmoid()
    elif not mixed:
        other = 1 - score
    else:
        other = -score
    return ctx.op("concatenate", other, score, axis=1)


def probit(p: TapeValue) -> TapeValue:
    """sqrt(2) * erfinv(2 p - 1) by Winitzki's formula, as in ONNX Runtime; its error is below 0.002."""
    x = p * 2 - 1
    return erfinv_winitzki(x, (1 - x) * (1 + x)) * math.sqrt(2)


def greatest(x: TapeValue) -> TapeValue:
    """The greatest number [rows, 1] of each row, ignoring NaN; at least the lowest float."""
    lowest = float(np.finfo(np.float32).min)
    return where(x > lowest, x, lowest).max((x.rank - 1,))


def _softmax_zero(scores: TapeValue) -> TapeValue:
    """Softmax without the elements that are zero or NaN: a zero does not count as exp(0)."""
    top = greatest(scores)
    large = abs(scores) > _NEAR_ZERO
    small = scores * (-top).exp()
    counted = (scores - top).exp()
    total = where(large, counted, 0).sum((1,))
    return where(large, counted, small) / total


def numbers(ctx: Context, name: str, dtype: Any = np.float32) -> np.ndarray:
    """A list attribute, or the tensor attribute that replaces it; empty if neither is given."""
    listed, tensor = ctx.attr(name, None), ctx.attr(f"{name}_as_tensor", None)
    if listed and tensor is not None:
        ctx.fail(f"both {name} and {name}_as_tensor are given")
    return np.array(tensor.read() if tensor is not None else listed or [], dtype).ravel()
