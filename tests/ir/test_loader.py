"""graph.json -> Graph: TVM's own files, and every check that TVM leaves out."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.errors import DocumentError, GraphError, UnsupportedOpError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.base.progress import gc_paused
from graph_runtime.frontends import is_onnx
from graph_runtime.frontends.stablehlo import load_model as load_stablehlo
from graph_runtime.ir.documents.loader import load_graph

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tvm"
F32 = "float32"


def call(name, func, inputs, outputs=1, **attrs):
    """A tvm_op node; inputs are [nid, index] or nids."""
    fixed = {
        "func_name": func,
        "num_inputs": str(len(inputs)),
        "num_outputs": str(outputs),
        "flatten_data": "0",
    }
    inputs = [[i, 0, 0] if isinstance(i, int) else i for i in inputs]
    return {"op": "tvm_op", "name": name, "attrs": fixed | attrs, "inputs": inputs}


def null(name):
    return {"op": "null", "name": name, "inputs": []}


def document(nodes, heads=None, shapes=None, dtypes=None, args=None, **columns):
    """A document; shapes and dtypes are one an entry, (4,) and float32 unless given."""
    outputs = [1 if n["op"] == "null" else int(n["attrs"]["num_outputs"]) for n in nodes]
    count = sum(outputs)
    attrs = {
        "dltype": ["list_str", dtypes or [F32] * count],
        "shape": ["list_shape", shapes or [[4] for _ in range(count)]],
    }
    attrs |= {name: ["list_int", values] for name, values in columns.items()}
    return {
        "nodes": nodes,
        "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"] if args is None else args,
        "heads": heads or [[len(nodes) - 1, 0, 0]],
        "attrs": attrs,
        "node_row_ptr": np.cumsum([0, *outputs]).tolist(),
    }


def chain(**columns):
    """x -> relu -> relu, each a storage id and a device of its own."""
    nodes = [
        null("x"),
        call("a", "relu_4", [0], **{"gr.op": "relu"}),
        call("b", "relu_4", [1], **{"gr.op": "relu"}),
    ]
    return document(nodes, **{"storage_id": [0, 1, 2], "device_index": [1, 1, 1], **columns})


def load(doc, **options):
    return load_graph(json.dumps(doc).encode(), **options)


def refused(doc, path, *says, error=GraphError, **options):
    with pytest.raises(error) as caught:
        load(doc, **options)
    assert caught.value.path == path
    for text in says:
        assert text in str(caught.value)
    return caught.value


# ---------------------------------------------------------------- TVM's own


@pytest.mark.parametrize("folder", ["hetero_cpu_cpu", "int8_dense", "mlp", "multi_output"])
def test_graphs_that_tvm_wrote_load(folder):
    graph = load_graph(GOLDEN / folder / "graph.json", strict=True)
    raw = json.loads((GOLDEN / folder / "graph.json").read_text())
    assert graph.names == tuple(n["name"] for n in raw["nodes"])
    assert graph.row_ptr.tolist() == raw["node_row_ptr"]
    assert graph.hints.storage_id.tolist() == raw["attrs"]["storage_id"][1]
    assert [list(graph.entry_type(e).shape) for e in range(graph.num_entries)] == raw["attrs"]["shape"][1]
    io = np.load(GOLDEN / folder / "io.npz")
    for i, eid in enumerate(graph.outputs):
        found, wanted = graph.entry_type(int(eid)), io[f"output{i}"]
        assert found.shape == wanted.shape
        assert found.dtype == str(wanted.dtype)


def test_entries_and_columns_are_indexed_by_entry():
    graph = load_graph(GOLDEN / "multi_output" / "graph.json")
    assert graph.node(2).inputs == (1, 2, 3, 4)
    assert graph.outputs.tolist() == [5, 3, 7, 8, 9, 6]
    assert str(graph.entry_type(9)) == "bool[4, 8]"  # uint1 in the file


# ---------------------------------------------------------------- what is accepted


def test_entries_have_two_or_three_numbers():
    doc = chain()
    doc["nodes"][1]["inputs"] = [[0, 0]]
    doc["heads"] = [[2, 0], [1, 0, 7]]
    assert load(doc).outputs.tolist() == [2, 1]


def test_attr_and_attrs_are_one():
    doc = chain()
    doc["nodes"][1]["attr"] = doc["nodes"][1].pop("attrs")
    doc["nodes"][2]["attr"] = {"flatten_data": "1"}  # both: the later one wins
    graph = load(doc)
    assert [graph.node(n).func.flatten for n in (1, 2)] == [False, True]


def test_a_node_may_read_a_null_node_behind_it():
    nodes = [call("a", "f", [1]), null("x")]
    assert load(document(nodes, heads=[[0, 0, 0]])).node(0).inputs == (1,)


def test_names_need_not_be_unique():  # trap 23
    doc = chain()
    for node in doc["nodes"]:
        node["name"] = "same"
    assert load(doc).names == ("same",) * 3


def test_a_gap_in_storage_ids_is_legal():  # trap 1
    assert load(chain(storage_id=[0, 7, 2])).hints.storage_id.tolist() == [0, 7, 2]


def test_storage_and_devices_may_be_absent():
    doc = chain()
    del doc["attrs"]["storage_id"], doc["attrs"]["device_index"]
    hints = load(doc).hints
    assert hints.storage_id is hints.device_type is hints.device_id is None


def test_unknown_columns_are_kept_if_tvm_skips_them():
    doc = chain()
    doc["attrs"] |= {"dtype": ["list_int", [0, 0]], "storage_num_not_alloctaed": ["size_t", 3]}
    assert dict(load(doc).extra_columns) == {
        "dtype": ("list_int", (0, 0)),
        "storage_num_not_alloctaed": ("size_t", 3),
    }
    refused(doc, "$.attrs.dtype", "not read", strict=True)


def test_num_inputs_is_not_what_counts():
    doc = chain()
    doc["nodes"][1]["attrs"]["num_inputs"] = doc["nodes"][2]["attrs"]["num_inputs"] = "9"
    assert load(doc).node(1).func.num_inputs == 1
    refused(doc, "$.nodes[1].attrs.num_inputs", "says num_inputs 9 and has 1", strict=True)


def test_extra_attrs_are_kept_and_those_for_people_are_not_read():
    doc = chain()
    doc["nodes"][1]["attrs"] |= {
        "hash": "ab",
        "data_layout": "NCHW",
        "gr.device": "nonsense",
        "gr.storage": "9",
    }
    graph = load(doc)
    assert graph.node(1).func.raw["data_layout"] == "NCHW"
    assert not any(key in func.raw for func in graph.funcs for key in ("gr.device", "gr.storage"))


def test_control_deps_are_kept():
    doc = chain()
    doc["nodes"][2]["control_deps"] = [0, 1]
    assert dict(load(doc).control_deps) == {2: (0, 1)}
    doc["nodes"][2]["control_deps"] = [3]
    refused(doc, "$.nodes[2].control_deps[0]", "out of range")


@pytest.mark.parametrize("shape", [[], [0], [2**31, 0, 3], [1] * 32])
def test_scalars_and_empty_tensors_are_tensors(shape):
    assert load(document([null("x")], shapes=[shape])).entry_type(0).shape == tuple(shape)


def test_a_head_may_be_an_input_and_there_may_be_none():  # trap 22
    doc = chain()
    doc["heads"] = [[0, 0, 0], [0, 0, 0]]
    assert load(doc).outputs.tolist() == [0, 0]
    doc["heads"] = []
    assert len(load(doc).outputs) == 0


def test_two_devices_of_one_kind_can_be_told_apart():  # trap 6
    hints = load(chain(device_index=[1, 12, 12], device_id=[0, 0, 1])).hints
    assert hints.device_type.tolist() == [1, 12, 12]
    assert hints.device_id.tolist() == [0, 0, 1]


def test_flatten_belongs_to_the_node():  # trap 7
    doc = document(
        [null("x"), call("a", "f", [0], flatten_data="1"), call("b", "f", [0])], shapes=[[2, 2]] * 3
    )
    graph = load(doc)
    assert [graph.node(n).func.flatten for n in (1, 2)] == [True, False]
    assert {graph.entry_type(e).shape for e in range(3)} == {(2, 2)}


# ---------------------------------------------------------------- ids, order, lengths


def test_a_tvm_op_without_attrs_is_refused():  # trap 2: TVM crashes
    doc = chain()
    del doc["nodes"][1]["attrs"]
    refused(doc, "$.nodes[1]", "node 'a' is a tvm_op without attrs", "func_name")
    doc["nodes"][1]["attrs"] = {"func_name": "f", "num_inputs": "1"}
    refused(doc, "$.nodes[1].attrs", "lack num_outputs, flatten_data")


@pytest.mark.parametrize(
    ("place", "value", "path", "says"),
    [
        (("nodes", 1, "inputs", 0), [3, 0], "$.nodes[1].inputs[0]", "node 3 is out of range: there are 3"),
        (
            ("nodes", 1, "inputs", 0),
            [0, 1],
            "$.nodes[1].inputs[0]",
            "output 1 of node 'x' is out of range: it has 1",
        ),
        (("heads", 0), [9, 0], "$.heads[0]", "node 9 is out of range"),
        (("heads", 0), [2, 5, 0], "$.heads[0]", "output 5 of node 'b'"),
        (("arg_nodes",), [4], "$.arg_nodes[0]", "out of range"),
        (("arg_nodes",), [1], "$.arg_nodes[0]", "node 'a' is no null node"),
        (("arg_nodes",), [0, 0], "$.arg_nodes[1]", "node 'x' is listed twice"),
        (("arg_nodes",), [], "$.nodes[0]", "null node 'x' is read and not in arg_nodes"),
        (("node_row_ptr",), [0, 1, 2], "$.node_row_ptr", "3 elements for 3 nodes"),
        (("node_row_ptr",), [1, 2, 3, 4], "$.node_row_ptr[0]", "must begin with 0"),
        (("node_row_ptr",), [0, 1, 3, 3], "$.node_row_ptr[2]", "gives node 'a' 2 entries, it has 1 outputs"),
        (("node_row_ptr",), [0, 2, 2, 3], "$.node_row_ptr[1]", "gives node 'x' 2 entries"),
        (("attrs", "dltype", 1), [F32] * 2, "$.attrs.dltype[1]", "2 elements, the graph has 3 entries"),
        (("attrs", "shape", 1), [[4]] * 4, "$.attrs.shape[1]", "4 elements"),
        (("attrs", "storage_id", 1), [0, 1], "$.attrs.storage_id[1]", "2 elements"),
        (("attrs", "device_index", 1), [1], "$.attrs.device_index[1]", "1 elements"),
        (("nodes", 0, "inputs"), [[1, 0]], "$.nodes[0].inputs", "a null node"),
    ],
)
def test_ids_and_lengths_are_checked(place, value, path, says):
    doc = chain()
    holder = doc
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    refused(doc, path, says)


def test_of_wrong_nodes_the_first_is_blamed():
    """A wrong shape of an op's output is not the fault of the copy that reads it, nor the other way round."""
    nodes = [
        null("x"),
        call("add", "add_f", [[0, 0, 0], [0, 0, 0]], **{"gr.op": "add"}),
        call("add_copy", "__copy", [[1, 0, 0]]),
        call("relu", "relu_f", [[2, 0, 0]], **{"gr.op": "relu"}),
    ]
    shapes = [[4, 8]] * 4
    for wrong, blamed in ((1, "add"), (2, "add_copy"), (3, "relu")):
        doc = document(
            nodes, shapes=[*shapes[:wrong], [4, 9], *shapes[wrong + 1 :]], args=[0], heads=[[3, 0, 0]]
        )
        refused(doc, f"$.nodes[{wrong}]", f"node '{blamed}'")


