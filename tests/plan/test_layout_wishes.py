"""Layouts that a caller asks for by name, what copies say they do, files with shards, memory that is full."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import CapacityError, DocumentError, GraphError, PlanError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.machine.layout import Layout
from graph_runtime.base.machine.shards import Shard
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.params import save_params
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.graph import COPY, TensorType
from graph_runtime.plan import plan
from graph_runtime.plan.layouts import conversion
from graph_runtime.plan.record import record
from graph_runtime.testing.graphs import GraphMaker


def f(*shape):
    return TensorType("float32", shape)


def chain(*shape, copy=False):
    """x0 -> n1 tanh -> n2 relu (-> n3, a copy)."""
    maker = GraphMaker()
    last = maker.op("relu", [maker.op("tanh", [maker.input(f(*shape))])])
    return maker.graph([maker.call(COPY, [last], [f(*shape)]) if copy else last])


def laid(planned):
    return [str(planned.layout(e)) for e in range(planned.graph.num_entries)]


# **************** wishes ****************


def test_the_default_is_dram_interleaved_and_the_last_wish_wins():
    graph = chain(256, 256)
    assert laid(plan(graph, ["tt:0"])) == ["dram/tile/f32"] * 3
    wishes = {"*": "l1", "relu": "block[4x4]/bf16", "n1": "dram/row_major"}
    planned = plan(graph, ["tt:0"], layouts=wishes)
    assert laid(planned) == ["l1/tile/f32", "dram/row_major/f32", "l1/tile/bf16/block[4x4:64x64]"]
    assert [planned.layout_causes[planned.layout_id[e]] for e in range(3)] == [
        f"as layout {glob!r} asks" for glob in ("*", "n1", "relu")
    ]


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        ("l1", "l1/tile/f32"),
        ("height", "l1/tile/f32/height[8x8:32x256]"),
        ("bfp4_b", "dram/tile/bfp4_b"),
        ("width[2x4@1x0]", "l1/tile/f32/width[2x4@1x0:256x32]"),
        ("row_major", "dram/row_major/f32"),
        ("l1/row_major/bf16/height[8x1:33x256]", "l1/row_major/bf16/height[8x1:33x256]"),
        ("dram/interleaved", "dram/tile/f32"),
    ],
)
def test_each_word_changes_one_thing(words, layout):
    assert laid(plan(chain(256, 256), ["tt:0"], layouts={"n1": words}))[1] == layout


def test_a_later_wish_keeps_what_it_does_not_say():
    both = {"n1": "block[4x4]", "tanh": "bf16"}
    assert laid(plan(chain(256, 256), ["tt:0"], layouts=both))[1] == "l1/tile/bf16/block[4x4:64x64]"
    both["n?"] = "interleaved"
    assert laid(plan(chain(256, 256), ["tt:0"], layouts=both))[1] == "l1/tile/bf16"
    plain = plan(chain(256, 256), ["tt:0"], formats={"tt": "bfp8_b"}, layouts={"n1": "row_major"})
    assert laid(plain)[1] == "dram/row_major/bf16"  # rows of a block format are bf16


def test_a_copy_that_the_planner_inserts_is_laid_out_as_what_it_copies():
    maker = GraphMaker()
    maker.op("tanh", [maker.input(f(256, 256))], 1)
    graph = maker.graph([1], devices=parse_list(["cpu:0", "tt:0"]))
    planned = plan(graph, ["cpu:0", "tt:0"], layouts={"x0": "l1/height"})
    assert laid(planned) == ["host/row_major/f32", "l1/tile/f32/height[8x8:32x256]", "dram/tile/f32"]


@pytest.mark.parametrize(
    ("layouts", "says"),
    [
        ({"nn": "l1"}, "layout 'nn' matches no node"),
        ({"n1": "tyle"}, "unknown word 'tyle'.*did you mean 'tile'"),
        ({"n1": "l1/dram"}, "says the memory twice"),
        ({"n1": "dram/height"}, "shards lie in l1"),
        ({"n1": "hight"}, "did you mean 'height'"),
        ({"n1": "f64"}, "tt stores no f64"),
        ({"n1": "bfp8_b/row_major"}, "exists in tiles only"),
        ({"n1": "height[9x9]"}, "no rectangle of the 8x8"),
        ({"n1": "height[2x1:32x256]"}, "8 shards of 32x256 for 2 cores"),
        ({"n1": ""}, "unknown word ''"),
    ],
)
def test_wishes_that_cannot_be_name_the_node(layouts, says):
    with pytest.raises(PlanError, match=says) as caught:
        plan(chain(256, 256), ["tt:0"], layouts=layouts)
    if "n1" in layouts and "make" in str(caught.value):
        assert (caught.value.node, caught.value.device, caught.value.path) == ("n1", "tt:0", "$.nodes[1]")
    with pytest.raises(PlanError, match="names entries of the host only"):
        plan(chain(256, 256), ["cpu:0"], layouts={"*": "l1"})


# **************** what copies do ****************


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            Layout("host", "row_major", "f32"),
            Layout("dram", "tile", "bf16"),
            "tilize + f32 -> bf16 + move host -> dram",
        ),
        (
            Layout("dram", "row_major", "f32"),
            Layout("l1", "tile", "f32", Shard("height", ((0, 0), (7, 0)), (32, 32))),
            "tilize + move dram -> l1 height shard",
        ),
        (
            Layout("l1", "tile", "f32", Shard("width", ((0, 0), (7, 0)), (64, 32))),
            Layout("l1", "tile", "f32", Shard("width", ((0, 0), (3, 0)), (64, 64))),
            "reshard width[8x1:64x32] -> width[4x1:64x64]",
        ),
        (Layout("dram", "tile", "bfp8_b"), Layout("dram", "row_major", "bf16"), "untilize + bfp8_b -> bf16"),
        (Layout("dram", "tile", "f32"), Layout("dram", "tile", "f32"), "same bytes"),
    ],
)
def test_a_conversion_in_words(before, after, says):
    assert conversion(before, after) == says


def test_a_plan_says_what_its_copies_do():
    graph = chain(64, 64, copy=True)
    planned = plan(graph, ["tt:0"], layouts={"n3": "l1/height[2x1]"})
    cause = planned.causes[planned.cause_id[3]]
    assert cause.endswith("; move dram -> l1 height shard")
    moved = plan(graph, ["tt:0"], layouts={"n2": "row_major", "n3": "bf16"})
    assert moved.causes[moved.cause_id[3]].endswith("; tilize + f32 -> bf16")
    maker = GraphMaker()
    maker.op("reshape", [maker.op("tanh", [maker.input(f(64, 64))], 1)], 1, shape=[32, 128])
    devices = ["tt:0", "tt:1"]
    planned = plan(maker.graph([2], devices=parse_list(devices)), devices)
    assert [planned.causes[planned.cause_id[n]].split("; ")[-1] for n in (1, 3)] == [
        "move tt:0 dram -> tt:1 dram",
        "reshape",
    ]


# **************** files ****************


@pytest.mark.core
def test_a_file_says_shards_and_is_followed():
    planned = plan(chain(256, 256), ["tt:0"], layouts={"n1": "block[4x4:64x64:col]", "n2": "l1/height[8x1]"})
    data = graph_to_json(record(planned))
    rows = orjson.loads(data)["metadata"]["graph_runtime"]["layouts"]
    assert {"kind": "block", "grid": [[0, 0], [3, 3]], "shape": [64, 64], "orientation": "col"} in [
        row["shard"] for row in rows
    ]
    again = plan(load_graph(data), ["tt:0"])
    assert laid(again) == laid(planned)
    assert again.layout_causes[again.layout_id[1]] == "as the file says"
    over = plan(load_graph(data), ["tt:0"], layouts={"n1": "dram"})
    assert laid(over)[1] == "dram/tile/f32"
    values = np.random.default_rng(0).standard_normal((256, 256)).astype("f4")
    module = gr.create(data.decode(), None, ["tt:0"])
    module.run(x0=values)
    np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(np.tanh(values), 0), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"shard": {"kind": "heigth"}}, DocumentError, "shard"),
        ({"memory": "dram"}, GraphError, "shards lie in the L1 of cores, not in dram"),
        ({"shard": {"grid": [[1, 0], [0, 0]]}}, GraphError, "first and the last core"),
        ({"shard": {"shape": [0, 32]}}, DocumentError, "0"),
        ({"shard": {"shape": [32, 32]}}, PlanError, "all 256 columns"),
        ({"shard": {"grid": [[0, 0], [60000, 0]]}}, PlanError, "no rectangle of the 8x8"),
        ({"shard": {"shape": [2147483616, 256]}}, CapacityError, "is too large|Not enough space"),
    ],
)
def test_files_that_say_what_cannot_be(change, error, says):
    planned = plan(chain(256, 256), ["tt:0"], layouts={"*": "l1/height[8x1:32x256]"})
    document = orjson.loads(graph_to_json(record(planned)))
    row = document["metadata"]["graph_runtime"]["layouts"][0]
    row["shard"].update(change.get("shard", {}))
    row["memory"] = change.get("memory", row["memory"])
    with pytest.raises(error, match=says):
        plan(load_graph(orjson.dumps(document)), ["tt:0"])


# **************** memory ****************


def test_l1_that_is_full_names_node_bank_holders_and_a_way_out():
    maker = GraphMaker()
    a, b = maker.input(f(4096, 2048)), maker.input(f(4096, 2048))
    graph = maker.graph([maker.op("add", [a, b])])
    says = (
        r"Not enough space to allocate 33554432 B L1 buffer across 64 banks, where each bank needs to "
        r"store 524288 B, but bank size is 1325652 B \(allocated: 1048576 B, free: 277076 B, largest "
        r"free block: 277076 B\) on tt:0 for 'n2'.*held by 'x0' 33554432 B, 'x1'"
        r".*keep it in dram \(--layout"
    )
    with pytest.raises(CapacityError, match=says) as caught:
        plan(graph, ["tt:0"], layouts={"*": "l1"})
    assert (caught.value.node, caught.value.needed, caught.value.available) == ("n2", 3 * 524288, 1325652)
    with pytest.raises(CapacityError, match=r"x0.* in l1/tile/f32 alone is too large; .*shard it, or keep"):
        plan(graph, ["tt:0=e150[rows=1]"], layouts={"x0": "l1"})
    with pytest.raises(CapacityError, match="alone is too large; shard it over more cores"):
        plan(graph, ["tt:0"], layouts={"x1": "height[2x1]"})
    assert plan(graph, ["tt:0"], layouts={"*": "l1/bfp8_b"}).peak[0, 1] == 3 * 8192 // 64 * 1088


def test_harvested_rows_leave_fewer_banks():
    whole, left = (
        plan(chain(2048, 2048), [device], layouts={"*": "l1"}).peak[0, 1]
        for device in ("tt:0", "tt:0=n150[rows=4]")
    )
    assert left == 2 * whole


# **************** shared and compiled ****************


@pytest.mark.core
def test_a_sharded_parameter_is_shared():
    graph = chain(256, 256)
    values = np.random.default_rng(1).standard_normal((256, 256)).astype("f4")
    first, second = (gr.create(graph, None, ["tt:0"], layouts={"x0": "block[4x4]"}) for _ in range(2))
    first.set_input("x0", values)
    second.share_params(first, save_params({"x0": values * 0}))
    del first
    second.run()
    np.testing.assert_allclose(second.get_output(0).numpy(), np.maximum(np.tanh(values), 0), atol=1e-6)
    np.testing.assert_array_equal(second.get_input("x0").numpy(), values)
