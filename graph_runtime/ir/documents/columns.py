"""Lists of a checked document -> numpy columns: integers without fractions, [nid, index] entries, interned
tensor types.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson

from ...base import dtypes
from ...base.errors import DocumentError, GraphError
from ...base.json_text import json_path
from ..graph import TensorType

__all__ = [
    "MOST_BYTES",
    "entries",
    "extra_columns",
    "id_rows",
    "integers",
    "intern_types",
    "of_length",
    "pool_type",
]

MOST_BYTES = 1 << 62
JsonPath = Sequence[str | int]
_DIGITS = b"0123456789"
_ID_MAX = 2**31 - 1  # as the schema has it


def integers(values: Sequence[int], *path: str | int) -> np.ndarray:
    """int64 [len(values)]. Raises DocumentError, at the first, for a number with a fraction (4.0
    is one, as for TVM).
    """
    try:
        return np.array(array("q", values), np.int64)
    except (TypeError, OverflowError):
        raise _fraction(values, path) from None


def _fraction(values: Any, path: JsonPath) -> DocumentError:
    """The error about the first value in nested lists that is no int64."""
    while isinstance(values, list):
        at = next(i for i, v in enumerate(values) if not _whole(v))
        values, path = values[at], (*path, at)
    return DocumentError(
        f"must be an integer written without a fraction, got {values}", path=json_path(path), got=values
    )


def _whole(value: Any) -> bool:
    return (
        all(map(_whole, value))
        if isinstance(value, list)
        else isinstance(value, int) and -(2**63) <= value < 2**63
    )


def entries(values: list[list[int]], locate: Callable[[int], JsonPath]) -> np.ndarray:
    """int64 [len(values), 2 or 3] from [nid, index] or [nid, index, version] each: nid, index, and the
    version where all have one; ``locate(i)`` is the path of entry i. Raises DocumentError for a number with
    a fraction.
    """
    rows = id_rows(values)
    if rows is not None:
        return rows
    try:
        flat: list[int] = []
        for value in values:  # faster than chain, whose elements are visited twice
            flat += value
        numbers = np.array(array("q", flat), np.int64)
    except (TypeError, OverflowError):
        at = next(i for i, v in enumerate(values) if not _whole(v))
        raise _fraction(values[at], locate(at)) from None
    for width in (3, 2):
        if len(numbers) == width * len(values):
            return numbers.reshape(-1, width)
    return np.array([entry[:2] for entry in values], np.int64)


def id_rows(values: list[Any]) -> np.ndarray | None:
    """int64 [len(values), 2 or 3] of lists of two ids each or three, ints from 0 to 2**31 - 1; None where
    anything in them is something else.

    As text without its digits such lists can be told from all others at once, which takes half of what it
    takes to look at each number.
    """
    if not values:
        return np.zeros((0, 2), np.int64)
    try:
        text = orjson.dumps(values)
    except TypeError:  # numbers of numpy's, say
        return None
    marks = text.translate(None, _DIGITS)
    if marks not in (b"[%b]" % b",".join([row] * len(values)) for row in (b"[,,]", b"[,]")):
        return None
    ids = np.fromstring(text.translate(None, b"[]"), np.int64, sep=",").reshape(len(values), -1)
    return ids if ids.max() <= _ID_MAX else None


def of_length(column: Sequence[Any], count: int, *path: str | int) -> None:
    """Raise GraphError unless a column has one element for each of ``count`` entries."""
    if len(column) != count:
        raise GraphError(
            f"the column has {len(column)} elements, the graph has {count} entries: give one an entry",
            path=json_path(path),
            got=len(column),
            wanted=count,
        )


def intern_types(dltype: list[str], shape: list[list[int]]) -> tuple[np.ndarray, tuple[TensorType, ...]]:
    """(type_id int32 [entries], the distinct types) of two columns of equal length. Raises DocumentError or
    GraphError at the entry.
    """
    try:
        array("q", list(chain.from_iterable(shape)))
    except (TypeError, OverflowError):
        raise _fraction(shape, ("attrs", "shape", 1)) from None
    distinct: dict[tuple[Any, ...], int] = {}
    found, before, said = -1, None, None
    numbers = []
    for name, dims in zip(dltype, shape, strict=True):
        if dims != before or name != said:  # most entries are of the type of the one before
            found = distinct.setdefault((name, *dims), len(distinct))
            before, said = dims, name
        numbers.append(found)
    ids = np.array(numbers, np.int32)
    types: dict[TensorType, int] = {}
    renumbered = []
    for key, i in distinct.items():
        try:
            made = pool_type(key[0], key[1:])
        except GraphError as error:
            column = "dltype" if "dtype" in error.fields else "shape"
            raise GraphError(
                str(error), path=json_path(("attrs", column, 1, int(np.argmax(ids == i)))), got=error.got
            ) from None
        renumbered.append(types.setdefault(made, len(types)))
    return np.array(renumbered, np.int32)[ids], tuple(types)


def pool_type(dtype: str, shape: tuple[int, ...]) -> TensorType:
    """The TensorType. Raises GraphError, with field dtype if that is to blame, for one no pool can hold."""
    try:
        parsed = dtypes.parse(dtype)
    except DocumentError as error:
        raise GraphError(str(error), got=dtype, dtype=dtype) from None
    width = parsed.bits * parsed.lanes
    if width == 0 or (width % 8 and width not in (1, 4)):
        raise GraphError(
            f"type {dtype!r} has {width} bits an element; a tensor needs whole bytes, 1 or 4 bits",
            got=dtype,
            dtype=dtype,
        )
    if math.prod(d for d in shape if d) * parsed.itemsize >= MOST_BYTES:
        raise GraphError(f"{dtype} {list(shape)} has more than 2**62 bytes", got=shape)
    return TensorType(parsed.name, shape)


def extra_columns(columns: dict[str, Any], known: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """Columns that nothing reads, kept for the writer: {name: (tag, value)}."""
    found = {}
    for name, (tag, value) in columns.items():
        if name not in known:
            integers(value if tag == "list_int" else [value], "attrs", name, 1)
            found[name] = (tag, tuple(value) if tag == "list_int" else value)
    return found
