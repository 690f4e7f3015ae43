"""Lists of a document -> numpy columns: integers without fractions, [nid, index] entries, and the contents of
nodes, in one pass over blocks of nodes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import orjson

from ...base.errors import DocumentError, GraphError, GraphRuntimeError
from ...base.json_text import count, json_path, parse_text, refuse_dense, until_metadata
from .document import check_schema

JsonPath = Sequence[str | int]
_DIGITS = b"0123456789"
_ID_MAX = 2**31 - 1  # the schema's limit


def integers(values: Sequence[int], *path: str | int) -> np.ndarray:
    """The values as int64 [len(values)]. Raises DocumentError about the first number with a fraction; 4.0
    counts as such a number, as in TVM."""
    try:
        return np.array(array("q", values), np.int64)
    except (TypeError, OverflowError):
        raise fraction_error(values, path) from None


def fraction_error(values: Any, path: JsonPath) -> DocumentError:
    """The error about the first value in nested lists that is no int64."""
    while isinstance(values, list):
        at = next(i for i, v in enumerate(values) if not _whole(v))
        values, path = values[at], (*path, at)
    return DocumentError(
        f"must be an integer written without a fraction, got {values}", path=json_path(path), got=values
    )


def _whole(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_whole, value))
    return isinstance(value, int) and -(2**63) <= value < 2**63


def entries(values: list[list[int]], locate: Callable[[int], JsonPath]) -> np.ndarray:
    """int64 [len(values), 2 or 3] from lists [nid, index] or [nid, index, version]; the result has the
    version only if all lists have it. ``locate(i)``: the JSON path of list i. Raises DocumentError for a
    number with a fraction."""
    rows = id_rows(values)
    if rows is not None:
        return rows
    try:
        flat: list[int] = []
        for value in values:  # faster than chain, which visits each element twice
            flat += value
        numbers = np.array(array("q", flat), np.int64)
    except (TypeError, OverflowError):
        at = next(i for i, v in enumerate(values) if not _whole(v))
        raise fraction_error(values[at], locate(at)) from None
    for width in (3, 2):
        if len(numbers) == width * len(values):
            return numbers.reshape(-1, width)
    return np.array([entry[:2] for entry in values], np.int64)


def id_rows(values: list[Any]) -> np.ndarray | None:
    """int64 [len(values), 2 or 3] from lists that all have two ids or all have three ids, each an int from 0
    to 2**31 - 1. None if ``values`` holds anything else.

    The check is on the JSON text of the lists without its digits, which takes half as long as a check of each
    number."""
    if not values:
        return np.zeros((0, 2), np.int64)
    try:
        text = orjson.dumps(values)
    except TypeError:  # ``values`` has a number of numpy, for example
        return None
    marks = text.translate(None, _DIGITS)
    if marks not in (b"[%b]" % b",".join([row] * len(values)) for row in (b"[,,]", b"[,]")):
        return None
    ids = np.fromstring(text.translate(None, b"[]"), np.int64, sep=",").reshape(len(values), -1)
    return ids if ids.max() <= _ID_MAX else None


def of_length(column: Sequence[Any], count: int, *path: str | int) -> None:
    """Raise GraphError unless a column has ``count`` elements, one for each entry."""
    if len(column) != count:
        text = f"the column has {len(column)} elements, the graph has {count} entries: give one an entry"
        raise GraphError(text, path=json_path(path), got=len(column), wanted=count)


def first_true(wrong: np.ndarray) -> int | None:
    """Index of the first True, or None."""
    return int(np.argmax(wrong)) if wrong.any() else None


def extra_columns(columns: dict[str, Any], known: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """{name: (tag, value)} of the columns that are not ``known``. No code reads these columns, but the writer
    keeps them."""
    found = {}
    for name, (tag, value) in columns.items():
        if name not in known:
            integers(value if tag == "list_int" else [value], "attrs", name, 1)
            found[name] = (tag, tuple(value) if tag == "list_int" else value)
    return found


# **************** nodes ****************

# Nodes are read in blocks because a document has some twenty objects for each node, far more than a
# processor's cache holds. A pass over all nodes waits for memory at every step; a second pass over a block
# finds the block in the cache.


REQUIRED = ("func_name", "num_inputs", "num_outputs", "flatten_data")
_BLOCK = 512
NULL = ()  # attrs of a null node; no JSON value equals it
Attrs = dict[str, str] | tuple[()]


@dataclass(frozen=True, slots=True, eq=False)
class NodeColumns:
    """Contents of nodes, not yet checked against each other.

    ``names`` [nodes]: name of each node. ``in_count`` int64 [nodes]: number of inputs of each node. ``reads``
    int64 [inputs of all nodes, 2]: the node and the output that each input reads. ``runs`` [(nid, attrs)]:
    one row for each run of consecutive nodes with equal attrs, with the nid of the first node; the attrs of
    null nodes are NULL. ``control_deps``: {nid: nids as in the document}. ``keys``: number of keys of plain
    nodes and of their attrs."""

    names: list[str] = field(default_factory=list)
    in_count: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    reads: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    runs: list[tuple[int, Attrs]] = field(default_factory=list)
    control_deps: dict[int, list[int]] = field(default_factory=dict)
    keys: int = 0


def read_checked(
    data: bytes, strict: bool = False, what: str = "graph.json"
) -> tuple[dict[str, Any], NodeColumns | None]:
    """(a graph.json that graph.schema.json accepts, the columns of its nodes), with None for the columns if
    the nodes had to be checked by the schema. ``what``: name of the document in errors.

    Nodes are most of a document. Reading the nodes shows whether they have TVM's form. Only nodes of another
    form are checked by the schema, which knows all allowed forms and finds the fault. Raises DocumentError.
    """
    whole, data = parse_text(data, what, trailing=not strict)
    nodes = plain_columns(whole.get("nodes")) if isinstance(whole, dict) else None
    keys = _keys(whole, nodes, data, what)
    document = until_metadata(whole, data, keys, strict=strict, what=what)
    if nodes is not None and document.get("nodes") is not whole["nodes"]:
        nodes = None
    if nodes is None:
        check_schema(document, "graph", what)
    elif not is_plain(document):
        check_schema({**document, "nodes": []}, "graph", what)
    return document, nodes


def _keys(document: Any, nodes: NodeColumns | None, data: bytes, what: str) -> int | None:
    """Number of keys of the document; None if the number cannot be told without another pass over the nodes.
    Raises DocumentError for more keys than a schema can check."""
    refuse_dense(0 if nodes is not None else count(data, ","), len(data), what)
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        refuse_dense(count(data, ",") + count(data, ":"), len(data), what)
        return None
    try:
        text = orjson.dumps({**document, "nodes": []})
    except TypeError:  # nested deeper than orjson can write
        return None
    refuse_dense(count(text, ",") + count(text, ":"), len(data), what)
    return None if nodes is None else nodes.keys + count(text, ":")


def node_columns(nodes: list[dict[str, Any]]) -> NodeColumns:
    """The columns of nodes that graph.schema.json accepts. Raises DocumentError for a number with a fraction,
    GraphError for a tvm_op without attrs."""
    return _read(nodes, plain=False)


def plain_columns(nodes: Any) -> NodeColumns | None:
    """The columns of nodes if graph.schema.json certainly accepts them; None for nodes that have a fault or
    keys that TVM does not write: only the schema can tell these two apart."""
    if not isinstance(nodes, list):
        return None
    try:
        return _read(nodes, plain=True)
    except (_NotPlainError, GraphRuntimeError, LookupError, TypeError, AttributeError, RecursionError):
        return None


class _NotPlainError(Exception):
    """Raised for nodes that only the schema can judge."""


def _read(nodes: list[dict[str, Any]], plain: bool) -> NodeColumns:
    names: list[str] = []
    counts: list[int] = []
    reads = [np.zeros((0, 2), np.int64)]
    runs: list[tuple[int, Attrs]] = []
    deps: dict[int, Any] = {}
    keys = 0
    before = None  # differs from all attrs
    for start in range(0, len(nodes), _BLOCK):
        block = nodes[start : start + _BLOCK]
        ops = [node["op"] for node in block]
        inputs = [node["inputs"] for node in block]
        flat = list(chain.from_iterable(inputs))
        attrs = _attrs(block, ops)
        names += [node["name"] for node in block]
        found = id_rows(flat)
        if plain and (found is None or not _is_plain(ops, names[start:], inputs, attrs)):
            raise _NotPlainError
        if plain:
            keys += sum(map(len, block)) + sum(map(len, attrs or ()))
        if attrs is None:
            attrs = [_any_attrs(nid, node) for nid, node in enumerate(block, start)]
            deps |= {
                nid: node["control_deps"] for nid, node in enumerate(block, start) if "control_deps" in node
            }
        counts += map(len, inputs)
        if found is None:
            found = entries(flat, partial(_input_path, start, inputs))
        reads.append(found[:, :2])
        for nid, raw in enumerate(attrs, start):
            if raw != before:  # often equal: a node often calls the function of the node before it
                runs.append((nid, raw))
                before = raw
    texts = (text for _, raw in runs if isinstance(raw, dict) for text in raw.values())
    if plain and not all(type(text) is str for text in texts):
        raise _NotPlainError  # equal attrs are texts, too, so only the first attrs of each run are checked
    return NodeColumns(names, np.array(counts, np.int64), np.concatenate(reads), runs, deps, keys)


def _attrs(block: list[dict[str, Any]], ops: list[str]) -> list[Attrs] | None:
    """Attrs of each node of a block; None unless every node has exactly the required keys."""
    if sum(map(len, block)) != 4 * len(block) - ops.count("null"):
        return None
    try:
        return [NULL if op == "null" else node["attrs"] for op, node in zip(ops, block, strict=True)]
    except KeyError:
        return None


def _is_plain(ops: list[Any], names: list[Any], inputs: list[Any], attrs: list[Any] | None) -> bool:
    """Whether the schema certainly accepts these nodes, on condition that it accepts the nodes' ids and the
    texts in their attrs."""
    return attrs is not None and (
        set(ops) <= {"null", "tvm_op"}
        and set(map(type, names)) == {str}
        and set(map(type, inputs)) == {list}
        and set(map(type, attrs)) <= {dict, type(NULL)}
    )


def _input_path(start: int, inputs: list[list[Any]], slot: int) -> tuple[str | int, ...]:
    """The JSON path of an input; ``slot``: the input's place among all inputs of the block that begins at
    node ``start``."""
    ends = np.cumsum([len(of_node) for of_node in inputs])
    nid = int(np.searchsorted(ends, slot, side="right"))
    return "nodes", start + nid, "inputs", slot - int(ends[nid]) + len(inputs[nid])


def _any_attrs(nid: int, node: dict[str, Any]) -> Attrs:
    """Attrs of a node, written as "attrs" or "attr". If a node has both, the values of the later one win, as
    in TVM's reader."""
    if node["op"] == "null":
        return NULL
    found = [node[key] for key in node if key in ("attrs", "attr")]
    if not found:
        text = f"node {node['name']!r} is a tvm_op without attrs: it needs {', '.join(REQUIRED)}"
        raise GraphError(text, path=json_path(("nodes", nid)), node=node["name"], wanted=REQUIRED)
    return {key: value for attrs in found for key, value in attrs.items()}


# **************** whether the schema must check a document ****************

# The schema is not used for a small graph.json in TVM's form, because importing and compiling schemas takes
# 12 ms for the first document of a process. Documents in any other form are checked by the schema, and so are
# large documents, which the schema checks faster.


_MOST_ENTRIES = 1000
_MOST_DIMENSIONS, _MOST_SIZE = 32, 2**62


def _all_are(kind: type, values: Any) -> bool:
    """Whether ``values`` is a list whose elements are all of this type; True does not count as an int."""
    return type(values) is list and set(map(type, values)) <= {kind}


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


# {name of a column: (its tag, function that checks its list)}
_COLUMNS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "dltype": ("list_str", partial(_all_are, str)),
    "shape": ("list_shape", _are_shapes),
    "storage_id": ("list_int", _are_integers),
    "device_index": ("list_int", _are_integers),
    "device_id": ("list_int", _are_integers),
}
_KEYS = {"nodes", "arg_nodes", "heads", "node_row_ptr", "attrs"}


def is_plain(document: dict[str, Any]) -> bool:
    """Whether graph.schema.json certainly accepts a document whose nodes it accepts."""
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
