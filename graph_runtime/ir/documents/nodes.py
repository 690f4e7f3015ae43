"""The nodes of a document -> columns, in one pass, a block of nodes at a time.

A document has some twenty objects a node, far more than a processor's cache holds: a pass over all nodes
waits for memory at every step, a pass over a block finds the block where the pass before left it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import orjson

from ...base.errors import GraphError, GraphRuntimeError
from ...base.json_text import count, json_path, parse_text, refuse_dense
from .columns import entries, id_rows
from .document import check_schema, until_metadata
from .plain import is_plain

__all__ = ["NULL", "REQUIRED", "NodeColumns", "node_columns", "plain_columns", "read_checked"]

REQUIRED = ("func_name", "num_inputs", "num_outputs", "flatten_data")
_BLOCK = 512
NULL = ()  # what stands for the attrs of a null node: no JSON is equal to it
Attrs = dict[str, str] | tuple[()]


@dataclass(frozen=True, slots=True, eq=False)
class NodeColumns:
    """What nodes say, not yet held against each other.

    ``names`` [nodes]; ``in_count`` int64 [nodes] and ``reads`` int64 [inputs of all nodes, 2]: the node and
    the output that each input is; ``runs`` [(nid, attrs)]: the first of each run of nodes with equal attrs,
    NULL for null nodes; ``control_deps`` {nid: nids as the document has them}; ``keys``: how many plain nodes
    have, those of attrs too.
    """

    names: list[str] = field(default_factory=list)
    in_count: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    reads: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    runs: list[tuple[int, Attrs]] = field(default_factory=list)
    control_deps: dict[int, list[int]] = field(default_factory=dict)
    keys: int = 0


def read_checked(
    data: bytes, strict: bool = False, what: str = "graph.json"
) -> tuple[dict[str, Any], NodeColumns | None]:
    """A graph.json that graph.schema.json accepts, and the columns of its nodes if that took no schema.
    Errors call the document ``what``.

    Nodes are most of a document, and to read them is to see whether they are as TVM writes them. Where they
    are not, the schema is asked, which knows all that is allowed and says what is wrong where. Raises
    DocumentError.
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
    """How many keys the document has, if that can be said without writing its nodes. Raises DocumentError for
    more than a schema can look at."""
    refuse_dense(0 if nodes is not None else count(data, ","), len(data), what)
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        refuse_dense(count(data, ",") + count(data, ":"), len(data), what)
        return None
    try:
        text = orjson.dumps({**document, "nodes": []})
    except TypeError:  # nested deeper than orjson writes
        return None
    refuse_dense(count(text, ",") + count(text, ":"), len(data), what)
    return None if nodes is None else nodes.keys + count(text, ":")


def node_columns(nodes: list[dict[str, Any]]) -> NodeColumns:
    """The columns of nodes that graph.schema.json accepts.

    Raises DocumentError for a number with a fraction, GraphError for a tvm_op without attrs.
    """
    return _read(nodes, plain=False)


def plain_columns(nodes: Any) -> NodeColumns | None:
    """The columns of nodes that graph.schema.json accepts for sure, without asking it; None where they have
    more in them than TVM writes, or something wrong: the schema can tell.
    """
    if not isinstance(nodes, list):
        return None
    try:
        return _read(nodes, plain=True)
    except (_NotPlainError, GraphRuntimeError, LookupError, TypeError, AttributeError, RecursionError):
        return None


class _NotPlainError(Exception):
    """Only the schema can tell."""


def _read(nodes: list[dict[str, Any]], plain: bool) -> NodeColumns:
    names: list[str] = []
    counts: list[int] = []
    reads = [np.zeros((0, 2), np.int64)]
    runs: list[tuple[int, Attrs]] = []
    deps: dict[int, Any] = {}
    keys = 0
    before = None  # equal to no attrs
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
            if raw != before:  # often a node calls what the one before it calls
                runs.append((nid, raw))
                before = raw
    texts = (text for _, raw in runs if isinstance(raw, dict) for text in raw.values())
    if plain and not all(type(text) is str for text in texts):
        raise _NotPlainError  # a text equals nothing but a text: the first of a run speaks for all
    return NodeColumns(names, np.array(counts, np.int64), np.concatenate(reads), runs, deps, keys)


def _attrs(block: list[dict[str, Any]], ops: list[str]) -> list[Attrs] | None:
    """The attrs of each node; None unless each node has just the keys that it needs."""
    if sum(map(len, block)) != 4 * len(block) - ops.count("null"):
        return None
    try:
        return [NULL if op == "null" else node["attrs"] for op, node in zip(ops, block, strict=True)]
    except KeyError:
        return None


def _is_plain(ops: list[Any], names: list[Any], inputs: list[Any], attrs: list[Any] | None) -> bool:
    """Whether the schema accepts these nodes for sure, but for ids and for texts in attrs."""
    return attrs is not None and (
        set(ops) <= {"null", "tvm_op"}
        and set(map(type, names)) == {str}
        and set(map(type, inputs)) == {list}
        and set(map(type, attrs)) <= {dict, type(NULL)}
    )


def _input_path(start: int, inputs: list[list[Any]], slot: int) -> tuple[str | int, ...]:
    """The path of an input of a block's nodes."""
    ends = np.cumsum([len(of_node) for of_node in inputs])
    nid = int(np.searchsorted(ends, slot, side="right"))
    return "nodes", start + nid, "inputs", slot - int(ends[nid]) + len(inputs[nid])


def _any_attrs(nid: int, node: dict[str, Any]) -> Attrs:
    """Both spellings; where a node has both, later keys win, as they do in TVM's reader."""
    if node["op"] == "null":
        return NULL
    found = [node[key] for key in node if key in ("attrs", "attr")]
    if not found:
        raise GraphError(
            f"node {node['name']!r} is a tvm_op without attrs: it needs {', '.join(REQUIRED)}",
            path=json_path(("nodes", nid)),
            node=node["name"],
            wanted=REQUIRED,
        )
    return {key: value for attrs in found for key, value in attrs.items()}
