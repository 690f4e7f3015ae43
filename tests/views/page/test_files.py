"""Traces and comparisons of runs are read, and what is none of them is refused."""

from __future__ import annotations

import json

import pytest

import graph_runtime as gr
from graph_runtime.accuracy.compare import compare
from graph_runtime.base.errors import DocumentError
from graph_runtime.plan import plan
from graph_runtime.plan.queues.lanes import labels
from graph_runtime.simulation.simulation import simulate
from graph_runtime.views.page.comparisons import comparison_page, read_comparison
from graph_runtime.views.page.traces import read_trace, trace_page, trace_timeline
from graph_runtime.views.trace import trace_json

pytestmark = pytest.mark.core


def graph():
    b = gr.GraphBuilder()
    h = b.op("relu", b.input("x", (64, 64), device="cpu:0"), name="a", device="tt:0")
    b.output(b.op("relu", h, name="b", device="cpu:0"))
    return gr.load_graph(b.to_json())


def test_a_trace_gives_back_its_timeline():
    timeline = simulate(plan(graph(), ["cpu:0", "tt:0"]), runs=3)
    trace = read_trace(trace_json(timeline))
    number = {name: nid for nid, name in enumerate(timeline.plan.graph.names)}
    found = trace_timeline(trace, number, "trace")
    rows = set(zip(found["events"]["nid"], found["events"]["run"], found["events"]["ns"], strict=True))
    assert rows == set(
        zip(timeline.nid.tolist(), timeline.run.tolist(), timeline.duration.tolist(), strict=True)
    )
    queues = {found["queues"][q] for q in found["events"]["queue"]}
    assert queues == {labels(timeline.queues, timeline.plan)[q] for q in timeline.queue.tolist()}
    with pytest.raises(DocumentError, match="another model"):
        trace_timeline(trace, {"other": 0}, "trace")


def test_a_trace_alone_is_a_page_of_its_events():
    timeline = simulate(plan(graph(), ["cpu:0", "tt:0"]))
    page = trace_page(read_trace(trace_json(timeline)), "t")
    (found,) = page["plans"]
    assert {"a", "b"} < set(found["graph"]["nodes"]["name"])
    assert found["graph"]["tree"] is None
    assert len(found["timelines"][0]["events"]["nid"]) == len(timeline)


@pytest.mark.parametrize(
    "event",
    [
        "no object",
        {"ph": "X", "name": "a", "ts": "soon", "dur": 1},
        {"ph": "X", "name": "a", "ts": 0, "dur": -1},
        {"ph": "X", "name": "a", "ts": 1e300, "dur": 1},
        {"ph": "X", "name": ["a"], "ts": 0, "dur": 1},
        {"ph": "X", "name": "a", "ts": 0, "dur": 1, "pid": [], "tid": {}},
        {"ph": "M", "name": "process_name", "pid": {}, "args": {"name": "p"}},
    ],
)
def test_a_bad_event_is_named(event):
    with pytest.raises(DocumentError, match=r"traceEvents\[0\]"):
        read_trace(json.dumps({"traceEvents": [event]}).encode())


def test_odd_arguments_do_no_harm():
    args = {"run": -1, "basis": ["x"], "critical": 1, "op": {"a": 1}, "type": [1, None], "bytes": "many"}
    event = {"ph": "X", "name": "a", "ts": 0.5, "dur": 1, "pid": None, "tid": "t", "args": args}
    (found,) = trace_page(read_trace(json.dumps({"traceEvents": [event, {}]}).encode()), "t")["plans"]
    assert found["timelines"][0]["events"]["ns"] == [1000]
    assert trace_page(read_trace(b'{"traceEvents": []}'), "t")["plans"][0]["timelines"] == []


def test_a_comparison_is_read_as_run_prints_it():
    compared = compare(graph(), None, ["cpu:0", "tt:0"], nodes=True).as_dict()
    for text in ({"outputs": [], "compare": compared}, compared):
        found = read_comparison(json.dumps(text).encode())
        (plan_,) = comparison_page(found, "c")["plans"]
        assert {row["name"] for row in plan_["accuracy"]["nodes"]} == {"a", "b"}
        assert all(row["nid"] is not None for row in plan_["accuracy"]["nodes"])


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"bound": "x"}, "bound"),
        ({"outputs": 3}, "outputs"),
        ({"isolated": [{"name": "a"}]}, r"isolated\[0\]"),
        ({"judge": None}, "judge"),
    ],
)
def test_a_bad_comparison_is_refused(change, where):
    compared = compare(graph(), None, ["cpu:0", "tt:0"], nodes=True).as_dict() | change
    with pytest.raises(DocumentError, match=where):
        read_comparison(json.dumps(compared).encode())


_BAD_NUMBERS = ({"first": [None]}, {"first": "1"}, {"min": "0"}, {"nan": True})


def test_a_comparison_of_an_older_version_has_no_numbers():
    compared = compare(graph(), None, ["cpu:0", "tt:0"], nodes=True).as_dict()
    (found,) = comparison_page(compared, "c")["plans"]
    assert set(found["tensors"]["name"]) == {"a", "b"}
    for title in ("outputs", "isolated", "accumulated"):
        for row in compared[title]:
            del row["numbers"]
    (found,) = comparison_page(read_comparison(json.dumps(compared).encode()), "c")["plans"]
    assert found["tensors"] is None


def test_bad_rows_of_a_comparison_are_refused():
    compared = compare(graph(), None, ["cpu:0", "tt:0"], nodes=True).as_dict()
    numbers = compared["outputs"][0]["numbers"]
    bad = [("numbers", 3), ("numbers", {}), *(("numbers", numbers | one) for one in _BAD_NUMBERS)]
    for key, value in (("nmse", "0"), ("worst", [[1, 2]]), ("worst", 7), ("max_ulp", {}), *bad):
        row = {**compared["outputs"][0], key: value}
        with pytest.raises(DocumentError, match=r"outputs\[0\]"):
            read_comparison(json.dumps({**compared, "outputs": [row]}).encode())
