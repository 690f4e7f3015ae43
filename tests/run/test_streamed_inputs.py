"""Runs of graphs whose weights stay on the host and are copied by each run."""

from __future__ import annotations

import numpy as np

import graph_runtime as gr

PAIR = ["cpu:0", "tt:0"]


def products(count: int, width: int):
    """``count`` products of their own weights, one after another."""
    b = gr.GraphBuilder()
    x = b.input("x", (64, width))
    for i in range(count):
        x = b.op("matmul", x, b.input(f"w{i}", (width, width)), name=f"node{i}")
    b.output(x)
    return b.build()


def test_results_are_the_same_run_after_run():
    graph, rng = products(3, 96), np.random.default_rng(0)
    values = {
        name: rng.standard_normal(graph.entry_type(int(eid)).shape).astype(np.float32)
        for name, eid in zip(graph.input_names, graph.input_eids.tolist(), strict=True)
    }
    kept = gr.create(graph, None, PAIR[::-1], place={"node*": "tt:0"}, params=values)
    moved = gr.create(graph, None, PAIR[::-1], place={"node*": "tt:0"}, params=values, stream=["w*"])
    for _ in range(2):
        kept.run(), moved.run()
        np.testing.assert_array_equal(moved.get_output(0).numpy(), kept.get_output(0).numpy())
        for module in (kept, moved):
            module.set_input("w1", values["w1"] * 2)
    handles = [moved.session.submit({"x": values["x"] * k}) for k in (1, 2)]
    kept.run(x=values["x"] * 2)
    np.testing.assert_array_equal(handles[1].wait().outputs[0].numpy(), kept.get_output(0).numpy())


def test_a_model_that_is_rewritten_streams_its_constants():
    b = gr.GraphBuilder()
    x, rng = b.input("x", (8, 64)), np.random.default_rng(1)
    for i in range(3):
        x = b.op(
            "relu", b.op("matmul", x, b.param(f"w{i}", rng.standard_normal((64, 64)).astype(np.float32)))
        )
    b.output(x)
    value = rng.standard_normal((8, 64)).astype(np.float32)
    words = {"fuse": True, "compile": False, "place": {"*": "tt:0"}}
    kept = gr.create(b, None, PAIR, **words)
    moved = gr.create(b, None, PAIR, stream=["w*"], **words)
    assert moved.session.plan.placement.pricing.streamed == ("w0", "w1", "w2")
    assert not moved.session.plan.at_input[moved.session.plan.origin < 0].all()
    for scale in (1, 2):
        kept.run(x=value * scale), moved.run(x=value * scale)
        np.testing.assert_array_equal(moved.get_output(0).numpy(), kept.get_output(0).numpy())
