"""Ops that produce or read texts, in plain Python on the host between the specializations of a flow. Ops that
only move texts or test their equality run inside the specializations (elements.py).

A TextOp is a function from arrays to arrays; texts are object arrays of str. It is made from a node before a
run, when the attributes are checked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from .elements import ELEMENTS, STRING
from .read import dtype_name
from .regular import Pattern

TextOp = Callable[..., Sequence[np.ndarray]]
_MOST_ELEMENTS = 2**31  # most elements of one result
_MOST_CHARACTERS = 2**28
_MOST_STEPS = 10_000_000  # most steps of a pattern in one text
_Attrs = Mapping[str, Any]


def _fits(count: int, what: str, most: int = _MOST_ELEMENTS) -> None:
    """Raise GraphError if a result is too large for a host."""
    if count > most:
        text = f"{what} would have {count} elements or characters, at most {most}"
        raise GraphError(text, got=count)


def _one_or_two(x: np.ndarray) -> None:
    if x.ndim not in (1, 2):
        raise GraphError(f"X must have one or two dimensions, got {list(x.shape)}", got=x.shape)


def _each(function: Callable[[Any], Any], x: np.ndarray, dtype: Any = object) -> np.ndarray:
    made = np.empty(x.shape, dtype)
    made.reshape(-1)[:] = [function(value) for value in x.reshape(-1).tolist()]
    return made


def _ragged(rows: Sequence[Sequence[str]], shape: tuple[int, ...], pad: str) -> np.ndarray:
    """[*shape, length of the longest row]: the rows, padded at the end with ``pad``."""
    width = max(map(len, rows), default=0)
    _fits(width * len(rows), "the result")
    made = np.full((len(rows), width), pad, object)
    for to, row in zip(made, rows, strict=True):
        to[: len(row)] = row
    return made.reshape(*shape, width)


# ---------------------------------------------------------------- ONNX's


def _concat(attrs: _Attrs) -> TextOp:
    def run(a: np.ndarray, b: np.ndarray) -> Sequence[np.ndarray]:
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError as error:
            raise GraphError(f"shapes {a.shape} and {b.shape} do not broadcast", got=a.shape) from error
        count = math.prod(shape)
        longest = sum(max(map(len, each.reshape(-1).tolist()), default=0) for each in (a, b))
        _fits(count * longest, "the texts", _MOST_CHARACTERS)
        made = np.empty(shape, object)
        made[...] = a + b
        return [made]

    return run


def _split(attrs: _Attrs) -> TextOp:
    delimiter, most = attrs.get("delimiter") or None, attrs.get("maxsplit", -1)
    most = -1 if most is None else int(most)

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        rows = [text.split(delimiter, most) if text else [] for text in x.reshape(-1).tolist()]
        counts = np.array([len(row) for row in rows], np.int64).reshape(x.shape)
        return [_ragged(rows, x.shape, ""), counts]

    return run


def _normalizer(attrs: _Attrs) -> TextOp:
    change = attrs.get("case_change_action", "NONE")
    if change not in ("NONE", "LOWER", "UPPER"):
        raise GraphError(f"case_change_action is {change!r}", got=change)
    exact = bool(attrs.get("is_case_sensitive", 0))
    stop = {word if exact else word.lower() for word in attrs.get("stopwords", [])}
    cased = {"LOWER": str.lower, "UPPER": str.upper}.get(change, str)

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        if x.ndim not in (1, 2) or (x.ndim == 2 and len(x) != 1):
            raise GraphError(f"X must be [words] or [1, words], got {list(x.shape)}", got=x.shape)
        kept = [text for text in x.reshape(-1).tolist() if (text if exact else text.lower()) not in stop]
        found = [cased(text) for text in kept] if kept or not x.size else [""]
        return [np.array(found, object).reshape((1,) * (x.ndim - 1) + (len(found),))]

    return run


def _full_match(attrs: _Attrs) -> TextOp:
    pattern = Pattern(attrs["pattern"])
    return lambda x: [_each(pattern.fits, x, bool)]


def _ngrams(attrs: _Attrs) -> TextOp:
    words, least, longest, skips = (
        _Ngrams(attrs),
        *(int(attrs[name]) for name in ("min_gram_length", "max_gram_length", "max_skip_count")),
    )
    if not 1 <= least <= longest or skips < 0:
        raise GraphError(
            f"min_gram_length {least}, max_gram_length {longest} or max_skip_count {skips} is invalid"
        )
    lengths = [n for n in words.lengths if least <= n <= longest]

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        _one_or_two(x)
        rows = x.reshape(-1, x.shape[-1])
        _fits(len(rows) * words.width, "the result")
        made = np.zeros((len(rows), words.width), np.float32)
        for to, row in zip(made, rows.tolist(), strict=True):
            words.count(row, lengths, skips, to)
        return [made.reshape(*x.shape[:-1], words.width)]

    return run


class _Ngrams:
    """The n-grams of a TfIdfVectorizer, by their words. ``width``: number of columns of the result."""

    def __init__(self, attrs: _Attrs):
        pool = list(attrs.get("pool_strings") or attrs.get("pool_int64s") or [])
        starts, columns = list(attrs["ngram_counts"]), list(attrs["ngram_indexes"])
        ends = [*starts[1:], len(pool)]
        self.mode = attrs["mode"]
        if self.mode not in ("TF", "IDF", "TFIDF"):
            raise GraphError(f"mode is {self.mode!r}", got=self.mode)
        if not columns or min(columns) < 0 or starts != sorted(starts) or (starts and starts[0] < 0):
            raise GraphError("ngram_counts must not descend, and ngram_indexes must be 0 or more")
        self.width = max(columns) + 1
        _fits(self.width, "a row of the result")
        self.column: dict[tuple[Any, ...], int] = {}
        at = iter(columns)
        for n, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
            if end > len(pool) or (end - start) % n:
                raise GraphError(f"n-grams of {n} do not fill {start} to {end} of a pool of {len(pool)}")
            for i in range(start, end, n):
                if (column := next(at, None)) is None:
                    raise GraphError(f"there are only {len(columns)} ngram_indexes, fewer than n-grams")
                self.column.setdefault(tuple(pool[i : i + n]), column)
        weights, self.weights = attrs.get("weights"), np.ones(self.width, np.float32)
        if weights:
            if len(weights) != len(columns):
                raise GraphError(f"there are {len(weights)} weights for {len(columns)} n-grams")
            self.weights[columns] = weights
        self.lengths = sorted({len(words) for words in self.column})

    def count(self, row: list[Any], lengths: Sequence[int], skips: int, to: np.ndarray) -> None:
        """Write the n-gram counts of a row of words to ``to``."""
        found: Counter[int] = Counter()
        for n in lengths:
            for step in range(1, 2 if n == 1 else skips + 2):
                span = (n - 1) * step
                if span >= len(row):
                    break
                parts = [row[k * step : len(row) - span + k * step] for k in range(n)]
                found.update(self.column[words] for words in zip(*parts, strict=True) if words in self.column)
        at = list(found)
        to[at] = list(found.values()) if self.mode != "IDF" else 1
        if self.mode != "TF":
            to *= self.weights


# ---------------------------------------------------------------- com.microsoft's


def _tokenizer(attrs: _Attrs) -> TextOp:
    least, pad = int(attrs["mincharnum"]), attrs["pad_value"]
    marks = (["\x02"], ["\x03"]) if attrs.get("mark", 0) else ([], [])
    separators, expression = attrs.get("separators"), attrs.get("tokenexp")
    if bool(separators) == bool(expression) or least < 1:
        raise GraphError("it must have either separators or tokenexp, and a mincharnum of 1 or more")
    cut = _by_expression(expression) if expression else _by_separators(separators or [])

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        _one_or_two(x)
        rows = [[word for word in cut(text) if len(word) >= least] for text in x.reshape(-1).tolist()]
        if any(rows):
            rows = [[*marks[0], *row, *marks[1]] for row in rows]
        return [_ragged(rows, x.shape, pad)]

    return run


def _by_expression(expression: str) -> Callable[[str], list[str]]:
    pattern = Pattern(expression)
    return lambda text: list(pattern.tokens(text, _MOST_STEPS))


def _by_separators(separators: Sequence[str]) -> Callable[[str], list[str]]:
    if list(separators) == [""]:
        return list
    patterns = [Pattern(each) for each in separators]

    def cut(text: str) -> list[str]:
        parts = [text]
        for pattern in patterns:
            parts = [piece for part in parts for piece in _between(pattern, part)]
        return [part for part in parts if part]

    return cut


def _between(pattern: Pattern, text: str) -> list[str]:
    """Parts of a text between matches of a pattern."""
    found, at = [], 0
    for token in pattern.tokens(text, _MOST_STEPS):
        here = text.index(token, at)
        found.append(text[at:here])
        at = here + len(token)
    return [*found, text[at:]]


# ---------------------------------------------------------------- what numbers have, too


def _cast(attrs: _Attrs) -> TextOp:
    to = dtype_name(int(attrs["to"]), "the result")
    return lambda x: [_as(x, to)]


def _cast_like(attrs: _Attrs) -> TextOp:
    def run(x: np.ndarray, like: np.ndarray) -> Sequence[np.ndarray]:
        return [_as(x, STRING.name if like.dtype.kind in "OU" else like.dtype.name)]

    return run


def _as(x: np.ndarray, to: str) -> np.ndarray:
    if to == STRING.name:
        return x if x.dtype.kind in "OU" else _each(_written(x.dtype), x)
    dtype = ELEMENTS[to].numpy() if to in ELEMENTS else dtypes.to_numpy(to)
    whole = dtypes.is_integer(to) or (to in ELEMENTS and ELEMENTS[to].kind == "int")
    read = _whole if whole else (lambda text: _number(text) != 0) if to == "bool" else _number
    values = [read(text) for text in x.reshape(-1).tolist()]
    try:
        wide = np.array(values, None if whole or to == "bool" else np.float64)
        with np.errstate(over="ignore"):
            return wide.reshape(x.shape).astype(dtype)
    except OverflowError as error:
        raise GraphError(f"a text has a number that {to} cannot hold") from error


def _written(dtype: np.dtype) -> Callable[[Any], str]:
    """A function that writes numbers as ONNX Runtime does: 8 digits for float32 and narrower floats, 17 for
    float64."""
    if dtype.kind in "iub" and dtype.name not in ELEMENTS:
        return lambda value: str(int(value)) if dtype.kind != "b" else str(bool(value))
    digits = 17 if dtype == np.float64 else 8

    def write(value: Any) -> str:
        number = float(value)
        if math.isnan(number):
            return "NaN"
        if math.isinf(number):
            return "INF" if number > 0 else "-INF"
        return f"{number:.{digits}g}"

    return write


def _number(text: str, kind: type = float, most: float = math.inf, what: str = "number") -> Any:
    """The number that a text represents."""
    try:
        if "_" not in text and len(text) < most:
            return kind(text)
    except ValueError:
        pass
    raise GraphError(f"{text[:40]!r} is not a {what}", got=text[:40])


_whole = partial(_number, kind=int, most=40, what="whole number")


def _unique(attrs: _Attrs) -> TextOp:
    axis, ordered = attrs.get("axis"), bool(attrs.get("sorted", 1))
    if axis not in (None, 0, -1):
        raise GraphError(f"Unique of strings along axis {axis} is not supported", got=axis)

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        if axis is not None and x.ndim != 1:
            raise GraphError("Unique of strings along an axis takes one dimension", got=x.shape)
        flat = [str(text) for text in x.reshape(-1).tolist()]
        first: dict[str, int] = {}
        for i, text in enumerate(flat):
            first.setdefault(text, i)
        names = sorted(first, key=str.encode) if ordered else list(first)
        place, counts = {name: i for i, name in enumerate(names)}, Counter(flat)
        columns = ([first[n] for n in names], [place[text] for text in flat], [counts[n] for n in names])
        return [np.array(names, object), *(np.array(column, np.int64) for column in columns)]

    return run


TEXTS: dict[tuple[str, str], Callable[[_Attrs], TextOp]] = {
    ("", "StringConcat"): _concat,
    ("", "StringSplit"): _split,
    ("", "StringNormalizer"): _normalizer,
    ("", "RegexFullMatch"): _full_match,
    ("", "TfIdfVectorizer"): _ngrams,
    ("com.microsoft", "Tokenizer"): _tokenizer,
}
ALSO_TEXTS: dict[tuple[str, str], Callable[[_Attrs], TextOp]] = {
    ("", "Cast"): _cast,
    ("", "CastLike"): _cast_like,
    ("", "Unique"): _unique,
}
