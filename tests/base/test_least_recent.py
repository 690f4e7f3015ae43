"""LeastRecent: what it keeps, what it drops, and what it counts."""

from __future__ import annotations

from graph_runtime.base.least_recent import LeastRecent


def test_the_one_used_longest_ago_goes_first():
    gone: list[str] = []
    table: LeastRecent[str] = LeastRecent(2, forget=gone.append)
    table.put("a", "A")
    table.put("b", "B")
    assert table.get("a") == "A"
    table.put("c", "C")
    assert gone == ["B"]
    assert list(table) == ["A", "C"]
    assert table.get("b") is None
    assert (table.made, table.hits, table.dropped) == (3, 1, 1)


def test_bytes_are_bounded_and_the_newest_stays():
    table: LeastRecent[int] = LeastRecent(10, 100)
    for i in range(5):
        table.put(i, i, 40)
    assert list(table) == [3, 4]
    table.put(9, 9, 1000)
    assert list(table) == [9]
    table.clear()
    assert (len(table), table.dropped) == (0, 6)
    table.put(1, 1, 100)
    assert list(table) == [1]
