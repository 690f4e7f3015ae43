"""ai.onnx.ml except trees: linear models, support vectors, and preparation of features. Where ONNX is vague,
these converters follow ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....base import dtypes
from .....ir.value import where
from ...context import Context, Results, converter, function
from ...elements import STRING
from ...tape import TapeValue
from ..gather import taken
from ..linear import matmul
from ..shapes import joined
from .scores import (
    CLASSICAL,
    best,
    chosen,
    features,
    greatest,
    is_double,
    labels_of,
    probit,
    transformed,
    two_classes,
)

# ---------------------------------------------------------------- linear models


def _linear(ctx: Context, x: TapeValue, weights: np.ndarray, offset: Any) -> TapeValue:
    """Products [rows, targets] of x and ``weights`` [targets, features], plus ``offset``."""
    made = matmul(ctx, x, ctx.const(np.ascontiguousarray(weights.T), x.dtype))
    return made + ctx.const(np.asarray(offset), x.dtype)


def _matrix(ctx: Context, name: str, rows: int, columns: int) -> np.ndarray:
    """The first rows * columns numbers of an attribute, as a matrix. As in ONNX Runtime, a file may give too
    many numbers."""
    found = np.array(ctx.attr(name), np.float32)
    if found.size < rows * columns:
        ctx.fail(f"{name} has {found.size} numbers instead of {rows} x {columns}")
    return found[: rows * columns].reshape(rows, columns)


@converter("LinearRegressor", domain=CLASSICAL)
def _linear_regressor(ctx: Context) -> Results:
    x, targets = features(ctx), ctx.attr("targets", 1)
    weights = _matrix(ctx, "coefficients", targets, x.shape[1])
    scores = _linear(ctx, x, weights, np.array(ctx.attr("intercepts", [0.0]), np.float32)[None])
    how = ctx.attr("post_transform", "NONE")
    if targets == 1:  # ONNX Runtime applies only PROBIT
        return probit(scores) if how == "PROBIT" else scores
    return transformed(ctx, scores, how)


@converter("LinearClassifier", domain=CLASSICAL)
def _linear_classifier(ctx: Context) -> Results:
    x, labels = features(ctx), labels_of(ctx, "classlabels_ints")
    ctx.ignore("multi_class")
    intercepts = np.array(ctx.attr("intercepts", []), np.float32)
    targets = len(intercepts) or len(labels)
    scores = _linear(
        ctx, x, _matrix(ctx, "coefficients", targets, x.shape[1]), intercepts if len(intercepts) else 0.0
    )
    how = ctx.attr("post_transform", "NONE")
    if targets > 1:
        return best(ctx, scores, labels), transformed(ctx, scores, how)
    two = len(labels) == 2
    positive = scores > 0
    label = chosen(ctx, positive, labels if two else np.array([0, 1]))
    if not two:
        return label, transformed(ctx, scores, how)
    return label, two_classes(ctx, scores, how, mixed=False)


# ---------------------------------------------------------------- support vectors


def _kernel(ctx: Context, x: TapeValue, vectors: np.ndarray, linear: bool) -> TapeValue:
    """The kernel's values [rows, vectors]."""
    kind = "LINEAR" if linear else ctx.attr("kernel_type", "LINEAR")
    ctx.ignore("kernel_type")
    gamma, constant, degree = [*ctx.attr("kernel_params", []), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":  # |x - v|^2 = |x|^2 - 2 x v + |v|^2, in float64 because x and v may be far from 0
        x, wide = x.cast("float64"), vectors.astype(np.float64)
        own = x.square().sum(axes=(1,))
        apart = _linear(ctx, x, -2 * wide, (wide * wide).sum(axis=1)) + own
        apart = where(own.equal(math.inf), own, apart)
        return (apart.cast("float32") * -gamma).exp()
    dot = _linear(ctx, x, vectors, 0.0)
    if kind == "LINEAR":
        return dot
    scaled = dot * gamma + constant
    if kind == "POLY":
        return scaled**degree
    if kind == "SIGMOID":
        return scaled.tanh()
    ctx.fail(f"kernel_type {kind!r} is not supported")


@converter("SVMRegressor", domain=CLASSICAL)
def _svm_regressor(ctx: Context) -> Results:
    x, count = features(ctx), ctx.attr("n_supports", 0)
    rho = np.array(ctx.attr("rho"), np.float32)
    if rho.size < 1:
        ctx.fail("rho is empty")
    if count > 0:
        alike = _kernel(ctx, x, _matrix(ctx, "support_vectors", count, x.shape[1]), linear=False)
        made = _linear(ctx, alike, _matrix(ctx, "coefficients", 1, count), rho[0])
    else:
        ctx.ignore("support_vectors")
        made = _kernel(ctx, x, _matrix(ctx, "coefficients", 1, x.shape[1]), linear=True)
        ctx.ignore("kernel_params")
        made = made + rho[0]
    ctx.ignore("post_transform")  # has no effect with one target
    if not ctx.attr("one_class", 0):
        return made
    return where(made > 0, made.scalar(1), -1)


@converter("SVMClassifier", domain=CLASSICAL)
def _svm_classifier(ctx: Context) -> Results:
    x, labels = features(ctx), labels_of(ctx, "classlabels_ints")
    how, rho = ctx.attr("post_transform", "NONE"), np.array(ctx.attr("rho"), np.float32)
    per_class, classes = np.array(ctx.attr("vectors_per_class", []), np.int64), len(labels)
    slope, shift = (np.array(ctx.attr(f"prob_{name}", []), np.float32) for name in "ab")
    if classes < 2 or rho.size < 1 or slope.size != shift.size:
        ctx.fail("it has fewer than two labels, no rho, or prob_a and prob_b of different lengths")
    if not per_class.sum():
        ctx.ignore("support_vectors", "kernel_params")
        weights = _matrix(ctx, "coefficients", classes, x.shape[1])
        scores = _kernel(ctx, x, weights, linear=True) + rho[0]
        return _linear_choice(ctx, scores, labels, bool((weights >= 0).all())), transformed(ctx, scores, how)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    if len(per_class) != classes or per_class.min() < 0 or len(rho) < len(pairs):
        ctx.fail(f"vectors_per_class or rho does not fit {classes} classes")
    if slope.size and slope.size < len(pairs):
        ctx.fail(f"prob_a has {slope.size} numbers instead of {len(pairs)}")
    count = int(per_class.sum())
    alike = _kernel(ctx, x, _matrix(ctx, "support_vectors", count, x.shape[1]), linear=False)
    made = _decisions(ctx, alike, _matrix(ctx, "coefficients", classes - 1, count), per_class.cumsum(), pairs)
    scores = (made + ctx.const(rho[: len(pairs)], "float64")).cast("float32")
    first = scores > 0
    label = best(ctx, _votes(ctx, first, pairs, classes), labels)
    if slope.size:
        inner = scores * ctx.const(slope[: len(pairs)]) + ctx.const(shift[: len(pairs)])
        between = (-inner).sigmoid().clip(min=1e-7, max=1 - 1e-7)
        return label, transformed(ctx, ctx.op("couple", between), how)
    if classes == 2:
        return label, two_classes(ctx, scores, how, mixed=how == "NONE")
    return label, transformed(ctx, scores, how)


def _linear_choice(ctx: Context, scores: TapeValue, labels: np.ndarray, positive: bool) -> TapeValue:
    """Labels for a file in liblinear's form. With two classes, the second class is chosen if the greatest
    score is high enough."""
    if len(labels) != 2:
        return best(ctx, scores, labels)
    top = scores.max(axes=(1,), keepdims=False)
    high = top >= 0.5 if positive else top > 0.0
    return where(high, ctx.const(labels[1:2]), best(ctx, scores, labels))


def _decisions(
    ctx: Context, alike: TapeValue, coefficients: np.ndarray, ends: np.ndarray, pairs: list[tuple[int, int]]
) -> TapeValue:
    """Decisions float64 [rows, pairs]. Each decides between two classes by the support vectors of both, and
    is summed in float64, as in libsvm and ONNX Runtime. ``ends``: the index after the last vector of each
    class. Coefficients are in libsvm's order: those of class i against class j are in row j, or in row j - 1
    if i comes first."""
    wide, others = alike.cast("float64"), len(coefficients)
    columns = [
        matmul(
            ctx,
            ctx.slice(wide, 1, int(first), int(last)),
            ctx.const(coefficients[:, first:last].T, "float64"),
        )
        for first, last in zip((0, *ends[:-1]), ends, strict=True)
    ]
    every = joined(ctx, columns, 1)
    of_first, of_second = np.array([(i * others + j - 1, j * others + i) for i, j in pairs]).T
    first, second = (every.op("take", ctx.const(of), axis=1) for of in (of_first, of_second))
    return first + second


def _votes(ctx: Context, first: TapeValue, pairs: list[tuple[int, int]], classes: int) -> TapeValue:
    """Number of decisions that each class won, float32 [rows, classes]."""
    won, lost = (np.zeros((len(pairs), classes), np.float32) for _ in range(2))
    for row, (i, j) in enumerate(pairs):
        won[row, i], lost[row, j] = 1, 1
    return first.cast("float32") @ ctx.const(won - lost) + ctx.const(lost.sum(axis=0))


# ---------------------------------------------------------------- features


@converter("Scaler", domain=CLASSICAL)
def _scaler(ctx: Context) -> Results:
    x = ctx.input(0) if is_double(ctx.input(0)) else ctx.input(0).cast("float32")
    for name, op, plain in (("offset", "subtract", 0.0), ("scale", "multiply", 1.0)):
        numbers = np.array(ctx.attr(name, [plain]), np.float32)
        if numbers.size not in (1, x.shape[-1]):
            ctx.fail(f"{name} has {numbers.size} numbers, but rows have {x.shape[-1]}")
        x = ctx.op(op, x, ctx.const(numbers, x.dtype))
    return x.cast("float32")


@converter("Normalizer", domain=CLASSICAL)
def _normalizer(ctx: Context) -> Results:
    """x divided by its norm, unless the norm is 0. Squares are float32, as in ONNX Runtime: a square above
    3e38 becomes inf."""
    x, norm = ctx.input(0).cast("float32"), ctx.attr("norm", "MAX")
    if norm == "L2":
        square = x.square()
        size = square.sum((x.rank - 1,))
        none = size.equal(0)
        share = (square / where(none, 1, size)).sqrt()
        return where(none, x, where(x < 0, -share, share))
    if norm == "MAX":
        size = greatest(x)
    elif norm == "L1":
        size = abs(x).sum((x.rank - 1,))
    else:
        ctx.fail(f"norm {norm!r} is not supported")
    return x / where(size.equal(0), 1, size)


@converter("Imputer", domain=CLASSICAL)
def _imputer(ctx: Context) -> Results:
    x, whole = ctx.input(0), dtypes.to_numpy(ctx.input(0).dtype).kind in "iu"
    names = ("imputed_value_int64s", "replaced_value_int64", 0) if whole else (
        "imputed_value_floats", "replaced_value_float", 0.0
    )  # fmt: skip
    ctx.ignore("imputed_value_int64s", "replaced_value_int64", "imputed_value_floats", "replaced_value_float")
    values, replaced = np.array(ctx.attr(names[0], [])), ctx.attr(names[1], names[2])
    if values.size not in (1, x.shape[-1]):
        ctx.fail(f"{names[0]} has {values.size} numbers, but rows have {x.shape[-1]}")
    gone = x.isnan() if math.isnan(replaced) else x.equal(replaced)
    return where(gone, ctx.const(values, x.dtype), x)


function("Binarizer", domain=CLASSICAL)(lambda x, *, threshold=0.0: (x > threshold).cast(x.dtype))


@converter("ArrayFeatureExtractor", domain=CLASSICAL)
def _array_feature_extractor(ctx: Context) -> Results:
    x, at = ctx.input(0), ctx.input(1)
    made = taken(ctx, x, ctx.reshape(at, (at.type.size,)), x.rank - 1)
    return ctx.reshape(made, (1, at.type.size)) if x.rank == 1 else made


@converter("FeatureVectorizer", domain=CLASSICAL)
def _feature_vectorizer(ctx: Context) -> Results:
    sizes, parts = ctx.attr("inputdimensions"), []
    for i, size in enumerate(sizes):
        x = ctx.input(i).cast("float32")
        x = x if x.rank == 2 else ctx.reshape(x, (1, x.type.size))
        if x.shape[1] < size:
            ctx.fail(f"input {i} has {x.shape[1]} features, but inputdimensions gives {size}")
        parts.append(ctx.slice(x, 1, 0, size))
    return joined(ctx, parts, 1)


@converter("OneHotEncoder", domain=CLASSICAL, limits="an unknown category gives zeros only")
def _one_hot(ctx: Context) -> Results:
    given, texts, numbers = ctx.input(0), ctx.attr("cats_strings", None), ctx.attr("cats_int64s", None)
    ctx.ignore("zeros")
    if given.dtype == STRING.name:
        x, known = given, np.array(texts or [], object)
    else:
        x, known = given.cast("int64"), np.array(numbers or [], np.int64)
    if not known.size:
        ctx.fail(f"it has no categories for {x.type}")
    same = ctx.reshape(x, (*x.shape, 1)).equal(ctx.const(known))
    if given.dtype != STRING.name and dtypes.to_numpy(given.dtype).kind == "f":  # NaN is no category
        there = given.equal(given)
        same = same & ctx.reshape(there, (*x.shape, 1))
    return same.cast("float32")


@converter("CategoryMapper", domain=CLASSICAL)
def _category_mapper(ctx: Context) -> Results:
    x = ctx.input(0)
    names, numbers = np.array(ctx.attr("cats_strings"), object), np.array(ctx.attr("cats_int64s"), np.int64)
    text, number = ctx.attr("default_string", "_Unused"), np.int64(ctx.attr("default_int64", -1))
    if names.size != numbers.size or not names.size:
        ctx.fail(f"it has {names.size} texts for {numbers.size} numbers")
    if x.dtype == STRING.name:
        return _mapped(ctx, x, names, numbers, number)
    return _mapped(ctx, x.cast("int64"), numbers, names, np.array(text, object))


@converter("LabelEncoder", domain=CLASSICAL)
def _label_encoder(ctx: Context) -> Results:
    x = ctx.input(0)
    keys, values, default = _map(ctx)
    if keys.size != values.size or not keys.size:
        ctx.fail(f"it has {keys.size} keys for {values.size} values")
    if (x.dtype == STRING.name) != (keys.dtype == object):
        ctx.fail(f"its keys are not of the input's kind, {x.dtype}")
    return _mapped(ctx, x, keys, values, default)


def _mapped(ctx: Context, x: TapeValue, keys: np.ndarray, values: np.ndarray, default: Any) -> TapeValue:
    """For each element of x the value of the key that equals it; ``default`` if no key does."""
    _, first = np.unique(keys, return_index=True)  # of equal keys the first counts
    keys, values = keys[first], values[first]
    wide = ctx.reshape(x, (*x.shape, 1))
    known = ctx.const(keys, None if keys.dtype == object else x.dtype)
    same = wide.equal(known)
    if keys.dtype.kind == "f" and ctx.opset >= 4 and np.isnan(keys).any():
        same = same | wide.isnan() & ctx.const(np.isnan(keys))
    at = ctx.op("argmax", same.cast("float32"), axis=x.rank, keepdims=False, select_last_index=False)
    found = ctx.op("take", ctx.const(values), at, axis=0)
    return where(same.any(axes=(x.rank,), keepdims=False), found, ctx.const(default))


def _map(ctx: Context) -> tuple[np.ndarray, np.ndarray, Any]:
    """(keys, values, the value for all other elements)."""
    ctx.ignore("default_string", "default_int64", "default_float", "classes_strings")
    classes = ctx.attr("classes_strings", None)
    if classes is not None:  # the form of opset 1
        names, places = np.array(classes, object), np.arange(len(classes))
        if ctx.input(0).dtype == STRING.name:
            return names, places, np.int64(ctx.attr("default_int64", -1))
        return places, names, np.array(ctx.attr("default_string", "_Unused"), object)
    keys, values = (_listed(ctx, side) for side in ("keys", "values"))
    given = ctx.attr("default_tensor", None)
    if given is not None:
        default = _texts_or_numbers(ctx, given).ravel()
        if default.size != 1 or (default.dtype == object) != (values.dtype == object):
            ctx.fail("default_tensor must be a single value of the same kind as the values")
        return keys, values, default.astype(values.dtype).reshape(())
    if values.dtype == object:
        return keys, values, np.array(ctx.attr("default_string", "_Unused"), object)
    name, plain = ("default_float", -0.0) if values.dtype.kind == "f" else ("default_int64", -1)
    return keys, values, np.asarray(ctx.attr(name, plain), values.dtype)


def _listed(ctx: Context, side: str) -> np.ndarray:
    """The keys or the values, from the attribute that has them."""
    tensor = ctx.attr(f"{side}_tensor", None)
    if tensor is not None:
        return _texts_or_numbers(ctx, tensor).ravel()
    for name, kind in (("strings", object), ("floats", np.float32), ("int64s", np.int64)):
        if (found := ctx.attr(f"{side}_{name}", None)) is not None:
            return np.array(found, kind)
    return np.zeros(0, np.int64)


def _texts_or_numbers(ctx: Context, tensor: Any) -> np.ndarray:
    if not isinstance(tensor, TapeValue):
        return tensor.read()
    if tensor.dtype != STRING.name or tensor.constant is None:
        ctx.fail(f"a tensor of {tensor.dtype} cannot hold keys or values")
    return ctx.tape.strings.decoded(tensor.constant.read())


@converter("ZipMap", domain=CLASSICAL, limits="the result is the tensor, with one column per class")
def _zip_map(ctx: Context) -> Results:
    ctx.ignore("classlabels_int64s", "classlabels_strings")
    return ctx.input(0)
