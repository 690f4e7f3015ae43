"""A page without a plan: its nodes are those that files of runs name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .columns import Texts, plain
from .data import VERSION
from .shown import CALL, COPIED, KINDS

Row = dict[str, Any]


def bare_nodes(
    texts: Texts,
    *,
    names: Sequence[str],
    ops: Sequence[str],
    devices: Sequence[int],
    types: Sequence[str],
    layouts: Sequence[str],
    causes: Sequence[str],
) -> Row:
    """Columns like those of graph_data(), empty for columns whose values only a plan has."""
    count, nothing = len(names), texts("")
    return {
        "name": list(names),
        "kind": [COPIED if op == "__copy" else CALL for op in ops],
        "op": [texts(op) for op in ops],
        "device": list(devices),
        "type": [texts(one) for one in types],
        "dtype": [texts(one.partition("[")[0]) for one in types],
        "layout": [texts(one) for one in layouts],
        "cause": [texts(one) for one in causes],
        "bytes": [0] * count,
        "sids": [[]] * count,
        "ns": [None] * count,
        "inserted": [0] * count,
        "circular": None,
        "from": {},
        **{key: [nothing] * count for key in ("layout_cause", "bound", "kernel", "attrs")},
    }


def bare_page(
    title: str,
    command: str,
    texts: Texts,
    nodes: Row,
    devices: Sequence[str],
    timelines: list[Row],
    accuracy: Row | None,
    tensors: Row | None = None,
) -> Row:
    edges: Row = {key: [] for key in ("from", "to", "type", "layout", "bytes", "drawn")}
    plan: Row = {
        "name": title,
        "problem": "",
        "warnings": [],
        "devices": [{"name": name, "board": "", "host": False} for name in devices],
        "graph": {"kinds": KINDS, "nodes": nodes, "edges": edges, "tree": None, "codes": {}, "notes": []},
        "timelines": timelines,
        "pools": [],
        "cores": [],
        "roofline": [],
        "accuracy": accuracy,
        "tensors": tensors,
        "answers": None,
    }
    return {
        "version": VERSION,
        "title": title,
        "command": command,
        "plans": [{**plain(plan), "texts": texts.all}],
        "moved": None,
    }
