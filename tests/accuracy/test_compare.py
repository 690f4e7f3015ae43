"""Comparisons: right graphs pass, a wrong kernel is seen and named."""

from dataclasses import replace

import numpy as np
import pytest

from graph_runtime.accuracy.compare import compare, compare_arrangements, random_inputs
from graph_runtime.accuracy.interpreter import interpret
from graph_runtime.accuracy.rearrange import cut
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import registry
from graph_runtime.testing.graphs import GraphMaker

pytestmark = pytest.mark.core


@pytest.fixture
def network():
    """A small convolutional network that ends in a take, whose indices must be drawn in range."""
    g = GraphMaker()

    def given(*shape, dtype="float32"):
        return g.input(TensorType(dtype, shape))

    y = g.op("conv2d", [given(2, 1, 8, 8), given(8, 1, 3, 3), given(8)], pads=[1, 1, 1, 1])
    y = g.op("max_pool2d", [g.op("relu", [y])], kernel_shape=[2, 2], strides=[2, 2])
    y = g.op("dense", [g.op("flatten", [y]), given(5, 128)])
    return g.graph([g.op("take", [g.op("softmax", [y]), given(7, dtype="int32")], axis=1), y])


def test_a_right_graph_is_as_numpy(network):
    report = compare(network, nodes=True)
    assert report.ok, str(report)
    assert [len(rows) for rows in (report.outputs, report.isolated, report.accumulated)] == [2, 7, 7]
    assert report.worst == report.outputs[0].nmse >= report.outputs[1].nmse
    assert {d.op for d in report.isolated} == {
        "conv2d",
        "relu",
        "max_pool2d",
        "flatten",
        "dense",
        "softmax",
        "take",
    }
    assert "as numpy" in str(report)


def test_devices_of_the_file_move_with_a_rotation():
    g = GraphMaker()
    x = g.input(TensorType("float32", (4,)))
    y = g.op("relu", [x], device=1)
    graph = g.graph([g.op("exp", [y], device=0), y], devices=parse_list(["cpu:0", "cpu:1"]))
    reports = compare_arrangements(graph, None, ["cpu:0", "cpu:1"])
    devices = {name: {d.op: d.device for d in report.outputs} for name, report in reports.items()}
    assert devices["as given"] == {"exp": "cpu:0", "relu": "cpu:1"}
    assert devices["cpu:0 as cpu:1, cpu:1 as cpu:0"] == {"exp": "cpu:1", "relu": "cpu:0"}


def test_a_wrong_node_is_found_and_named(network, monkeypatch):
    """The reference of relu is bent: relu alone is wrong, what follows is wrong by what it inherits."""
    bent = replace(
        registry.require("relu"), reference=lambda arrays, attrs: [np.maximum(arrays[0], np.float32(-0.1))]
    )
    monkeypatch.setitem(registry._OPS, "relu", bent)
    report = compare(network, nodes=True)
    assert not report.ok
    assert [d.op for d in report.isolated if d.nmse > 1e-6] == ["relu"]
    assert {d.op for d in report.accumulated if d.nmse > 1e-6} >= {"relu", "max_pool2d", "flatten", "dense"}
    assert "DIFFERS" in str(report)


def test_random_inputs_repeat_and_stay_in_range(network):
    first, again = random_inputs(network, 1), random_inputs(network, 1)
    assert all(np.array_equal(first[n], again[n]) for n in first)
    indices = next(a for a in first.values() if a.dtype == np.int32)
    assert indices.min() >= -5
    assert indices.max() < 5


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("gather_nd", [(5, 7), (3, 2)], {}),
        ("gather_nd", [(2, 9, 4), (2, 1)], {"batch_dims": 1}),
        ("scatter_nd", [(5, 7), (3, 2), (3,)], {}),
        ("take", [(5, 7), (3,)], {"axis": 1}),
    ],
)
def test_random_indices_are_in_range_whatever_the_op_says_of_axes(op, shapes, attrs):
    b = GraphBuilder()
    reads = [b.input(f"x{i}", shape, "int64" if i == 1 else "float32") for i, shape in enumerate(shapes)]
    b.output(b.op(op, *reads, **attrs))
    assert compare(b.build()).ok


def test_given_inputs_are_used(network):
    report = compare(network, inputs={"x0": np.full((2, 1, 8, 8), np.nan, np.float32)})
    assert report.ok
    assert report.outputs[0].max_abs == 0.0


def test_a_cut_graph_has_every_node_alone(network):
    alone, feeds = cut(network)
    values = interpret(network, random_inputs(network))
    cut_values = interpret(alone, {name: values[eid] for name, eid in feeds.items()})
    made = np.flatnonzero((network.func_id >= 0)[network.entry_nid])
    for eid, out in zip(made, alone.outputs, strict=True):
        np.testing.assert_array_equal(cut_values[out], values[eid])
    assert set(alone.in_eid.tolist()) <= set(alone.input_eids.tolist())
