"""Parameter files: TVM's binary, npz and safetensors."""

import struct
import zipfile

import ml_dtypes
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graph_runtime.artifacts.prepare import read_params
from graph_runtime.base.errors import ParamsError
from graph_runtime.ir.documents.params import MAGIC, save_params

DTYPES = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ml_dtypes.bfloat16]


def some_params():
    return {"w": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array([True, False]), "s": np.float64(2.5)}


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.sampled_from(DTYPES).flatmap(
            lambda d: hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4).map(lambda s: (d, s))
        ),
        max_size=4,
    ),
    st.randoms(),
)
def test_what_is_saved_is_read_back(specs, random):
    params = {
        name: np.frombuffer(random.randbytes(64 * 8), "u1")[: int(np.prod(shape))]
        .astype(dtype)
        .reshape(shape)
        for name, (dtype, shape) in specs.items()
    }
    again = read_params(save_params(params))
    assert again.keys() == params.keys()
    for name, array in params.items():
        assert (again[name].dtype, again[name].shape) == (array.dtype, array.shape)
        assert again[name].tobytes() == array.tobytes()


def test_the_bytes_are_those_of_the_format():
    data = save_params({"x": np.array([1.5, 2.0], "f4")})
    assert data[:8] == bytes.fromhex("b79c04054f8de5f7")
    assert data[16:24] == (1).to_bytes(8, "little")
    assert data[32:33] == b"x"
    assert data[-16:-8] == (8).to_bytes(8, "little")  # the array's byte count
    assert data[-8:] == np.array([1.5, 2.0], "<f4").tobytes()
    # 40 bytes + 8 a dimension stand before the data of one array
    assert len(data) == 8 + 8 + 8 + 8 + 1 + 8 + 40 + 8 + 8


def test_equal_parameters_give_equal_bytes_whatever_their_order():
    params = some_params()
    assert save_params(params) == save_params(dict(reversed(params.items())))


def test_every_truncation_is_an_error_with_its_place():  # trap 11: TVM accepts a cut last array
    data = save_params(some_params())
    for size in range(len(data)):
        with pytest.raises(ParamsError) as caught:
            read_params(data[:size])
        assert 0 <= caught.value.offset <= size


def test_trailing_bytes_are_ignored_with_a_warning():
    with pytest.warns(UserWarning, match="3 bytes after the last parameter"):
        assert set(read_params(save_params(some_params()) + b"abc")) == {"w", "b", "s"}


def test_lanes_are_refused_not_lost():  # trap 12: TVM keeps one lane of each element
    data = bytearray(save_params({"x": np.zeros(4, "f4")}))
    at = len(data) - 16 - 8 - 8 - 4 + 2
    data[at : at + 2] = (4).to_bytes(2, "little")
    with pytest.raises(ParamsError, match="4 lanes"):
        read_params(bytes(data))


def test_an_array_of_another_device_is_refused():
    data = bytearray(save_params({"x": np.zeros(4, "f4")}))
    at = len(data) - 16 - 8 - 8 - 4 - 12
    data[at : at + 4] = (2).to_bytes(4, "little")
    with pytest.raises(ParamsError, match="Invalid DLTensor device: can only save as CPU tensor"):
        read_params(bytes(data))


def test_a_name_that_stands_twice_is_refused():
    data = bytearray(save_params({"x": np.zeros(1, "f4"), "y": np.zeros(1, "f4")}))
    data[data.index(b"y")] = ord("x")
    with pytest.raises(ParamsError, match="stands twice"):
        read_params(bytes(data))


@pytest.mark.parametrize("at", [16, 24, 33])
def test_huge_counts_are_refused_before_anything_is_allocated(at):
    data = bytearray(save_params({"x": np.zeros(1, "f4")}))
    data[at : at + 8] = b"\xff" * 8
    with pytest.raises(ParamsError):
        read_params(bytes(data))


def test_a_file_is_mapped_not_copied(tmp_path):
    save_params(some_params(), tmp_path / "p.bin")
    array = read_params(tmp_path / "p.bin")["w"]
    assert not array.flags.owndata
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, some_params()["w"])


def test_npz_and_its_faults(tmp_path):
    np.savez(tmp_path / "p.npz", **some_params())
    np.testing.assert_array_equal(read_params(tmp_path / "p.npz")["w"], some_params()["w"])
    (tmp_path / "bad.npz").write_bytes((tmp_path / "p.npz").read_bytes()[:100])
    np.savez(tmp_path / "pickle.npz", x=np.array([object()]))
    for name in ("bad.npz", "pickle.npz", "missing.npz"):
        with pytest.raises(ParamsError, match="cannot read"):
            read_params(tmp_path / name)


