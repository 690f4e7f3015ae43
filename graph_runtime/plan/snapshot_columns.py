"""The columns of a plan's snapshot: a table of their names, dtypes, lengths and ranges. Reading checks every
column by its row of the table, so that later code can trust every index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import DocumentError
from ..ir.documents.weights import ALIGNMENT

_ANY = 1 << 62  # bytes: the sum of two such numbers fits int64


class Column(NamedTuple):
    """A row of the table: ``name`` ("group.field") and ``dtype`` of the column in the file; ``length``, its
    count of numbers, each from ``least`` to below ``most``. Lengths and bounds are numbers or names of sizes;
    "nodes+1" is one more than "nodes". The first column whose length has a new name defines that size."""

    name: str
    dtype: str
    length: str
    least: int
    most: str | int


COLUMNS = (
    Column("names", "uint8", "bytes of names", 0, 256),
    Column("graph.func_id", "int32", "nodes", -1, "functions"),
    Column("graph.type_id", "int32", "entries", 0, "types"),
    Column("graph.in_eid", "int64", "slots", 0, "entries"),
    Column("graph.row_ptr", "int64", "nodes+1", 0, "entries+1"),
    Column("graph.in_ptr", "int64", "nodes+1", 0, "slots+1"),
    Column("graph.inputs", "int64", "inputs", 0, "nodes"),
    Column("graph.outputs", "int64", "outputs", 0, "entries"),
    Column("plan.did", "int32", "nodes", 0, "devices"),
    Column("plan.origin", "int64", "nodes", -1, "nodes"),
    Column("plan.at_input", "bool", "nodes", 0, 2),
    Column("plan.cause_id", "int32", "nodes", 0, "causes"),
    Column("plan.layout_id", "int32", "entries", 0, "layouts"),
    Column("storage.did", "int32", "storages", 0, "devices"),
    Column("storage.memory", "int32", "storages", 0, "memories"),
    Column("storage.offset", "int64", "storages", 0, _ANY),
    Column("storage.extent", "int64", "storages", 0, _ANY),
    Column("storage.nbytes", "int64", "storages", 0, _ANY),
    Column("plan.sid", "int32", "entries", 0, "storages"),
)


def of_group(group: str) -> dict[str, str]:
    """{field: dtype} of the columns of "graph", "plan" or "storage"."""
    parts = [(*column.name.partition("."), column.dtype) for column in COLUMNS]
    return {field: dtype for prefix, _, field, dtype in parts if prefix == group and field}


def read_columns(
    extents: Mapping[str, Sequence[Any]], data: memoryview, sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """{name: read-only array} of every column in the table. ``extents`` {name: (dtype, count, offset in
    data)}; ``sizes``: numbers of functions, types, layouts, causes, devices and memories, as the header gives
    them.

    Raises DocumentError for the first column that differs from the table; the error names the column.
    """
    if extents.keys() != {column.name for column in COLUMNS}:
        wrong = sorted(extents.keys() ^ {column.name for column in COLUMNS})
        raise _damaged(wrong[0], "is missing" if wrong[0] not in extents else "is none of a plan's")
    known, found = dict(sizes), {}
    for column in COLUMNS:
        found[column.name] = array = _taken(column, extents[column.name], data)
        count = (
            known.setdefault(column.length, len(array))
            if "+" not in column.length
            else _size(column.length, known)
        )
        if len(array) != count:
            raise _damaged(column.name, f"has {len(array)} numbers, there are {count} {column.length}")
    for column in COLUMNS:
        _check_values(column, found[column.name], _size(column.most, known))
    return found


def _size(text: str | int, known: Mapping[str, int]) -> int:
    if isinstance(text, int):
        return text
    name, plus, _ = text.partition("+")
    return known[name] + bool(plus)


def _taken(column: Column, extent: Sequence[Any], data: memoryview) -> np.ndarray:
    dtype, count, offset = extent
    if dtype != column.dtype:
        raise _damaged(column.name, f"has dtype {str(dtype)[:20]!r}, must be {column.dtype}")
    end = offset + count * np.dtype(column.dtype).itemsize
    if end > len(data) or offset % ALIGNMENT:
        raise _damaged(
            column.name,
            f"lies at bytes {offset} to {end} of {len(data)}; it must be inside, "
            f"at a multiple of {ALIGNMENT}",
        )
    raw = np.frombuffer(data, np.uint8, end - offset, offset)
    if column.dtype == "bool" and raw.max(initial=0) > 1:
        raise _damaged(column.name, "is bool and holds bytes other than 0 and 1")
    array = raw.view(column.dtype)
    return array if array.flags.aligned else array.copy()  # a zip may have the file at any address


def _check_values(column: Column, array: np.ndarray, most: int) -> None:
    if len(array) and not (column.least <= int(array.min()) and int(array.max()) < most):
        at = int(np.flatnonzero((array < column.least) | (array >= most))[0])
        raise _damaged(
            column.name, f"has {int(array[at])} at {at}, must be from {column.least} to {most - 1}"
        )


def _damaged(name: str, text: str) -> DocumentError:
    return DocumentError(f"a plan's snapshot is damaged: column {name[:60]} {text}")
