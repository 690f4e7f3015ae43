"""Bundles: whole or not at all, equal bytes for equal contents, nothing trusted."""

import os
import weakref
import zipfile
from importlib import resources

import jsonschema_rs
import numpy as np
import orjson
import pytest

from graph_runtime.artifacts.bundles.bundle import BundleLibrary, BundleProgram, read_bundle
from graph_runtime.artifacts.bundles.writer import write_bundle
from graph_runtime.base.errors import DocumentError, GraphRuntimeError, ParamsError
from graph_runtime.ir.graph import TensorType

KINDS = ["b.bundle", "b.zip"]


def write(path, **changes):
    parts = {
        "devices": ["cpu:0", "tt:0"],
        "params": {"weight": np.arange(4, dtype="f4")},
        "programs": [BundleProgram("main", "main.json", ("x",), ("y",), {"w": "weight"}, ((0, 0),))],
        "libraries": [BundleLibrary("lib/kernels.so", ("cpu", "tt"), "x86-64-v3")],
        "files": {
            "main.json": b"{}",
            "lib/kernels.so": b"\x7fELF...",
        },
    }
    return write_bundle(path, **{**parts, **changes})


@pytest.mark.parametrize("name", KINDS)
def test_what_is_written_is_read_back(tmp_path, name):
    bundle = read_bundle(write(tmp_path / name))
    assert bundle.devices == ("cpu:0", "tt:0")
    program = bundle.program()
    assert (program.name, program.inputs, program.outputs, program.aliases) == (
        "main",
        ("x",),
        ("y",),
        ((0, 0),),
    )
    assert bytes(bundle.read("main.json")) == b"{}"
    np.testing.assert_array_equal(bundle.params(program)["w"], np.arange(4))
    assert bytes(bundle.sealed(bundle.libraries[0]).view()) == b"\x7fELF..."


@pytest.mark.parametrize("name", KINDS)
def test_equal_contents_give_equal_bytes(tmp_path, name):
    def contents(path):
        if path.is_file():
            return path.read_bytes()
        return {p.relative_to(path): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}

    (tmp_path / "a").mkdir()
    (tmp_path / "c").mkdir()
    assert contents(write(tmp_path / "a" / name)) == contents(write(tmp_path / "c" / name))


@pytest.mark.parametrize("name", KINDS)
def test_an_older_bundle_is_replaced_and_nothing_is_left_beside_it(tmp_path, name):
    write(tmp_path / name)
    write(
        tmp_path / name,
        files={"main.json": b"[]", "lib/kernels.so": b""},
        params={"weight": np.zeros(1)},
    )
    assert bytes(read_bundle(tmp_path / name).read("main.json")) == b"[]"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", KINDS)
def test_a_failed_write_leaves_what_was_there(tmp_path, name, monkeypatch):
    write(tmp_path / name)
    before = os.listdir(tmp_path)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    monkeypatch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / name)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == before
    assert bytes(read_bundle(tmp_path / name).read("main.json")) == b"{}"


