"""docs/performance.md and its picture hold what was measured: tests/bench/write_performance.py makes them."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
MACHINE = {"cpu": "a cpu", "family": "1", "model": "2", "isa": "x86-64-v3", "cores": 2, "load": 0.25}
MACHINE |= {"versions": {"numpy": "2.0"}}
PEERS = [
    {"machine": MACHINE},
    {
        "model": "net",
        "threads": 1,
        "graph_runtime": {"median_ms": 1.25, "least_ms": 1.125},
        "peer": {"median_ms": 2.5, "least_ms": 2.25},
        "ratio_to_peer": {"median_ms": 0.5, "least_ms": 0.53, "turns_95": [0.48, 0.57]},
        "greatest_difference": 2e-6,
        "machine": MACHINE | {"load": 1.75},
    },
    {"model": "odd", "threads": 1, "refused": {"graph_runtime": "no"}, "machine": MACHINE},
]
ZOO = [
    {**PEERS[1], "model": name, "clock": "cpu", "ratio_to_fastest": ratio}
    for name, ratio in (("quick", 0.5), ("slow", 3.0), ("even", 0.91), ("slow", 1.42))  # the last counts
]
START = [
    {"program": "bundle", "wall_s": {"least": 0.2, "median": 0.3}, "cpu_s": {"least": 0.2, "median": 0.2}}
]
RATES = {"gflop_per_s": 100.0, "gb_per_s": 10.0}


def _node(name: str, gflop_per_s: float, gb_per_s: float, of_peak: float) -> dict:
    shown = {
        "node": name,
        "op": "dense",
        "device": "cpu:0",
        "us": 5.0,
        "share": 0.5,
        "kernel": "cpu/dense/f32",
    }
    return shown | {"gflop_per_s": gflop_per_s, "gb_per_s": gb_per_s, "of_peak": of_peak}


NODES = [_node("far", 1.0, 1.0, 0.1), _node("on the roof", 100.0, 1.0, 1.0)]


@pytest.fixture
def writer(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("write_performance")


def test_the_page_has_what_the_lines_say(writer):
    text = writer.page(PEERS, ZOO, START, "net", {"rates": RATES, "nodes": NODES})
    assert "| net | 1 | 1.125 (1.250) | 2.250 (2.500) | 0.53 | 0.48 to 0.57 | 2e-06 |" in text
    assert "| odd | 1 | refused |" in text
    assert "| 1 | 3 | 0.91 | slow 1.42 |" in text
    assert "| even | 1 | 1.125 | 2.250 | 0.53 | 2e-06 |" in text
    assert "| bundle | 0.200 | 0.300 | 0.20 |  |" in text
    assert "| far | dense | 5.0 | 50.0% | 1.0 | 1.0 | 10% | cpu/dense/f32 |" in text
    assert "family 1, model 2, x86-64-v3, 2 cores" in text
    assert "Load of one minute 0.25 to 1.75" in text
    assert "half of what these rates, and those of the caches, allow take 50% of the\ntime" in text


def test_a_zoo_takes_the_place_of_the_one_that_is_there(writer):
    found = {"rates": RATES, "nodes": NODES}
    without, with_ = (writer.page(PEERS, zoo, START, "net", found) for zoo in ([], ZOO))
    assert writer.with_zoo(without, writer.zoo_text(ZOO)) == with_
    again = writer.with_zoo(with_, writer.zoo_text(ZOO[:1]))
    assert "| quick | 1 |" in again
    assert "slow" not in again
    assert writer.with_zoo(again, writer.zoo_text(ZOO)) == with_


@pytest.mark.parametrize(("load", "busy"), [(0.25, False), (7.0, True)])
def test_a_busy_machine_is_said(writer, load, busy):
    said = writer.page(
        [{"machine": MACHINE | {"load": load}}, *PEERS[1:]],
        [],
        START,
        "net",
        {"rates": RATES, "nodes": NODES},
    )
    assert ("was busy" in said) == busy


def test_the_picture_has_a_dot_for_each_node_and_one_that_reaches_the_roof_lies_on_it(writer):
    drawn = ET.fromstring(writer.roofline(NODES, RATES))
    space = "{http://www.w3.org/2000/svg}"
    dots = {}
    for rect in drawn.iter(f"{space}rect"):
        title = rect.find(f"{space}title")
        if title is not None:
            dots[(title.text or "").partition(":")[0]] = (
                float(rect.get("x", 0)) + 3,
                float(rect.get("y", 0)) + 3,
            )
    roof = next(drawn.iter(f"{space}polyline")).get("points", "").split()
    flat = [float(point.partition(",")[2]) for point in roof[1:]]
    assert dots.keys() == {"far", "on the roof"}
    assert dots["on the roof"][1] == pytest.approx(flat[0]) == pytest.approx(flat[1])
    assert dots["far"][1] > dots["on the roof"][1]
    assert dots["far"][0] < dots["on the roof"][0]
