"""ONNX files served: a program for each size that is asked for, and bundles of open sizes."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cli import main
from graph_runtime.cluster.batcher import RowBatch
from graph_runtime.cluster.offers import Making, make_source, parse_offer
from graph_runtime.cluster.runner import Runner, ServedSource

onnx = pytest.importorskip("onnx")
W = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


@pytest.fixture
def model(tmp_path):
    """x float32 [batch, 6] -> tanh(x @ W)."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    ports = [helper.make_tensor_value_info(n, kind, ["batch", size]) for n, size in (("x", 6), ("y", 5))]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], [onnx.numpy_helper.from_array(W, "w")])
    path = tmp_path / "net.onnx"
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def check(runner: Runner) -> None:
    x = np.random.default_rng(1).standard_normal((3, 6)).astype(np.float32)
    reply = runner.run(RowBatch(("a",), 4, 3, ({"x": x},)))
    assert reply.error == ""
    np.testing.assert_allclose(reply.outputs["y"], np.tanh(x @ W), 1e-4, 1e-5)


def test_several_sizes_become_programs_that_share_their_weights(model, tmp_path):
    making = Making(tmp_path / "served", options=gr.Options(dims={"batch": (1, 4)}, compile=False))
    source = make_source(parse_offer(f"net={model}"), making)
    runner = Runner(source)
    assert (runner.served.rows, runner.served.inputs[0].shape) == ((1, 4), (-1, 6))
    check(runner)


def test_a_bundle_of_open_sizes_serves_those_that_it_was_compiled_at(model, tmp_path):
    out = tmp_path / "net.bundle"
    with pytest.raises(SystemExit) as code:
        main(["compile", str(model), "-o", str(out), "--dim", "batch=1,4", "--no-compile"])
    assert not code.value.code
    runner = Runner(ServedSource(str(out)))
    assert (runner.served.rows, runner.served.why) == ((1, 4), "")
    check(runner)


def test_a_size_that_is_open_is_asked_for(model, tmp_path):
    with pytest.raises(gr.GraphRuntimeError, match="batch"):
        make_source(parse_offer(str(model)), Making(tmp_path / "served"))