@pytest.mark.parametrize("change", [{"heads": [[9, 0, 0]]}, {"heads": None}, {"attrs": {}}])
def test_errors_name_the_file(tmp_path, change):
    path = tmp_path / "net.of.mine.json"
    path.write_text(json.dumps({**chain(), **change}))
    with pytest.raises((DocumentError, GraphError), match=r"net\.of\.mine\.json: .* at `\$") as caught:
        load_graph(path)
    assert caught.value.path.startswith("$")


def test_a_producer_stands_before_its_consumers():
    doc = document([null("x"), call("a", "f", [2]), call("b", "f", [0])])
    refused(doc, "$.nodes[1].inputs[0]", "node 'a' reads node 'b', which runs after it")


@pytest.mark.parametrize("length", [1, 2, 5, 3000])
def test_a_cycle_is_named(length):
    nodes = [null("x"), *(call(f"n{i}", "f", [(i - 1) % length + 1, 0]) for i in range(length))]
    error = refused(document(nodes), "$.nodes[1].inputs[0]", "cycle: 'n")
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (("nodes", 1, "inputs", 0, 1), "$.nodes[1].inputs[0][1]"),
        (("heads", 0, 0), "$.heads[0][0]"),
        (("arg_nodes", 0), "$.arg_nodes[0]"),
        (("node_row_ptr", 2), "$.node_row_ptr[2]"),
        (("attrs", "shape", 1, 2, 0), "$.attrs.shape[1][2][0]"),
        (("attrs", "storage_id", 1, 1), "$.attrs.storage_id[1][1]"),
        (("attrs", "device_index", 1, 0), "$.attrs.device_index[1][0]"),
    ],
)
def test_integers_have_no_fraction(place, path):
    doc = chain()
    holder = doc
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = float(holder[place[-1]])
    refused(doc, path, "without a fraction", error=DocumentError)


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("dtype", "says"),
    [
        ("foo", "unknown type 'foo'"),
        ("", "0 bits"),
        ("int3", "3 bits"),
        ("float33", "33 bits"),
        ("float32x70000", "lanes"),
    ],
)
def test_dtypes_that_no_pool_can_hold_are_refused(dtype, says):
    refused(document([null("x")], dtypes=[dtype]), "$.attrs.dltype[1][0]", says)


