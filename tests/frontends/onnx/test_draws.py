"""Ops that draw random numbers: distributions, seeds, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import graph_runtime as gr  # noqa: E402

helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
COUNT = 40_000


def _model(op: str, out: int, x_shape=None, **attrs):
    """y = op(x), with an x where ``x_shape`` says which."""
    info = helper.make_tensor_value_info
    inputs = [] if x_shape is None else [info("x", FLOAT, x_shape)]
    node = helper.make_node(op, ["x"] * len(inputs), ["y"], name="draw", **attrs)
    graph = helper.make_graph([node], "g", inputs, [info("y", out, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _drawn(module, **feeds) -> np.ndarray:
    module.run(**feeds)
    return module.get_output(0).numpy().copy()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("like", [False, True])
def test_moments(dtype, like):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if dtype != "bfloat16" else 16
    ends = {"dtype": code, "seed": 5.0}
    ends |= {} if like else {"shape": [COUNT]}
    x = {"x": np.zeros(COUNT, np.float32)} if like else {}
    shape, suffix = ("n",) if like else None, "Like" if like else ""
    y = _drawn(gr.create(_model("RandomNormal" + suffix, code, shape, mean=3.0, scale=2.0, **ends)), **x)
    assert y.dtype.name == dtype
    wide = y.astype(np.float64)
    assert abs(wide.mean() - 3) < 5 * 2 / COUNT**0.5
    assert abs(wide.std() - 2) < 0.05
    assert abs((np.abs(wide - 3) < 2).mean() - 0.6827) < 0.015
    y = _drawn(gr.create(_model("RandomUniform" + suffix, code, shape, low=-1.0, high=3.0, **ends)), **x)
    wide = y.astype(np.float64)
    assert wide.min() >= -1
    assert wide.max() < 3
    assert abs(wide.mean() - 1) < 0.03
    assert abs(wide.std() - 4 / 12**0.5) < 0.03


def _seeded(seed: float | None):
    node = helper.make_node("RandomNormal", [], ["y"], shape=[50], **({} if seed is None else {"seed": seed}))
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_seed_begins_anew_in_each_session_and_goes_on_from_run_to_run():
    one, other = gr.create(_seeded(7.0)), gr.create(_seeded(7.0))
    first, second = _drawn(one), _drawn(one)
    assert (first != second).all()
    assert (_drawn(other) == first).all()
    assert (_drawn(gr.create(_seeded(8.0))) != first).all()
    assert (_drawn(gr.create(_seeded(None))) != _drawn(gr.create(_seeded(None)))).all()


def test_draws_by_probabilities():
    x = np.repeat(np.float32([[0.1], [0.7]]), COUNT, 1)
    y = _drawn(gr.create(_model("Bernoulli", 9, (2, COUNT), dtype=9, seed=1.0)), x=x)
    assert y.dtype == bool
    np.testing.assert_allclose(y.mean(axis=1), [0.1, 0.7], atol=0.015)
    odds = np.float32([[0.1, 0.2, 0.7], [0.5, 0.5, 0]])
    with np.errstate(divide="ignore"):
        x = np.log(odds) + 80  # not normalised
    y = _drawn(gr.create(_model("Multinomial", 6, (2, 3), sample_size=COUNT, seed=1.0)), x=x)
    found = np.stack([np.bincount(row, minlength=3) for row in y]) / COUNT
    np.testing.assert_allclose(found, odds, atol=0.015)
    assert found[1, 2] == 0


@pytest.mark.parametrize(
    ("op", "attrs", "text"),
    [
        ("Multinomial", {"sample_size": 0}, "sample_size is 0"),
        ("Multinomial", {"dtype": 1}, "int32 or int64"),
        ("RandomNormal", {"shape": [-1]}, "sizes of 0 or more"),
        ("RandomUniform", {"shape": [2**40]}, "at most"),
        ("RandomUniform", {"shape": [2], "dtype": 7}, "a type of floats"),
        ("RandomNormal", {}, "its attributes do not fit"),
    ],
)
def test_what_a_node_cannot_draw_is_refused_before_a_run(op, attrs, text):
    model = _model(op, FLOAT, None if op.startswith("Random") else (2, 3), **attrs)
    with pytest.raises(gr.GraphError, match=text) as caught:
        gr.create(model)
    assert caught.value.path == "$.graph.node[0]"


@pytest.mark.parametrize("op", ["Bernoulli", "Multinomial"])
def test_values_that_are_no_odds_are_refused_and_the_session_goes_on(op):
    module = gr.create(_model(op, FLOAT if op == "Bernoulli" else 6, (2, 3)))
    with pytest.raises(gr.GraphError, match="'draw'"):
        module.run(x=np.full((2, 3), np.nan, np.float32))
    _drawn(module, x=np.full((2, 3), 0.5, np.float32))


def _dropout(x_type=FLOAT, ratio=0.25, training=True, live=False, outputs=2, **attrs):
    """y, mask = Dropout(x, ratio, training), ratio and training inputs where ``live``."""
    info, tensor = helper.make_tensor_value_info, onnx.numpy_helper.from_array
    given = [tensor(np.array(training), "t")]
    given += [] if ratio is None else [tensor(np.float32(ratio), "r")]
    inputs = [info("x", x_type, ["n"])] + [info(t.name, t.data_type, []) for t in given if live]
    node = helper.make_node(
        "Dropout", ["x", "" if ratio is None else "r", "t"], ["y", "m"][:outputs], name="drop", **attrs
    )
    found = [info("y", x_type, None), info("m", onnx.TensorProto.BOOL, None)][:outputs]
    graph = helper.make_graph([node], "g", inputs, found, [] if live else given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("ratio", [0.25, None, 0.9])
def test_dropout_that_trains(dtype, ratio):
    module = gr.create(_dropout(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ratio, seed=3))
    x, part = np.random.default_rng(1).standard_normal(COUNT).astype(dtype), 0.5 if ratio is None else ratio
    module.run(x=x)
    y, kept = (module.get_output(i).numpy() for i in range(2))
    assert (y.dtype.name, kept.dtype) == (dtype, np.bool_)
    assert abs(kept.mean() - (1 - part)) < 0.015
    bound = 2e-3 if dtype == "float16" else 1e-6
    np.testing.assert_allclose(y, np.where(kept, x.astype(np.float64) / (1 - part), 0), rtol=bound)
    again = module.get_output(1).numpy().copy()
    module.run(x=x)
    assert (module.get_output(1).numpy() != again).any()


def test_dropout_trains_as_the_run_says():
    module, x = gr.create(_dropout(live=True, seed=3)), np.arange(1, 1001, dtype=np.float32)
    for training, ratio in ((True, 0.25), (False, 0.25), (True, 0.0), (True, 0.5), (False, 0.5)):
        module.run(x=x, t=np.array(training), r=np.float32(ratio))
        y, kept = (module.get_output(i).numpy() for i in range(2))
        drops = training and ratio > 0
        np.testing.assert_allclose(y, np.where(kept, x / (1 - ratio if drops else 1), 0), rtol=1e-6)
        assert kept.all() != drops


def test_dropout_keeps_to_its_seed_and_refuses_a_ratio_of_all():
    x = np.ones(100, np.float32)
    made = [_drawn(gr.create(_dropout(outputs=1, seed=seed)), x=x) for seed in (3, 3, 4)]
    np.testing.assert_equal(made[0], made[1])
    assert (made[0] != made[2]).any()
    with pytest.raises(gr.GraphRuntimeError, match=r"ratio is 1\.0"):
        gr.create(_dropout(ratio=1.0)).run(x=x)
