"""GraphBuilder: nodes, names and types at the call, columns completed at the end."""

from __future__ import annotations

import json
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import DeviceError, GraphError, UnsupportedOpError
from graph_runtime.ir.builder import GraphBuilder, Several
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import all_ops


def attrs(b):
    return json.loads(b.to_json())["attrs"]


def test_a_graph_in_ten_lines():
    b = GraphBuilder()
    x = b.input("x", (4, 64))
    w = b.param("w", np.ones((64, 10), np.float32))
    y = b.op("matmul", x, w)
    b.output(b.op("softmax", y, axis=-1))
    graph = load_graph(b.to_json())
    assert graph.input_names == ("x", "w")
    assert graph.names == ("x", "w", "matmul", "softmax")
    assert str(graph.entry_type(int(graph.outputs[0]))) == "float32[4, 10]"
    assert b.params["w"].shape == (64, 10)
    assert set(attrs(b)) == {"dltype", "shape"}  # nothing was said of devices and storage


def test_equal_calls_share_a_function_and_names_are_stable():
    def build():
        b = GraphBuilder()
        x, y = b.input("x", (4,)), b.input("y", (5,))
        b.output(
            b.op("relu", x),
            b.op("relu", x, name="again"),
            b.op("relu", y),
            b.op("softmax", x),
            b.op("softmax", x, axis=0),
        )
        return [f.name for f in b.build().funcs], b.to_json()

    (names, text), (again, text_again) = build(), build()
    assert text == text_again
    assert names == again
    assert len(names) == len(set(names)) == 4  # relu of x, of y; two softmax
    assert all(name.isidentifier() for name in names)


def test_an_attribute_at_its_default_calls_the_same_function():
    b = GraphBuilder()
    x = b.input("x", (4,))
    b.output(b.op("softmax", x), b.op("softmax", x, axis=-1))
    assert len({f.name for f in b.build().funcs}) == 1


def test_names_are_made_unique():
    b = GraphBuilder()
    x = b.input("relu", (4,))
    for _ in range(2):
        x = b.op("relu", x)
    b.output(b.op("relu", x, name="relu_1"))
    assert b.build().names == ("relu", "relu_1", "relu_2", "relu_1_1")


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_every_case_of_every_op_builds(data):
    op = data.draw(st.sampled_from(sorted(all_ops().values(), key=lambda o: o.name)))
    case = data.draw(st.sampled_from(op.cases))
    b = GraphBuilder()
    made = b.op(
        op.name,
        *(b.input(f"x{i}", shape, dtype) for i, (dtype, shape) in enumerate(case.inputs)),
        **case.attrs,
    )
    b.output(*(made if isinstance(made, tuple) else (made,)))
    graph = b.build()
    view = graph.node(graph.num_nodes - 1)
    assert view.func.attrs == op.decode(case.attrs)
    assert list(view.output_types) == op.infer(list(view.input_types), view.func.attrs)


def test_functions_of_a_library():
    b = GraphBuilder()
    x = b.input("x", (4, 2))
    a, c = b.call("split", [x], [("float32", (2, 2)), ("int32", (2, 2))], flatten=True, attrs={"hash": "1"})
    b.output(c, a)
    graph = load_graph(b.to_json())
    func = graph.node(1).func
    assert (func.name, func.op, func.num_outputs, func.flatten, func.raw["hash"]) == (
        "split",
        None,
        2,
        True,
        "1",
    )
    assert graph.outputs.tolist() == [2, 1]
    with pytest.raises(GraphError, match="'split' stands for"):
        b.call("split", [x], [("float32", (4, 2))])


# ---------------------------------------------------------------- devices and storage


def test_devices_are_completed():
    b = GraphBuilder()
    x, w = b.input("x", (4,)), b.input("w", (4,))
    y = b.op("add", x, w, device="tt:1")
    z = b.op("relu", b.op("reshape", y, shape=(2, 2)))
    b.output(z, b.copy(z, "tt:0"))
    columns = attrs(b)
    # x and w go to their first consumer, the reshape stays with its input, relu to the builder's device
    assert columns["device_index"] == ["list_int", [12, 12, 12, 12, 1, 12]]
    assert columns["device_id"] == ["list_int", [1, 1, 1, 1, 0, 0]]


def test_the_device_of_ops_that_name_none_can_be_chosen():
    b = GraphBuilder(device="tt:0")
    b.output(b.op("relu", b.op("relu", b.input("x", (4,), device="cpu:0"))))
    assert attrs(b)["device_index"] == ["list_int", [1, 12, 12]]


