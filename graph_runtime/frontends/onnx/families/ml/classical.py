"""ai.onnx.ml but for trees: linear models, support vectors, and what prepares features. Where ONNX is vague,
it is as ONNX Runtime does it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....base import dtypes
from ...context import Context, Results, converter
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
    """[rows, targets]: x by ``weights`` [targets, features]."""
    made = matmul(ctx, x, ctx.const(np.ascontiguousarray(weights.T), x.dtype))
    return ctx.op("add", made, ctx.const(np.asarray(offset), x.dtype))


def _matrix(ctx: Context, name: str, rows: int, columns: int) -> np.ndarray:
    """Its first numbers, as ONNX Runtime reads them, which files with too many rely on."""
    found = np.array(ctx.attr(name), np.float32)
    if found.size < rows * columns:
        ctx.fail(f"{name} has {found.size} numbers, {rows} x {columns} are wanted")
    return found[: rows * columns].reshape(rows, columns)


@converter("LinearRegressor", domain=CLASSICAL)
def _linear_regressor(ctx: Context) -> Results:
    x, targets = features(ctx), ctx.attr("targets", 1)
    weights = _matrix(ctx, "coefficients", targets, x.shape[1])
    scores = _linear(ctx, x, weights, np.array(ctx.attr("intercepts", [0.0]), np.float32)[None])
    how = ctx.attr("post_transform", "NONE")
    if targets == 1:  # ONNX Runtime applies PROBIT alone
        return probit(ctx, scores) if how == "PROBIT" else scores
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
    positive = ctx.op("greater", scores, ctx.scalar(0, scores))
    label = chosen(ctx, positive, labels if two else np.array([0, 1]))
    if not two:
        return label, transformed(ctx, scores, how)
    return label, two_classes(ctx, scores, how, mixed=False)


# ---------------------------------------------------------------- support vectors


def _kernel(ctx: Context, x: TapeValue, vectors: np.ndarray, linear: bool) -> TapeValue:
    """[rows, vectors]: how alike each row and each vector are."""
    kind = "LINEAR" if linear else ctx.attr("kernel_type", "LINEAR")
    ctx.ignore("kernel_type")
    gamma, constant, degree = [*ctx.attr("kernel_params", []), 0.0, 0.0, 0.0][:3]

    def number(value: float) -> TapeValue:
        return ctx.const(np.float32(value))

    if kind == "RBF":  # |x - v|^2 = |x|^2 - 2 x v + |v|^2, which float32 loses where x and v are far from 0
        x, wide = ctx.cast(x, "float64"), vectors.astype(np.float64)
        own = ctx.op("sum", ctx.op("square", x), axes=(1,), keepdims=True)
        apart = ctx.op("add", _linear(ctx, x, -2 * wide, (wide * wide).sum(axis=1)), own)
        apart = ctx.op("where", ctx.op("equal", own, ctx.scalar(math.inf, own)), own, apart)
        return ctx.op("exp", ctx.op("multiply", ctx.cast(apart, "float32"), number(-gamma)))
    dot = _linear(ctx, x, vectors, 0.0)
    if kind == "LINEAR":
        return dot
    scaled = ctx.op("add", ctx.op("multiply", dot, number(gamma)), number(constant))
    if kind == "POLY":
        return ctx.op("power", scaled, number(degree))
    if kind == "SIGMOID":
        return ctx.op("tanh", scaled)
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
        made = ctx.op("add", made, ctx.scalar(rho[0], made))
    ctx.ignore("post_transform")  # of one target
    if not ctx.attr("one_class", 0):
        return made
    above = ctx.op("greater", made, ctx.scalar(0, made))
    return ctx.op("where", above, ctx.scalar(1, made), ctx.scalar(-1, made))


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
        scores = ctx.op("add", _kernel(ctx, x, weights, linear=True), ctx.const(rho[0]))
        return _linear_choice(ctx, scores, labels, bool((weights >= 0).all())), transformed(ctx, scores, how)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    if len(per_class) != classes or per_class.min() < 0 or len(rho) < len(pairs):
        ctx.fail(f"vectors_per_class or rho do not fit {classes} classes")
    if slope.size and slope.size < len(pairs):
        ctx.fail(f"prob_a has {slope.size} numbers, {len(pairs)} are wanted")
    count = int(per_class.sum())
    alike = _kernel(ctx, x, _matrix(ctx, "support_vectors", count, x.shape[1]), linear=False)
    made = _decisions(ctx, alike, _matrix(ctx, "coefficients", classes - 1, count), per_class.cumsum(), pairs)
    scores = ctx.cast(ctx.op("add", made, ctx.const(rho[: len(pairs)], "float64")), "float32")
    first = ctx.op("greater", scores, ctx.scalar(0, scores))
    label = best(ctx, _votes(ctx, first, pairs, classes), labels)
    if slope.size:
        inner = ctx.op("multiply", scores, ctx.const(slope[: len(pairs)]))
        inner = ctx.op("add", inner, ctx.const(shift[: len(pairs)]))
        between = ctx.op("clip", ctx.op("sigmoid", ctx.op("negative", inner)), min=1e-7, max=1 - 1e-7)
        return label, transformed(ctx, ctx.op("couple", between), how)
    if classes == 2:
        return label, two_classes(ctx, scores, how, mixed=how == "NONE")
    return label, transformed(ctx, scores, how)


def _linear_choice(ctx: Context, scores: TapeValue, labels: np.ndarray, positive: bool) -> TapeValue:
    """The label of liblinear's form: of two classes the second wins where the greatest score is high."""
    if len(labels) != 2:
        return best(ctx, scores, labels)
    top = ctx.op("max", scores, axes=(1,), keepdims=False)
    limit, compared = (0.5, "greater_equal") if positive else (0.0, "greater")
    high = ctx.op(compared, top, ctx.scalar(limit, top))
    return ctx.op("where", high, ctx.const(labels[1:2]), best(ctx, scores, labels))


