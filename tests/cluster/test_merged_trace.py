"""One trace of several processes: rows whose spans nest, arrows between spans, clocks that are aligned."""

from __future__ import annotations

import json
import random

import graph_runtime as gr
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.cluster.clocks import ClockOffset
from graph_runtime.cluster.merged_trace import MergedTrace, Place
from graph_runtime.plan import plan
from graph_runtime.views.trace import trace_events


def read(trace: MergedTrace) -> tuple[dict, dict]:
    """The trace, and its slices by (process, thread) names and number."""
    found = json.loads(trace.json())
    rows: dict = {}
    for event in found["traceEvents"]:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
    return found, rows


def inside_or_apart(slices: list[dict]) -> bool:
    open_ends: list[float] = []
    for one in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
        while open_ends and open_ends[-1] <= one["ts"] + 1e-9:
            open_ends.pop()
        if open_ends and one["ts"] + one["dur"] > open_ends[-1] + 1e-9:
            return False
        open_ends.append(one["ts"] + one["dur"])
    return True


def test_spans_of_a_lane_stay_together_and_lanes_beside_each_other():
    rng, trace = random.Random(0), MergedTrace()
    pid = trace.process("front")
    for number in range(200):
        begin = rng.randrange(10_000)
        middle, end = begin + rng.randrange(1, 500), begin + rng.randrange(500, 900)
        trace.span(Place(pid, "requests", begin, str(number)), f"request {number}", end)
        trace.span(Place(pid, "requests", begin, str(number)), f"read {number}", middle)
    _, rows = read(trace)
    assert len(rows) > 5
    for slices in rows.values():
        assert inside_or_apart(slices)
        numbers = [one["name"].split()[1] for one in slices]
        assert all(numbers.count(number) == 2 for number in numbers)


def test_arrows_bind_to_spans_of_their_lanes():
    trace = MergedTrace()
    front, replica = trace.process("front"), trace.process("replica")
    for number in range(5):
        sent = Place(front, "requests", 1000 + number, str(number))
        trace.span(sent, "request", 9000)
        began = Place(replica, "runs", 2000 + 1000 * number)
        trace.span(began, "run", 2500 + 1000 * number)
        trace.flow("to a replica", sent, began)
    found, rows = read(trace)
    arrows = [event for event in found["traceEvents"] if event["ph"] in "sf"]
    assert len(arrows) == 10
    for arrow in arrows:
        slices = rows[arrow["pid"], arrow["tid"]]
        assert any(s["ts"] <= arrow["ts"] <= s["ts"] + s["dur"] for s in slices)
    assert len({(a["pid"], a["tid"]) for a in arrows if a["ph"] == "s"}) == 5


def test_a_sessions_events_are_where_its_clock_says():
    builder = gr.GraphBuilder()
    x = builder.input("x", (4, 4))
    builder.output(builder.op("relu", builder.op("tanh", x)))
    planned = plan(builder.build(), parse_list(["cpu:0"]))
    events = trace_events(gr.simulate(planned, runs=1))
    trace, clock = MergedTrace(), ClockOffset()
    clock.add(1000, 501_100, 1200)
    trace.clock("replica", clock)
    front = trace.process("front")
    trace.span(Place(front, "requests", 0), "request", 100_000_000)
    first = trace.include("replica", events, clock.to_here(750_000))
    assert first is not None
    assert abs(first.at - 250_000) <= clock.error + min(e["ts"] for e in events if e["ph"] == "X") * 1e3
    found, rows = read(trace)
    assert found["otherData"]["clock_error_ns"] == clock.error == 100
    names = {e["args"]["name"] for e in found["traceEvents"] if e["name"] == "process_name"}
    assert names == {"front", "replica: cpu:0 (host)"}
    assert sum(map(len, rows.values())) == 1 + sum(e["ph"] == "X" and e["dur"] > 0 for e in events)
    assert all(map(inside_or_apart, rows.values()))
