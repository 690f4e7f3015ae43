"""Netron's rule for files of TVM's graph executor, held against everything that writes a graph.

The rule (tvm.js of Netron): the name ends in .json; ``nodes``, ``arg_nodes`` and ``heads`` are arrays; a
node's op is "null" or "tvm_op". Of a node it shows name, inputs and ``attrs``, whose values are texts.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

from graph_runtime import GraphBuilder
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.compat.tvm_files.export import export
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.plan import plan
from graph_runtime.plan.record import record


def opens(name: str, data: bytes) -> list[dict]:
    """Raise AssertionError where Netron would not take the file for a graph of TVM's; its nodes."""
    assert name.endswith(".json")
    document = json.loads(data)
    assert all(isinstance(document[key], list) for key in ("nodes", "arg_nodes", "heads"))
    assert {node["op"] for node in document["nodes"]} <= {"null", "tvm_op"}
    for node in document["nodes"]:
        assert isinstance(node["name"], str)
        assert all(isinstance(value, str) for value in node.get("attrs", {}).values())
        assert all(0 <= nid < len(document["nodes"]) for nid, *_ in node["inputs"])
    return document["nodes"]


@pytest.fixture
def builder():
    b = GraphBuilder()
    x = b.input("x", (1, 3, 8, 8))
    y = b.op("conv2d", x, b.param("w", np.ones((4, 3, 3, 3), np.float32)), pads=[1, 1, 1, 1], name="conv")
    b.output(b.op("relu", b.op("flatten", y, name="flat"), name="act"))
    return b


def test_a_graph_that_was_built(builder):
    opens("graph.json", builder.to_json())


def test_a_plan_shows_device_and_storage_of_every_node(builder):
    planned = plan(builder.build(), ["cpu:0", "tt:0"], place={"conv": "tt:0"})
    nodes = opens("planned.json", graph_to_json(record(planned)))
    calls = [node["attrs"] for node in nodes if node["op"] == "tvm_op"]
    assert {attrs["gr.device"] for attrs in calls} == {"cpu:0", "tt:0"}
    assert all(attrs["gr.storage"] for attrs in calls)
    assert any(attrs["func_name"] == "__copy" for attrs in calls)


def test_every_graph_in_a_bundle(builder, tmp_path):
    bundle = read_bundle(
        build_bundle(
            {"a": builder, "b": builder.build()},
            ["cpu:0", "tt:0"],
            tmp_path / "net.zip",
            place={"conv": "tt:0"},
            compile=False,
        )
    )
    for program in bundle.programs:
        nodes = opens(program.graph, bytes(bundle.read(program.graph)))
        assert all("gr.device" in node["attrs"] for node in nodes if node["op"] == "tvm_op")


def test_what_is_exported_for_tvm(builder, tmp_path):
    for path in export(builder.build(), tmp_path, params=builder.params):
        if path.suffix == ".json":
            opens(path.name, path.read_bytes())
