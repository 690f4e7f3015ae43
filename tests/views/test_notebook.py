"""What notebooks show: small, escaped, without scripts, without waiting and without moving a byte."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.accuracy.compare import compare
from graph_runtime.views.digest import MOST_NODES, digest
from graph_runtime.views.measured import queued_run

pytestmark = pytest.mark.core

HOSTILE = "</td><script>alert('1')</script>\"&" + "long" * 200
DEVICES = ["cpu:0", "tt:0"]


class Tags(HTMLParser):
    """Tags that are open, those that were not closed in order, and attributes that load or run something."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.loads = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.open.append(tag)
        self.loads += [k for k, _ in attrs if k in ("src", "href", "style") or k.startswith("on")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def built(nodes=3):
    b = gr.GraphBuilder()
    x = b.op("matmul", b.input("x", (40, 40), device="cpu:0"), b.input("w", (40, 40)), name=HOSTILE)
    for i in range(nodes - 1):
        x = b.op("relu", x, name=f"r{i}", device="tt:0" if i % 2 else "cpu:0")
    b.output(x)
    return gr.load_graph(b.to_json())


def checked(value, least=1) -> str:
    text = value._repr_html_()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not tags.loads
    assert not tags.names & {"script", "link", "img", "iframe", "object"}
    assert len(text) < 100_000
    assert len(re.findall("<b>", text)) >= least
    return text


@pytest.fixture
def prepared():
    return gr.prepare(built(), devices=DEVICES)


def test_a_graph_a_plan_and_a_timeline(prepared):
    assert "3 nodes, 2 inputs, 1 outputs" in checked(prepared.source.graph)
    shown = checked(prepared.plan)
    assert "&lt;script&gt;" in checked(gr.simulate(prepared.plan))
    assert "tt:0" in shown
    assert "copies" in shown


def test_a_plan_opens_its_page(prepared, tmp_path, monkeypatch):
    written = prepared.plan.view(tmp_path / "plan.html")
    assert written.read_bytes().startswith(b"<!DOCTYPE html>")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = prepared.plan.view()
    assert opened == [found.as_uri()]
    assert found.read_bytes() == written.read_bytes()
    with pytest.raises(gr.WriteError):
        prepared.plan.view(tmp_path / "none" / "plan.html")


def data_of(page) -> dict:
    return json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])


def test_a_timeline_opens_its_page(prepared, tmp_path):
    timeline = gr.simulate(prepared.plan, runs=3)
    (found,) = data_of(timeline.view(tmp_path / "simulated.html"))["plans"]
    (line,) = found["timelines"]
    assert (line["label"], max(line["events"]["run"])) == ("simulated", 2)
    module = gr.create(built(), None, DEVICES)
    module.set_input(**{n: np.ones((40, 40), np.float32) for n in ("x", "w")})
    measured = queued_run(module.session)
    assert "measured" in repr(measured)
    (found,) = data_of(measured.view(tmp_path / "measured.html"))["plans"]
    assert [line["label"] for line in found["timelines"]] == ["measured", "simulated"]
    assert found["timelines"][0]["events"]["ns"] == measured.duration.tolist()


def test_a_comparison_opens_its_page(tmp_path):
    report = compare(built(), None, DEVICES, nodes=True)
    (found,) = data_of(report.view(tmp_path / "compared.html"))["plans"]
    assert len(found["accuracy"]["nodes"]) == len(report.isolated) == 3
    assert {"added up", "alone"} == set(found["tensors"]["run"])
    with pytest.raises(gr.WriteError):
        report.view(tmp_path / "none" / "page.html")


def test_large_ones_stay_small():
    planned = gr.prepare(built(800), devices=DEVICES).plan
    for value in (planned.graph, planned):
        assert len(checked(value)) < 20_000
    checked(gr.simulate(planned))


def test_a_comparison():
    report = compare(built(), None, DEVICES, nodes=True)
    shown = checked(report)
    assert "worst nmse" in shown
    assert shown.count("<table>") == 3


def test_tensors_and_runs(prepared):
    array = gr.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert "<td>11.0</td>" in checked(array)
    there = array.to("tt:0")
    with gr.no_implicit_transfer(), gr.stats() as counted:
        assert ".numpy() waits" in checked(there)
    assert counted.count("d2h") == 0
    there.deallocate()
    assert "deallocated" in checked(there)
    session = gr.create(built(), None, DEVICES).session
    values = {n: np.ones((40, 40), np.float32) for n in ("x", "w")}
    run = session.submit(values)
    checked(run)
    run.wait()
    assert "float32[40, 40]" in checked(run)


def test_scalars_and_empty_tensors():
    assert "3.0" in checked(gr.array(np.float32(3)))
    assert "no elements" in checked(gr.array(np.zeros((0, 4), np.float32)))


def test_a_digest_counts_what_the_plan_has(prepared):
    planned, found = prepared.plan, digest(prepared.plan)
    assert sum(row["nodes"] for row in found["devices"]) == int((planned.graph.func_id >= 0).sum())
    assert sum(row["copies"] for row in found["copies"]) == int((planned.origin < 0).sum()) > 0
    for row in found["memories"]:
        assert row["peak"] >= sum(
            item["bytes"]
            for item in found["largest"]
            if (item["device"], item["memory"]) == (row["device"], row["memory"])
        )
    assert planned.graph.num_nodes < MOST_NODES
