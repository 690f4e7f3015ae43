"""Graph -> graph.json: read back equal, byte for byte the same each time, inside what TVM's reader knows."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import GraphError
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.graph import Hints
from graph_runtime.plan import plan
from graph_runtime.plan.record import record
from graph_runtime.testing.graphs import random_graph

GOLDEN = sorted((Path(__file__).resolve().parents[1] / "golden" / "tvm").glob("*/graph.json"))
DEVICES = ("cpu:0", "tt:0", "tt:1")


def same(a, b, where="graph"):
    """Equal values, field by field; ``where`` names the first that differ."""
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray), where
        assert a.tolist() == b.tolist(), where
    elif is_dataclass(a):
        assert type(a) is type(b), where
        for field in fields(a):
            same(getattr(a, field.name), getattr(b, field.name), f"{where}.{field.name}")
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where}[{i}]")
    else:
        assert a == b, where


def round_trip(graph):
    data = graph_to_json(graph)
    again = load_graph(data, strict=True)
    same(graph, again)
    assert graph_to_json(again) == data
    return data


@pytest.mark.parametrize("file", GOLDEN, ids=lambda f: f.parent.name)
def test_what_tvm_wrote_is_written_again(file):
    graph = load_graph(file)
    document, raw = json.loads(round_trip(graph)), json.loads(file.read_text())
    for key in ("arg_nodes", "heads", "node_row_ptr", "attrs"):
        assert document[key] == raw[key]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_graphs_and_plans_are_read_back_equal(seed, columns):
    # a graph that was read once: its functions hold their attributes as the file has them
    graph = load_graph(graph_to_json(random_graph(np.random.default_rng(seed), DEVICES, columns=columns)))
    round_trip(graph)
    planned = record(plan(graph, DEVICES))
    again = load_graph(graph_to_json(planned), strict=True)
    same(planned.hints, again.hints, "hints")
    round_trip(again)


def test_a_plan_that_is_read_is_the_plan_that_was_written():
    graph = random_graph(np.random.default_rng(7), DEVICES)
    first = plan(graph, DEVICES)
    second = plan(load_graph(graph_to_json(record(first))), DEVICES)
    for name in ("did", "sid", "storage", "aliases", "peak", "at_input"):
        same(getattr(first, name), getattr(second, name), name)


def some_graph(name="x", **hints):
    b = GraphBuilder()
    x = b.input(name, (2, 3))
    b.output(b.op("softmax", b.op("reshape", x, shape=(3, 2)), axis=0))
    graph = b.build()
    return replace(graph, hints=Hints(**hints)) if hints else graph


def test_keys_stand_in_tvms_order_and_metadata_last():
    data = json.loads(graph_to_json(some_graph(aliases=((0, 0),))))
    assert list(data) == ["nodes", "arg_nodes", "heads", "attrs", "node_row_ptr", "metadata"]
    assert list(json.loads(graph_to_json(some_graph()))) == [
        "nodes",
        "arg_nodes",
        "heads",
        "attrs",
        "node_row_ptr",
    ]


def test_attributes_stand_as_given_defaults_are_left_out():
    nodes = json.loads(graph_to_json(some_graph()))["nodes"]
    assert nodes[1]["attrs"] == {
        "func_name": "__nop",
        "num_inputs": "1",
        "num_outputs": "1",
        "flatten_data": "0",
        "gr.op": "reshape",
        "gr.shape": "[3,2]",
    }
    assert "attrs" not in nodes[0]  # TVM wants all four of a node that has any


def test_storage_that_is_still_to_be_planned_is_not_written():
    assert "storage_id" not in json.loads(graph_to_json(some_graph()))["attrs"]


def test_netron_sees_device_and_storage():
    columns = {
        "device_type": np.array([1, 1, 12]),
        "device_id": np.array([0, 0, 1]),
        "storage_id": np.array([0, 0, 3]),
    }
    nodes = json.loads(graph_to_json(some_graph(**columns)))["nodes"]
    assert (nodes[2]["attrs"]["gr.device"], nodes[2]["attrs"]["gr.storage"]) == ("tt:1", "3")
    assert {node["op"] for node in nodes} == {"null", "tvm_op"}


def test_bool_is_written_as_tvm_writes_it():
    b = GraphBuilder()
    b.output(b.input("x", (2,), "bool"))
    assert json.loads(b.to_json())["attrs"]["dltype"] == ["list_str", ["uint1"]]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=12))
def test_names_stay_inside_tvms_json(name):
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", name):
        with pytest.raises(GraphError, match="rename it"):
            graph_to_json(some_graph(name))
        return
    data = graph_to_json(some_graph(name))
    # dmlc's reader: \r \n \t \\ \" are all the escapes it knows
    assert not re.search(rb"\\[^rnt\\\"]", data.replace(rb"\\", b""))
    assert load_graph(data).names[0] == name


def test_the_tvm_dialect_is_what_tvm_reads():
    document = json.loads(graph_to_json(some_graph(aliases=((0, 0),)), dialect="tvm"))
    assert document["attrs"]["storage_id"] == [
        "list_int",
        [0, 0, 1],
    ]  # TVM does not run __nop: its output is its input; and it refuses gaps
    assert document["attrs"]["device_index"] == ["list_int", [1, 1, 1]]
    assert set(document["attrs"]) == {"dltype", "shape", "storage_id", "device_index"}
    assert not any(key.startswith("gr.") for node in document["nodes"] for key in node.get("attrs", ()))
    assert "metadata" not in document


def test_the_tvm_dialect_has_no_tt():
    with pytest.raises(GraphError, match="'softmax'") as caught:
        graph_to_json(some_graph(device_type=np.array([1, 1, 12])), dialect="tvm")
    assert caught.value.node == "softmax"


def test_test_only_devices_stand_in_no_file():
    planned = record(plan(some_graph(), ["null:0"]))
    with pytest.raises(GraphError, match="tests only"):
        graph_to_json(planned)


def test_an_unknown_dialect_is_named():
    with pytest.raises(GraphError, match="nnvm"):
        graph_to_json(some_graph(), dialect="nnvm")
