"""Groups of nodes by the prefixes of their names; the graph view opens and closes groups.

"layers.3.attn/q" is in layers, in layers/3, in layers/3/attn. A node whose whole name is a prefix of other
names is in that group. If a group has more children than a person can look at, its children are divided, in
the order of nodes, into stretches, which are groups, too. The same is done with the nodes of a graph whose
names have no prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_CUT = re.compile(r"[/.:]+")
_MOST, _STRETCH = 48, 24  # most children of a group; most children of a stretch
_DEPTH = 32  # most parts of a name
_TO = " to "  # text between the first and the last name in the name of a stretch
_ENOUGH = 10  # least number of boxes that the page shows at first


@dataclass(eq=False)
class NodeGroup:
    """A group of nodes. ``name``: name as shown; ``nodes`` and ``groups``: the direct children; ``first``:
    the least nid in the group."""

    name: str
    parent: NodeGroup | None = None
    groups: list[NodeGroup] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    first: int = 0
    number: int = 0
    count: int = 0

    def children(self) -> list[tuple[int, NodeGroup | int]]:
        """(first nid, group or nid) of each direct child, in the order of nodes."""
        found: list[tuple[int, NodeGroup | int]] = [(group.first, group) for group in self.groups]
        return sorted([*found, *((nid, nid) for nid in self.nodes)], key=lambda one: one[0])


def tree_of(names: Mapping[int, str], like: Mapping[int, int]) -> list[NodeGroup]:
    """All groups: the root first, and parents before their children. The ``number`` of a group is its index
    in the result. ``names`` {nid: name}: the nodes. ``like`` {nid of a copy: nid of the node in whose group
    the copy is placed}."""
    paths = {nid: _path(name) for nid, name in names.items()}
    prefixes = {path[:end] for path in paths.values() for end in range(1, len(path))}
    root = NodeGroup("")
    made: dict[tuple[str, ...], NodeGroup] = {(): root}
    for nid in sorted(names):
        path = paths.get(like.get(nid, nid), paths[nid])
        home = path if path in prefixes else path[:-1]
        _group(made, home).nodes.append(nid)
    _join(root)
    for group in _bottom_up(root):
        group.first = min([*group.nodes, *(child.first for child in group.groups)], default=0)
    _cut(root, names)
    return _numbered(root)


def _path(name: str) -> tuple[str, ...]:
    """The parts of a name. If there are more than _DEPTH parts, the last parts are joined into one."""
    parts = [part for part in _CUT.split(name) if part]
    return tuple(parts if len(parts) <= _DEPTH else [*parts[: _DEPTH - 1], "/".join(parts[_DEPTH - 1 :])])


def _group(made: dict[tuple[str, ...], NodeGroup], path: tuple[str, ...]) -> NodeGroup:
    """The group of a path; a new group is made together with its missing parents."""
    end = len(path)
    while path[:end] not in made:
        end -= 1
    for upto in range(end + 1, len(path) + 1):
        parent = made[path[: upto - 1]]
        made[path[:upto]] = NodeGroup(path[upto - 1], parent)
        parent.groups.append(made[path[:upto]])
    return made[path]


def _join(root: NodeGroup) -> None:
    """Merge each group whose only child is a group with that child, and dissolve each group of one node."""
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
    """All groups, children before their parents. No recursion is used, because groups may be nested too
    deeply for it."""
    found = [root]
    for group in found:
        found += group.groups
    return found[::-1]


def _cut(root: NodeGroup, names: Mapping[int, str]) -> None:
    """Split the children of groups into stretches until no group has too many children."""
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
    """Numbers of the groups that are open at first: from the root on, the groups with most nodes, until
    enough boxes are visible to tell the graph's parts apart, but never so many that boxes become too small.
    """
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
