"""Files that were written for one batch, read for another (networks: test_networks.py)."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from graph_runtime.base.errors import GraphError, InputError  # noqa: E402


def _reshaped(kit, shape):
    return kit.make(
        [("Reshape", ["x", "shape"], ["y"])], {"x": (2, 12)}, ["y"], {"shape": np.array(shape, np.int64)}
    )


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ([2, 3, 4], (6, 3, 4)),
        ([2, -1], (6, 12)),
        ([2, -1, 4], (6, 3, 4)),
        ([-1, 4], (18, 4)),
        ([0, 3, 4], (6, 3, 4)),
        ([8, 3], (24, 3)),
        ([2, 1, 12], (6, 1, 12)),
    ],
)
def test_a_reshape_follows(kit, shape, wanted):
    x = np.arange(72, dtype=np.float32).reshape(6, 12)
    (found,) = kit.reference(kit.load(_reshaped(kit, shape), batch=6), {"x": x})
    assert found.shape == wanted
    np.testing.assert_array_equal(found.ravel(), x.ravel())


def test_a_reshape_of_what_no_input_goes_into_stays(kit):
    """A table that is too large to be computed while the file is read."""
    table = np.arange(40000, dtype=np.float32).reshape(2, 20000)
    nodes = [("Neg", ["table"], ["n"]), ("Reshape", ["n", "shape"], ["r"]), ("Add", ["x", "r"], ["y"])]
    model = kit.make(nodes, {"x": (1, 40000)}, ["y"], {"table": table, "shape": np.array([1, -1], np.int64)})
    (found,) = kit.reference(kit.load(model, batch=3), {"x": np.zeros((3, 40000), np.float32)})
    np.testing.assert_array_equal(found, np.tile(-table.reshape(1, -1), (3, 1)))


def test_a_graph_that_counts_on_its_batch_is_refused(kit):
    nodes = [("ReduceSum", ["x", "axes"], ["s"], {"keepdims": 1}), ("Neg", ["s"], ["y"])]
    model = kit.make(nodes, {"x": (1, 4)}, ["y"], {"axes": np.array([0], np.int64)})
    for size in (1, 4):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = size
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    assert kit.load(model, batch=1).graph.num_nodes
    refused = "with a batch of 8 instead of 1 output 'y' would be .*symbolic"
    with pytest.raises(GraphError, match=refused) as caught:
        kit.load(model, batch=8)
    assert caught.value.path == "$.graph.output[0]"


@pytest.mark.parametrize("inputs", [{"x": (2, 12), "z": (3, 4)}, {"x": ()}])
def test_inputs_without_one_batch_are_refused(kit, inputs):
    model = kit.make([("Neg", ["x"], ["y"])], inputs, ["y"])
    with pytest.raises(InputError, match="first dimensions are the batch"):
        kit.load(model, batch=4)


def test_open_dimensions_come_before_fixed_ones(kit):
    model = kit.make([("Neg", ["x"], ["y"])], {"x": ("n", 4), "z": (2, 4)}, ["y"])
    assert kit.load(model, batch=5).graph.entry_type(0).shape == (5, 4)
