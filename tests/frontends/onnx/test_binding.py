"""What a file leaves open: dimensions, whole shapes, values; by load_model, create and the commands."""

from __future__ import annotations

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime import cli  # noqa: E402
from graph_runtime.base.errors import InputError  # noqa: E402
from graph_runtime.frontends.onnx import load_model  # noqa: E402
from graph_runtime.frontends.onnx.describe import describe  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def _model(nodes, inputs, outputs=("y",), initial=()):
    """``inputs``: {name: (element type, shape)}; a shape of None is absent."""
    infos = [helper.make_tensor_value_info(name, *type_) for name, type_ in inputs.items()]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", infos, made, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _types(model):
    graph = model.graph
    return {
        name: tuple(graph.entry_type(int(eid)).shape)
        for name, eid in zip(graph.input_names, graph.input_eids, strict=True)
        if name not in model.constants
    }


RESHAPED = _model(
    [helper.make_node("Reshape", ["x", "to"], ["y"])], {"x": (FLOAT, ["n", 6]), "to": (INT64, ["rank"])}
)
SCALED = _model(
    [
        helper.make_node("Cast", ["sr"], ["wide"], to=FLOAT),
        helper.make_node("Mul", ["x", "wide"], ["y"]),
    ],
    {"x": (FLOAT, [2]), "sr": (INT64, [])},
)


def test_a_value_is_a_constant_and_its_size_binds_a_dimension():
    model = load_model(RESHAPED, dims={"n": 2}, values={"to": [3, -1]})
    assert _types(model) == {"x": (2, 6)}
    assert model.graph.entry_type(int(model.graph.outputs[0])).shape == (3, 4)


@pytest.mark.parametrize("value", [16000, 16000.0, [16000], np.int32(16000), np.array([[16000]])])
def test_one_number_fits_every_type_of_one_element(value):
    module = gr.create(SCALED, values={"sr": value})
    module.run(x=np.array([1, 2], "float32"))
    np.testing.assert_array_equal(module.get_output(0).numpy(), [16000, 32000])


@pytest.mark.parametrize("value", [16000.5, [1, 2], float("nan")])
def test_a_value_that_the_type_has_not_is_refused(value):
    with pytest.raises(InputError, match="input 'sr' is int64"):
        load_model(SCALED, values={"sr": value})


def test_a_value_for_no_input_says_which_are():
    with pytest.raises(InputError, match=r"no input 'rs' .there are: sr, x"):
        load_model(SCALED, values={"rs": 1})


def test_an_input_without_a_shape_gets_all_of_it():
    model = _model([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, None)})
    with pytest.raises(InputError, match=r"x \(the whole shape, as 1x3x224x224\)"):
        load_model(model)
    with pytest.raises(InputError, match="the whole shape"):
        load_model(model, dims={"x": 3})
    for shape in ((), (3,), (2, 1, 4)):
        assert _types(load_model(model, dims={"x": shape})) == {"x": shape}
    assert _types(load_model(model, values={"x": np.ones((2, 2))})) == {}


def test_an_absent_shape_is_refused_beside_open_dimensions():
    model = _model([helper.make_node("Add", ["x", "z"], ["y"])], {"x": (FLOAT, None), "z": (FLOAT, ["n", 2])})
    with pytest.raises(InputError, match=r"x \(the whole.*n \(axis 0 of 'z'\)") as caught:
        load_model(model)
    assert len(caught.value.wanted) == 2
    assert _types(load_model(model, dims={"x": (2,), "n": 3})) == {"x": (2,), "z": (3, 2)}


def test_create_takes_a_proto_and_its_bytes():
    x = np.array([1, 2], "float32")
    for source in (SCALED, SCALED.SerializeToString(), bytearray(SCALED.SerializeToString())):
        module = gr.create(source)
        module.run(x=x, sr=np.int64(3))
        np.testing.assert_array_equal(module.get_output(0).numpy(), 3 * x)


def test_a_batch_leaves_inputs_with_a_value_alone():
    model = _model(
        [helper.make_node("Mul", ["x", "scale"], ["y"])], {"x": (FLOAT, [1, 3]), "scale": (FLOAT, [3])}
    )
    assert _types(load_model(model, batch=4, values={"scale": [1, 2, 3]})) == {"x": (4, 3)}


def test_weights_that_constant_of_shape_makes_are_constants():
    filled = helper.make_node(
        "ConstantOfShape", ["size"], ["w"], value=numpy_helper.from_array(np.array([0.5], "float32"))
    )
    size = numpy_helper.from_array(np.array([300, 3, 8, 8]), "size")
    model = _model(
        [filled, helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (FLOAT, [1, 3, 9, 9])}, initial=[size]
    )
    loaded = load_model(model)
    assert [f.op for f in loaded.graph.funcs] == ["conv2d"]
    (weight,) = loaded.constants.values()
    assert weight.type.shape == (300, 3, 8, 8)
    assert weight.read().max() == 0.5


def test_describe_says_what_may_be_bound():
    found = describe(RESHAPED)
    assert found["inputs"] == {"x": "float32[n, 6]", "to": "int64[rank]"}
    assert found["open"] == {"n=1": "axis 0 of 'x'", "rank=1": "axis 0 of 'to'"}
    assert found["ops"] == ["Reshape"]
    assert found["unsupported"] == []
    other = _model([helper.make_node("Own", ["x"], ["y"], domain="my")], {"x": (FLOAT, None)})
    assert describe(other)["unsupported"] == ["my.Own"]


def _command(capsys, *args):
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(arg) for arg in args])
    return stopped.value.code or 0, *capsys.readouterr()


def test_commands_bind_values_and_batches(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(SCALED, "scaled.onnx")
    onnx.save(RESHAPED, "reshaped.onnx")
    code, out, _ = _command(capsys, "inspect", "reshaped.onnx")
    assert code == 0
    assert "inspect reshaped.onnx --dim n=1 --dim rank=1" in out
    code, out, _ = _command(capsys, "inspect", "reshaped.onnx", "--dim", "n=2", "--value", "to=2,6", "--json")
    assert json.loads(out)["inputs"] == {"x": "float32[2, 6]"}
    np.save("x.npy", np.array([1, 2], "float32"))
    args = ("run", "scaled.onnx", "--input", "x=x.npy", "--value", "sr=3", "-o", "out.npz", "--no-compile")
    assert _command(capsys, *args)[0] == 0
    with np.load("out.npz") as made:
        assert made.files == ["y"]
        np.testing.assert_array_equal(made["y"], [3, 6])
    code, out, _ = _command(
        capsys,
        "run",
        "reshaped.onnx",
        "--batch",
        "2",
        "--value",
        "to=12",
        "--input",
        "x=random",
        "--no-compile",
    )
    assert "float32[12]" in out


def test_another_runtime_gets_the_values_too(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "scaled.onnx"
    onnx.save(SCALED, path)
    code, out, _ = _command(
        capsys, "run", path, "--value", "sr=3", "--against", "onnxruntime", "--no-compile"
    )
    assert code == 0, out
