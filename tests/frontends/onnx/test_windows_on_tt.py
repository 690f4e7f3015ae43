"""Pools and convolutions of volumes, norms of windows, maxima with their places: on tt as by numpy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

VOLUME, IMAGE = (1, 3, 5, 9, 33), (2, 5, 9, 35)


@pytest.mark.parametrize(
    ("node", "shape", "weights", "on_tt"),
    [
        (
            ("Conv", ["x", "w", "b"], ["y"], {"pads": [1] * 6}),
            VOLUME,
            {"w": (4, 3, 3, 3, 3), "b": (4,)},
            "conv3d",
        ),
        (("LRN", ["x"], ["y"], {"size": 3, "alpha": 0.5}), IMAGE, {}, "lrn"),
        (("LpPool", ["x"], ["y"], {"kernel_shape": [3, 2], "p": 3}), IMAGE, {}, ""),
        (("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 2], "dilations": [2, 3]}), IMAGE, {}, "max_pool2d"),
        (
            ("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 2, 2], "strides": [1, 2, 2]}),
            VOLUME,
            {},
            "max_pool2d",
        ),
        (("AveragePool", ["x"], ["y"], {"kernel_shape": [3, 2, 2], "pads": [1] * 6}), VOLUME, {}, ""),
    ],
    ids=["conv3d", "lrn", "norms", "dilated", "maxima of volumes", "means of volumes"],
)
def test_no_node_needs_a_host(kit, node, shape, weights, on_tt):
    rng = np.random.default_rng(0)
    made = {name: rng.standard_normal(size).astype(np.float32) for name, size in weights.items()}
    model = kit.load(kit.make([node], {"x": shape}, ["y"], made))
    assert not on_tt or on_tt in {func.op for func in model.graph.funcs}
    x = rng.standard_normal(shape).astype(np.float32)
    (found,) = kit.run(model, {"x": x}, ["tt:0"], formats={"tt": "f32"})
    np.testing.assert_allclose(found, kit.reference(model, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_maxima_and_their_places(kit):
    """The places are int32 on tt, which has no int64, wherever a model wants them as anything else."""
    from graph_runtime.artifacts.prepare import prepare
    from graph_runtime.run.factory import create

    nodes = [
        ("MaxPool", ["x"], ["y", "at"], {"kernel_shape": [3, 3]}),
        ("Cast", ["at"], ["place"], {"to": kit.FLOAT}),
    ]
    model = kit.load(kit.make(nodes, {"x": IMAGE}, ["y", "place"]))
    x = np.random.default_rng(1).standard_normal(IMAGE).astype(np.float32)
    module = create(prepare(model, ["tt:0"], formats={"tt": "f32"}).plan)
    module.run(x=x)
    for i, values in enumerate(kit.reference(model, {"x": x})):
        np.testing.assert_array_equal(module.get_output(i).numpy(), values)