@pytest.mark.parametrize("descr", [",", "f4,", "4f4", "(2,)f4", "(9999999999,)f4", "f4,i4", "float32", "O"])
def test_an_npz_with_a_dtype_that_numpy_would_evaluate_is_refused(tmp_path, descr):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}\n".encode()
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(4))
    with pytest.raises(ParamsError, match="'x'"):
        read_params(tmp_path / "p.npz")


def safetensors(header, body=b""):
    raw = header if isinstance(header, bytes) else orjson.dumps(header)
    return len(raw).to_bytes(8, "little") + raw + body


def test_safetensors(tmp_path):
    body = np.arange(6, dtype="f4").tobytes() + np.array([1, 2], ml_dtypes.bfloat16).tobytes()
    (tmp_path / "p.safetensors").write_bytes(
        safetensors(
            {
                "__metadata__": {"by": "hand"},
                "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                "h": {"dtype": "BF16", "shape": [2], "data_offsets": [24, 28]},
            },
            body,
        )
    )
    params = read_params(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(params["w"], np.arange(6).reshape(2, 3))
    assert params["h"].dtype == ml_dtypes.bfloat16
    assert not params["w"].flags.owndata


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        safetensors(b"[]"),
        safetensors(b"{"),
        safetensors({"w": 1}),
        safetensors({"w": {"dtype": "F99", "shape": [], "data_offsets": [0, 0]}}),
        safetensors({"w": {"dtype": ["F32"], "shape": [], "data_offsets": [0, 4]}}, bytes(4)),
        safetensors({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
        safetensors({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(4)),
        safetensors({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, bytes(4)),
        safetensors({"w": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, bytes(4)),
    ],
)
def test_bad_safetensors(tmp_path, data):
    (tmp_path / "p.safetensors").write_bytes(data)
    with pytest.raises(ParamsError):
        read_params(tmp_path / "p.safetensors")


def test_what_is_no_parameter_file_says_so(tmp_path):
    with pytest.raises(ParamsError, match="no TVM parameter file"):
        read_params(b"PK\x03\x04 and more")
    with pytest.raises(ParamsError, match="cannot read"):
        read_params(tmp_path / "nothing.bin")
    with pytest.raises(ParamsError, match="not supported"):
        save_params({"c": np.zeros(2, "complex64")})
    assert MAGIC[0] == 0xB7


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_members_keep_shape_order_and_dtype(tmp_path, save):
    params = {
        "w": np.arange(6.0).reshape(2, 3),
        "t": np.arange(6, dtype="i2").reshape(2, 3).T,
        "s": np.array(True),
        "e": np.zeros((0, 3)),
    }
    save(tmp_path / "p.npz", **params)
    again = read_params(tmp_path / "p.npz")
    for name, array in params.items():
        np.testing.assert_array_equal(again[name], array, strict=True)
        assert not again[name].flags.writeable


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 255), st.sampled_from(["p.npz", "p.safetensors"]))
def test_a_damaged_file_gives_arrays_or_a_typed_error(tmp_path_factory, at, value, name):
    file = tmp_path_factory.mktemp("params") / name
    if name == "p.npz":
        np.savez(file, **some_params())
    else:
        file.write_bytes(safetensors({"w": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}, b"\0\1"))
    data = bytearray(file.read_bytes())
    data[at % len(data)] = value
    file.write_bytes(data)
    try:
        assert all(array.nbytes <= len(data) for array in read_params(file).values())
    except ParamsError as error:
        assert error.offset is not None  # noqa: PT017 (either outcome is right)


@pytest.mark.parametrize(
    "header",
    [
        {
            "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
            "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]},
        },
        {
            "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
            "b": {"dtype": "U8", "shape": [1], "data_offsets": [2, 3]},
        },
        {"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}},
        b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}',
    ],
    ids=["overlap", "gap", "rest", "twice"],
)
def test_safetensors_cover_their_data_once(tmp_path, header):
    (tmp_path / "p.safetensors").write_bytes(safetensors(header, bytes(3)))
    with pytest.raises(ParamsError):
        read_params(tmp_path / "p.safetensors")


def test_bytes_that_are_no_bool_are_refused():
    data = bytearray(save_params({"x": np.array([True])}))
    data[-1] = 2
    with pytest.raises(ParamsError, match="other than 0 and 1"):
        read_params(bytes(data))
