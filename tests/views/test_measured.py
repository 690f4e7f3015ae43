"""Timelines of real runs: on queues, and node by node."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.plan.queues.lanes import lanes
from graph_runtime.simulation.simulation import needs_of
from graph_runtime.views.measured import queued_run, stepped_run

pytestmark = pytest.mark.core


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