@pytest.mark.parametrize("dtype", ["int4", "bool", "uint1", "float32x4", "bfloat16", "float", "handle"])
def test_dtypes_that_tvm_writes_are_read(dtype):
    load(document([null("x")], dtypes=[dtype]))


@pytest.mark.parametrize("shape", [[2**62], [2**31, 2**31], [2**61, 0, 2**61], [2**60]])
def test_sizes_that_overflow_are_refused(shape):
    refused(document([null("x")], shapes=[shape]), "$.attrs.shape[1][0]", "2**62")


def test_a_negative_dimension_is_refused():
    refused(document([null("x")], shapes=[[-1]]), "$.attrs.shape[1][0][0]", "at least 0", error=DocumentError)


# ---------------------------------------------------------------- functions


@pytest.mark.parametrize("value", ["", "-1", " 1", "1 ", "1x", "0x1", "1.0", "\uff11", "9" * 40])
@pytest.mark.parametrize("key", ["num_inputs", "num_outputs", "flatten_data"])
def test_numbers_in_strings_are_digits_to_the_end(key, value):
    doc = document([null("x"), call("a", "f", [0])])
    doc["nodes"][1]["attrs"][key] = value
    refused(doc, f"$.nodes[1].attrs.{key}", "digits")


@pytest.mark.parametrize("name", ["", "1f", "a-b", "a b", "f\n", "é", "system(1)"])
def test_a_func_name_is_a_c_identifier(name):
    refused(document([null("x"), call("a", name, [0])]), "$.nodes[1].attrs.func_name", "C identifier")


