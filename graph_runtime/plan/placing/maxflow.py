"""Minimum s-t cut of a graph with integer capacities: two search trees grow from source and sink towards each
other, and what an augmentation cuts off looks for another parent (Boykov and Kolmogorov, 2004).

Placement's networks have short paths, as most nodes hang on a terminal: the trees are kept between
augmentations, where Dinic and push-relabel would search anew.
"""

from __future__ import annotations

from collections import deque

__all__ = ["FlowNetwork"]

_NONE, _TERMINAL, _ORPHAN = -1, -2, -3
_FREE, _SOURCE, _SINK = 0, 1, 2


class FlowNetwork:
    """A network of ``count`` nodes beside source and sink. Capacities are non-negative integers."""

    def __init__(self, count: int):
        self._excess = [0] * count  # > 0: capacity from the source, < 0: to the sink
        self._arcs: list[list[int]] = [[] for _ in range(count)]
        self._head: list[int] = []  # arc a leads to _head[a]; a ^ 1 is the way back
        self._room: list[int] = []
        self._side = [_FREE] * count
        self._parent = [_NONE] * count  # the arc that leads towards the tree's root
        self._mark, self._depth = [0] * count, [0] * count
        self._clock = 0
        self._active: deque[int] = deque()
        self._orphans: deque[int] = deque()

    def node(self) -> int:
        """One more node; returns its number."""
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
        """Add ``excess`` from the source to a node; a negative one from the node to the sink."""
        self._excess[node] += excess

    def arc(self, tail: int, head: int, room: int, back: int = 0) -> None:
        """An arc with room for ``room``, and for ``back`` the other way."""
        at = len(self._head)
        self._head += (head, tail)
        self._room += (room, back)
        self._arcs[tail].append(at)
        self._arcs[head].append(at + 1)

    def sources(self) -> list[bool]:
        """Of each node whether it is on the source's side of a minimum cut. To be called once."""
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

    # **************** grow ****************

    def _grow(self) -> int:
        """The arc from the source's tree to the sink's on which they meet, _NONE where they never will."""
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
                    parent[other] = arc ^ 1  # a shorter way to the root
                    self._mark[other], self._depth[other] = self._mark[node], self._depth[node] + 1
            active.popleft()
        return _NONE

    # **************** augment ****************

    def _augment(self, met: int) -> None:
        """Send as much as there is room for along the trees and the arc on which they met."""
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
        """The arcs from a node to the root of its tree, and that root's node."""
        arcs = []
        while (arc := self._parent[node]) != _TERMINAL:
            arcs.append(arc)
            node = self._head[arc]
        return arcs, node

    def _send(self, arc: int, flow: int, child: int) -> None:
        """Use an arc of a tree; ``child`` hangs on it."""
        self._room[arc] -= flow
        self._room[arc ^ 1] += flow
        if not self._room[arc]:
            self._cut_off(child)

    def _cut_off(self, node: int) -> None:
        self._parent[node] = _ORPHAN
        self._orphans.append(node)

    # **************** adopt ****************

    def _adopt(self, node: int) -> None:
        """Find another parent in the orphan's tree, or set it and its children free."""
        head, room, side, parent = self._head, self._room, self._side, self._parent
        mine = side[node]
        way = 1 if mine == _SOURCE else 0  # the arc that would bring flow to, or take it from, us
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
        """Steps from a node to its root; -1 where it hangs on an orphan."""
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
