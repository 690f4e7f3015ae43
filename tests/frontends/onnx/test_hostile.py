"""Mutated ONNX files: a typed error, or the result that ONNX's own reference has. Never another exception."""

from __future__ import annotations

import os
import time
import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from hypothesis import HealthCheck, given, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from graph_runtime.base.errors import GraphRuntimeError  # noqa: E402

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)


def _proto(kit):
    nodes = [
        ("Transpose", ["x"], ["t"], {"perm": [0, 2, 1]}),
        ("MatMul", ["t", "w"], ["m"]),
        ("Add", ["m", "b"], ["a"]),
        ("Softmax", ["a"], ["s"], {"axis": -1}),
        ("ReduceSum", ["s", "axes"], ["r"], {"keepdims": 0}),
        ("Clip", ["r", "low", ""], ["c"]),
        ("Reshape", ["c", "shape"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.random((3, 5)).astype(np.float32),
        "b": rng.random(5).astype(np.float32),
        "axes": np.array([1]),
        "low": np.array(0.5, np.float32),
        "shape": np.array([-1, 2]),
    }
    proto = kit.make(nodes, {"x": X.shape}, ["y"], weights)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return proto


def _judge(kit, data):
    """Load and run; compare where ONNX's reference runs it, too."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = kit.load(data)
            inputs = {"x": X} if model.input_names == ("x",) else {}
            found = kit.reference(model, inputs)
        except GraphRuntimeError:
            return
        try:
            wanted = ReferenceEvaluator(onnx.load_model_from_string(data)).run(None, inputs)
        except Exception:  # what it does not take is ours to judge alone
            return
    for one, other in zip(found, wanted, strict=True):
        if np.shape(one) == np.shape(other):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@QUICK
@given(st.data())
def test_flipped_and_cut_bytes(kit, data):
    content = bytearray(_proto(kit).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        else:
            content[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content))) if data.draw(st.integers(0, 4)) == 0 else len(content)
    _judge(kit, bytes(content[:end]))


NAMES = ["x", "t", "m", "a", "s", "r", "c", "y", "w", "b", "axes", "low", "shape", "", "nowhere"]
OPS = [
    "Add",
    "MatMul",
    "Reshape",
    "Gather",
    "Concat",
    "Split",
    "Pad",
    "Conv",
    "Slice",
    "Gemm",
    "Resize",
    "LSTM",
    "Where",
    "TopK",
    "Tile",
    "Expand",
    "OneHot",
    "If",
    "Loop",
    "MaxPool",
    "Squeeze",
    "Einsum",
    "Attention",
]


def _edit(draw, proto):
    graph = proto.graph
    node = draw(st.sampled_from(list(graph.node)))
    what = draw(
        st.sampled_from(["input", "output", "op", "drop", "attribute", "dims", "type", "opset", "more"])
    )
    if what == "input" and node.input:
        node.input[draw(st.integers(0, len(node.input) - 1))] = draw(st.sampled_from(NAMES))
    elif what == "output":
        node.output[0] = draw(st.sampled_from(NAMES))
    elif what == "op":
        node.op_type = draw(st.sampled_from(OPS))
    elif what == "drop":
        graph.node.remove(node)
    elif what == "attribute":
        value = draw(
            st.one_of(
                st.integers(-3, 3),
                st.floats(width=32, allow_nan=False),
                st.just("text"),
                st.lists(st.integers(-2, 4), max_size=4),
            )
        )
        name = draw(st.sampled_from(["axis", "perm", "keepdims", "to", "kernel_shape", "equation", "alpha"]))
        node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=None if value != [] else 7))
    elif what == "dims":
        tensor = draw(st.sampled_from(list(graph.initializer)))
        tensor.dims[:] = draw(st.lists(st.integers(-1, 2**40), max_size=3))
    elif what == "type":
        draw(st.sampled_from(list(graph.initializer))).data_type = draw(st.integers(0, 25))
    elif what == "opset":
        proto.opset_import[0].version = draw(st.integers(0, 40))
    else:
        node.input.append(draw(st.sampled_from(NAMES)))


@QUICK
@given(st.data())
def test_edited_graphs(kit, data):
    proto = _proto(kit)
    for _ in range(data.draw(st.integers(1, 3))):
        if proto.graph.node:
            _edit(data.draw, proto)
    _judge(kit, proto.SerializeToString())


@pytest.mark.slow
@seed(int(os.environ.get("SEED", "0")))
@settings(QUICK, max_examples=3000 // int(os.environ.get("SAMPLE", "1")), derandomize=False, database=None)
@given(st.data())
def test_edited_graphs_many(kit, data):
    proto = _proto(kit)
    for _ in range(data.draw(st.integers(1, 5))):
        if proto.graph.node:
            _edit(data.draw, proto)
    _judge(kit, proto.SerializeToString())


def test_a_function_with_a_name_that_is_no_text_is_refused(kit):
    from onnx import helper

    made = helper.make_function(
        "f", "F", ["a"], ["b"], [helper.make_node("OpOp", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    proto = kit.make([helper.make_node("F", ["x"], ["y"], domain="f")], {"x": (2,)}, ["y"])
    proto.functions.append(made)
    proto.opset_import.append(helper.make_opsetid("f", 1))
    with pytest.raises(GraphRuntimeError, match="not UTF-8"):
        kit.load(proto.SerializeToString().replace(b"OpOp", b"\xff\xfe\xff\xfe"))


@pytest.mark.parametrize(
    ("op", "name", "value", "said"),
    [
        ("EyeLike", "k", [1, 2], "attribute 'k' is of type INTS, but EyeLike takes INT"),
        ("Softmax", "axis", 1.0, "attribute 'axis' is of type FLOAT, but Softmax takes INT"),
        ("Transpose", "perm", "10", "attribute 'perm' is of type STRING, but Transpose takes INTS"),
    ],
)
def test_an_attribute_of_another_type_than_the_schemas_is_refused(kit, op, name, value, said):
    proto = kit.make([(op, ["x"], ["y"], {name: value})], {"x": (4, 4)}, ["y"])
    with pytest.raises(GraphRuntimeError, match=said):
        kit.load(proto.SerializeToString())


def test_an_integer_counts_as_a_float(kit):
    proto = kit.make([("LeakyRelu", ["x"], ["y"], {"alpha": 2})], {"x": (2, 2)}, ["y"])
    (got,) = kit.run(kit.load(proto.SerializeToString()), {"x": np.full((2, 2), -1, np.float32)})
    assert (got == -2).all()


def test_a_loop_that_nothing_ends_is_refused_before_it_is_unrolled(kit):
    from onnx import TensorProto, helper

    def loop(condition):
        info = helper.make_tensor_value_info
        body = helper.make_graph(
            [helper.make_node("Relu", ["s"], ["t"]), *condition],
            "body",
            [
                info("i", TensorProto.INT64, ()),
                info("c", TensorProto.BOOL, ()),
                info("s", TensorProto.FLOAT, (2,)),
            ],
            [info("d", TensorProto.BOOL, ()), info("t", TensorProto.FLOAT, (2,))],
        )
        return kit.make(
            [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
            {"x": (2,)},
            ["y"],
            {"trips": np.array(2**62)},
        )

    begin = time.process_time()
    with pytest.raises(GraphRuntimeError, match="4611686018427387904 iterations and no condition"):
        kit.load(loop([helper.make_node("Identity", ["c"], ["d"])]))
    assert time.process_time() - begin < 0.5
    with pytest.raises(GraphRuntimeError, match=r"expand to more than|more than 10000 iterations"):
        kit.load(
            loop(
                [
                    helper.make_node("Cast", ["i"], ["b"], to=TensorProto.BOOL),
                    helper.make_node("Or", ["b", "c"], ["d"]),
                ]
            )
        )
    assert time.process_time() - begin < 20
