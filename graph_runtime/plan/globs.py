"""Globs by which a caller names nodes: a glob is matched with node, op and function names; "node:NAME" names
exactly one node."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import PlanError, did_you_mean
from ..ir.graph import Graph

EXACTLY = "node:"


def matching(graph: Graph, glob: str, what: str) -> np.ndarray:
    """bool [nodes]: whether a glob names the node.

    Raises PlanError ("``what`` 'glob' matches no ...") if the glob names none.
    """
    hit = _hits(graph, glob)
    if not hit.any():
        known = [*graph.names, *(f.op or f.name for f in graph.funcs)]
        text = f"{what} {glob!r} matches no node, op or function{did_you_mean(glob, dict.fromkeys(known))}"
        raise PlanError(text, got=glob)
    return hit


def naming(graph: Graph, table: Mapping[str, Any]) -> dict[str, Any]:
    """The items of a table {glob: ...} whose glob names a node."""
    return {glob: value for glob, value in table.items() if _hits(graph, glob).any()}


def _hits(graph: Graph, glob: str) -> np.ndarray:
    if glob.startswith(EXACTLY):
        return np.fromiter((n == glob[len(EXACTLY) :] for n in graph.names), bool, graph.num_nodes)
    match = re.compile(fnmatch.translate(glob)).match
    by_func = np.array([bool(match(f.name) or (f.op and match(f.op))) for f in graph.funcs] + [False])
    by_name = np.fromiter((match(n) is not None for n in graph.names), bool, graph.num_nodes)
    return by_func[graph.func_id] | by_name
