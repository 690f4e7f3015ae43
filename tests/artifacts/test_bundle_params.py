"""Parameters of a bundle, read as those of any other file."""

import json
import shutil
import zipfile

import numpy as np
import orjson
import pytest

import graph_runtime as gr
from graph_runtime import cli
from graph_runtime.artifacts.bundles.bundle import BundleProgram
from graph_runtime.artifacts.bundles.writer import write_bundle
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.base.errors import DocumentError, ParamsError
from graph_runtime.ir.documents.params import save_params

VALUES = {
    "w": np.arange(6, dtype="f4").reshape(2, 3),
    "b": np.array([True, False]),
    "empty": np.zeros((0, 2)),
}


def write(path, values=None, programs=None):
    values = VALUES if values is None else values
    programs = programs or [BundleProgram("main", "main.json", (), (), {name: name for name in values})]
    return write_bundle(
        path,
        devices=["cpu:0"],
        programs=programs,
        libraries=(),
        params=values,
        files={program.graph: b"{}" for program in programs},
    )


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype


@pytest.mark.parametrize("name", ["p.bundle", "p.zip", "p.bundle/params.bin"])
def test_a_path_into_a_bundle_gives_its_parameters(tmp_path, name):
    write(tmp_path / name.partition("/")[0])
    same(gr.load_params(tmp_path / name), VALUES)
    same(read_params(str(tmp_path / name)), VALUES)
    assert not read_params(tmp_path / name)["w"].flags.writeable


def test_names_are_those_of_inputs_and_every_value_is_there(tmp_path):
    values = {"k": np.ones(2, "f4"), "b/w": np.zeros(2, "f4"), "of no program": np.full(2, 3, "f4")}
    programs = [
        BundleProgram("a", "main.json", (), (), {"w": "k"}),
        BundleProgram("b", "b.json", (), (), {"w": "b/w", "v": "k"}),
    ]
    found = read_params(write(tmp_path / "two.bundle", values, programs))
    same(
        found,
        {"w": values["k"], "v": values["k"], "b/w": values["b/w"], "of no program": values["of no program"]},
    )


def test_a_bundle_without_parameters_has_none(tmp_path):
    assert read_params(write(tmp_path / "p.bundle", {}, [BundleProgram("m", "main.json", (), ())])) == {}


def test_a_module_takes_them(tmp_path):
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("w", (2, 3))))
    module = gr.create(builder.build())
    module.load_params(write(tmp_path / "p.bundle", {"w": VALUES["w"]}) / "params.bin")
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), VALUES["w"])


@pytest.mark.parametrize("first", [b"{", b"\x08\x07\x12\x07pytorch", b"PK\x03\x04", b" \n{", b"\x00"])
def test_inspect_shows_them_whatever_the_values_begin_with(tmp_path, capsys, first):
    raw = np.frombuffer(first.ljust(16), np.uint8)
    with pytest.raises(SystemExit) as caught:
        cli.main(["inspect", str(write(tmp_path / "p.bundle", {"raw": raw}) / "params.bin"), "--json"])
    assert not caught.value.code
    found = orjson.loads(capsys.readouterr().out)
    assert (found["kind"], found["arrays"][0]["name"], found["bytes"]) == ("params", "raw", 16)


def test_the_file_alone_says_what_is_missing(tmp_path):
    shutil.copy(write(tmp_path / "p.bundle") / "params.bin", tmp_path / "alone.bin")
    for source in (tmp_path / "alone.bin", (tmp_path / "alone.bin").read_bytes()):
        with pytest.raises(ParamsError, match=r"bundle\.json beside"):
            read_params(source)


def test_other_files_beside_a_bundles_index_stay_what_they_are(tmp_path):
    path = write(tmp_path / "p.bundle")
    save_params({"x": np.ones(3, "f4")}, path / "tvm.params")
    np.savez(path / "x.npz", x=np.ones(3, "f4"))
    for name in ("tvm.params", "x.npz"):
        same(read_params(path / name), {"x": np.ones(3, "f4")})
    with pytest.raises(ParamsError, match=r"main\.json"):
        read_params(path / "main.json")


def test_damage_is_an_error_of_ours(tmp_path):
    path = write(tmp_path / "p.bundle")
    (path / "params.bin").write_bytes(b"short")
    for name in (path, path / "params.bin"):
        with pytest.raises(DocumentError, match="bytes"):
            read_params(name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DocumentError, match="no bundle"):
        read_params(tmp_path / "empty")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", b"b")
    with pytest.raises(DocumentError, match="no bundle"):
        read_params(tmp_path / "other.zip")
    with pytest.raises(ParamsError):
        read_params(tmp_path / "absent")


def test_a_shape_that_no_array_has_is_refused(tmp_path):
    path = write(tmp_path / "p.bundle")
    index = json.loads((path / "bundle.json").read_bytes())
    index["params"]["tensors"]["empty"]["shape"] = [0, 1 << 61]
    (path / "bundle.json").write_text(json.dumps(index))
    with pytest.raises(ParamsError, match="'empty'"):
        gr.load_params(path)
