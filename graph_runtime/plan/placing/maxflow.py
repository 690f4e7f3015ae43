"""Minimum s-t cut of a graph with integer capacities: two search trees grow from source and sink towards each
other, and a node that an augmentation cuts off looks for another parent (Boykov and Kolmogorov, 2004).

The networks of placement have short paths, because most nodes have an arc from the source or to the sink. The
trees are kept between augmentations; Dinic's algorithm and push-relabel would search anew.
"""

from __future__ import annotations

from collections import deque

_NONE, _TERMINAL, _ORPHAN = -1, -2, -3
_FREE, _SOURCE, _SINK = 0, 1, 2


class FlowNetwork:
    """A network of ``count`` nodes besides source and sink. Capacities are non-negative integers."""

    def __init__(self, count: int):
        self._excess = [0] * count  # > 0: capacity from the source; < 0: capacity to the sink
        self._arcs: list[list[int]] = [[] for _ in range(count)]
        self._head: list[int] = []  # arc a leads to node _head[a]; a ^ 1 is its reverse
        self._room: list[int] = []
        self._side = [_FREE] * count
        self._parent = [_NONE] * count  # arc of each node that leads towards the tree's root
        self._mark, self._depth = [0] * count, [0] * count
        self._clock = 0
        self._active: deque[int] = deque()
        self._orphans: deque[int] = deque()

    def node(self) -> int:
        """Add a node and return its number."""
        self._arcs.append([])
        for column, value in (
            (self._excess, 0),
            (self._side, _FREE),
            (self._parent, _NONE),
            (self._mark, 0),
            (self._depth, 0),
        ):
            column.append(value)
        return len(self._excess) - 1

    def terminal(self, node: int, excess: int) -> None:
        """Add capacity ``excess`` from the source to a node; if negative, -``excess`` from the node to the
        sink."""
        self._excess[node] += excess

    def arc(self, tail: int, head: int, room: int, back: int = 0) -> None:
        """Add an arc of capacity ``room``, and of capacity ``back`` in the other direction."""
        at = len(self._head)
        self._head += (head, tail)
        self._room += (room, back)
        self._arcs[tail].append(at)
        self._arcs[head].append(at + 1)

    def sources(self) -> list[bool]:
        """For each node: whether it is on the source's side of a minimum cut. The method may be called only
        once."""
        for node, excess in enumerate(self._excess):
            if excess:
                self._side[node] = _SOURCE if excess > 0 else _SINK
                self._parent[node], self._depth[node] = _TERMINAL, 1
                self._active.append(node)
        while (met := self._grow()) != _NONE:
            self._clock += 1
            self._augment(met)
            while self._orphans:
                self._adopt(self._orphans.popleft())
        return [side == _SOURCE for side in self._side]

    def _grow(self) -> int:
        """The arc from the source's tree to the sink's tree on which the trees meet, _NONE if they cannot
        meet."""
        head, room, side, parent, active = self._head, self._room, self._side, self._parent, self._active
        while active:
            node = active[0]
            mine = side[node]
            way = 0 if mine == _SOURCE else 1  # the sink's tree grows against the arcs
            for arc in self._arcs[node] if mine else ():
                if not room[arc ^ way]:
                    continue
                other = head[arc]
                if side[other] == _FREE:
                    side[other], parent[other] = mine, arc ^ 1
                    self._mark[other], self._depth[other] = self._mark[node], self._depth[node] + 1
                    active.append(other)
                elif side[other] != mine:
                    return arc ^ way
                elif self._mark[other] <= self._mark[node] and self._depth[other] > self._depth[node] + 1:
                    parent[other] = arc ^ 1  # the new parent gives a shorter way to the root
                    self._mark[other], self._depth[other] = self._mark[node], self._depth[node] + 1
            active.popleft()
        return _NONE

    def _augment(self, met: int) -> None:
        """Send as much flow as there is room for along the trees and ``met``, the arc on which they meet."""
        room, excess = self._room, self._excess
        up, root = self._path(self._head[met ^ 1])
        down, leaf = self._path(self._head[met])
        flow = min(room[met], excess[root], -excess[leaf])
        for arc in up:
            flow = min(flow, room[arc ^ 1])
        for arc in down:
            flow = min(flow, room[arc])
        room[met] -= flow
        room[met ^ 1] += flow
        for arc in up:
            self._send(arc ^ 1, flow, self._head[arc ^ 1])
        for arc in down:
            self._send(arc, flow, self._head[arc ^ 1])
        excess[root] -= flow
        excess[leaf] += flow
        for end in (root, leaf):
            if not excess[end]:
                self._cut_off(end)

    def _path(self, node: int) -> tuple[list[int], int]:
        """The arcs from a node to the root of its tree, and the root."""
        arcs = []
        while (arc := self._parent[node]) != _TERMINAL:
            arcs.append(arc)
            node = self._head[arc]
        return arcs, node

    def _send(self, arc: int, flow: int, child: int) -> None:
        """Send flow along an arc of a tree; ``child`` is the end of the arc further from the root."""
        self._room[arc] -= flow
        self._room[arc ^ 1] += flow
        if not self._room[arc]:
            self._cut_off(child)

    def _cut_off(self, node: int) -> None:
        self._parent[node] = _ORPHAN
        self._orphans.append(node)

    def _adopt(self, node: int) -> None:
        """Find another parent for an orphan in its tree, or set the orphan and its children free."""
        head, room, side, parent = self._head, self._room, self._side, self._parent
        mine = side[node]
        way = 1 if mine == _SOURCE else 0  # flow goes from the parent (1) or to the parent (0)
        best, least = _NONE, len(side) + 1
        for arc in self._arcs[node]:
            other = head[arc]
            if room[arc ^ way] and side[other] == mine and parent[other] != _NONE:
                depth = self._rooted(other)
                if 0 <= depth < least:
                    best, least = arc, depth
        if best != _NONE:
            parent[node], self._mark[node], self._depth[node] = best, self._clock, least + 1
            return
        for arc in self._arcs[node]:
            other = head[arc]
            if side[other] != mine:
                continue
            if room[arc ^ way]:
                self._active.append(other)
            if parent[other] >= 0 and head[parent[other]] == node:
                self._cut_off(other)
        side[node], parent[node] = _FREE, _NONE

    def _rooted(self, node: int) -> int:
        """Steps from a node to its root; -1 if the path leads to an orphan."""
        seen = []
        parent, mark, depth = self._parent, self._mark, self._depth
        while True:
            if parent[node] == _TERMINAL:
                steps = depth[node] = 1
                mark[node] = self._clock
                break
            if mark[node] == self._clock and parent[node] != _ORPHAN:
                steps = depth[node]
                break
            if parent[node] < 0:
                return -1
            seen.append(node)
            node = self._head[parent[node]]
        for child in reversed(seen):
            steps += 1
            mark[child], depth[child] = self._clock, steps
        return depth[seen[0]] if seen else steps
