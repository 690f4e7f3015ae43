"""Functions of a model's own: defaults of attributes, opsets of their own, and names that stay apart."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

_X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)


def _function(name, nodes, opset=20, attributes=(), defaults=(), ins=("a",), outs=("b",), imports=()):
    made = helper.make_function(
        "own", name, list(ins), list(outs), nodes,
        [helper.make_opsetid("", opset), helper.make_opsetid("own", 1), *imports],
        list(attributes), [helper.make_attribute(*pair) for pair in defaults],
    )  # fmt: skip
    return made


def _refers(op, name, kind, ins=("a",), outs=("b",), **more):
    node = helper.make_node(op, list(ins), list(outs), **more)
    node.attribute.add(name=name, ref_attr_name="k", type=kind)
    return node


def _same(kit, call, functions, given=None, opset=20):
    given = given or {"x": _X}
    proto = kit.make([call], {n: a.shape for n, a in given.items()}, ["y"], opset=opset, functions=functions)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    text = proto.SerializeToString()
    (wanted,) = ort.InferenceSession(text, providers=["CPUExecutionProvider"]).run(None, given)
    (got,) = kit.run(kit.load(text), given)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def _call(name="F", ins=("x",), outs=("y",), **attrs):
    return helper.make_node(name, list(ins), list(outs), domain="own", **attrs)


_LEAKY = _refers("LeakyRelu", "alpha", onnx.AttributeProto.FLOAT)
_SOFTMAX = _refers("Softmax", "axis", onnx.AttributeProto.INT)


@pytest.mark.parametrize("given", [{}, {"k": 0.5}])
def test_an_attribute_has_the_default_of_its_function(kit, given):
    _same(kit, _call(**given), [_function("F", [_LEAKY], defaults=[("k", 0.25)])])


@pytest.mark.parametrize("given", [{}, {"k": 0}, {"k": 1}])
def test_a_default_reaches_a_function_in_a_function(kit, given):
    inner = _function("G", [_SOFTMAX], defaults=[("k", 0)])
    passes = _refers("G", "k", onnx.AttributeProto.INT, domain="own")
    _same(kit, _call(**given), [_function("F", [passes], attributes=["k"]), inner])
    _same(kit, _call(**given), [_function("F", [passes], defaults=[("k", 1)]), inner])


@pytest.mark.parametrize(("own", "opset"), [(12, 20), (20, 12), (9, 17)])
def test_a_function_may_be_of_another_opset_than_the_model(kit, own, opset):
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    softmax = helper.make_node("Softmax", ["a"], ["b"], axis=1)  # of all axes from 1 on, until opset 13
    _same(kit, _call(), [_function("F", [softmax], opset=own)], {"x": x}, opset=opset)


def test_a_node_that_fits_the_opset_of_its_function_alone_is_of_that(kit):
    total = helper.make_node("ReduceSum", ["a"], ["b"], axes=[1])  # an input since opset 13
    proto = kit.make(
        [_call()], {"x": _X.shape}, ["y"], opset=20, functions=[_function("F", [total], opset=12)]
    )
    (got,) = kit.run(kit.load(proto.SerializeToString()), {"x": _X})
    np.testing.assert_allclose(got, _X.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-6)


def test_values_of_two_calls_and_of_the_graph_stay_apart(kit):
    body = [helper.make_node("Exp", ["a"], ["y"]), helper.make_node("Neg", ["y"], ["b"])]
    twice = [_call("G", ["a"], ["y"]), _call("G", ["y"], ["b"])]
    _same(kit, _call(), [_function("F", twice), _function("G", body)])


def test_a_branch_of_a_function_reads_its_arguments(kit):
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["a"], ["x"])], name, [], [helper.make_tensor_value_info("x", 1, None)]
        )
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    nodes = [
        helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.array(True))),
        helper.make_node("If", ["c"], ["b"], **branches),
    ]
    _same(kit, _call(), [_function("F", nodes)])
