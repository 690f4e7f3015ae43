"""HTML pages: one file that needs no other, whatever the graph's names are."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.plan import plan
from graph_runtime.plan.lanes import lanes
from graph_runtime.simulation.simulation import needs_of, simulate
from graph_runtime.testing.graphs import random_graph
from graph_runtime.views.grid import utilisation
from graph_runtime.views.measured import queued_run, stepped_run
from graph_runtime.views.page import html_page

pytestmark = pytest.mark.core

HOSTILE = "</title><script>alert('1')</script>\"&"
DEVICES = ["cpu:0", "tt:0", "tt:1"]


class Tags(HTMLParser):
    """Names of all tags, and all attributes that could load something."""

    def __init__(self):
        super().__init__()
        self.names, self.loads = set(), []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.loads += [(k, v) for k, v in attrs if k in ("src", "href", "xlink:href") or k.startswith("on")]


def sharded():
    b = gr.GraphBuilder()
    x = b.input("x", (300, 200), device="cpu:0")
    h = b.op("matmul", x, b.input("w", (200, 128)), name=HOSTILE, device="tt:0")
    b.output(b.op("relu", h, name="act", device="tt:0"))
    return gr.load_graph(b.to_json())


def page_of(graph, devices=DEVICES, **options) -> str:
    return html_page(simulate(plan(graph, devices, **options), runs=2), HOSTILE, f"run {HOSTILE}")


@pytest.mark.parametrize("seed", range(4))
def test_a_page_loads_nothing_and_its_drawings_are_well_formed(seed):
    page = page_of(random_graph(np.random.default_rng(seed), DEVICES, nodes=25))
    tags = Tags()
    tags.feed(page)
    assert not tags.loads
    assert not tags.names & {"script", "link", "img", "iframe", "object", "embed"}
    assert "http" not in page
    assert "url(" not in page
    assert "@import" not in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.S)
    assert drawings
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_names_are_escaped():
    page = page_of(sharded(), layouts={"act": "l1/height"})
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_sharded_values_take_the_cores_that_hold_them():
    page = page_of(sharded(), layouts={"act": "l1/height[1x5]"})
    l1 = page[page.index("L1 per core over time") : page.index("Memory map")]
    assert "core 4: " in l1
    taken = {
        int(core): float(share)
        for core, share in re.findall(r"core (\d+): ([\d.]+)%", l1)
        if float(share) > 0
    }
    assert set(taken) == set(range(5))
    assert all(0 < share <= 100 for share in taken.values())


def test_utilisation_is_a_share_and_falls_with_time():
    planned = plan(sharded(), DEVICES)
    nid = planned.graph.names.index(HOSTILE)
    assert 0 < utilisation(planned, nid, 40_000) < utilisation(planned, nid, 20_000) <= 1
    assert utilisation(planned, 0, 10) == 0


@pytest.fixture
def module():
    """A session with a copy to the host, inputs set."""
    b = gr.GraphBuilder()
    x = b.input("x", (300, 200), device="cpu:0")
    h = b.op("matmul", b.op("relu", x, device="cpu:0"), b.input("w", (200, 128)), device="tt:0")
    b.output(b.op("relu", h, name="act", device="cpu:0"))
    made = gr.create(gr.load_graph(b.to_json()), None, ["cpu:0", "tt:0"])
    made.set_input(x=np.ones((300, 200), np.float32), w=np.ones((200, 128), np.float32))
    return made


def assert_real(module, timeline) -> None:
    assert timeline.basis_shares()["measured"] == pytest.approx(1)
    assert (timeline.duration > 0).all()
    np.testing.assert_array_equal(module.get_output(0).numpy(), np.full((300, 128), 200, np.float32))
    assert "act" in html_page(timeline, "real")


def test_a_run_by_steps_has_their_times(module):
    told = []
    timeline = stepped_run(module.session, lambda nid, ns: told.append((nid, ns)))
    assert [nid for nid, _ in told] == timeline.nid.tolist()
    assert [ns for _, ns in told] == timeline.duration.tolist()
    assert (timeline.start[1:] >= timeline.end[:-1]).all()
    assert_real(module, timeline)


def test_a_run_on_queues_has_the_clock_of_their_threads(module):
    for _ in range(3):
        timeline = queued_run(module.session)
        assert timeline.start.min() == 0
        assert len(timeline.queues) == 4
        for q in range(len(timeline.queues)):
            rows = np.flatnonzero(timeline.queue == q)
            assert (timeline.start[rows][1:] >= timeline.end[rows][:-1]).all()
        for at, needs in enumerate(needs_of(timeline.plan, lanes(timeline.plan))):
            assert all(timeline.end[j] <= timeline.start[at] for j in needs)
        assert_real(module, timeline)
    module.run()  # the clock is off again: nothing is written any more
    assert_real(module, timeline)


def test_epochs_are_drawn_with_their_ops():
    planned = plan(sharded(), ["cpu:0", "tt:0=e150"], policy="nlp")
    page = html_page(simulate(planned, runs=2), "cut")
    grid = page[page.index("Core grid") : page.index("L1 per core over time")]
    assert "policy nlp" in grid
    l1 = page[page.index("L1 per core over time") : page.index("Memory map")]
    shares = [float(share) for share in re.findall(r"core \d+: ([\d.]+)%", l1)]
    assert 0 < max(shares) <= 100
    assert grid.count("cycles, grid") >= 2 * len(planned.balanced[0].network.ops)
    for drawing in re.findall(r"<svg.*?</svg>", grid, re.S):
        ElementTree.fromstring(drawing)
