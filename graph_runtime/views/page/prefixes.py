"""Groups of nodes by the prefixes of their names, which open and close in the graph view.

"layers.3.attn/q" is in layers, in layers/3, in layers/3/attn. A node whose whole name is a prefix of others
is in the group of that name. Where a group has more children than a person can look at, stretches of its
children, in the order of nodes, are groups of their own; so are those of a graph whose names have no
prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["NodeGroup", "open_at_first", "tree_of"]

_CUT = re.compile(r"[/.:]+")
_MOST, _STRETCH = 48, 24  # children of a group; of a stretch
_DEPTH = 32  # parts of a name
_TO = " to "  # in the name of a stretch
_ENOUGH = 10  # boxes that the page shows at first, or more


@dataclass(eq=False)
class NodeGroup:
    """``name`` as shown; ``nodes`` and ``groups`` directly in it; ``first``: the least nid of all in it."""

    name: str
    parent: NodeGroup | None = None
    groups: list[NodeGroup] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    first: int = 0
    number: int = 0
    count: int = 0

    def children(self) -> list[tuple[int, NodeGroup | int]]:
        """(first nid, group or nid) of what is directly in it, in the order of nodes."""
        found: list[tuple[int, NodeGroup | int]] = [(group.first, group) for group in self.groups]
        return sorted([*found, *((nid, nid) for nid in self.nodes)], key=lambda one: one[0])


def tree_of(names: Mapping[int, str], like: Mapping[int, int]) -> list[NodeGroup]:
    """All groups of the nodes ``names`` {nid: name}, the root first, parents before their children;
    ``number`` is the place in that list. ``like`` {nid: nid}: nodes that are in the group of another, as
    copies are."""
    paths = {nid: _path(name) for nid, name in names.items()}
    prefixes = {path[:end] for path in paths.values() for end in range(1, len(path))}
    root = NodeGroup("")
    made: dict[tuple[str, ...], NodeGroup] = {(): root}
    for nid in sorted(names):
        path = paths.get(like.get(nid, nid), paths[nid])
        home = path if path in prefixes else path[:-1]
        _group(made, home).nodes.append(nid)
    _join(root)
    _settle(root, names)
    _cut(root, names)
    return _numbered(root)


def _path(name: str) -> tuple[str, ...]:
    """The parts of a name; what is deeper than _DEPTH is one part."""
    parts = [part for part in _CUT.split(name) if part]
    return tuple(parts if len(parts) <= _DEPTH else [*parts[: _DEPTH - 1], "/".join(parts[_DEPTH - 1 :])])


def _group(made: dict[tuple[str, ...], NodeGroup], path: tuple[str, ...]) -> NodeGroup:
    """The group of a path, which is made with those above it."""
    end = len(path)
    while path[:end] not in made:
        end -= 1
    for upto in range(end + 1, len(path) + 1):
        parent = made[path[: upto - 1]]
        made[path[:upto]] = NodeGroup(path[upto - 1], parent)
        parent.groups.append(made[path[:upto]])
    return made[path]


def _join(root: NodeGroup) -> None:
    """A group whose only child is a group is one with it; a group of one node is none."""
    for group in _bottom_up(root):
        while group is not root and len(group.groups) == 1 and not group.nodes:
            (only,) = group.groups
            group.name = f"{group.name}/{only.name}"
            group.groups, group.nodes = only.groups, only.nodes
            for child in group.groups:
                child.parent = group
        if group.parent is not None and not group.groups and len(group.nodes) == 1:
            group.parent.nodes += group.nodes
            group.parent.groups.remove(group)


def _bottom_up(root: NodeGroup) -> list[NodeGroup]:
    """Children before their parents, without recursion: a name may have any number of parts."""
    found = [root]
    for group in found:
        found += group.groups
    return found[::-1]


def _settle(root: NodeGroup, names: Mapping[int, str]) -> None:
    for group in _bottom_up(root):
        group.first = min([*group.nodes, *(child.first for child in group.groups)], default=0)


def _cut(root: NodeGroup, names: Mapping[int, str]) -> None:
    """Stretches of children, until no group has too many."""
    for group in _bottom_up(root):
        while len(group.nodes) + len(group.groups) > _MOST:
            children, group.nodes, group.groups = group.children(), [], []
            for at in range(0, len(children), _STRETCH):
                _stretch(group, [child for _, child in children[at : at + _STRETCH]], names)


def _stretch(group: NodeGroup, children: Sequence[NodeGroup | int], names: Mapping[int, str]) -> None:
    first, last = (
        one.name if isinstance(one, NodeGroup) else names[one] for one in (children[0], children[-1])
    )
    made = NodeGroup(_TO.join((first.partition(_TO)[0], last.rpartition(_TO)[2])), group)
    for child in children:
        if isinstance(child, NodeGroup):
            child.parent = made
            made.groups.append(child)
        else:
            made.nodes.append(child)
    made.first = min([*made.nodes, *(child.first for child in made.groups)])
    group.groups.append(made)


def _numbered(root: NodeGroup) -> list[NodeGroup]:
    found = [root]
    for group in found:
        found += sorted(group.groups, key=lambda one: one.first)
    for number, group in enumerate(found):
        group.number = number
    for group in reversed(found):
        group.count = len(group.nodes) + sum(child.count for child in group.groups)
    return found


def open_at_first(groups: Sequence[NodeGroup]) -> list[int]:
    """Numbers of the groups that are open at first: from the root on those with most nodes, until the boxes
    that are seen are enough to tell the graph's parts; never so many that they are too small."""
    opened, seen = [0], len(groups[0].children())
    waiting = list(groups[0].groups)
    while waiting and seen < _ENOUGH:
        waiting.sort(key=lambda one: one.count)
        group = waiting.pop()
        more = len(group.children()) - 1
        if seen + more <= _MOST:
            opened, seen = [*opened, group.number], seen + more
            waiting += group.groups
    return sorted(opened)
