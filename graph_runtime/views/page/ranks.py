"""Places of a group's children in the group's drawing: each child's rank (row) and column, computed when the
page is written.

A graph's nodes come in an order in which they can run, so one pass gives each child a rank below all its
inputs; passes up and down the ranks then move children near their inputs and readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .prefixes import NodeGroup

Spot = tuple[int, int]  # rank, column
_SWEEPS = 4


def spots(groups: Sequence[NodeGroup], edges: np.ndarray) -> tuple[dict[int, Spot], dict[int, Spot]]:
    """({nid: spot}, {group number: spot}); spots are within the drawing of the parent group. ``edges`` int64
    [edges, 2]: nids."""
    of_node, of_group = {}, {}
    inside = _lifted(groups, edges)
    for group in groups:
        children = [child for _, child in group.children()]
        keys = [_key(child) for child in children]
        for key, spot in _places(keys, inside.get(group.number, {})).items():
            if key >= 0:
                of_node[key] = spot
            else:
                of_group[-1 - key] = spot
    return of_node, of_group


def _key(child: NodeGroup | int) -> int:
    """The key of a child: the nid of a node, or -1 minus the number of a group."""
    return -1 - child.number if isinstance(child, NodeGroup) else child


def _lifted(groups: Sequence[NodeGroup], edges: np.ndarray) -> dict[int, dict[tuple[int, int], int]]:
    """{group number: {(child, child): number of edges between them}}. Each edge counts in the lowest group
    that contains both its ends."""
    home = {nid: group for group in groups for nid in group.nodes}
    paths: dict[int, list[int]] = {}
    for group in groups:
        above = paths[group.parent.number] if group.parent is not None else []
        paths[group.number] = [*above, group.number]
    found: dict[int, dict[tuple[int, int], int]] = {}
    for a, b in edges.tolist():
        if a not in home or b not in home:
            continue
        one = [*(-1 - number for number in paths[home[a].number]), a]
        two = [*(-1 - number for number in paths[home[b].number]), b]
        depth = next((at for at, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), None)
        if depth is None:
            continue  # an edge from a node to itself is not drawn
        inner = found.setdefault(-1 - one[depth - 1], {})
        pair = one[depth], two[depth]
        inner[pair] = inner.get(pair, 0) + 1
    return found


def _places(keys: Sequence[int], edges: Mapping[tuple[int, int], int]) -> dict[int, Spot]:
    order = {key: at for at, key in enumerate(keys)}
    reads: dict[int, list[int]] = {key: [] for key in keys}
    read_by: dict[int, list[int]] = {key: [] for key in keys}
    for a, b in edges:
        if order[a] < order[b]:  # groups may read each other: edges against the order are ignored
            reads[b].append(a)
            read_by[a].append(b)
    rank: dict[int, int] = {}
    for key in keys:
        rank[key] = 1 + max((rank[a] for a in reads[key]), default=-1)
    for key in reversed(keys):  # a child without inputs is just above its first reader, not at the top
        if not reads[key] and read_by[key]:
            rank[key] = min(rank[b] for b in read_by[key]) - 1
    rows: dict[int, list[int]] = {}
    for key in keys:
        rows.setdefault(rank[key], []).append(key)
    at = {key: float(column - (len(row) - 1) / 2) for row in rows.values() for column, key in enumerate(row)}
    for sweep in range(_SWEEPS):
        near = reads if sweep % 2 == 0 else read_by
        for number in sorted(rows, reverse=sweep % 2 == 1):
            row = rows[number]
            row.sort(
                key=lambda key: (sum(at[n] for n in near[key]) / len(near[key])) if near[key] else at[key]
            )
            at.update({key: column - (len(row) - 1) / 2 for column, key in enumerate(row)})
    return {key: (rank[key], column) for row in rows.values() for column, key in enumerate(row)}
