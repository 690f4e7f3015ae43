"""Trace JSON: what Perfetto asks of it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import orjson
import pytest

from graph_runtime.plan import plan
from graph_runtime.simulation.simulation import simulate
from graph_runtime.testing.graphs import random_graph
from graph_runtime.views.trace import live_bytes, trace_json

DEVICES = ["cpu:0", "tt:0", "tt:1"]


def traced(seed: int, runs: int = 2):
    graph = random_graph(np.random.default_rng(seed), DEVICES, nodes=30)
    timeline = simulate(plan(graph, DEVICES), runs=runs)
    document = orjson.loads(trace_json(timeline))
    by_phase = defaultdict(list)
    for event in document["traceEvents"]:
        by_phase[event["ph"]].append(event)
    return timeline, by_phase


@pytest.mark.parametrize("seed", range(6))
def test_slices_of_a_thread_nest_and_none_is_missing(seed):
    timeline, events = traced(seed)
    threads = defaultdict(list)
    for slice_ in events["X"]:
        threads[slice_["pid"], slice_["tid"]].append((slice_["ts"], -slice_["dur"]))
    for slices in threads.values():
        open_ = []
        for ts, minus in sorted(slices):
            while open_ and open_[-1] <= ts + 1e-9:
                open_.pop()
            assert not open_ or ts - minus <= open_[-1] + 1e-9
            open_.append(ts - minus)
    assert sum(e["cat"] != "dispatch" for e in events["X"]) == len(timeline)


@pytest.mark.parametrize("seed", range(6))
def test_flows_are_pairs_that_begin_in_a_slice_and_end_in_a_later_one(seed):
    _, events = traced(seed)
    slices = defaultdict(list)
    for s in events["X"]:
        slices[s["pid"], s["tid"]].append((s["ts"], s["ts"] + s["dur"]))

    def bound(event) -> bool:
        return any(begin <= event["ts"] <= end for begin, end in slices[event["pid"], event["tid"]])

    begins, ends = {e["id"]: e for e in events["s"]}, {e["id"]: e for e in events["f"]}
    assert begins.keys() == ends.keys()
    assert len(begins) == len(events["s"]) == len(events["f"])
    for number, begin in begins.items():
        assert bound(begin)
        assert bound(ends[number])
        assert begin["ts"] <= ends[number]["ts"]
        assert ends[number]["bp"] == "e"
    copies = [e for e in events["X"] if e["cat"] == "copy"]
    assert not copies or begins


def test_processes_are_devices_and_threads_are_queues():
    timeline, events = traced(3)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events["M"] if e["name"] == "thread_name"}
    assert len(names) == len(timeline.queues)
    assert {pid for pid, _ in names} == {did for did, _ in timeline.queues}
    assert {(e["pid"], e["tid"]) for e in events["X"]} == set(names)


@pytest.mark.parametrize("seed", range(6))
def test_counters_stay_between_nothing_and_the_peak(seed):
    timeline, events = traced(seed, runs=1)
    found = live_bytes(timeline)
    for pool, points in found.items():
        assert all(0 <= live for _, live in points)
        assert [ns for ns, _ in points] == sorted(ns for ns, _ in points)
        assert timeline.plan.lower_bound[pool] <= sum(timeline.plan.storage.extent)
    assert len(events["C"]) == sum(map(len, found.values()))