def test_a_pipe_or_device_is_not_replaced(tmp_path):
    for name in ("null", "null.zip"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(GraphRuntimeError, match="not replaced"):
            write(tmp_path / name)
        assert (tmp_path / name).is_fifo()


def test_what_is_no_bundle_is_not_overwritten(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    with pytest.raises(GraphRuntimeError, match="not replaced"):
        write(tmp_path / "work")


def test_a_changed_file_is_named_with_both_hashes(tmp_path):
    write(tmp_path / "b")
    (tmp_path / "b" / "main.json").write_bytes(b"{ }")
    with pytest.raises(DocumentError, match=r"main\.json was changed"):
        read_bundle(tmp_path / "b")


@pytest.mark.parametrize("file", ["../outside", "/etc/passwd", "a/../../b", "bundle.json", ""])
def test_paths_that_leave_the_bundle_are_refused(tmp_path, file):
    write(tmp_path / "b")
    index = orjson.loads((tmp_path / "b" / "bundle.json").read_bytes())
    index["files"][file] = {"bytes": 0, "sha256": "0" * 64}
    (tmp_path / "b" / "bundle.json").write_bytes(orjson.dumps(index))
    with pytest.raises(DocumentError, match="no file name of a bundle"):
        read_bundle(tmp_path / "b")


@pytest.mark.parametrize("key", ["graph", "plan"])
def test_programs_do_not_share_a_file(tmp_path, key):
    write(tmp_path / "b")
    index = orjson.loads((tmp_path / "b" / "bundle.json").read_bytes())
    index["files"]["other.json"] = index["files"]["main.json"]
    (tmp_path / "b" / "other.json").write_bytes((tmp_path / "b" / "main.json").read_bytes())
    program = {**index["programs"][0], "plan": "main.json"}
    index["programs"] = [program, {**program, "name": "again", key: "main.json", "graph": "other.json"}]
    if key == "graph":
        index["programs"][1] |= {"graph": "main.json", "plan": "other.json"}
    (tmp_path / "b" / "bundle.json").write_bytes(orjson.dumps(index))
    with pytest.raises(DocumentError, match=f"give each its own {key}"):
        read_bundle(tmp_path / "b")


def test_members_of_a_zip_do_not_share_bytes(tmp_path):
    write(tmp_path / "b.zip")
    data = bytearray((tmp_path / "b.zip").read_bytes())
    first = data.index(b"PK\1\2")
    second = data.index(b"PK\1\2", first + 4)
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    (tmp_path / "b.zip").write_bytes(data)
    with pytest.raises(DocumentError, match="overlaps another member"):
        read_bundle(tmp_path / "b.zip")


def test_a_pipe_in_the_place_of_the_index_does_not_hang(tmp_path):
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b" / "bundle.json")
    with pytest.raises(GraphRuntimeError, match="not replaced"):
        write(tmp_path / "b")


def test_a_zip_that_cannot_be_unpacked_is_not_replaced(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bundle.json", bytes(1000))
    data = bytearray((tmp_path / "b.zip").read_bytes())
    data[45:48] = b"\xff\xff\xff"
    (tmp_path / "b.zip").write_bytes(data)
    with pytest.raises(GraphRuntimeError, match="not replaced"):
        write(tmp_path / "b.zip")


def test_a_link_that_leaves_the_bundle_is_refused(tmp_path):
    write(tmp_path / "b")
    (tmp_path / "secret").write_bytes(b"{}")
    (tmp_path / "b" / "main.json").unlink()
    (tmp_path / "b" / "main.json").symlink_to(tmp_path / "secret")
    with pytest.raises(DocumentError, match="outside"):
        read_bundle(tmp_path / "b")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"version": 3}, "version 3"),
        ({"programs": []}, "programs"),
        ({"more": 1}, "more"),
        ({"params": {"file": "gone.bin", "tensors": {}}}, "gone.bin"),
        ({"devices": ["gpu zero"]}, "devices"),
        ({"format": "zip"}, "format"),
    ],
)
def test_a_malformed_index_says_where(tmp_path, change, match):
    write(tmp_path / "b")
    index = orjson.loads((tmp_path / "b" / "bundle.json").read_bytes())
    (tmp_path / "b" / "bundle.json").write_bytes(orjson.dumps({**index, **change}))
    with pytest.raises(DocumentError, match=match) as caught:
        read_bundle(tmp_path / "b")
    assert caught.value.path.startswith("$")


def test_a_zip_that_is_cut_or_compressed_is_refused(tmp_path):
    data = write(tmp_path / "b.zip").read_bytes()
    for size in range(0, len(data), 37):
        (tmp_path / "cut.zip").write_bytes(data[:size])
        with pytest.raises(DocumentError):
            read_bundle(tmp_path / "cut.zip")
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bundle.json", "{}" * 100)
    with pytest.raises(DocumentError, match="compressed"):
        read_bundle(tmp_path / "z.zip")


def test_a_missing_program_or_parameter_is_named(tmp_path):
    bundle = read_bundle(write(tmp_path / "b"))
    with pytest.raises(DocumentError, match="did you mean 'main'"):
        bundle.program("mian")
    bundle = read_bundle(
        write(tmp_path / "c", programs=[BundleProgram("main", "main.json", (), (), {"w": "gone"})])
    )
    with pytest.raises(DocumentError, match="'gone'"):
        bundle.params(bundle.program())
    with pytest.raises(DocumentError, match="there is no bundle"):
        read_bundle(tmp_path / "nowhere")


def test_the_schema_and_its_example_are_valid():
    schema = orjson.loads(
        resources.files("graph_runtime.schemas").joinpath("bundle.schema.json").read_bytes()
    )
    validator = jsonschema_rs.validator_for(schema)
    for example in schema["examples"]:
        validator.validate(example)


def test_an_index_that_has_no_end_is_not_read(tmp_path):
    path = write(tmp_path / "b.bundle")
    with open(path / "bundle.json", "r+b") as file:
        file.truncate(1 << 40)  # sparse: takes no disk
    with pytest.raises(DocumentError, match="1099511627776 bytes, at most"):
        read_bundle(path)


def test_an_error_about_an_index_does_not_repeat_the_index(tmp_path):
    path = write(tmp_path / "b.bundle")
    index = orjson.loads((path / "bundle.json").read_bytes())
    changes = ({"n" * 100_000: 1}, {"version": "v" * 100_000}, {"files": ["f" * 100_000]})
    for changed in ({**index, **change} for change in changes):
        (path / "bundle.json").write_bytes(orjson.dumps(changed))
        with pytest.raises(DocumentError) as refused:
            read_bundle(path)
        assert len(str(refused.value)) < 5000


