"""Whether a small graph.json, but for its nodes (nodes.py), is as TVM writes it. Then its schema accepts it
and is not asked: to import and compile schemas takes 12 ms for the first document of a process.

What is not sure is the schema's to judge; so is a large document, which the schema looks through faster.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain
from typing import Any

from .columns import id_rows

__all__ = ["is_plain"]

_MOST_ENTRIES = 1000
_MOST_DIMENSIONS, _MOST_SIZE = 32, 2**62


def _all_are(kind: type, values: Any) -> bool:
    """Whether it is a list of these; True is no int here."""
    return type(values) is list and set(map(type, values)) <= {kind}


def _are_texts(values: Any) -> bool:
    return _all_are(str, values)


def _are_integers(values: Any) -> bool:
    if not _all_are(int, values):
        return False
    try:
        array("i", values)
    except OverflowError:  # more than 32 bits
        return False
    return True


def _are_ids(values: Any) -> bool:
    return _are_integers(values) and min(values, default=0) >= 0


def _are_shapes(values: Any) -> bool:
    if not _all_are(list, values) or max(map(len, values), default=0) > _MOST_DIMENSIONS:
        return False
    sizes = list(chain.from_iterable(values))
    return _all_are(int, sizes) and min(sizes, default=0) >= 0 and max(sizes, default=0) <= _MOST_SIZE


# column -> (its tag, what its list must be)
_COLUMNS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "dltype": ("list_str", _are_texts),
    "shape": ("list_shape", _are_shapes),
    "storage_id": ("list_int", _are_integers),
    "device_index": ("list_int", _are_integers),
    "device_id": ("list_int", _are_integers),
}
_KEYS = {"nodes", "arg_nodes", "heads", "node_row_ptr", "attrs"}


def is_plain(document: dict[str, Any]) -> bool:
    """Whether graph.schema.json accepts a document with these nodes, if it accepts the nodes."""
    if document.keys() != _KEYS:
        return False
    heads, row_ptr, attrs = document["heads"], document["node_row_ptr"], document["attrs"]
    return (
        type(row_ptr) is list
        and 0 < len(row_ptr) <= _MOST_ENTRIES
        and _are_ids(row_ptr)
        and _are_ids(document["arg_nodes"])
        and _all_are(list, heads)
        and id_rows(heads) is not None
        and type(attrs) is dict
        and {"dltype", "shape"} <= attrs.keys() <= _COLUMNS.keys()
        and all(_is_column(column, *_COLUMNS[name]) for name, column in attrs.items())
    )


def _is_column(column: Any, tag: str, fits: Callable[[Any], bool]) -> bool:
    return type(column) is list and len(column) == 2 and column[0] == tag and fits(column[1])