def test_storage_is_completed():
    b = GraphBuilder()
    x = b.input("x", (4,))
    y = b.op("relu", x, storage=3)
    z = b.op("reshape", y, shape=(2, 2))
    b.output(b.op("relu", z, storage=1), *b.call("f", [z], [("float32", (2,))] * 2, storage=(7, 8)))
    assert attrs(b)["storage_id"] == ["list_int", [9, 3, 3, 1, 7, 8]]


def test_aliases():
    b = GraphBuilder()
    cache, new = b.input("cache", (8, 4)), b.input("new", (1, 4))
    y = b.op("slice_update", cache, new, starts=(3,))
    b.output(y)
    b.alias(y, cache)
    assert b.build().hints.aliases == ((0, 0),)
    with pytest.raises(GraphError, match="output"):
        b.alias(new, cache)


def test_conflicts_are_found_when_the_graph_is_built():
    b = GraphBuilder()
    x = b.input("x", (4,), device="cpu:0", storage=0)
    b.output(b.op("relu", x, device="tt:0", storage=0))
    with pytest.raises(GraphError, match="cannot be assigned to multiple devices"):
        b.build()


# ---------------------------------------------------------------- params


def test_params_are_kept_with_their_dtype():
    b = GraphBuilder()
    assert b.param("a", [[1, 2]]).dtype == "int64"
    assert b.param("b", [[1, 2]], "bfloat16").shape == (1, 2)
    assert b.param("c", (3, 4)).type == b.param("d", (3, 4), "float32").type
    assert b.param("e", np.float32(2)).shape == ()
    assert {k: str(v.dtype) for k, v in b.params.items()} == {"a": "int64", "b": "bfloat16", "e": "float32"}


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda b, x: b.op("rleu", x), UnsupportedOpError, "did you mean 'relu'"),
        (lambda b, x: b.op("add", x), GraphError, "takes 2 inputs, got 1"),
        (lambda b, x: b.op("softmax", x, axes=1), GraphError, "did you mean 'axis'"),
        (lambda b, x: b.op("softmax", x, axis=1.5), GraphError, "must be int"),
        (lambda b, x: b.op("softmax", x, axis=7), GraphError, "out of range"),
        (lambda b, x: b.op("relu", "x"), GraphError, "input 0 must be a tensor of this builder, got str"),
        (lambda b, x: b.op("relu", GraphBuilder().input("x", (1,))), GraphError, "of this builder"),
        (lambda b, x: b.op("relu", x, device="gpu:0"), DeviceError, "unknown device kind 'gpu'"),
        (lambda b, x: b.op("relu", x, device="null:0"), GraphError, "tests only"),
        (lambda b, x: b.op("relu", x, storage=-1), GraphError, "storage is an integer from 0"),
        (lambda b, x: b.op("relu", x, storage=(0, 1)), GraphError, "has 1 outputs"),
        (lambda b, x: b.op("reshape", x, shape=(4,), func_name="f"), GraphError, "moves no data"),
        (lambda b, x: b.op("gelu", x, approximate=float("nan")), GraphError, "cannot be nan"),
        (lambda b, x: b.input("x", (4,)), GraphError, "'x' is taken"),
        (lambda b, x: b.input("y", (4.5,)), GraphError, "a shape is a tuple of integers"),
        (lambda b, x: b.input("y", 4), GraphError, "a shape is a tuple of integers"),
        (lambda b, x: b.input("y", (-4,)), GraphError, "a shape is a tuple of integers"),
        (lambda b, x: b.input("y", (4,), "flaot32"), GraphError, "did you mean 'float32'"),
        (lambda b, x: b.input(3, (4,)), GraphError, "a name is a string"),
        (lambda b, x: b.param("y", np.array(["a"])), GraphError, "not supported"),
        (lambda b, x: b.output(3), GraphError, "of this builder"),
    ],
)
def test_a_mistake_is_an_error_at_the_call(make, error, says):
    b = GraphBuilder()
    x = b.input("x", (2, 2))
    with pytest.raises(error, match=says):
        make(b, x)
    b.output(x)
    assert b.build().num_nodes == 1  # and leaves no trace


def test_the_ops_that_give_a_tuple_are_those_of_its_type():
    several = set()
    for name, op in all_ops().items():
        for case in op.cases:
            types = [TensorType(dtype, tuple(shape)) for dtype, shape, *_ in case.inputs]
            attrs = {attr.name: attr.default for attr in op.attrs} | dict(case.attrs)
            if len(op.infer(types, attrs)) > 1:
                several.add(name)
    assert several == set(get_args(Several))
