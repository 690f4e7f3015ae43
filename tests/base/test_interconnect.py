"""Devices of other machines, and the links between machines: names, files, and what plans make of both."""

from __future__ import annotations

import json

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.interconnect import Interconnect, NodeLink, find_interconnect
from graph_runtime.costs import CostModel
from graph_runtime.ir.model import Model

FAST, SLOW = NodeLink(1e3, 100.0, "measured"), NodeLink(5e6, 0.001)


@pytest.mark.parametrize(
    ("text", "node", "rest"),
    [
        ("node1/tt:0", "node1", "tt:0"),
        ("tt:0", "", "tt:0"),
        ("a.b-c_9/cpu", "a.b-c_9", "cpu:0"),
        ("node1/tt:2=wormhole_b0/buda[rows=7]", "node1", "tt:2=wormhole_b0/buda[rows=7]"),
    ],
)
def test_a_node_comes_before_the_kind(text: str, node: str, rest: str) -> None:
    device = devices.parse(text)
    assert (device.node, device.at_home.spelling) == (node, devices.parse(rest).spelling)
    assert devices.parse(device.spelling) == device
    assert device.at_home == devices.parse(rest)
    assert str(device) == (f"{node}/" if node else "") + str(device.at_home)


@pytest.mark.parametrize("text", ["/tt:0", "a b/tt:0", "a/b/tt:0", "-a/tt:0", "node1/", "x" * 64 + "/cpu:0"])
def test_what_is_no_node(text: str) -> None:
    with pytest.raises(gr.DeviceError, match=r"cannot read device .* node1/tt:0"):
        devices.parse(text)
    with pytest.raises(gr.DeviceError, match=r"unknown device kind .tz. \(there are: cpu"):
        devices.parse("node1/tz:0")


def test_two_nodes_have_a_device_of_one_name() -> None:
    assert len(devices.parse_list(["node0/tt:0", "node1/tt:0", "tt:0"])) == 3
    with pytest.raises(gr.DeviceError, match="node1/tt:0 is listed twice"):
        devices.parse_list(["node1/tt:0", "node1/tt:0"])


def test_a_network_of_a_file(tmp_path) -> None:
    path = tmp_path / "net.json"
    row = {"nodes": ["a", "b"], "latency_us": 50, "gb_per_s": 1.25}
    path.write_text(json.dumps({"links": [row], "default": {"latency_us": 1000, "gb_per_s": 0.1}}))
    found = find_interconnect(str(path))
    assert found.link("a", "b") == found.link("b", "a") == NodeLink(50e3, 1.25, "measured")
    assert found.link("", "a").latency_ns == 1e6
    assert found.link("a", "b").ns(125) == 50e3 + 100
    path.write_text(json.dumps(found.as_json()))
    assert find_interconnect(str(path)).links == found.links
    assert find_interconnect(None).link("x", "y").gb_per_s == 0.117


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ([], r"\$ is an object"),
        ({"link": []}, r"\$.link is not known.*did you mean 'links'"),
        ({"links": {}}, r"\$.links is a list"),
        ({"links": [{"nodes": ["a"], "latency_us": 1, "gb_per_s": 1}]}, r"\$.links\[0\].nodes are two names"),
        (
            {"links": [{"nodes": ["a", "b"], "latency_us": -1, "gb_per_s": 1}]},
            "latency_us is a number from 0",
        ),
        ({"default": {"latency_us": 1, "gb_per_s": 0}}, "gb_per_s is a number above 0"),
        ({"default": {"latency_us": 1, "gb_per_s": True}}, "gb_per_s is a number above 0"),
    ],
)
def test_files_that_are_no_network_say_where(tmp_path, raw, says: str) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(gr.DeviceError, match=says):
        find_interconnect(str(path))


# **************** plans ****************


def layers(count: int = 4, size: int = 256) -> Model:
    builder = gr.GraphBuilder()
    value = builder.input("x", (64, size))
    for i in range(count):
        value = builder.op("matmul", value, builder.param(f"w{i}", np.zeros((size, size), np.float32)))
        value = builder.op("tanh", value)
    builder.output(value)
    return Model.from_builder(builder)


@pytest.mark.core
def test_a_copy_between_machines_takes_the_link() -> None:
    costs = CostModel(interconnect=Interconnect({("a", "b"): FAST}, SLOW))
    near, far = devices.parse("a/cpu:0"), devices.parse("b/cpu:0")
    plain = gr.prepare(layers(1), "cpu:0").plan.layout(0)
    type_ = gr.prepare(layers(1), "cpu:0").plan.graph.entry_type(0)
    assert costs.copy(near, plain, far, plain, type_).cycles == FAST.ns(type_.nbytes)
    assert costs.copy(far, plain, near, plain, type_).cycles == SLOW.ns(type_.nbytes)
    assert costs.links(near, far) == ("a > b",)
    assert costs.links(near, devices.parse("a/tt:0")) == ()
    board = devices.parse("b/tt:0")
    assert costs.copy(near, plain, board, plain, type_).cycles > FAST.ns(type_.nbytes)


@pytest.mark.core
def test_placing_looks_at_the_links() -> None:
    on = ["a/cpu:0", "b/cpu:0"]
    for link, cut in ((FAST, True), (SLOW, False)):
        plan = gr.prepare(layers(), on, objective="throughput", interconnect=Interconnect({}, link)).plan
        used = {str(plan.devices[did]) for nid, did in enumerate(plan.did) if plan.graph.func_id[nid] >= 0}
        assert (len(used) == 2) is cut


@pytest.mark.core
def test_a_simulated_run_waits_for_the_link() -> None:
    place = {"*": "a/cpu:0", "tanh_[23]": "b/cpu:0", "matmul_[23]": "b/cpu:0"}
    interconnect = Interconnect({}, NodeLink(1e6, 1.0))
    plan = gr.prepare(
        layers(),
        ["a/cpu:0", "b/cpu:0"],
        fuse=False,
        place=place,
        interconnect=interconnect,
        placement="mincut",
    ).plan
    rows = {row["link"]: row for row in gr.simulate(plan, inputs=("x",), runs=4).summary()["links"]}
    assert set(rows) == {"the caller > a", "a > b"}
    assert rows["a > b"]["copies"] == 1
    assert rows["a > b"]["busy_ns"] == 4 * (1_000_000 + 64 * 256 * 4)


def test_a_session_opens_devices_of_its_own_machine_only() -> None:
    builder = gr.GraphBuilder()
    x = builder.input("x", (4,), device="node1/cpu:0")
    builder.output(builder.op("relu", x))
    with pytest.raises(gr.DeviceError, match="place nodes on node1/cpu:0 with place="):
        builder.build()
