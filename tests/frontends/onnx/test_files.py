"""Files: where weights lie, what is refused, and that nothing is read or allocated before it must be."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from graph_runtime.base.errors import (  # noqa: E402
    DocumentError,
    GraphError,
    GraphRuntimeError,
    InputError,
    MissingDataError,
)
from graph_runtime.frontends.onnx import wire  # noqa: E402

WIDE = np.arange(3000, dtype=np.float32).reshape(50, 60)


def _proto(kit, weight=WIDE):
    return kit.make([("MatMul", ["x", "w"], ["y"])], {"x": (2, 50)}, ["y"], {"w": weight})


def test_large_weights_are_not_copied_by_the_parser(kit, tmp_path):
    data = _proto(kit).SerializeToString()
    rest, spans = wire.split(memoryview(data))
    assert len(rest) < 400
    (span,) = spans.values()
    assert data[span.offset : span.offset + span.length] == WIDE.tobytes()
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    for source in (path, str(path), data, _proto(kit)):
        constant = kit.load(source).constants["w"]
        np.testing.assert_array_equal(constant.read(), WIDE)


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "float64",
        "float16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
    ],
)
@pytest.mark.parametrize("raw", [True, False])
def test_every_element_type_is_read_as_onnx_reads_it(kit, dtype, raw):
    values = np.array([[0, 1, 3], [2, 100, 7]]).astype(dtype)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    tensor = helper.make_tensor("w", code, values.shape, values.tobytes() if raw else values.flatten(), raw)
    proto = kit.make([("Identity", ["w"], ["y"])], {}, ["y"])
    proto.graph.initializer.append(tensor)
    constant = kit.load(proto).constants["w"]
    np.testing.assert_array_equal(constant.read(), numpy_helper.to_array(tensor), strict=True)


def _external(kit, tmp_path, **said):
    proto = _proto(kit)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in said.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    path = tmp_path / "model" / "m.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data_is_mapped(kit, tmp_path):
    path = _external(kit, tmp_path, location="w.bin", offset=16, length=WIDE.nbytes)
    (path.parent / "w.bin").write_bytes(b"\0" * 16 + WIDE.tobytes())
    np.testing.assert_array_equal(kit.load(path).constants["w"].read(), WIDE)


def test_external_data_may_be_absent_until_it_is_read(kit, tmp_path):
    path = _external(kit, tmp_path, location="w.bin")
    constant = kit.load(path).constants["w"]
    assert constant.type.shape == (50, 60)
    with pytest.raises(MissingDataError, match=r"'w' of m\.onnx.*w\.bin"):
        constant.read()


@pytest.mark.parametrize(
    "said",
    [
        {"location": "../w.bin"},
        {"location": "/etc/passwd"},
        {"location": "a/../../w.bin"},
        {"location": "link.bin"},
        {"location": ""},
        {"location": "w.bin", "offset": 1},
        {"location": "w.bin", "offset": -4},
        {"location": "w.bin", "length": 4},
        {"location": "w.bin", "offset": "four"},
        {"offset": 0},
    ],
)
def test_external_data_stays_in_its_folder_and_file(kit, tmp_path, said):
    path = _external(kit, tmp_path, **said)
    (tmp_path / "w.bin").write_bytes(WIDE.tobytes())
    (path.parent / "w.bin").write_bytes(WIDE.tobytes())
    (path.parent / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(GraphError, match="initializer 'w'"):
        kit.load(path)


@pytest.mark.parametrize("inner", ["", "onnx"])
def test_external_data_of_a_cache_that_names_files_by_hashes(kit, tmp_path, inner, monkeypatch):
    """As Hugging Face's: snapshots have links into blobs, the model's own and its data's."""
    made = _external(kit, tmp_path, location="m.onnx_data")
    snapshot, blobs = tmp_path / "snapshots" / "main" / inner, tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    made.rename(blobs / "aa")
    (blobs / "bb").write_bytes(WIDE.tobytes())
    up = os.path.relpath(blobs, snapshot)
    (snapshot / "m.onnx").symlink_to(f"{up}/aa")
    (snapshot / "m.onnx_data").symlink_to(f"{up}/bb")
    for path in (snapshot / "m.onnx", os.path.relpath(snapshot / "m.onnx")):
        np.testing.assert_array_equal(kit.load(path).constants["w"].read(), WIDE)
    monkeypatch.chdir(snapshot)
    np.testing.assert_array_equal(kit.load("m.onnx").constants["w"].read(), WIDE)
    bytes_, folder = (snapshot / "m.onnx").read_bytes(), snapshot / "m.onnx"
    np.testing.assert_array_equal(kit.load(bytes_, folder=folder).constants["w"].read(), WIDE)
    (tmp_path / "secret").write_bytes(WIDE.tobytes())
    (snapshot / "m.onnx_data").unlink()
    (snapshot / "m.onnx_data").symlink_to(tmp_path / "secret")
    with pytest.raises(
        GraphError, match=r"is outside the model's folder: it leads to .*secret; copy the file into"
    ):
        kit.load(snapshot / "m.onnx")


