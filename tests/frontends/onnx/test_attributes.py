"""Attributes that exporters write though they change nothing: defaults, and those of an op's other modes."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from graph_runtime.base.errors import GraphRuntimeError  # noqa: E402


def _loads(kit, proto, values):
    try:
        kit.load(proto, values=values)
    except GraphRuntimeError:
        return False
    return True


def test_a_default_that_is_written_out_is_no_reason_to_refuse(kit, node_cases):
    refused, tried = set(), 0
    for case in node_cases:
        proto = case.model
        if len(proto.graph.node) != 1:
            continue
        node, arrays = proto.graph.node[0], case.data_sets[0][0]
        values = {
            info.name: array
            for info, array in zip(proto.graph.input, arrays, strict=False)
            if isinstance(array, np.ndarray) and array.size < 64
        }
        opset = {entry.domain: entry.version for entry in proto.opset_import}
        defaults = onnx.defs.get_schema(node.op_type, opset.get(node.domain, 1), node.domain).attributes
        given = {attribute.name for attribute in node.attribute}
        written = [a.default_value for a in defaults.values() if a.default_value.type and a.name not in given]
        if not written or not _loads(kit, proto, values):
            continue
        other = onnx.ModelProto()
        other.CopyFrom(proto)
        other.graph.node[0].attribute.extend(written)
        tried += 1
        if not _loads(kit, other, values):
            refused.add(node.op_type)
    assert not refused
    assert tried > 400


@pytest.mark.parametrize(
    "attrs",
    [
        {"mode": "linear", "nearest_mode": "floor", "cubic_coeff_a": -0.75},
        {"mode": "cubic", "nearest_mode": "floor"},
        {"mode": "nearest", "nearest_mode": "floor", "cubic_coeff_a": -0.75, "exclude_outside": 0},
    ],
)
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_resize_may_have_the_attributes_of_all_its_modes(kit, attrs, scale):
    """torch writes them whatever the mode is."""
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    attrs = {**attrs, "coordinate_transformation_mode": "asymmetric"}
    made = kit.make(
        [("Resize", ["x", "", "scales"], ["y"], attrs)],
        {"x": x.shape},
        ["y"],
        {"scales": np.array([1, 1, scale, scale], np.float32)},
    )
    (y,) = kit.run(kit.load(made), {"x": x})
    np.testing.assert_allclose(y, onnx.reference.ReferenceEvaluator(made).run(None, {"x": x})[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("node", "opset"),
    [
        (("ReduceSum", ["x"], ["y"], {"axes": [0, -2]}), 11),
        (("ReduceMax", ["x"], ["y"], {"axes": [1, 1]}), 11),
        (("Squeeze", ["x"], ["y"], {"axes": [0, 0]}), 11),
        (("Unsqueeze", ["x"], ["y"], {"axes": [0, -4]}), 11),
        (("Slice", ["x"], ["y"], {"starts": [0, 0], "ends": [1, 1], "axes": [1, -1]}), 9),
        (("CenterCropPad", ["x", "size"], ["y"], {"axes": [0, 0]}), 18),
    ],
)
def test_an_axis_that_is_named_twice_is_refused(kit, node, opset):
    proto = kit.make([node], {"x": (1, 3)}, ["y"], {"size": np.array([1, 1], np.int64)}, opset=opset)
    with pytest.raises(GraphRuntimeError, match="twice"):
        kit.load(proto)


@pytest.mark.parametrize("alpha", [1.0, 1.7, -2.0, 1e-6])
def test_the_tail_of_swish(kit, alpha):
    """Where the sigmoid alone is no normal number any more the product still is."""
    x = np.array([-90.5, -95, -53, -3, 0, 0.5, 45, 91], np.float32)
    (made,) = kit.run(
        kit.load(kit.make([("Swish", ["x"], ["y"], {"alpha": alpha})], {"x": (8,)}, ["y"], opset=24)),
        {"x": x},
    )
    wide = x.astype(np.longdouble)
    np.testing.assert_allclose(made, wide / (1 + np.exp(-alpha * wide)), rtol=1e-5, atol=1e-44)


@pytest.mark.parametrize(
    ("op", "given", "text"),
    [("Relu", ["x", "x"], "Relu has 2 inputs, but takes at most 1"), ("Add", ["x"] * 3, "Add has 3 inputs")],
)
def test_an_input_too_many_is_refused(kit, op, given, text):
    """It was ignored; an empty name at the end is no input."""
    info = onnx.helper.make_tensor_value_info

    def proto(inputs):
        node = onnx.helper.make_node(op, inputs, ["y"])
        ends = [info("x", 1, [2])], [info("y", 1, [2])]
        return onnx.helper.make_model(onnx.helper.make_graph([node], "g", *ends))

    with pytest.raises(GraphRuntimeError, match=text):
        kit.load(proto(given))
    kit.load(proto([*given[:-1], ""]))