def _decisions(
    ctx: Context, alike: TapeValue, coefficients: np.ndarray, ends: np.ndarray, pairs: list[tuple[int, int]]
) -> TapeValue:
    """float64 [rows, pairs]: the decision between two classes, for which their vectors alone count, summed in
    double as libsvm and ONNX Runtime do. ``ends``: where the vectors of each class end. Coefficients lie as
    libsvm has them: those of class i against j are in row j, or j - 1 where i comes first."""
    wide, others = ctx.cast(alike, "float64"), len(coefficients)
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
    return ctx.op(
        "add",
        ctx.op("take", every, ctx.const(of_first), axis=1),
        ctx.op("take", every, ctx.const(of_second), axis=1),
    )


def _votes(ctx: Context, first: TapeValue, pairs: list[tuple[int, int]], classes: int) -> TapeValue:
    """float32 [rows, classes]: the decisions that each class won."""
    won, lost = (np.zeros((len(pairs), classes), np.float32) for _ in range(2))
    for row, (i, j) in enumerate(pairs):
        won[row, i], lost[row, j] = 1, 1
    made = ctx.op("matmul", ctx.cast(first, "float32"), ctx.const(won - lost))
    return ctx.op("add", made, ctx.const(lost.sum(axis=0)))


# ---------------------------------------------------------------- features


@converter("Scaler", domain=CLASSICAL)
def _scaler(ctx: Context) -> Results:
    x = ctx.input(0) if is_double(ctx.input(0)) else ctx.cast(ctx.input(0), "float32")
    for name, op, plain in (("offset", "subtract", 0.0), ("scale", "multiply", 1.0)):
        numbers = np.array(ctx.attr(name, [plain]), np.float32)
        if numbers.size not in (1, x.shape[-1]):
            ctx.fail(f"{name} has {numbers.size} numbers, rows have {x.shape[-1]}")
        x = ctx.op(op, x, ctx.const(numbers, x.dtype))
    return ctx.cast(x, "float32")