@pytest.mark.parametrize(
    ("attrs", "path", "says", "error"),
    [
        ({"gr.op": "rleu"}, '$.nodes[1].attrs["gr.op"]', "did you mean 'relu'?", UnsupportedOpError),
        (
            {"gr.op": "softmax", "gr.axes": "0"},
            '$.nodes[1].attrs["gr.axes"]',
            "did you mean 'axis'?",
            GraphError,
        ),
        ({"gr.op": "softmax", "gr.axis": '"x"'}, '$.nodes[1].attrs["gr.axis"]', "must be int", GraphError),
        ({"gr.op": "softmax", "gr.axis": "1.0"}, '$.nodes[1].attrs["gr.axis"]', "must be int", GraphError),
        ({"gr.op": "softmax", "gr.axis": "[1"}, '$.nodes[1].attrs["gr.axis"]', "JSON text", GraphError),
        ({"gr.axis": "1"}, '$.nodes[1].attrs["gr.axis"]', "without gr.op", GraphError),
        ({"gr.op": "softmax", "gr.axis": "5"}, "$.nodes[1]", "out of range", GraphError),
        ({"gr.op": "add"}, "$.nodes[1].inputs", "takes 2 inputs, got 1", GraphError),
        (
            {"gr.op": "reshape", "gr.shape": "[4]"},
            '$.nodes[1].attrs["gr.op"]',
            "func_name must be __nop",
            GraphError,
        ),
        ({"gr.op": "relu", "func_name": "__copy"}, '$.nodes[1].attrs["gr.op"]', "of its own", GraphError),
    ],
)
def test_gr_attributes_are_those_of_the_op(attrs, path, says, error):
    found = refused(document([null("x"), call("a", "f", [0], **attrs)]), path, says, error=error)
    assert found.node == "a"


