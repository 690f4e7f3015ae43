"""Layouts of device tensors, formats, refused dtypes, reshapes that move bytes, and the checker's rules about
them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graph_runtime.base.errors import CheckError, PlanError
from graph_runtime.base.machine.devices import parse_list, tt
from graph_runtime.base.machine.layout import Layout, pages, same_image
from graph_runtime.base.machine.shards import Shard
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.graph import COPY, NOP, TensorType
from graph_runtime.plan import check, plan
from graph_runtime.plan.record import record
from graph_runtime.plan.supports import choose
from graph_runtime.testing.graphs import GraphMaker


def f(*shape):
    return TensorType("float32", shape)


@pytest.mark.parametrize(
    ("type_", "layout", "cause"),
    [
        (f(64, 64), "dram/tile/f32", "tiled"),
        (f(1, 32), "dram/tile/f32", "tiled"),
        (f(1, 31), "dram/row_major/f32", "less than 1/32 full"),
        (f(32, 16, 3, 3), "dram/row_major/f32", "less than 1/32 full"),
        (f(64), "dram/row_major/f32", "fewer than two dimensions"),
        (f(), "dram/row_major/f32", "fewer than two dimensions"),
        (f(0, 64), "dram/row_major/f32", "less than 1/32 full"),
        (TensorType("bfloat16", (64, 64)), "dram/tile/bf16", "tiled"),
        (TensorType("int32", (64, 64)), "dram/row_major/int32", "integers and bools"),
        (TensorType("bool", (64, 64)), "dram/row_major/bool", "integers and bools"),
    ],
)
def test_the_default_layout_and_its_reason(type_, layout, cause):
    chosen, why = choose(type_, tt().descriptor, None)
    assert str(chosen) == layout
    assert cause in why


def test_a_format_is_chosen_by_device_then_by_kind():
    maker = GraphMaker()
    for device in (0, 1, 2):
        maker.input(f(64, 64), device)
        maker.input(f(8), device)
    graph = maker.graph([0], devices=parse_list(["cpu:0", "tt:0", "tt:1"]))
    planned = plan(graph, ["cpu:0", "tt:0", "tt:1"], formats={"tt": "bf16", "tt:1": "bfp8_b"})
    assert [planned.layout(e).format for e in range(6)] == ["f32", "f32", "bf16", "bf16", "bfp8_b", "bf16"]
    for formats, says in (
        ({"tt": "bf61"}, "did you mean 'bf16'"),
        ({"tt:7": "bf16"}, "no such device"),
        ({"tt": "int32"}, "no float format"),
        ({"cpu": "bf16"}, "their own dtype"),
    ):
        with pytest.raises(PlanError, match=says):
            plan(graph, ["cpu:0", "tt:0", "tt:1"], formats=formats)


@pytest.mark.parametrize(
    ("dtype", "alias"),
    [
        ("int64", "int32"),
        ("float64", "float32"),
        ("uint64", "uint32"),
        ("float16", "float32 or bfloat16"),
        ("int4", "keep it on cpu"),
    ],
)
def test_what_tt_cannot_hold_names_node_and_alias(dtype, alias):
    maker = GraphMaker()
    maker.input(f(2))
    maker.call("f", [0], [TensorType(dtype, (4,))])
    with pytest.raises(PlanError, match=alias) as caught:
        plan(maker.graph([1]), ["tt:0"])
    assert (caught.value.node, caught.value.path, caught.value.device) == ("n1", "$.nodes[1]", "tt:0")


def test_a_reshape_with_one_image_stays_and_another_becomes_a_copy():
    maker = GraphMaker()
    x = maker.op("tanh", [maker.input(f(64, 64))])
    maker.op("reshape", [x], shape=[1, 64, 64])
    moved = maker.op("reshape", [x], shape=[32, 128])
    planned = plan(maker.graph([moved]), ["tt:0"])
    assert [planned.graph.node(n).op for n in (2, 3)] == ["reshape", COPY]
    assert planned.sid[1] == planned.sid[2] != planned.sid[3]
    assert (
        "float32[64, 64] in dram/tile/f32 is no image of float32[32, 128]"
        in planned.causes[planned.cause_id[3]]
    )
    again = plan(record(planned), ["tt:0"])
    assert again.sid.tolist() == planned.sid.tolist()


def test_a_reshape_that_shared_storage_in_the_file_gets_its_own_where_it_moves_bytes():
    maker = GraphMaker()
    moved = maker.op("reshape", [maker.op("tanh", [maker.input(f(64, 64))])], shape=[32, 128])
    planned = plan(maker.graph([moved], storage_id=np.array([0, 1, 1])), ["tt:0"])
    assert planned.sid[1] != planned.sid[2]
    assert plan(maker.graph([moved], storage_id=np.array([0, 1, 1])), ["cpu:0"]).sid.tolist() == [0, 1, 1]
    with pytest.raises(CheckError, match="nothing writes the output") as caught:
        plan(maker.graph([moved], storage_id=np.array([0, 1, 2])), ["cpu:0"])
    assert caught.value.rule == "nop"


def test_a_reshaped_input_is_moved_when_it_is_set():
    maker = GraphMaker()
    maker.op("reshape", [maker.input(f(64, 64))], shape=[32, 128])
    assert plan(maker.graph([1]), ["tt:0"]).at_input.tolist() == [False, True]


def test_a_copied_input_is_reshaped_when_it_is_set():
    """Copies of copies of an input run with the first of them, also where the plan is read from a file."""
    maker = GraphMaker()
    x = maker.input(f(64, 64))
    moved = maker.op("reshape", [x], device=1, shape=[32, 128])
    again = maker.op("reshape", [moved], device=1, shape=[16, 256])
    tanh = maker.op("tanh", [again], device=1)
    devices = parse_list(["cpu:0", "tt:0"])
    planned = plan(maker.graph([tanh], devices=devices), devices)
    assert planned.graph.names[1] == "x0_copy_tt0"
    assert planned.at_input.tolist() == [False, True, True, True, False]
    for graph in (record(planned), load_graph(graph_to_json(record(planned)))):
        assert plan(graph, devices).at_input.tolist() == planned.at_input.tolist()
    late = np.array([False, False, True, True, False])
    with pytest.raises(CheckError, match="copies no graph input") as caught:
        check(replace(planned, at_input=late))
    assert caught.value.rule == "at_input"


def test_layouts_of_the_file_are_followed_and_wrong_ones_refused():
    maker = GraphMaker()
    graph = maker.graph([maker.op("tanh", [maker.input(f(64, 64))])])

    def said(first, last):
        return replace(graph, hints=replace(graph.hints, layouts=(first, last), layout=np.array([0, 1])))

    planned = plan(said(Layout("l1", "tile", "bf16"), Layout("dram", "row_major", "f32")), ["tt:0"])
    assert [str(planned.layout(e)) for e in (0, 1)] == ["l1/tile/bf16", "dram/row_major/f32"]
    assert planned.layout_causes[planned.layout_id[0]] == "as the file says"
    assert sorted(planned.peak) == [(0, 0), (0, 1)]
    cores = ((0, 0), (0, 1))
    for layout, devices, says in (
        (Layout("dram", "tile", "int32"), ["tt:0"], "cannot be stored as int32"),
        (Layout("dram", "tile", "f64"), ["tt:0"], "no format f64"),
        (Layout("host", "row_major", "f32"), ["tt:0"], "no memory 'host'"),
        (Layout("host", "row_major", "bf16"), ["cpu:0"], "host memory stores it as f32"),
        (Layout("host", "tile", "f32"), ["cpu:0"], "no layout tile"),
        (Layout("dram", "tile", "f32", Shard("height", cores, (32, 64))), ["tt:0"], "lie in l1"),
        (Layout("l1", "tile", "f32", Shard("height", cores, (32, 32))), ["tt:0"], "all 64 columns"),
        (Layout("dram", "row_major", "bfp8_b"), ["tt:0"], "tile layout only"),
    ):
        with pytest.raises(PlanError, match=says) as caught:
            plan(said(layout, layout), devices)
        assert (caught.value.node, caught.value.path) == ("x0", "$.nodes[0]")


def test_copies_convert_layouts_but_not_dtypes_on_a_device():
    def copied(a, b, devices, where=(0, 0)):
        maker = GraphMaker()
        maker.call(COPY, [maker.input(a, where[0])], [b], where[1])
        return plan(maker.graph([1], devices=parse_list(devices)), devices)

    copied(f(4), TensorType("int32", (2, 2)), ["cpu:0"])
    copied(f(64, 64), f(64, 64), ["cpu:0", "tt:0"], (0, 1))
    for where in ((0, 1), (1, 0), (1, 1)):
        with pytest.raises(PlanError, match="read as another dtype, not on tt:0; use a cast") as caught:
            copied(f(4), TensorType("int32", (2, 2)), ["cpu:0", "tt:0"], where)
        assert (caught.value.device, caught.value.path) == ("tt:0", "$.nodes[1]")
    planned = copied(f(4), f(4), ["cpu:0", "tt:0"], (0, 1))
    graph = replace(planned.graph, types=(f(4), TensorType("int32", (4,))), type_id=np.array([0, 1]))
    layouts = (planned.layouts[planned.layout_id[0]], Layout("dram", "row_major", "int32"))
    with pytest.raises(CheckError, match="use a cast") as caught:
        check(replace(planned, graph=graph, layouts=layouts, layout_id=np.array([0, 1], np.int32)))
    assert caught.value.rule == "copy"
    for a, b, devices, where, says in (
        (f(4), TensorType("int8", (4,)), ["cpu:0"], (0, 0), "16 bytes cannot be reinterpreted as 4"),
        (f(4), f(5), ["cpu:0"], (0, 0), "4 elements do not fill 5"),
    ):
        with pytest.raises(CheckError, match=says) as caught:
            copied(a, b, devices, where)
        assert caught.value.rule == "copy"


def test_the_checker_reads_columns_before_it_indexes_by_them():
    maker = GraphMaker()
    planned = plan(maker.graph([maker.op("tanh", [maker.input(f(8))])]), ["cpu:0"])
    for column, bad in (
        ("did", [0, 1]),
        ("did", [0]),
        ("sid", [0, -1]),
        ("sid", [0, 2]),
        ("layout_id", [0, 9]),
        ("cause_id", [0, 99]),
        ("origin", [0, -2]),
        ("at_input", [False]),
    ):
        with pytest.raises(CheckError, match=column) as caught:
            check(replace(planned, **{column: np.array(bad)}))
        assert caught.value.rule == "columns"
    for column in ("did", "memory", "offset", "extent", "nbytes"):
        with pytest.raises(CheckError):
            check(replace(planned, storage=replace(planned.storage, **{column: np.array([0, -1])})))
    with pytest.raises(CheckError, match="memory that its device does not have"):
        check(replace(planned, storage=replace(planned.storage, memory=np.array([0, 1]))))


def test_a_read_before_its_write_is_refused():
    maker = GraphMaker()
    y = maker.op("tanh", [maker.input(f(8))])
    planned = plan(maker.graph([maker.op("tanh", [y])]), ["cpu:0"])
    graph = replace(planned.graph, in_eid=np.array([2, 1]))
    with pytest.raises(CheckError, match="before 'n2' writes it") as caught:
        check(replace(planned, graph=graph))
    assert (caught.value.rule, caught.value.node) == ("order", "n1")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ((64, 64), (1, 64, 64), True),
        ((64, 64), (2, 32, 64), True),
        ((2, 33, 64), (66, 64), False),
        ((64, 64), (32, 128), False),
        ((1, 20, 64), (20, 64), True),
        ((2, 20, 64), (40, 64), False),
    ],
)
def test_physical_images_of_reshapes_in_tiles(a, b, same):
    tile = Layout("dram", "tile", "f32")
    assert same_image(tile, a, tile, b) is same
    assert not same or pages(tile, a) == pages(tile, b)
    row = Layout("dram", "row_major", "f32")
    assert same_image(row, a, row, b) is (a[-1] == b[-1])


def test_a_nop_without_gr_op_is_a_reshape_too():
    maker = GraphMaker()
    maker.call(NOP, [maker.input(f(4))], [f(2, 2)])
    assert plan(maker.graph([1]), ["cpu:0"]).sid.tolist() == [0, 0]
