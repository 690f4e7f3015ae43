"""Documents and nodes read without the schema: what that reader takes, the schema takes, and both give the
same graph."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import DocumentError
from graph_runtime.ir.documents.columns import (
    _BLOCK,
    NULL,
    id_rows,
    is_plain,
    node_columns,
    plain_columns,
    read_checked,
)
from graph_runtime.ir.documents.document import check_schema

ATTRS = {"func_name": "f", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}


def null(name="x", **more):
    return {"op": "null", "name": name, "inputs": [], **more}


def call(nid, **more):
    return {"op": "tvm_op", "name": f"n{nid}", "attrs": dict(ATTRS), "inputs": [[nid - 1, 0, 0]], **more}


def document(nodes):
    return {
        "nodes": nodes,
        "arg_nodes": [0],
        "heads": [[0, 0, 0]],
        "node_row_ptr": [0],
        "attrs": {"dltype": ["list_str", []], "shape": ["list_shape", []]},
    }


def accepted(nodes) -> bool:
    """What the schema says."""
    try:
        check_schema(document(nodes), "graph", "graph.json")
    except DocumentError:
        return False
    return True


def same(a, b) -> bool:
    return (
        a.names == b.names
        and a.runs == b.runs
        and a.control_deps == b.control_deps
        and np.array_equal(a.in_count, b.in_count)
        and np.array_equal(a.reads, b.reads)
    )


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.text(max_size=3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**64 - 1, 0.0, 1.0, 1e300])
    | st.sampled_from(["null", "tvm_op"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ATTRS, "op", "name", "inputs", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(["op", "name", "inputs", "attrs", "attr", "control_deps", "func_name", "zzz"])


def places(value, path=()):
    """Every place in a JSON value but its root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_edit_passes_that_the_schema_refuses(data):
    nodes = [null(), call(1), call(2), call(3, inputs=[[0, 0, 0], [2, 0, 0]]), call(4)]
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(nodes)) or [()]))
        at = nodes
        for key in path[:-1]:
            at = at[key]
        kind = data.draw(st.sampled_from(["set", "delete", "add"]))
        if kind == "add" and isinstance(at, dict):
            at[data.draw(KEYS)] = data.draw(VALUES)
        elif kind == "add":
            at.append(data.draw(VALUES))
        elif kind == "delete" and len(nodes) > 1:
            del at[path[-1]]
        else:
            at[path[-1]] = data.draw(VALUES)
    read = plain_columns(nodes)
    if read is not None:
        assert accepted(nodes)
        assert same(read, node_columns(nodes))
    text = json.dumps(document(nodes)).encode()
    if accepted(nodes):
        assert read_checked(text)[0]["nodes"] == nodes
    else:
        with pytest.raises(DocumentError) as quick:
            read_checked(text)
        with pytest.raises(DocumentError) as schema:
            check_schema(document(nodes), "graph", "graph.json")
        assert (str(quick.value), quick.value.path) == (str(schema.value), schema.value.path)


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [null()],
        [null(), call(1)],
        [call(1), null(), call(1), null("")],
        [null(), call(1, inputs=[])],
        [null(), call(1, inputs=[[0, 0], [0, 0]])],
        [null(str(i)) if i % 3 == 0 else call(i) for i in range(2 * _BLOCK + 1)],
    ],
)
def test_what_tvm_writes_needs_no_schema(nodes):
    read = plain_columns(nodes)
    assert read is not None
    assert accepted(nodes)
    assert same(read, node_columns(nodes))


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": [[0, 0, True]]},
        {"inputs": [[0, False, 0]]},
        {"inputs": [[0, 0, 1.0]]},
        {"inputs": [[-1, 0, 0]]},
        {"inputs": [[2**31, 0, 0]]},
        {"inputs": [[0, 0, 2**31]]},
        {"inputs": [[0, 0, -1]]},
        {"inputs": [[0, [0], 0]]},
        {"inputs": [[2**64 - 1, 0, 0]]},
        {"inputs": [[0, 0, 0], [0, 0]]},
        {"inputs": [[]]},
        {"inputs": [[[0, 0, 0]]]},
        {"inputs": [["0", 0, 0]]},
        {"inputs": [[0]]},
        {"inputs": [[0, 0, 0, 0]]},
        {"inputs": [0, 0]},
        {"inputs": ["ab"]},
        {"inputs": {}},
        {"inputs": ""},
        {"inputs": [{"a": 0, "b": 0}]},
        {"inputs": None},
        {"name": None},
        {"name": 1},
        {"op": []},
        {"op": "call"},
        {"op": "null"},
        {"attrs": None},
        {"attrs": []},
        {"attrs": ""},
        {"attrs": {**ATTRS, "a": 1}},
        {"attrs": {**ATTRS, "num_inputs": 1}},
        {"attrs": {**ATTRS, "a": {}}},
        {"zzz": 1},
    ],
)
@pytest.mark.parametrize("at", [1, _BLOCK, _BLOCK + 2])
def test_what_tvm_does_not_write_is_shown_to_the_schema(change, at):
    nodes = [null(), *(call(i) for i in range(1, _BLOCK + 3))]
    nodes[at] = {**nodes[at], **change}
    assert plain_columns(nodes) is None


