"""Globs by which a caller names nodes: over node, op and function names; "node:NAME" is one node, exactly."""

from __future__ import annotations

import fnmatch
import re

import numpy as np

from ..base.errors import PlanError, did_you_mean
from ..ir.graph import Graph

__all__ = ["EXACTLY", "matching"]

EXACTLY = "node:"


def matching(graph: Graph, glob: str, what: str) -> np.ndarray:
    """bool [nodes]: the nodes that a glob names.

    Raises PlanError ("``what`` 'glob' matches no ...") where there is none.
    """
    if glob.startswith(EXACTLY):
        hit = np.fromiter((n == glob[len(EXACTLY) :] for n in graph.names), bool, graph.num_nodes)
    else:
        match = re.compile(fnmatch.translate(glob)).match
        by_func = np.array([bool(match(f.name) or (f.op and match(f.op))) for f in graph.funcs] + [False])
        hit = by_func[graph.func_id] | np.fromiter(
            (match(n) is not None for n in graph.names), bool, graph.num_nodes
        )
    if not hit.any():
        known = [*graph.names, *(f.op or f.name for f in graph.funcs)]
        raise PlanError(
            f"{what} {glob!r} matches no node, op or function{did_you_mean(glob, dict.fromkeys(known))}",
            got=glob,
        )
    return hit
