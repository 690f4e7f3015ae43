"""Groups by prefixes of names, and where children lie in them."""

from __future__ import annotations

import numpy as np

from graph_runtime.views.page.prefixes import open_at_first, tree_of
from graph_runtime.views.page.ranks import spots


def tree(names, like=None):
    return tree_of(dict(enumerate(names)), like or {})


def shape(groups):
    return {(g.name, None if g.parent is None else g.parent.name): sorted(g.nodes) for g in groups}


def test_prefixes_are_groups_and_a_whole_name_may_be_one():
    names = ["x", "net.0.norm.mul", "net.0.norm.add", "net.0.norm", "net.0.fc", "net.1.a", "net.1.b"]
    found = tree(names)
    assert shape(found) == {
        ("", None): [0],
        ("net", ""): [],
        ("0", "net"): [4],
        ("1", "net"): [5, 6],
        ("norm", "0"): [1, 2, 3],
    }
    assert [group.number for group in found] == list(range(5))
    assert found[0].count == 7


def test_chains_of_groups_are_one_and_a_node_alone_has_none():
    assert shape(tree(["a/b/c/1", "a/b/c/2", "other/x"])) == {("", None): [2], ("a/b/c", ""): [0, 1]}


def test_copies_are_with_what_they_copy():
    found = tree(["m.a", "m.b", "copy_of_a"], {2: 0})
    assert shape(found) == {("", None): [], ("m", ""): [0, 1, 2]}


def test_names_without_prefixes_are_cut_into_stretches():
    found = tree([f"n{i}" for i in range(4000)])
    assert found[0].count == 4000
    assert max(len(g.nodes) + len(g.groups) for g in found) <= 48
    assert sorted(nid for g in found for nid in g.nodes) == list(range(4000))
    first = found[0].groups[0]
    assert first.name.startswith("n0 to n")
    assert len(open_at_first(found)) >= 1


def test_hostile_names_stay_shallow():
    found = tree(["/".join(["a"] * depth) for depth in range(1, 400)] + ["", "///", "..", "a" * 100_000])
    depths = {}
    for group in found:
        depths[group.number] = 0 if group.parent is None else 1 + depths[group.parent.number]
    assert max(depths.values()) <= 40
    assert sorted(nid for g in found for nid in g.nodes) == list(range(403))


def test_readers_lie_below_what_they_read():
    edges = np.array([[0, 1], [0, 2], [1, 3], [2, 3], [0, 3]])
    of_node, _ = spots(tree(["a", "b", "c", "d"]), edges)
    assert [of_node[nid][0] for nid in range(4)] == [0, 1, 1, 2]
    assert {of_node[1][1], of_node[2][1]} == {0, 1}


def test_edges_between_groups_give_groups_their_ranks():
    found = tree(["p.a", "p.b", "q.a", "q.b", "p.late", "p.later"])
    _, of_group = spots(found, np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]))
    p, q = (next(g.number for g in found if g.name == name) for name in "pq")
    assert of_group[p][0] < of_group[q][0]  # and what q gives back to p goes upwards
    assert spots(found, np.array([[0, 0]]))[0][0] == (0, 0)
