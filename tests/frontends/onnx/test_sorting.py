"""Files as tools write them: nodes in any order, dimensions of -1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from graph_runtime.accuracy.interpreter import heads, interpret  # noqa: E402
from graph_runtime.base.errors import GraphError, InputError  # noqa: E402
from graph_runtime.frontends.onnx import load_model  # noqa: E402
from graph_runtime.frontends.onnx.nodes import sort_nodes  # noqa: E402


def _info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def _model(nodes, shape=(3,)):
    graph = helper.make_graph(nodes, "g", [_info("x", shape)], [_info("y", None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _computed(model, x):
    return heads(model.graph, interpret(model.graph, {"x": x}))[0]


_CHAIN = [
    helper.make_node("Relu", ["x"], ["a"]),
    helper.make_node("Neg", ["a"], ["b"]),
    helper.make_node("Add", ["a", "b"], ["c"]),
    helper.make_node("Sub", ["c", "x"], ["y"]),
]


@given(st.permutations(range(4)))
def test_any_order_is_read_and_computes_the_same(order):
    model = load_model(_model([_CHAIN[i] for i in order]))
    x = np.array([1.5, -2.0, 0.5], np.float32)
    np.testing.assert_array_equal(_computed(model, x), -x)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=25), st.randoms())
def test_nodes_come_behind_what_they_read(pairs, random):
    """Node k reads what two nodes before it make: a graph without cycles, shuffled."""
    nodes = [helper.make_node("Relu", ["x"], ["v0"])]
    for k, (a, b) in enumerate(pairs, 1):
        nodes.append(helper.make_node("Add", [f"v{a % k}", f"v{b % k}"], [f"v{k}"]))
    wanted = list(nodes)
    random.shuffle(nodes)
    graph = helper.make_graph(nodes, "g", [_info("x", [3])], [_info("v0", [3])])
    sort_nodes(graph)
    made = {"x"}
    for node in graph.node:
        assert made.issuperset(node.input)
        made |= set(node.output)
    assert sorted(n.SerializeToString() for n in graph.node) == sorted(n.SerializeToString() for n in wanted)
    before = graph.SerializeToString()
    sort_nodes(graph)
    assert graph.SerializeToString() == before


def test_a_subgraph_reads_what_a_later_node_makes():
    then = helper.make_graph([helper.make_node("Add", ["a", "a"], ["t"])], "then", [], [_info("t", [3])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [_info("e", [3])])
    model = _model(
        [
            helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=other),
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node(
                "Constant", [], ["yes"], value=helper.make_tensor("", TensorProto.BOOL, [], [1])
            ),
        ]
    )
    x = np.array([1.0, -2.0, 3.0], np.float32)
    np.testing.assert_array_equal(_computed(load_model(model), x), 2 * np.maximum(x, 0))


def test_a_cycle_is_named():
    nodes = [helper.make_node("Add", ["x", "y"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["y"])]
    with pytest.raises(GraphError, match=r"'first' \(Add\) reads 'y', .*cycle"):
        load_model(_model(nodes))


def test_minus_one_is_a_dimension_without_a_size():
    model = _model(_CHAIN, (-1, 4))
    with pytest.raises(InputError, match=r"x\.0"):
        load_model(model)
    assert load_model(_model(_CHAIN, (-1, 4)), dims={"x.0": 2}).graph.names
    assert load_model(_model(_CHAIN, (-1, 4)), batch=3).dims == {"x.0": 3}
    with pytest.raises(GraphError, match="-2"):
        load_model(_model(_CHAIN, (-2, 4)))
