"""RNN, GRU and LSTM: one kernel over all steps on cpu and on tt, against ONNX Runtime."""

from __future__ import annotations

import time

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.artifacts.prepare import prepare  # noqa: E402
from graph_runtime.base.errors import UnsupportedOpError  # noqa: E402
from graph_runtime.frontends.onnx import load_model  # noqa: E402

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_WAYS = ("forward", "reverse", "bidirectional")


def _network(
    op, steps=7, batch=3, features=5, hidden=9, lengths=None, states=False, dtype="float32", **attrs
):
    """(model, its inputs) of one node with random weights; ``lengths`` is an input, not a constant."""
    rng = np.random.default_rng(5)
    directions, gates = 2 if attrs.get("direction") == "bidirectional" else 1, _GATES[op]
    peepholes = attrs.pop("peepholes", False)
    shapes = {
        "w": (directions, gates * hidden, features),
        "r": (directions, gates * hidden, hidden),
        "b": (directions, 2 * gates * hidden),
    }
    state = (batch, directions, hidden) if attrs.get("layout") else (directions, batch, hidden)
    values = {
        "x": rng.standard_normal(
            (batch, steps, features) if attrs.get("layout") else (steps, batch, features)
        )
    }
    names = ["x", "w", "r", "b", "", "", "", ""]
    if states:
        values["h"] = rng.standard_normal(state)
        names[5] = "h"
        if op == "LSTM":
            values["c"], names[6] = rng.standard_normal(state), "c"
    if peepholes:
        shapes["p"], names[7] = (directions, 3 * hidden), "p"
    values = {name: value.astype(dtype) for name, value in values.items()}
    if lengths is not None:
        values["lengths"], names[4] = np.array(lengths, np.int32), "lengths"
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in values.items()
    ]
    weights = [
        numpy_helper.from_array((0.4 * rng.standard_normal(shape)).astype(dtype), name)
        for name, shape in shapes.items()
    ]
    made = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op, names, made, name="the_cell", hidden_size=hidden, **attrs)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node], "g", infos, [helper.make_tensor_value_info(name, code, None) for name in made], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), values


def _run(model, values, devices=("cpu:0",), **options):
    module = gr.create(model, devices=list(devices), compile=False, **options)
    module.run(**values)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


_CASES = {
    **{f"{op} {way}": (op, {"direction": way}) for op in _GATES for way in _WAYS},
    **{f"{op} states": (op, {"states": True, "direction": "bidirectional"}) for op in _GATES},
    **{f"{op} lengths": (op, {"lengths": [7, 2, 5], "direction": "bidirectional"}) for op in _GATES},
    **{f"{op} clip": (op, {"clip": 0.4}) for op in _GATES},
    "one row, wide": ("LSTM", {"batch": 1, "hidden": 70, "steps": 3}),
    "many rows": ("GRU", {"batch": 33, "hidden": 32, "direction": "bidirectional"}),
    "peepholes": ("LSTM", {"peepholes": True, "direction": "bidirectional", "lengths": [1, 7, 4]}),
    "coupled": ("LSTM", {"input_forget": 1}),
    "late": ("GRU", {"linear_before_reset": 1, "direction": "bidirectional", "states": True}),
    "late, lengths": ("GRU", {"linear_before_reset": 1, "direction": "reverse", "lengths": [3, 7, 6]}),
    "functions": (
        "LSTM",
        {
            "activations": ["HardSigmoid", "LeakyRelu", "Softsign", "Affine", "Tanh", "ScaledTanh"],
            "activation_alpha": [0.3, 0.2, 0.8, 0.9],
            "activation_beta": [0.4, 0.1, 1.1],
            "direction": "bidirectional",
        },
    ),
    "rectified": ("RNN", {"activations": ["Relu"]}),
}


@pytest.mark.parametrize("case", _CASES)
def test_as_onnx_runtime(case):
    ort = pytest.importorskip("onnxruntime")
    op, attrs = _CASES[case]
    model, values = _network(op, **attrs)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, values)
    for got, expected in zip(_run(model, values), wanted, strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-6)


def _on_grids(way, by_column=False, dtype="int8"):
    """com.microsoft.DynamicQuantizeLSTM: weights of seven bits, as ONNX Runtime saturates above those on CPUs
    without VNNI."""
    model, values = _network("LSTM", direction=way, hidden=16, states=True)
    graph = model.graph
    node, made = graph.node[0], {w.name: numpy_helper.to_array(w) for w in graph.initializer}
    zero = 70 if dtype == "uint8" else 0
    for name in "wr":
        weights = made[name].transpose(0, 2, 1)
        scale = np.abs(weights).max(axis=1 if by_column else (1, 2)) / 63
        steps = np.round(weights / (scale[:, None] if by_column else scale[:, None, None]))
        made[name] = (steps + zero).astype(dtype)
        made[name + "_scale"], made[name + "_zero"] = scale, np.full(scale.shape, zero, dtype)
    del graph.initializer[:]
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in made.items())
    node.op_type, node.domain = "DynamicQuantizeLSTM", "com.microsoft"
    node.input.extend([""] * (8 - len(node.input)) + ["w_scale", "w_zero", "r_scale", "r_zero"])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model, values