@converter("Normalizer", domain=CLASSICAL)
def _normalizer(ctx: Context) -> Results:
    """What has the norm 0 stays as it is. Squares are float32, as ONNX Runtime's: above 1e38 they are inf."""
    x, norm = ctx.cast(ctx.input(0), "float32"), ctx.attr("norm", "MAX")
    along = {"axes": (x.rank - 1,), "keepdims": True}
    if norm == "L2":
        square = ctx.op("square", x)
        size = ctx.op("sum", square, **along)
        none = ctx.op("equal", size, ctx.scalar(0, size))
        share = ctx.op("sqrt", ctx.op("divide", square, ctx.op("where", none, ctx.scalar(1, size), size)))
        below = ctx.op("less", x, ctx.scalar(0, x))
        return ctx.op("where", none, x, ctx.op("where", below, ctx.op("negative", share), share))
    if norm == "MAX":
        size = greatest(ctx, x)
    elif norm == "L1":
        size = ctx.op("sum", ctx.op("abs", x), **along)
    else:
        ctx.fail(f"norm {norm!r} is not supported")
    none = ctx.op("equal", size, ctx.scalar(0, size))
    return ctx.op("divide", x, ctx.op("where", none, ctx.scalar(1, size), size))


@converter("Imputer", domain=CLASSICAL)
def _imputer(ctx: Context) -> Results:
    x, whole = ctx.input(0), dtypes.to_numpy(ctx.input(0).dtype).kind in "iu"
    names = ("imputed_value_int64s", "replaced_value_int64", 0) if whole else (
        "imputed_value_floats", "replaced_value_float", 0.0
    )  # fmt: skip
    ctx.ignore("imputed_value_int64s", "replaced_value_int64", "imputed_value_floats", "replaced_value_float")
    values, replaced = np.array(ctx.attr(names[0], [])), ctx.attr(names[1], names[2])
    if values.size not in (1, x.shape[-1]):
        ctx.fail(f"{names[0]} has {values.size} numbers, rows have {x.shape[-1]}")
    gone = ctx.op("isnan", x) if math.isnan(replaced) else ctx.op("equal", x, ctx.scalar(replaced, x))
    return ctx.op("where", gone, ctx.const(values, x.dtype), x)


@converter("Binarizer", domain=CLASSICAL)
def _binarizer(ctx: Context) -> Results:
    x = ctx.input(0)
    return ctx.cast(ctx.op("greater", x, ctx.scalar(ctx.attr("threshold", 0.0), x)), x.dtype)


@converter("ArrayFeatureExtractor", domain=CLASSICAL)
def _array_feature_extractor(ctx: Context) -> Results:
    x, at = ctx.input(0), ctx.input(1)
    made = taken(ctx, x, ctx.reshape(at, (at.type.size,)), x.rank - 1)
    return ctx.reshape(made, (1, at.type.size)) if x.rank == 1 else made


@converter("FeatureVectorizer", domain=CLASSICAL)
def _feature_vectorizer(ctx: Context) -> Results:
    sizes, parts = ctx.attr("inputdimensions"), []
    for i, size in enumerate(sizes):
        x = ctx.cast(ctx.input(i), "float32")
        x = x if x.rank == 2 else ctx.reshape(x, (1, x.type.size))
        if x.shape[1] < size:
            ctx.fail(f"input {i} has {x.shape[1]} features, inputdimensions says {size}")
        parts.append(ctx.slice(x, 1, 0, size))
    return joined(ctx, parts, 1)


@converter("OneHotEncoder", domain=CLASSICAL, limits="an unknown category is all zeros")
def _one_hot(ctx: Context) -> Results:
    given, texts, numbers = ctx.input(0), ctx.attr("cats_strings", None), ctx.attr("cats_int64s", None)
    ctx.ignore("zeros")
    if given.dtype == STRING.name:
        x, known = given, np.array(texts or [], object)
    else:
        x, known = ctx.cast(given, "int64"), np.array(numbers or [], np.int64)
    if not known.size:
        ctx.fail(f"it has no categories for {x.type}")
    same = ctx.op("equal", ctx.reshape(x, (*x.shape, 1)), ctx.const(known))
    if given.dtype != STRING.name and dtypes.to_numpy(given.dtype).kind == "f":  # NaN is no category
        there = ctx.op("equal", given, given)
        same = ctx.op("logical_and", same, ctx.reshape(there, (*x.shape, 1)))
    return ctx.cast(same, "float32")