def test_defaults_are_filled_in():
    graph = load(document([null("x"), call("a", "f", [0], **{"gr.op": "softmax"})]))
    assert graph.node(1).func.attrs == {"axis": -1}


def test_columns_are_what_the_rule_gives():
    doc = document([null("x"), call("a", "f", [0], **{"gr.op": "sum", "gr.axes": "[0]", "gr.keepdims": "0"})])
    refused(doc, "$.nodes[1]", "node 'a': op sum gives float32[] for inputs float32[4]", "say float32[4]")


def test_nodes_that_share_a_function_agree():
    nodes = [null("x"), null("y"), call("a", "f", [0]), call("b", "f", [1])]
    refused(
        document(nodes, shapes=[[4], [5], [4], [5]]),
        "$.nodes[3]",
        "share func_name 'f'",
        "node 'a' is",
        "float32[5]",
    )
    refused(document([*nodes[:3], call("b", "f", [0, 1])]), "$.nodes[3]", "must agree in types")
    nodes = [
        null("x"),
        *(call(n, "f", [0], **{"gr.op": "softmax", "gr.axis": a}) for n, a in (("a", "0"), ("b", "1"))),
    ]
    refused(document(nodes, shapes=[[4, 4]] * 3), "$.nodes[2]", "gr.* attributes", "axis=1", "axis=0")
    nodes[2] = call("b", "f", [0])
    refused(document(nodes, shapes=[[4, 4]] * 3), "$.nodes[2]", "gr.* attributes")


def test_copies_and_nops_keep_the_bytes():
    for func in ("__copy", "__nop"):
        refused(
            document([null("x"), call("a", func, [0])], shapes=[[4], [5]]), "$.nodes[1]", "differ in size"
        )
        refused(document([null("x"), call("a", func, [0, 0])]), "$.nodes[1]", "takes one input")
        load(document([null("x"), call("a", func, [0]), call("b", func, [0])], shapes=[[4], [2, 2], [1, 4]]))


def test_a_nop_with_an_op_obeys_its_rule():
    nodes = [null("x"), call("a", "__nop", [0], **{"gr.op": "reshape", "gr.shape": "[2,-1]"})]
    load(document(nodes, shapes=[[4], [2, 2]]))
    refused(document(nodes, shapes=[[4], [4, 1]]), "$.nodes[1]", "op reshape gives float32[2, 2]")


# ---------------------------------------------------------------- devices and storage


def test_one_storage_id_is_on_one_device():  # R3: TVM's sentence is kept
    error = refused(
        chain(storage_id=[0, 1, 1], device_index=[1, 1, 12]),
        "$.attrs.storage_id[1][2]",
        "The same pool entry cannot be assigned to multiple devices",
        "cpu:0 (node 'a', entry 1)",
        "tt:0",
    )
    assert error.node == "b"
    refused(
        chain(storage_id=[0, 1, 1], device_index=[1, 12, 12], device_id=[0, 0, 1]),
        "$.attrs.storage_id[1][2]",
        "tt:1",
    )


def test_storage_ids_are_sane_before_anything_is_indexed():  # R4
    refused(chain(storage_id=[0, -1, 2]), "$.attrs.storage_id[1][1]", "leave the whole column out")
    refused(chain(storage_id=[0, 2**31 - 1, 2]), "$.attrs.storage_id[1][1]", "cannot need more than")


def test_devices_are_a_column_of_attrs():  # R5
    doc = chain()
    doc["nodes"][1]["device_index"] = 1
    refused(doc, "$.nodes[1].device_index", "unknown key", error=DocumentError)