@pytest.mark.parametrize("location", ["../../blobs/bb", "../blobs/bb"])
def test_external_data_of_a_cache_is_named_in_the_models_own_folder(kit, tmp_path, location):
    made = _external(kit, tmp_path, location=location)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (blobs / "bb").write_bytes(WIDE.tobytes())
    made.rename(blobs / "aa")
    made.symlink_to(blobs / "aa")
    with pytest.raises(GraphError, match="is outside the model's folder"):
        kit.load(made)


def test_external_data_in_a_pipe_does_not_hang(kit, tmp_path):
    path = _external(kit, tmp_path, location="pipe")
    os.mkfifo(path.parent / "pipe")
    with pytest.raises(DocumentError, match="it is a pipe: give a regular file"):
        kit.load(path).constants["w"].read()


def test_external_data_with_a_name_that_no_file_can_have_is_absent(kit, tmp_path):
    constant = kit.load(_external(kit, tmp_path, location="x" * 5000)).constants["w"]
    with pytest.raises(MissingDataError, match="absent"):
        constant.read()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "no graph"),
        (b"\x00\x01", "wire type|no number|no ONNX"),
        (b"hello, world", "ONNX model"),
        (b"\x3a\xff\xff\xff\xff\x0f", "cut off"),
        (b"\x08\x07", "no graph"),
        (b"\xff" * 20, "no number"),
    ],
)
def test_what_is_no_model_is_refused(kit, data, text):
    with pytest.raises(DocumentError, match=text):
        kit.load(data)


def test_files_that_are_not_there_or_empty(kit, tmp_path):
    with pytest.raises(DocumentError, match="no file"):
        kit.load(tmp_path / "none.onnx")
    (tmp_path / "empty.onnx").touch()
    with pytest.raises(DocumentError, match="empty"):
        kit.load(tmp_path / "empty.onnx")
    with pytest.raises(InputError, match="given by a path"):
        kit.load(3)


def _graph_error(kit, proto, text):
    with pytest.raises(GraphError, match=text) as caught:
        kit.load(proto)
    assert caught.value.path.startswith("$.")


