"""Policies in plan(): what pins, files, libraries and missing kernels leave them, and what the table says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.base.errors import InputError, PlanError, UnsupportedOpError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.ir.graph import TensorType
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.plan.placing.policies import PLACEMENT_POLICIES
from graph_runtime.testing.graphs import GraphMaker, random_graph
from graph_runtime.views.placement import describe, text

PAIR = ["cpu:0", "tt:0"]
F4 = TensorType("float32", (4,))
SQUARE = TensorType("float32", (512, 512))


def wide(columns: bool = False) -> gr.Graph:
    """x -> product -> relu -> softmax, large enough for tt; then a float64 sigmoid that tt does not have."""
    maker = GraphMaker()
    x, w = maker.input(SQUARE), maker.input(SQUARE)
    h = maker.op("relu", [maker.op("matmul", [x, w])])
    y = maker.op("softmax", [h])
    z = maker.op("sigmoid", [maker.input(TensorType("float64", (8, 8)))])
    return maker.graph([y, z], devices=parse_list(PAIR) if columns else None)


def where(placement) -> dict[str, str]:
    return {
        name: str(placement.devices[d]) for name, d in zip(placement.graph.names, placement.did, strict=True)
    }


@pytest.mark.parametrize("policy", PLACEMENT_POLICIES)
def test_pins_come_first_and_nothing_is_put_where_it_cannot_run(policy):
    placed = place(wide(), PAIR, placement=policy, pins={"softmax": "cpu:0"}, inputs=["x0"])
    at = where(placed)
    assert (at["n4"], at["n6"]) == ("cpu:0", "cpu:0")
    rows = {row["node"]: row for row in placed.report()}
    assert rows["n4"]["asked"] == "cpu:0"
    assert rows["n4"]["why"] == "pin 'softmax': cpu:0"
    assert rows["n6"]["asked"] is None
    assert "only cpu:0 can run it (tt:0: tt holds no float64" in rows["n6"]["why"]
    assert plan(placed.graph, PAIR, placed=placed).did.max() <= 1


def test_reasons_have_numbers_and_the_next_best_device():
    placed = place(wide(), PAIR, placement="mincut", inputs=["x0"])
    rows = {row["node"]: row for row in placed.report()}
    assert where(placed)["n2"] == "tt:0", "a product of 512 is far faster there"
    assert rows["n2"]["why"].startswith("mincut: tt:0 ")
    assert " us; cpu:0 " in rows["n2"]["why"]
    (copy,) = rows["x0"]["copies"]
    assert (copy["from"], copy["to"], copy["bytes"]) == ("cpu:0", "tt:0", 512 * 512 * 4)
    assert "x1" not in rows, "a constant costs no run anything"
    said = placed.summary()
    assert sum(row["nodes"] for row in said["devices"]) == 4
    serial = said["predictions"][0]
    assert serial["bound_ns"] == serial["ns"] <= serial["single_ns"]
    assert serial["ns"] == sum(r["ns"] + sum(c["ns"] for c in r["copies"]) for r in rows.values())


def test_a_files_columns_leave_a_policy_nothing_to_decide():
    placed = place(wide(columns=True), PAIR, placement="mincut")
    assert set(where(placed).values()) == {"cpu:0"}
    assert placed.warnings == (
        "placement mincut decides nothing: pins and the file's device columns place every node",
    )


def test_all_nodes_that_cannot_run_where_they_are_asked_to_stand_in_one_error():
    maker = GraphMaker()
    x = maker.input(TensorType("float64", (8, 8)))
    graph = maker.graph([maker.op("sigmoid", [maker.op("softmax", [x])])])
    for options in ({}, {"placement": "mincut"}):
        with pytest.raises(UnsupportedOpError, match=r"'n1'.*'n2'.*fallback='host'") as caught:
            plan(graph, PAIR, place={"*": "tt:0"}, **options)
        assert [row[:2] for row in caught.value.nodes] == [("n1", "tt:0"), ("n2", "tt:0")]
    with pytest.raises(UnsupportedOpError, match="place it on another device") as caught:
        plan(wide(), ["tt:0"], placement="mincut")
    assert [row[0] for row in caught.value.nodes] == ["n6"]


@pytest.mark.parametrize("policy", [None, "mincut"])
def test_fallback_moves_them_to_a_host_and_names_them(policy):
    planned = plan(wide(), PAIR, place={"*": "tt:0"}, fallback="host", placement=policy)
    placed = planned.placement
    assert where(placed) == {
        "x0": "tt:0",
        "x1": "tt:0",
        "n2": "tt:0",
        "n3": "tt:0",
        "n4": "tt:0",
        "x5": "cpu:0",
        "n6": "cpu:0",
    }
    assert [row["node"] for row in placed.summary()["elsewhere"]] == ["n6"]
    assert any(
        "node 'n6' (op sigmoid) was asked to run on tt:0 and runs on cpu:0: " in w for w in planned.warnings
    )
    assert "1 nodes run elsewhere than asked: n6" in text(placed)


def test_fallback_of_the_first_device_is_named_too():
    planned = plan(wide(), ["tt:0", "cpu:0"], fallback="host")
    assert where(planned.placement)["n6"] == "cpu:0"
    (row,) = planned.placement.summary()["elsewhere"]
    assert (row["asked"], row["device"]) == ("tt:0", "cpu:0")
    with pytest.raises(InputError, match="fallback is 'error' or 'host'"):
        plan(wide(), PAIR, fallback="hots")


def test_functions_of_libraries_stay_unless_one_says_where_it_has_them():
    maker = GraphMaker()
    x = maker.op("relu", [maker.input(SQUARE)])
    graph = maker.graph([maker.op("relu", [maker.call("foreign", [x], [SQUARE])])])
    placed = place(graph, ["tt:0", "cpu:0"], placement="mincut")
    assert where(placed)["n2"] == "tt:0"
    assert "only a library knows the function" in placed.causes[placed.cause_id[2]]
    placed = place(graph, ["tt:0", "cpu:0"], placement="mincut", kernels={"foreign": {"cpu"}})
    assert where(placed)["n2"] == "cpu:0"
    assert "the libraries have function foreign for cpu only" in placed.causes[placed.cause_id[2]]


def test_an_input_that_is_written_lies_where_its_writer_runs():
    maker = GraphMaker()
    cache, x = maker.input(SQUARE), maker.input(SQUARE)
    new = maker.op("add", [cache, maker.op("matmul", [x, x])])
    graph = maker.graph([new], aliases=((0, 0),))
    for objective in ("serial", "makespan"):
        placed = place(graph, PAIR, placement="optimal", objective=objective)
        assert where(placed)["x0"] == where(placed)["n3"]
        assert plan(graph, PAIR, placed=placed).aliases == ((0, 0),)


def test_a_placement_belongs_to_its_graph_and_devices():
    placed = place(wide(), PAIR, placement="single")
    with pytest.raises(PlanError, match="of another graph or device list"):
        plan(wide(), PAIR, placed=placed)
    with pytest.raises(PlanError, match="of another graph or device list"):
        plan(placed.graph, PAIR[::-1], placed=placed)
    with pytest.raises(InputError, match=r"unknown objective 'make_span'.*did you mean 'makespan'"):
        place(wide(), PAIR, placement="single", objective="make_span")
    with pytest.raises(InputError, match="no input 'y'"):
        place(wide(), PAIR, placement="single", inputs=["y"])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([PAIR, ["tt:0", "cpu:0", "tt:1"], ["null:0", "cpu:0"]]),
    st.sampled_from(sorted(PLACEMENT_POLICIES)),
    st.sampled_from(["serial", "makespan", "throughput"]),
)
def test_any_graph_is_placed_planned_and_described(seed, devices, policy, objective):
    graph = random_graph(np.random.default_rng(seed), devices, nodes=14, columns=False, library=True)
    planned = plan(graph, devices, placement=policy, objective=objective)  # the checker agrees
    said = describe(planned.placement)
    assert [row["nid"] for row in said["nodes"]] == np.flatnonzero(graph.func_id >= 0).tolist()
    for row in said["predictions"]:
        assert row["bound_ns"] <= row["ns"]
        if row["objective"] == objective:
            assert row["ns"] <= row["single_ns"]
    assert text(planned.placement, 100)
