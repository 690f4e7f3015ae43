"""Pow of integers against ONNX Runtime: exponents of both signs, each pair of types that it takes."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from graph_runtime.compat.onnxruntime import InferenceSession

TYPES = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}


@pytest.mark.parametrize("base", TYPES)
@pytest.mark.parametrize("exponent", TYPES)
def test_an_integer_to_a_negative_power_is_onnx_runtimes(base, exponent):
    a, b = np.meshgrid([-3, -2, -1, 0, 1, 2, 7], [-3, -2, -1, 0, 1, 2, 5])
    inputs = {"a": a.astype(base), "b": b.astype(exponent)}
    given = [
        helper.make_tensor_value_info(n, TYPES[v.dtype.name], ["n", v.shape[1]]) for n, v in inputs.items()
    ]
    made = helper.make_tensor_value_info("y", TYPES[base], None)
    graph = helper.make_graph([helper.make_node("Pow", ["a", "b"], ["y"])], "pow", given, [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=9)
    data = model.SerializeToString()
    peer = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (wanted,) = peer.run(None, inputs)
    (got,) = InferenceSession(data).run(None, inputs)
    np.testing.assert_array_equal(got, wanted)