def test_graphs_that_are_none_are_refused(kit):
    relu = ("Relu", ["x"], ["y"])
    cycle = [("Add", ["x", "z"], ["y"]), ("Relu", ["y"], ["z"])]
    _graph_error(kit, kit.make(cycle, {"x": (2,)}, ["z"]), "cycle")
    _graph_error(kit, kit.make([("Relu", ["none"], ["y"])], {"x": (2,)}, ["y"]), "no node makes")
    _graph_error(kit, kit.make([relu, relu], {"x": (2,)}, ["y"]), "exists already")
    _graph_error(kit, kit.make([("Relu", ["x"], ["x"])], {"x": (2,)}, ["x"]), "exists already")
    _graph_error(kit, kit.make([relu], {"x": (2,)}, ["q"]), "no node makes output 'q'")
    _graph_error(kit, kit.make([relu], {"x": (2,)}, []), "no outputs")
    _graph_error(kit, kit.make([("Add", ["x", "x"], ["y"])], {"x": (2,)}, ["y"], opset=6), "opset 6")
    _graph_error(kit, kit.make([relu], {"x": (2,)}, ["y"], opset=99), "opset 99")
    add, three = ("Add", ["x", "w"], ["y"]), {"w": np.ones(3, np.float32)}
    _graph_error(kit, kit.make([add], {"x": (2,)}, ["y"], three), "do not broadcast")
    twice = kit.make([relu], {"x": (2,)}, ["y"])
    twice.graph.input.append(twice.graph.input[0])
    _graph_error(kit, twice, "occurs twice")
    for made in ([""], ["", ""]):  # a name that is absent is none
        op = "Relu" if len(made) == 1 else "Split"
        _graph_error(kit, kit.make([(op, ["x"], made)], {"x": (2,)}, [""]), "no node makes output ''")


def test_an_old_opset_passes_where_its_ops_have_not_changed(kit):
    proto = kit.make([("Not", ["x"], ["y"])], {"x": (kit.BOOL, (2,))}, ["y"], opset=1)
    assert kit.load(proto).output_names == ("y",)


def _declared(shape, dtype=TensorProto.FLOAT, data=b"\0" * 4000):
    return TensorProto(name="w", dims=shape, data_type=dtype, raw_data=data)


@pytest.mark.parametrize(
    "tensor",
    [
        _declared([10**9, 10**9]),
        _declared([2**62, 4]),
        _declared([-1]),
        _declared([999]),
        _declared([1001]),
        _declared([0, 2**62], data=b""),
        _declared([1] * 33, data=bytes(4)),
        _declared([0] * 100, data=b""),
        _declared([1000], TensorProto.STRING),
        _declared([1000], 99),
        _declared([10**6], data=b"\0\0"),
    ],
)
def test_tensors_whose_data_contradicts_them_are_refused_before_they_are_made(kit, tensor):
    proto = kit.make([("Identity", ["w"], ["y"])], {}, ["y"])
    proto.graph.initializer.append(tensor)
    with pytest.raises(GraphError, match="initializer 'w'"):
        kit.load(proto)


@pytest.mark.parametrize(
    ("op", "shape", "inputs"),
    [
        ("ConstantOfShape", [10**9, 10**9], ["s"]),
        ("Expand", [10**12, 10**4], ["one", "s"]),
        ("Expand", [1] * 60, ["one", "s"]),
        ("AffineGrid", [1, 1, 2**31, 2**31, 2**31], ["theta", "s"]),
        ("Tile", [10**15], ["one", "s"]),
        ("Range", [0], ["zero", "much", "one0"]),
    ],
)
def test_tensors_beyond_reason_are_refused_before_they_are_made(kit, op, shape, inputs):
    weights = {
        "s": np.array(shape),
        "one": np.ones(1, np.float32),
        "zero": np.array(0),
        "much": np.array(10**15),
        "one0": np.array(1),
        "theta": np.ones((1, 3, 4), np.float32),
    }
    used = {name: weights[name] for name in inputs}
    with pytest.raises(
        GraphRuntimeError, match=r"than is supported|at most|2\*\*31|supports up to|may take only"
    ):
        kit.load(kit.make([(op, inputs, ["y"])], {}, ["y"], used))


def test_an_output_of_another_type_than_declared_is_refused(kit):
    proto = kit.make([("Relu", ["x"], ["y"])], {"x": (2,)}, ["y"])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    _graph_error(kit, proto, "declared as int64")


def test_onnx_is_imported_where_a_file_is_read_only():
    code = "import sys, graph_runtime, graph_runtime.cli; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_extra_is_named_with_its_command(kit, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match="pip install 'onnx>="):
        kit.load(b"")
