"""Each number of a policy's reason, computed anew from the problem and the assignment."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.plan.placing.causes import sentences, time_text
from graph_runtime.plan.placing.problem import UNSUPPORTED
from graph_runtime.plan.placing.schedule import NO_ROOM, OBJECTIVES, evaluate, serial_ns
from graph_runtime.testing.placing import random_problem

TIME = r"[\d.]+ [um]s"
SENTENCE = re.compile(
    rf"mine(?: \((?P<aim>\w+)\))?: (?P<at>\S+) (?P<here>{TIME}); (?P<there>\S+) (?P<cost>{TIME})"
    rf"(?:, (?P<way>and adds|but saves) (?P<copies>{TIME}) of copies)?"
    rf"(?P<tail>: alone it would gain (?P<gain>{TIME}) there(?P<rest>.*))?\Z"
)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(OBJECTIVES))
def test_every_number_of_every_sentence(seed, objective):
    rng = np.random.default_rng(seed)
    devices = [("cpu:0", "tt:0"), ("cpu:0", "cpu:1", "tt:0")][int(rng.integers(2))]
    room = None if rng.random() < 0.6 else (int(rng.integers(60, 400)),) * len(devices)
    problem = replace(random_problem(rng, devices, most=1_000_000, room=room), objective=objective)
    did = np.array([rng.choice(np.flatnonzero(row)) for row in problem.allowed])
    nids = np.flatnonzero(problem.graph.func_id >= 0)
    names = [str(device) for device in problem.devices]
    now = int(evaluate(problem, did[None])[0])
    for nid, text in zip(nids.tolist(), sentences(problem, did, nids, "mine"), strict=True):
        able = np.flatnonzero(problem.cost[nid] < UNSUPPORTED)
        if len(able) == 1:
            assert "can run it" in text
            continue
        said = SENTENCE.match(text)
        assert said, text
        assert (said["aim"] or "serial") == objective
        assert said["at"] == names[did[nid]]
        there = names.index(said["there"])
        moved = did.copy()
        moved[nid] = there
        cost, other = int(problem.cost[nid, did[nid]]), int(problem.cost[nid, there])
        serial = serial_ns(problem, moved) - serial_ns(problem, did)
        copies = serial - (other - cost)
        assert (said["here"], said["cost"]) == (time_text(cost), time_text(other))
        assert (said["copies"], said["way"]) == (
            (time_text(abs(copies)), "and adds" if copies > 0 else "but saves") if copies else (None, None)
        )
        for device in able:  # it is the next best
            if device != did[nid]:
                moved[nid] = device
                assert serial <= serial_ns(problem, moved) - serial_ns(problem, did)
        assert (said["tail"] is not None) == (serial < 0)
        if serial < 0:
            moved[nid] = there
            assert said["gain"] == time_text(-serial)
            assert said["rest"] == rest(
                objective, int(evaluate(problem, moved[None])[0]), now, serial, names[there]
            )


def rest(objective: str, then: int, now: int, serial: int, there: str) -> str:
    """What the end of a sentence says of the whole."""
    if now >= NO_ROOM:
        return ""
    if then >= NO_ROOM:
        return f", but {there} has no room for it"
    if then - now == serial:
        return ", and so would the whole"
    change = (
        f"{time_text(abs(then - now))} {'more' if then > now else 'less'}"
        if then != now
        else "as long as now"
    )
    return f", and the whole ({objective}) would take {change}"


@pytest.mark.parametrize("policy", ["single", lambda problem: np.zeros(problem.num_nodes, int)])
def test_the_serial_time_gains_what_a_node_gains(policy):
    """Of what a policy leaves behind: it is at no one's cost."""
    b = gr.GraphBuilder()
    x = b.input("x", (512, 512))
    for _ in range(3):
        x = b.op("softmax", b.op("matmul", x, x))
    b.output(x)
    placed = gr.place(b.build(), ["cpu:0", "tt:0"], placement=policy, objective="serial")
    gaining = [row["why"] for row in placed.report() if "alone it would gain" in row["why"]]
    assert all(why.endswith("and so would the whole") for why in gaining)
    assert gaining or policy == "single"
