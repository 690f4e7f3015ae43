"""The report of a plan: rows that are JSON, and text that says what the plan says."""

import json

import numpy as np

from graph_runtime.base.machine.devices import parse_list
from graph_runtime.ir.graph import TensorType
from graph_runtime.plan import plan
from graph_runtime.testing.graphs import GraphMaker, random_graph
from graph_runtime.views import report


def _planned():
    maker, f8 = GraphMaker(), TensorType("float32", (8,))
    x = maker.input(f8, 0)
    y = maker.op("tanh", [x], 1)
    return plan(
        maker.graph([maker.op("add", [y, x], 0)], devices=parse_list(["cpu:0", "tt:0"])), ["cpu:0", "tt:0"]
    )


def test_rows_say_where_each_node_runs_and_why():
    rows = json.loads(json.dumps(report.describe(_planned())))
    assert [(r["name"], r["device"], r["inserted"]) for r in rows["nodes"]] == [
        ("x0", "cpu:0", False),
        ("x0_copy_tt0", "tt:0", True),
        ("n1", "tt:0", False),
        ("n1_copy_cpu0", "cpu:0", True),
        ("n2", "cpu:0", False),
    ]
    copy = rows["copies"][0]
    assert (copy["of"], copy["from"], copy["to"], copy["bytes"], copy["at_input"]) == (
        "x0",
        "cpu:0",
        "tt:0",
        32,
        True,
    )
    assert copy["cause"] == "'n1' on tt:0 reads 'x0', which lives on cpu:0; move host -> dram"


def test_the_pool_map_lists_every_value_once():
    for seed in range(8):
        planned = plan(
            random_graph(np.random.default_rng(seed), ["cpu:0", "tt:0"], nodes=20), ["cpu:0", "tt:0"]
        )
        rows = report.pool(planned)
        listed = [v["eid"] for row in rows for v in row["values"]]
        assert len(listed) == len(set(listed))
        assert {row["sid"] for row in rows if row["values"]} == set(planned.sid.tolist())
        for row in report.memories(planned):
            assert row["lower_bound"] <= row["peak"] <= row["available"]


def test_numbers_are_aligned_to_the_right_and_lists_joined():
    rows = [{"sid": 8, "values": ["a", "b"]}, {"sid": 1024, "values": ["c"]}]
    assert report.table(rows, ("sid", "values")).splitlines() == [" sid  values", "   8  a, b", "1024  c"]


def test_tables_fit_a_terminal():
    name = "tvmgen_default_fused_nn_contrib_dense_pack_add_nn_relu_"
    rows = [
        {"nid": i, "name": f"{name}{i}", "cause": "a reason that is given in a sentence, " * 3}
        for i in range(3)
    ]
    for width in (60, 80, 100):
        lines = report.table(rows, ("nid", "name", "cause"), width).splitlines()
        assert max(map(len, lines)) <= width
        assert "".join("".join(line.split()) for line in lines).count("sentence,") == 9
        assert sum(f"_relu_{i}" in line for i in range(3) for line in lines) == 3, "names keep their ends"
    whole = report.table(rows, ("nid", "name", "cause")).splitlines()
    assert len(whole) == 4


def test_text_has_every_node_and_a_picture_of_each_memory():
    planned = _planned()
    text = report.plan_text(planned)
    for name in planned.graph.names:
        assert name in text
    assert "copies: 2, 32 B on every run" in text
    assert "x0 set..end" in text
    picture = report.picture(planned, 0, 0).splitlines()
    assert picture[0].startswith("cpu:0 host: ")
    assert len({len(line) for line in picture[1:]}) == 1
    assert "00000" in picture[1], "an input is kept from the start to the end"