def test_r6_copies_are_recognised_by_their_function():  # they have no op type of their own
    doc = chain()
    doc["nodes"][1]["op"] = "copy"
    refused(doc, "$.nodes[1].op", 'must be "tvm_op" or "null"', error=DocumentError)


def test_the_numbers_of_device_types_have_no_order():  # R1, R11: cpu need not be there
    for types in ([2, 1, 12], [12, 12, 12], [4, 7, 1]):
        assert load(chain(device_index=types)).hints.device_type.tolist() == types


@pytest.mark.parametrize("number", [0, -1])
def test_test_only_devices_are_refused_in_files(number):
    refused(chain(device_index=[1, number, 1]), "$.attrs.device_index[1][1]", "DLDeviceType")


def test_a_device_id_needs_a_type():
    doc = chain(device_id=[0, 0, 0])
    refused(chain(device_id=[0, -1, 0]), "$.attrs.device_id[1][1]", "ordinal")
    del doc["attrs"]["device_index"]
    refused(doc, "$.attrs.device_id", "no device_index")


def test_outputs_of_a_node_are_on_one_device():
    doc = document([null("x"), call("a", "f", [0], outputs=2)], device_index=[1, 1, 12])
    refused(doc, "$.attrs.device_index[1][2]", "node 'a' has outputs on cpu:0 and tt:0")


@pytest.mark.parametrize("scope", ["global.texture", "global.texture-weight", "shared", "texture"])
def test_a_scope_that_is_not_ordinary_memory_is_refused(scope):
    doc = chain()
    doc["attrs"]["storage_scope"] = ["list_str", ["", "global", scope]]
    refused(doc, "$.attrs.storage_scope[1][2]", "entry 2 (an output of node 'b')", scope)
    doc["attrs"]["storage_scope"] = ["list_str", ["", "global", ""]]
    assert load(doc).hints.storage_scope == ("", "global", "")


# ---------------------------------------------------------------- metadata.graph_runtime


def planned(**changes):
    host = {"device": "cpu:0", "memory": "host", "offset": 0, "bytes": 16}
    doc = document([null("x"), call("c", "__copy", [0])], storage_id=[0, 1], device_index=[1, 12])
    doc["metadata"] = {
        "graph_runtime": {
            "version": 1,
            "storage": [host, {"device": "tt:0", "memory": "dram", "offset": 64, "bytes": 32}],
            "layouts": [
                {"memory": "host", "layout": "row_major", "format": "f32"},
                {"memory": "dram", "layout": "tile", "format": "bfp8_b", "shard": None},
            ],
            "layout": [0, 1],
            "aliases": [[0, 0]],
            "at_input": [1],
            **changes,
        }
    }
    return doc


def test_what_a_plan_decided_is_read():
    hints = load(planned()).hints
    assert [(s.device, s.memory, s.offset, s.bytes) for s in hints.storage] == [
        ("cpu:0", "host", 0, 16),
        ("tt:0", "dram", 64, 32),
    ]
    assert hints.layouts == (Layout("host", "row_major", "f32"), Layout("dram", "tile", "bfp8_b"))
    assert hints.layout.tolist() == [0, 1]
    assert (hints.aliases, hints.at_input) == (((0, 0),), (1,))


