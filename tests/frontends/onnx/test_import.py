"""ONNX graphs become Models: names, dimensions, constants, functions, control flow."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from graph_runtime.base.errors import GraphError, InputError, UnsupportedOpError  # noqa: E402
from graph_runtime.frontends.onnx.context import UnknownValueError  # noqa: E402
from graph_runtime.ir import ops  # noqa: E402


def _names(model):
    return [name for name, f in zip(model.graph.names, model.graph.func_id, strict=True) if f >= 0]


def test_names_of_the_op_table_are_onnx_s():
    """Ops, attributes and defaults; a name that ONNX does not have would be a converter of nothing."""
    for op in ops.all_ops().values():
        known = {a.name: a for a in op.attrs}
        for name, attrs in op.onnx.items():
            schema = onnx.defs.get_schema(name, onnx.defs.onnx_opset_version())
            apart = {"noop_with_empty_axes"} if op.neutral is not None else set()  # the reductions' converter
            assert set(attrs) == set(schema.attributes) - apart, name
            for theirs, ours in attrs.items():
                default = helper.get_attribute_value(schema.attributes[theirs].default_value)
                default = default.decode() if isinstance(default, bytes) else default
                assert known[ours].default == pytest.approx(default), (name, theirs)


def test_names_are_those_of_the_file(kit):
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], name="fc1", alpha=2.0),
        helper.make_node("Relu", ["h"], ["y"], name="act"),
    ]
    model = kit.load(kit.make(nodes, {"x": (2, 3)}, ["y"], {"w": np.ones((3, 4), np.float32)}))
    assert model.input_names == ("x",)
    assert model.output_names == ("y",)
    assert sorted(model.constants) == ["constant", "w"]
    assert _names(model) == ["fc1.matmul", "fc1", "y"]
    (y,) = kit.reference(
        model,
        {"x": np.full((2, 3), -1, np.float32) * [[1], [-1]]}
        | {"x": np.array([[1, 1, 1], [-1, -1, -1]], np.float32)},
    )
    np.testing.assert_array_equal(y, [[6] * 4, [0] * 4])


def test_outputs_that_no_node_makes_alone_keep_their_names(kit):
    nodes = [
        ("Identity", ["x"], ["same"]),
        ("Split", ["x"], ["a", "b"], {"axis": 0}),
        ("Relu", ["a"], ["r"]),
        ("Identity", ["r"], ["s"]),
    ]
    model = kit.load(
        kit.make(
            nodes,
            {"x": (4, 2)},
            ["same", "a", "b", "r", "s", "w"],
            {"w": np.ones((2,), np.float32)},
            opset=13,
        )
    )
    assert model.output_names == ("same", "a", "b", "r", "s", "w")
    x = np.arange(8, dtype=np.float32).reshape(4, 2) - 3
    found = kit.run(model, {"x": x})
    wanted = [x, x[:2], x[2:], np.maximum(x[:2], 0), np.maximum(x[:2], 0), np.ones(2, np.float32)]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_output_may_be_an_input(kit):
    proto = kit.make([("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"])
    proto.graph.output.append(proto.graph.input[0])
    model = kit.load(proto)
    assert model.output_names == ("y", "x")


def test_names_that_clash_are_told_apart(kit):
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="w"),
        helper.make_node("Add", ["h", "w"], ["i"], name="y"),
        helper.make_node("Relu", ["i"], ["y"], name="y"),
    ]
    model = kit.load(kit.make(nodes, {"x": (2,)}, ["y"], {"w": np.ones(2, np.float32)}))
    assert len(set(model.graph.names)) == len(model.graph.names)
    assert model.output_names == ("y",)
    np.testing.assert_array_equal(kit.run(model, {"x": np.array([-1, 2], np.float32)})[0], [1, 3])


def test_dimensions_are_bound_by_name_or_place(kit):
    proto = kit.make([("Add", ["x", "x"], ["y"])], {"x": ("batch", None, 3)}, ["y"])
    assert kit.load(proto, dims={"batch": 2, "x.1": 5}).dims == {"batch": 2, "x.1": 5}
    with pytest.raises(InputError, match=r"batch \(axis 0 of 'x'\), x\.1 \(axis 1") as caught:
        kit.load(proto)
    assert "--dim batch=1" in str(caught.value)
    with pytest.raises(InputError, match="did you mean 'batch'"):
        kit.load(proto, dims={"bach": 1, "x.1": 5})
    with pytest.raises(InputError, match="whole number"):
        kit.load(proto, dims={"batch": -1, "x.1": 5})


def test_shapes_that_nodes_compute_are_computed_at_once(kit):
    nodes = [
        ("Shape", ["x"], ["s"]),
        ("Gather", ["s", "zero"], ["n"], {"axis": 0}),
        ("Concat", ["n", "minus"], ["t"], {"axis": 0}),
        ("Reshape", ["x", "t"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "minus": np.array([-1])}
    model = kit.load(kit.make(nodes, {"x": (2, 3, 4)}, ["y"], weights))
    assert len(_names(model)) == 1
    assert model.graph.entry_type(int(model.graph.outputs[0])).shape == (2, 12)


def test_a_shape_known_at_run_time_only_is_refused_and_can_be_given(kit):
    proto = kit.make([("Reshape", ["x", "s"], ["y"])], {"x": (2, 6), "s": (kit.INT64, (2,))}, ["y"])
    with pytest.raises(UnknownValueError, match="computed from 's'") as caught:
        kit.load(proto)
    assert caught.value.inputs == ("s",)
    model = kit.load(proto, values={"s": np.array([3, -1])})
    assert model.input_names == ("x",)


def test_all_that_is_unsupported_is_in_one_error(kit):
    nodes = [
        helper.make_node("ImageDecoder", ["b"], ["i"], name="jpeg"),
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("CenterCropPadLike", ["h", "b", "s"], ["d"], name="bent"),
        helper.make_node("Exotic", ["i"], ["e"], name="odd", domain="com.example"),
    ]
    proto = kit.make(nodes, {"b": (1, 2, 4), "s": (1, 1, 2), "x": (2, 2)}, ["i", "d", "e"])
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(UnsupportedOpError) as caught:
        kit.load(proto)
    assert [(f.op, f.node) for f in caught.value.failures] == [
        ("ImageDecoder", "jpeg"),
        ("CenterCropPadLike", "bent"),
        ("com.example.Exotic", "odd"),
    ]
    assert "3 nodes" in str(caught.value)
    assert all(
        text in str(caught.value)
        for text in ("ImageDecoder 'jpeg'", "CenterCropPadLike 'bent'", "no converter")
    )


def test_an_attribute_that_nobody_knows_is_refused(kit):
    node = helper.make_node("Relu", ["x"], ["y"], name="r", sharpness=3)
    with pytest.raises(UnsupportedOpError, match="'sharpness' is not supported"):
        kit.load(kit.make([node], {"x": (2,)}, ["y"]))


def test_functions_of_the_model_are_inlined(kit):
    body = [helper.make_node("Mul", ["a", "a"], ["s"]), helper.make_node("Add", ["s", "b"], ["c"])]
    function = helper.make_function(
        "own", "SquareAdd", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)]
    )
    node = helper.make_node("SquareAdd", ["x", "x"], ["y"], domain="own")
    model = kit.load(kit.make([node], {"x": (3,)}, ["y"], functions=[function]))
    np.testing.assert_array_equal(kit.reference(model, {"x": np.array([1, 2, 3], np.float32)})[0], [2, 6, 12])


def _branch(name, op):
    out = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [out])


def test_functions_that_double_each_other_are_refused_at_once(kit):
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 17)]
    calls = [(f"F{i + 1}", "own") for i in range(39)] + [("Relu", "")]
    functions = [
        helper.make_function(
            "own",
            f"F{i}",
            ["a"],
            ["c"],
            [helper.make_node(op, [x], [y], domain=domain) for x, y in (("a", "b"), ("b", "c"))],
            opsets,
        )
        for i, (op, domain) in enumerate(calls)
    ]
    proto = kit.make(
        [helper.make_node("F0", ["x"], ["y"], domain="own")], {"x": (3,)}, ["y"], functions=functions
    )
    with pytest.raises(GraphError, match=r"1099511627776 nodes once its functions are inlined"):
        kit.load(proto)


@pytest.mark.parametrize(("rank", "wanted"), [(2, [0, 2]), (1, [-1, -2])])
def test_if_takes_the_branch_that_the_shapes_tell(kit, rank, wanted):
    nodes = [
        ("Shape", ["x"], ["s"]),
        ("Size", ["s"], ["r"]),
        ("Equal", ["r", "two"], ["c"]),
        ("If", ["c"], ["y"], {"then_branch": _branch("t", "Relu"), "else_branch": _branch("e", "Neg")}),
    ]
    x = np.array([-1, 2], np.float32)
    x, wanted = (x[None], [wanted]) if rank == 2 else (abs(x), wanted)
    model = kit.load(kit.make(nodes, {"x": x.shape}, ["y"], {"two": np.array(2)}))
    np.testing.assert_array_equal(kit.reference(model, {"x": x})[0], wanted)


def test_a_loop_is_unrolled_and_collects_its_scans(kit):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["acc", "acc"], ["next"]),
            helper.make_node("Identity", ["cond"], ["again"]),
            helper.make_node("Identity", ["next"], ["seen"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("acc", TensorProto.FLOAT, (2,)),
        ],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in ("again", "next", "seen")],
    )
    proto = kit.make(
        [("Loop", ["trips", "", "x"], ["last", "all"], {"body": body})],
        {"x": (2,)},
        ["last", "all"],
        {"trips": np.array(3)},
    )
    last, every = kit.reference(kit.load(proto), {"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(last, [8, 16])
    np.testing.assert_array_equal(every, [[2, 4], [4, 8], [8, 16]])


def test_batch_norm_is_one_multiplication_and_one_addition(kit):
    rng = np.random.default_rng(0)
    weights = {n: rng.random(3).astype(np.float32) for n in ("g", "b", "m", "v")}
    model = kit.load(
        kit.make(
            [("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"])], {"x": (2, 3, 4, 4)}, ["y"], weights
        )
    )
    x = rng.random((2, 3, 4, 4)).astype(np.float32)
    g, b, m, v = (weights[n][:, None, None] for n in "gbmv")
    wanted = (x - m) / np.sqrt(v + 1e-5) * g + b
    np.testing.assert_allclose(kit.run(model, {"x": x})[0], wanted, rtol=1e-5, atol=1e-6)
    ops = [f.op for f in model.graph.funcs if f.op]
    assert sorted(op for op in ops if op != "reshape") == ["add", "multiply"]


def test_nodes_that_no_output_needs_are_left_out(kit):
    nodes = [("Relu", ["x"], ["y"]), ("Exp", ["x"], ["z"])]
    assert _names(kit.load(kit.make(nodes, {"x": (2,)}, ["y"]))) == ["y"]


def test_a_bound_of_several_elements_is_refused(kit):
    proto = kit.make([("Clip", ["x", "low"], ["y"])], {"x": (2, 3)}, ["y"], {"low": np.zeros(3, np.float32)})
    with pytest.raises(UnsupportedOpError, match="one element"):
        kit.load(proto)