def test_every_key_that_the_schema_allows_is_read_the_same_in_any_block():
    nodes = [null(), *(call(i) for i in range(1, _BLOCK + 3))]
    nodes[_BLOCK + 1] |= {"control_deps": [0], "attr": {"more": "1"}}
    nodes[2] = null("y", attrs={"a": "b"})
    read = node_columns(nodes)
    assert plain_columns(nodes) is None
    assert accepted(nodes)
    assert read.control_deps == {_BLOCK + 1: [0]}
    assert [nid for nid, _ in read.runs] == [0, 1, 2, 3, _BLOCK + 1, _BLOCK + 2]
    assert read.runs[2][1] is NULL
    assert read.runs[4][1] == ATTRS | {"more": "1"}


def test_a_text_is_never_taken_for_the_equal_text_of_another_node():
    nodes = [null(), call(1), call(2)]
    for value in (1, 0, True, None, ["0"]):
        changed = copy.deepcopy(nodes)
        changed[2]["attrs"]["flatten_data"] = value
        assert plain_columns(changed) is None


def plain_document():
    return {
        "nodes": [null(), call(1)],
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
        "node_row_ptr": [0, 1, 2],
        "attrs": {
            "dltype": ["list_str", ["float32", "float32"]],
            "shape": ["list_shape", [[2, 3], []]],
            "storage_id": ["list_int", [0, 1]],
            "device_index": ["list_int", [1, -1]],
        },
    }


def passes(whole) -> bool:
    try:
        check_schema(whole, "graph", "graph.json")
    except DocumentError:
        return False
    return True


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_no_edit_of_a_document_passes_that_the_schema_refuses(data):
    whole = plain_document()
    for _ in range(data.draw(st.integers(1, 2))):
        there = [path for path in places(whole) if path[0] != "nodes" or len(path) == 1]
        path = data.draw(st.sampled_from(there))
        at = whole
        for key in path[:-1]:
            at = at[key]
        kind = data.draw(st.sampled_from(["set", "delete", "add"]))
        if kind == "add" and isinstance(at, dict):
            columns = ["device_id", "storage_scope", "op_attrs", "metadata"]
            value = VALUES | st.sampled_from([["list_int", [0, 1]], ["list_str", ["", ""]], ["size_t", 1]])
            at[data.draw(st.sampled_from(columns))] = data.draw(value)
        elif kind == "add":
            at.append(data.draw(VALUES))
        elif kind == "delete":
            del at[path[-1]]
        else:
            at[path[-1]] = data.draw(VALUES)
    if is_plain(whole):
        assert passes({**whole, "nodes": []})


@pytest.mark.parametrize(
    ("change", "sure"),
    [
        ({}, True),
        ({"heads": []}, True),
        ({"heads": [[1, 0]]}, True),
        ({"arg_nodes": [], "node_row_ptr": [0]}, True),
        ({"node_row_ptr": [2**31 - 1]}, True),
        ({"node_row_ptr": []}, False),
        ({"node_row_ptr": [2**31]}, False),
        ({"node_row_ptr": [-1]}, False),
        ({"node_row_ptr": [True]}, False),
        ({"node_row_ptr": [0.0]}, False),
        ({"node_row_ptr": {}}, False),
        ({"arg_nodes": "0"}, False),
        ({"heads": [[1]]}, False),
        ({"heads": ["ab"]}, False),
        ({"heads": {}}, False),
        ({"attrs": []}, False),
        ({"metadata": {}}, False),
        ({"zzz": 1}, False),
    ],
)
def test_what_is_sure_of_a_document(change, sure):
    whole = {**plain_document(), **change}
    assert is_plain(whole) == sure
    assert not sure or passes(whole)


@pytest.mark.parametrize(
    ("name", "column", "sure"),
    [
        ("shape", ["list_shape", [[0, 2**62], [1] * 32]], True),
        ("shape", ["list_shape", [[], [1] * 33]], False),
        ("shape", ["list_shape", [[], [2**62 + 1]]], False),
        ("shape", ["list_shape", [[], [-1]]], False),
        ("shape", ["list_shape", [[], [False]]], False),
        ("shape", ["list_shape", [[], [[1]]]], False),
        ("shape", ["list_shape", [[], None]], False),
        ("shape", ["list_int", [[], []]], False),
        ("dltype", ["list_str", ["float32", 1]], False),
        ("dltype", ["list_str", ["float32", "float32"], 0], False),
        ("dltype", ["list_str"], False),
        ("dltype", {"0": "list_str", "1": []}, False),
        ("device_id", ["list_int", [-(2**31), 2**31 - 1]], True),
        ("device_id", ["list_int", [-(2**31) - 1]], False),
        ("device_id", ["list_int", [2**31]], False),
        ("device_id", ["list_int", [1.0]], False),
        ("device_id", ["list_int", [True]], False),
        ("storage_scope", ["list_str", ["", ""]], False),
        ("op_attrs", ["list_int", []], False),
    ],
)
def test_what_is_sure_of_a_column(name, column, sure):
    whole = plain_document()
    whole["attrs"][name] = column
    assert is_plain(whole) == sure
    assert not sure or passes(whole)
    del whole["attrs"]["dltype"]
    assert not is_plain(whole)


def test_a_large_document_is_shown_to_the_schema():
    assert not is_plain({**plain_document(), "node_row_ptr": list(range(100_000))})


IDS = st.integers(-1, 2) | st.sampled_from([9, 10, 2**31 - 1, 2**31])


@given(st.lists(st.lists(IDS, min_size=1, max_size=4), max_size=4))
def test_id_rows_are_the_numbers(rows):
    read = id_rows(rows)
    if read is None:
        fits = all(len(row) == len(rows[0]) and min(row) >= 0 and max(row) < 2**31 for row in rows)
        assert not fits or len(rows[0]) not in (2, 3)
    else:
        assert read.tolist() == rows