@pytest.mark.parametrize("way", ["forward", "bidirectional"])
@pytest.mark.parametrize(("by_column", "dtype"), [(False, "int8"), (True, "int8"), (True, "uint8")])
def test_weights_on_a_grid(way, by_column, dtype):
    """Both sides round the state to a grid of 8 bits in each step, ONNX Runtime to one of all rows."""
    ort = pytest.importorskip("onnxruntime")
    model, values = _on_grids(way, by_column, dtype)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, values)
    for got, expected in zip(_run(model, values), wanted, strict=True):
        assert np.abs(got - expected).max() < 0.02 * np.abs(expected).max()


def test_cells_in_bytes():
    """On a host all products of a cell whose weights are on grids are of bytes; weights that a run brings,
    and those that tt could multiply, are floats."""
    model, values = _on_grids("bidirectional")
    known = prepare(model, ["cpu:0"]).model.constants
    assert [c.type.dtype for name, c in known.items() if name.endswith(".panels")] == ["int8"] * 2
    wanted = _run(model, values)
    given = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer if w.name in "wr"}
    for w in [w for w in model.graph.initializer if w.name in given]:
        model.graph.input.append(helper.make_tensor_value_info(w.name, w.data_type, w.dims))
        model.graph.initializer.remove(w)
    for devices in (["cpu:0"], ["tt:0", "cpu:0"]):
        made = _run(model, {**values, **given}, devices)
        for a, b in zip(made, wanted, strict=True):
            assert np.abs(a - b).max() < 0.02 * np.abs(b).max()


@pytest.mark.parametrize("op", _GATES)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-6), ("float16", 1e-2)])
def test_other_floats(op, dtype, rtol):
    model, values = _network(op, direction="bidirectional", dtype=dtype)
    single = _run(*_network(op, direction="bidirectional"))
    for got, wanted in zip(_run(model, values), single, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("op", _GATES)
def test_batch_first(op):
    model, values = _network(op, layout=1, states=True, direction="bidirectional")
    plain, moved = _network(op, states=True, direction="bidirectional")
    moved = {name: value.transpose(1, 0, 2).copy() for name, value in values.items()}
    y, *states = _run(plain, moved)
    for got, wanted in zip(
        _run(model, values), [y.transpose(2, 0, 1, 3), *(s.transpose(1, 0, 2) for s in states)], strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", _CASES)
def test_on_tt(case):
    op, attrs = _CASES[case]
    model, values = _network(op, **attrs)
    plain = _run(model, values)
    for got, wanted in zip(_run(model, values, ["tt:0"], formats={"tt": "f32"}), plain, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("case", [name for name in _CASES if "many" not in name])
def test_step_by_step_on_tt(case, monkeypatch):
    """Where a core has no room for the states."""
    monkeypatch.setattr("graph_runtime.ir.ops.products.recurrent.CELL_BYTES", 0)
    op, attrs = _CASES[case]
    model, values = _network(op, **attrs)
    plain = _run(model, values)
    for got, wanted in zip(_run(model, values, ["tt:0"], formats={"tt": "f32"}), plain, strict=True):
        assert np.abs(got - wanted).max() < 0.05 * max(1, np.abs(wanted).max())


def test_a_pin_to_tt_keeps_the_node_whole():
    model, values = _network("LSTM")
    plain = _run(model, values, ("cpu:0", "tt:0"))
    pinned = gr.create(model, devices=["cpu:0", "tt:0"], place={"the_cell": "tt:0"}, compile=False)
    pinned.run(**values)
    assert "lstm" in {f.op for f in pinned.session.graph.funcs}
    np.testing.assert_allclose(pinned.get_output(0).numpy(), plain[0], atol=0.05)


def test_a_long_sequence_is_one_node_and_imports_at_once():
    model, _ = _network("LSTM", steps=5000, direction="bidirectional")
    start = time.process_time()
    loaded = load_model(model)
    assert time.process_time() - start < 5  # unrolled it was 100,000 nodes
    assert loaded.graph.num_nodes < 20


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"activations": ["Sigmoid", "Tanh"]}, "activations has 2 names instead of 3"),
        ({"activations": ["Sigmoid", "Tanh", "Own"]}, "'Own' is not supported"),
        ({"direction": "sideways"}, "sideways"),
        ({"direction": "bidirectional", "hidden": 0}, "hidden size is 0|weights"),
    ],
)
def test_what_a_cell_cannot_be_is_refused(attrs, words):
    model, _ = _network("LSTM", **attrs)
    with pytest.raises(gr.GraphRuntimeError, match=words):
        load_model(model)


def test_lengths_that_are_known_are_checked():
    model, _ = _network("GRU", lengths=[1, 2, 3])
    with pytest.raises(UnsupportedOpError, match="sequence_lens are from 1 to 8, but there are 7 steps"):
        load_model(model, values={"lengths": [1, 8, 3]})
    known = load_model(model, values={"lengths": [7, 7, 7]})
    assert not any(f.attrs.get("lengths") for f in known.graph.funcs)


def test_lengths_beyond_the_steps_are_as_many():
    model, values = _network("GRU", lengths=[9, -2, 3])
    clamped, _ = _network("GRU", lengths=[7, 0, 3])
    for got, wanted in zip(
        _run(model, values), _run(clamped, {**values, "lengths": np.int32([7, 0, 3])}), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)
