"""Graphviz pictures of plans: every node once, copies marked, readable by a parser of the language."""

from __future__ import annotations

import re

from graph_runtime import GraphBuilder
from graph_runtime.plan import plan
from graph_runtime.views.dot import dot_text


def _parsed(text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """({node: label}, edges) of a file as dot_text writes it; braces must match."""
    assert text.count("{") == text.count("}")
    nodes = dict(re.findall(r'^ +(n\d+) \[label="((?:[^"\\]|\\.)*)"', text, re.M))
    return nodes, re.findall(r"^ +(n\d+) -> (n\d+) \[", text, re.M)


def test_a_mixed_plan():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    y = b.op("relu", x, name='quoted "name"\\')
    b.output(b.op("add", b.op("exp", y, name="other"), y, name="sum"))
    planned = plan(b.build(), ["cpu:0", "tt:0"], place={"other": "tt:0"})
    text = dot_text(planned)
    nodes, edges = _parsed(text)
    calls = [nid for nid in range(planned.graph.num_nodes) if planned.graph.func_id[nid] >= 0]
    assert set(nodes) == {f"n{nid}" for nid in calls}
    assert all(a in nodes and b in nodes for a, b in edges)
    assert text.count("shape=diamond, color=red") == 2
    assert sum("copy" in planned.graph.names[nid] for nid in calls) == 2
    assert text.count("subgraph cluster_") == 2
    assert r"quoted \"name\"" in text


def test_a_long_chain_is_drawn_as_runs():
    b = GraphBuilder()
    x = b.input("x", (4,))
    for i in range(3000):
        x = b.op("tanh", x, name=f"t{i}")
    b.output(x)
    nodes, edges = _parsed(dot_text(plan(b.build(), ["cpu:0", "tt:0"], place={"t1500": "tt:0"})))
    assert len(nodes) == 5  # a run, a copy, the node on tt, a copy, a run
    assert len(edges) == 4