def test_only_a_bundle_is_replaced_never_a_pipe_a_foreign_zip_or_a_folder_of_somebody_else(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    with zipfile.ZipFile(tmp_path / "thesis.zip", "w") as archive:
        archive.writestr("chapter1", "text")
    (tmp_path / "broken.zip").write_bytes(b"PK")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "bundle.json").write_text('{"name": "a web page\'s"}')
    for name in ("pipe", "dangling", "thesis.zip", "broken.zip", "project"):
        with pytest.raises(GraphRuntimeError, match="no bundle"):
            write(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert zipfile.ZipFile(tmp_path / "thesis.zip").read("chapter1") == b"text"
    assert (tmp_path / "project" / "bundle.json").is_file()
    for name in ("a.bundle", "a.zip"):
        read_bundle(write(write(tmp_path / name)))


# ---------------------------------------------------------------- parameters
def _odd_sizes():
    rng = np.random.default_rng(3)
    return {
        "a": rng.standard_normal((3, 5)).astype("f4"),
        "empty": np.zeros((0, 4), "i8"),
        "flags": np.array([True, False, True]),
        "half": rng.standard_normal(7).astype("f2"),
        "scalar": np.float64(2.5),
        "strided": np.arange(24, dtype="i4").reshape(4, 6)[:, ::2],
    }


@pytest.mark.parametrize("name", KINDS)
def test_parameters_lie_aligned_in_a_mapped_file(tmp_path, name):
    values = _odd_sizes()
    program = BundleProgram("main", "main.json", (), (), {key: key for key in values})
    bundle = read_bundle(write(tmp_path / name, programs=[program], params=values))
    found = bundle.params(program)
    assert list(found) == list(values)
    for key, value in values.items():
        np.testing.assert_array_equal(found[key], value)
        assert found[key].dtype == np.asarray(value).dtype
        assert bundle.slots[key].offset % 64 == 0
        assert not found[key].nbytes or found[key].ctypes.data % 64 == 0


@pytest.mark.parametrize("name", KINDS)
def test_what_is_written_to_a_parameter_stays_in_its_own_mapping(tmp_path, name):
    path = write(tmp_path / name)
    bundle = read_bundle(path)
    first, second = (bundle.params(bundle.program())["w"] for _ in range(2))
    first[:] = 9
    np.testing.assert_array_equal(second, np.arange(4))
    np.testing.assert_array_equal(read_bundle(path).params(bundle.program())["w"], np.arange(4))
    bundle.verify()


class Lazy:
    """A Constant's form: its type now, its values when it is read; counts how many are alive."""

    alive = most = 0

    def __init__(self, size):
        self.type = TensorType("float32", (size,))

    def read(self):
        array = np.full(self.type.shape, self.type.size, "f4")
        Lazy.alive += 1
        Lazy.most = max(Lazy.most, Lazy.alive)
        weakref.finalize(array, setattr, Lazy, "alive", 0)
        return array


def test_parameters_are_read_one_at_a_time_and_writing_tells_how_far_it_is(tmp_path):
    said = []
    values = {f"p{i}": Lazy(10 + i) for i in range(5)}
    program = BundleProgram("main", "main.json", (), (), {key: key for key in values})
    bundle = read_bundle(
        write(
            tmp_path / "b",
            programs=[program],
            params=values,
            tell=lambda done, total: said.append((done, total)),
        )
    )
    assert Lazy.most == 1
    assert said == [(i, 5) for i in range(6)]
    assert {key: value.tolist() for key, value in bundle.params(program).items()} == {
        f"p{i}": [10.0 + i] * (10 + i) for i in range(5)
    }


def test_a_constant_that_reads_as_another_type_leaves_no_bundle(tmp_path):
    lying = Lazy(4)
    lying.read = lambda: np.zeros(5, "f4")
    with pytest.raises(ParamsError, match="float32\\[4\\], its source gives float32\\[5\\]"):
        write(tmp_path / "b", params={"weight": lying})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", KINDS)
def test_changed_parameters_are_found_by_verify_and_other_sizes_at_once(tmp_path, name):
    path = write(tmp_path / name)
    file = path if path.is_file() else path / "params.bin"
    data = bytearray(file.read_bytes())
    data[data.index(np.arange(4, dtype="f4").tobytes()) + 5] ^= 1
    file.write_bytes(data)
    bundle = read_bundle(path)  # a hash of all weights would take longer than loading
    with pytest.raises(DocumentError, match=r"params\.bin was changed"):
        bundle.verify()
    if path.is_dir():
        file.write_bytes(data + b"x")
        with pytest.raises(DocumentError, match="17 bytes"):
            read_bundle(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"offset": 64}, "ends at byte 80, the file has 16"),
        ({"offset": 7}, "multiple of 64"),
        ({"shape": [1 << 40, 1 << 40]}, "the file has 16"),
        ({"dtype": "float33"}, "float33"),
        ({"dtype": "handle"}, "handle"),
        ({"shape": [-1]}, "-1"),
    ],
)
def test_a_parameter_that_cannot_lie_where_the_index_says_is_refused(tmp_path, change, match):
    path = write(tmp_path / "b")
    index = orjson.loads((path / "bundle.json").read_bytes())
    index["params"]["tensors"]["weight"] |= change
    (path / "bundle.json").write_bytes(orjson.dumps(index))
    with pytest.raises(DocumentError, match=match):
        read_bundle(path)