_ROW = {"device": "cpu:0", "memory": "host", "offset": 0, "bytes": 16}
_LAYOUT = {"memory": "dram", "layout": "tile", "format": "f32"}


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        ({"storage": [_ROW]}, "storage", "1 rows"),
        ({"storage": [_ROW, _ROW]}, "storage[1].device", "device_index puts entry 1 on device type 12"),
        ({"storage": [_ROW, _ROW | {"device": "null:0"}]}, "storage[1].device", "tests only"),
        ({"storage": [_ROW, _ROW | {"device": "ttt:0"}]}, "storage[1].device", "did you mean 'tt'?"),
        ({"storage": [_ROW | {"memory": "dram"}, _ROW]}, "storage[0].memory", "no memory 'dram'"),
        (
            {"layouts": [_LAYOUT | {"format": "bfp9"}], "layout": [0, 0]},
            "layouts[0].format",
            "unknown format 'bfp9'",
        ),
        ({"layouts": [_LAYOUT | {"memory": "host"}], "layout": [0, 0]}, "layouts[0].layout", "devices only"),
        (
            {"layouts": [_LAYOUT | {"layout": "row_major", "format": "bfp8_b"}], "layout": [0, 0]},
            "layouts[0].format",
            "layout tile only",
        ),
        ({"layout": [0]}, "layout", "1 elements"),
        ({"layout": [0, 2]}, "layout[1]", "there are 2 layouts"),
        ({"aliases": [[1, 0]]}, "aliases[0][0]", "output 1 is out of range"),
        ({"aliases": [[0, 1]]}, "aliases[0][1]", "input 1 is out of range"),
        ({"aliases": [[0, 0], [0, 0]]}, "aliases[1][0]", "aliased twice"),
        ({"at_input": [0]}, "at_input[0]", "no __copy of a graph input"),
        ({"at_input": [5]}, "at_input[0]", "no __copy"),
        ({"at_input": [1, 1]}, "at_input[1]", "twice"),
    ],
)
def test_what_a_plan_cannot_have_decided_is_refused(changes, path, says):
    refused(planned(**changes), f"$.metadata.graph_runtime.{path}", says)


def test_aliased_types_are_equal():
    doc = planned()
    doc["attrs"]["dltype"][1][1] = "int32"
    refused(doc, "$.metadata.graph_runtime.aliases[0]", "int32[4]", "float32[4]")


def test_storage_needs_its_column():
    doc = planned()
    del doc["attrs"]["storage_id"]
    refused(doc, "$.metadata.graph_runtime.storage", "no column storage_id")


# ---------------------------------------------------------------- any numbers


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_edit_of_a_number_gives_a_graph_or_a_typed_error(data):
    doc = copy.deepcopy(planned())
    text = json.dumps(doc)
    numbers = [m for m in re.finditer(r"(?<=[\[ ])-?\d+(?=[,\]}])", text)]
    match = data.draw(st.sampled_from(numbers))
    value = data.draw(st.integers(-3, 5) | st.sampled_from([2**31 - 1, 2**31, 2**62, 2**64, -(2**40)]))
    paths = []
    try:
        assert load_graph(text[: match.start()] + str(value) + text[match.end() :]).num_entries == 2
    except (GraphError, DocumentError) as error:
        paths.append(error.path)
    assert all(path.startswith("$") for path in paths)


def test_the_collector_is_paused_and_back_even_after_an_error():
    import gc

    was = gc.isenabled()
    with pytest.raises(DocumentError):
        load_graph(b"{")
    assert gc.isenabled() == was
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled() == was


@pytest.mark.parametrize(
    ("column", "meant"),
    [
        ("device_type", "device_index"),
        ("device_indx", "device_index"),
        ("dltypes", "dltype"),
        ("storage", "storage_id"),
    ],
)
def test_a_column_near_a_known_one_is_warned_of_and_refused_by_strict(column, meant):
    doc = chain(**{column: [1, 1, 1]})
    with pytest.warns(
        UserWarning, match=f"column '{column}' is not read by anything: did you mean '{meant}'"
    ):
        graph = load_graph(json.dumps(doc))
    with pytest.raises(GraphError, match=f"did you mean '{meant}'") as caught:
        prepare(graph, "cpu:0", strict=True)
    assert caught.value.path == f"$.attrs.{column}"
    load_graph(json.dumps(chain(mine=[1, 1, 1])))  # near to none: it may be another tool's


@pytest.mark.parametrize("source", ["text", "bytes", "path"])
def test_a_byte_order_mark_is_left_out(source, tmp_path):
    text = "\ufeff" + json.dumps(chain())
    (tmp_path / "g.json").write_text(text, encoding="utf-8")
    given = {"text": text, "bytes": text.encode(), "path": tmp_path / "g.json"}[source]
    assert load_graph(given).num_nodes == load_graph(json.dumps(chain())).num_nodes
    assert not is_onnx(given)
    mlir = (
        "\ufeffmodule { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> } }"
    )
    (tmp_path / "m.mlir").write_text(mlir, encoding="utf-8")
    given = {"text": mlir, "bytes": mlir.encode(), "path": tmp_path / "m.mlir"}[source]
    assert load_stablehlo(given).graph.output_names == ("output0",)