@converter("CategoryMapper", domain=CLASSICAL)
def _category_mapper(ctx: Context) -> Results:
    x = ctx.input(0)
    names, numbers = np.array(ctx.attr("cats_strings"), object), np.array(ctx.attr("cats_int64s"), np.int64)
    text, number = ctx.attr("default_string", "_Unused"), np.int64(ctx.attr("default_int64", -1))
    if names.size != numbers.size or not names.size:
        ctx.fail(f"{names.size} texts for {numbers.size} numbers")
    if x.dtype == STRING.name:
        return _mapped(ctx, x, names, numbers, number)
    return _mapped(ctx, ctx.cast(x, "int64"), numbers, names, np.array(text, object))


@converter("LabelEncoder", domain=CLASSICAL)
def _label_encoder(ctx: Context) -> Results:
    x = ctx.input(0)
    keys, values, default = _map(ctx)
    if keys.size != values.size or not keys.size:
        ctx.fail(f"{keys.size} keys for {values.size} values")
    if (x.dtype == STRING.name) != (keys.dtype == object):
        ctx.fail(f"keys of another kind than {x.dtype}")
    return _mapped(ctx, x, keys, values, default)


def _mapped(ctx: Context, x: TapeValue, keys: np.ndarray, values: np.ndarray, default: Any) -> TapeValue:
    """The value of each element of x, which is one of the keys; ``default`` where it is none."""
    _, first = np.unique(keys, return_index=True)  # of keys that are given twice the first counts
    keys, values = keys[first], values[first]
    wide = ctx.reshape(x, (*x.shape, 1))
    known = ctx.const(keys, None if keys.dtype == object else x.dtype)
    same = ctx.op("equal", wide, known)
    if keys.dtype.kind == "f" and ctx.opset >= 4 and np.isnan(keys).any():
        same = ctx.op(
            "logical_or", same, ctx.op("logical_and", ctx.op("isnan", wide), ctx.const(np.isnan(keys)))
        )
    at = ctx.op("argmax", ctx.cast(same, "float32"), axis=x.rank, keepdims=False, select_last_index=False)
    found = ctx.op("take", ctx.const(values), at, axis=0)
    return ctx.op("where", ctx.op("any", same, axes=(x.rank,), keepdims=False), found, ctx.const(default))


def _map(ctx: Context) -> tuple[np.ndarray, np.ndarray, Any]:
    """(keys, values, what all other keys give)"""
    ctx.ignore("default_string", "default_int64", "default_float", "classes_strings")
    classes = ctx.attr("classes_strings", None)
    if classes is not None:  # of opset 1
        names, places = np.array(classes, object), np.arange(len(classes))
        if ctx.input(0).dtype == STRING.name:
            return names, places, np.int64(ctx.attr("default_int64", -1))
        return places, names, np.array(ctx.attr("default_string", "_Unused"), object)
    keys, values = (_listed(ctx, side) for side in ("keys", "values"))
    given = ctx.attr("default_tensor", None)
    if given is not None:
        default = _texts_or_numbers(ctx, given).ravel()
        if default.size != 1 or (default.dtype == object) != (values.dtype == object):
            ctx.fail("default_tensor is not one value of the kind of the values")
        return keys, values, default.astype(values.dtype).reshape(())
    if values.dtype == object:
        return keys, values, np.array(ctx.attr("default_string", "_Unused"), object)
    name, plain = ("default_float", -0.0) if values.dtype.kind == "f" else ("default_int64", -1)
    return keys, values, np.asarray(ctx.attr(name, plain), values.dtype)


def _listed(ctx: Context, side: str) -> np.ndarray:
    """The keys or values: of the attribute that has them."""
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
        ctx.fail(f"a tensor of {tensor.dtype} has neither keys nor values")
    return ctx.tape.strings.decoded(tensor.constant.read())


@converter("ZipMap", domain=CLASSICAL, limits="the result is the tensor, a column a class")
def _zip_map(ctx: Context) -> Results:
    ctx.ignore("classlabels_int64s", "classlabels_strings")
    return ctx.input(0)
