"""A plan has one number of circular buffers a node, by our kernels or, of a device that computes as ttnn, by
ttnn's program factories; a run keeps free what our kernels open."""

from __future__ import annotations

import json
import sqlite3

import pytest

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.options import Options
from graph_runtime.binding import circular
from graph_runtime.binding.programs.program import lower
from graph_runtime.plan.card_programs import GROUNDS, ground, program_of_node
from graph_runtime.views import report
from graph_runtime.views.visualizer import write_report

pytestmark = pytest.mark.core

TTNN = {"tt": {"numerics": "ttnn"}}


@pytest.fixture(scope="module")
def graph():
    net = gr.GraphBuilder()
    x, w = net.input("x", (256, 512)), net.input("w", (512, 512))
    y = net.op("softmax", net.op("relu", net.op("matmul", x, w)), axis=-1)
    net.output(
        net.op("concatenate", net.op("transpose", y, perm=(1, 0)), net.op("cumsum", w, axis=0), axis=1)
    )
    return net.build()


def planned(graph, numerics=None):
    return prepare(graph, "tt:0", Options(numerics=numerics) if numerics else Options()).plan


def test_the_ground_is_the_devices_arithmetic(graph):
    ours, ttnns = planned(graph), planned(graph, TTNN)
    assert (ground(ours, 0), ground(ttnns, 0)) == GROUNDS
    assert all(program_of_node(ours, node) is None for node in nodes(ours))
    known = {node.op: program_of_node(ttnns, node) for node in nodes(ttnns)}
    assert known["cumsum"] is None  # its factory is not known: our kernel's number
    for node in nodes(ttnns):
        made = program_of_node(ttnns, node)
        at = nodes(ours)[nodes(ttnns).index(node)].nid
        assert ttnns.circular[node.nid] == (ours.circular[at] if made is None else made.nbytes)
    assert known["relu"].nbytes == 4 * 4096  # two tiles in, two out, float32
    assert report.circular(ttnns)[0]["ground"] == GROUNDS[1]
    assert "by our kernels" in report.circular_text(ours)


def nodes(plan):
    return [node for node in map(plan.graph.node, range(plan.graph.num_nodes)) if node.func is not None]


def test_a_run_keeps_free_what_our_kernels_open(graph):
    ours, ttnns = planned(graph), planned(graph, TTNN)
    programs = [circular.measured(lower(plan, circular._built_in)) for plan in (ours, ttnns)]
    needs = [program.circular_of() for program in programs]
    assert needs[0] == needs[1] == ours.circular_peak()
    assert ttnns.circular_peak() != ours.circular_peak()


def test_a_report_has_each_circular_buffer(graph, tmp_path):
    plan = planned(graph, TTNN)
    write_report(tmp_path, plan, "net")
    with sqlite3.connect(tmp_path / "db.sqlite") as database:
        rows = database.execute("SELECT captured_graph FROM captured_graph").fetchall()
    opened = [
        [node["params"] for node in json.loads(text) if node["node_type"] == "circular_buffer_allocate"]
        for (text,) in rows
    ]
    sums = {sum(int(p["size"]) for p in found if p["globally_allocated"] == "0") for found in opened}
    assert sums - {0} == {int(plan.circular[node.nid]) for node in nodes(plan)} - {0}
    assert {"in", "exponentials", "sums"} <= {p["name"] for found in opened for p in found}
