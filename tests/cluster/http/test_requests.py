"""The inference protocol's bytes: requests parsed, responses made, and what is refused says why."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cluster.http import requests
from graph_runtime.cluster.http.requests import Asked, parse_request
from graph_runtime.cluster.http.responses import HEADER_LENGTH, make_response
from graph_runtime.cluster.ports import BY_DATATYPE, DATATYPES, OPEN, Port, Served


def served_of(*inputs: Port) -> Served:
    return Served(inputs, (Port("y", "float32", (OPEN, 3)), Port("z", "int64", (OPEN,))), (1, 4), ())


X = served_of(Port("x", "float32", (OPEN, 2)))


def one(datatype: str = "FP32", shape: object = (1, 2), **rest: object) -> dict:
    return {"name": "x", "datatype": datatype, "shape": shape, **({"data": [1, 2]} | rest)}


def parse(raw: object, tail: bytes = b"", served: Served = X):
    text = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    return parse_request(text + tail, len(text) if tail else None, served)


def test_values_nested_and_flat():
    for data in ([[1, 2.5], [3, 4]], [1, 2.5, 3, 4]):
        found = parse({"id": "7", "inputs": [one(shape=[2, 2], data=data)]})
        assert found.id == "7"
        np.testing.assert_array_equal(found.inputs["x"], np.array([[1, 2.5], [3, 4]], np.float32))
        assert found.inputs["x"].dtype == np.float32
    assert found.outputs == (Asked("y", False), Asked("z", False))


def test_binary_tensors_follow_in_order():
    served = served_of(Port("x", "float32", (OPEN, 2)), Port("i", "uint8", (OPEN,)))
    x, i = np.array([[1, 2]], np.float32), np.array([7], np.uint8)
    rows = [
        {"name": "i", "datatype": "UINT8", "shape": [1], "parameters": {"binary_data_size": 1}},
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}},
    ]
    raw = {"inputs": rows, "outputs": [{"name": "z", "parameters": {"binary_data": True}}, {"name": "y"}]}
    found = parse(raw, i.tobytes() + x.tobytes(), served)
    np.testing.assert_array_equal(found.inputs["x"], x)
    np.testing.assert_array_equal(found.inputs["i"], i)
    assert found.outputs == (Asked("z", True), Asked("y", False))


@pytest.mark.parametrize("datatype", sorted(BY_DATATYPE))
def test_every_datatype_goes_in_and_out(datatype):
    dtype = gr.base.dtypes.to_numpy(BY_DATATYPE[datatype])
    values = np.array([[1, 0]]).astype(dtype)
    served = served_of(Port("x", BY_DATATYPE[datatype], (OPEN, 2)))
    data = [True, False] if datatype == "BOOL" else [1, 0]
    found = parse({"inputs": [one(datatype, data=data)]}, served=served)
    np.testing.assert_array_equal(found.inputs["x"], values)
    assert found.inputs["x"].dtype == dtype
    raw = {"inputs": [one(datatype, parameters={"binary_data_size": values.nbytes})]}
    del raw["inputs"][0]["data"]
    np.testing.assert_array_equal(parse(raw, values.tobytes(), served).inputs["x"], values)
    response = make_response("m", "1", "", [Asked("x", True)], {"x": values})
    length = int(dict(response.headers)[HEADER_LENGTH])
    body = b"".join(response.body)
    head = json.loads(body[:length])["outputs"][0]
    assert head["datatype"] == datatype
    assert body[length:] == values.tobytes()


def test_datatypes_are_the_protocols():
    assert DATATYPES["float32"] == "FP32"
    assert DATATYPES["bfloat16"] == "BF16"
    assert DATATYPES["bool"] == "BOOL"
    assert DATATYPES["int8"] == "INT8"
    assert DATATYPES["uint64"] == "UINT64"


@pytest.mark.parametrize(
    ("raw", "path", "text"),
    [
        (b"", None, "empty"),
        (b"[1]", "$", "a list"),
        (b'{"inputs":[],"inputs":[]}', "$.inputs", "twice"),
        (b"\xff", None, "UTF-8"),
        ({}, "$.inputs", "list of objects"),
        ({"inputs": []}, "$.inputs", "x"),
        ({"inputs": [3]}, "$.inputs[0]", "name"),
        ({"inputs": [one(), one()]}, "$.inputs", "model has 1"),
        ({"inputs": [{**one(), "name": "xx"}]}, "$.inputs[0].name", "did you mean 'x'|there are: x"),
        ({"inputs": [one("FP64")]}, "$.inputs[0].datatype", "FP32"),
        ({"inputs": [one("FP33")]}, "$.inputs[0].datatype", "did you mean"),
        ({"inputs": [one(shape=[1, 3])]}, "$.inputs[0].shape", "any"),
        ({"inputs": [one(shape=[-1, 2])]}, "$.inputs[0].shape", "integers"),
        ({"inputs": [one(shape=[True, 2])]}, "$.inputs[0].shape", "integers"),
        ({"inputs": [one(shape=[1e3, 2])]}, "$.inputs[0].shape", "integers"),
        ({"inputs": [one(shape=[1 << 40, 2])]}, "$.inputs[0].shape", "integers"),
        ({"inputs": [one(shape=[1] * 40)]}, "$.inputs[0].shape", "at most 32"),
        ({"inputs": [one(data=[1])]}, "$.inputs[0].data", "1 values"),
        ({"inputs": [one(data=[[1], [2]])]}, "$.inputs[0].data", "nested"),
        ({"inputs": [one(data=[[1, 2], [3]])]}, "$.inputs[0].data", "nested"),
        ({"inputs": [one(data=["a" * 1000, "b"])]}, "$.inputs[0].data", "numbers"),
        ({"inputs": [one(data=[None, 1])]}, "$.inputs[0].data", "numbers"),
        ({"inputs": [one(data=[True, 1])]}, "$.inputs[0].data", "numbers"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1e39,1]}]}', None, "numbers"),
        ({"inputs": [one(data={"0": 1})]}, "$.inputs[0].data", "an object"),
        ({"inputs": [one()], "id": 3}, "$.id", "text"),
        ({"inputs": [one()], "id": "a" * 300}, "$.id", "256"),
        ({"inputs": [one()], "parameters": []}, "$.parameters", "object"),
        ({"inputs": [one()], "parameters": {"sequence_id": 4}}, "$.parameters.sequence_id", "no state"),
        ({"inputs": [one()], "parameters": {"timeout": -1}}, "$.parameters.timeout", "microseconds"),
        ({"inputs": [one()], "outputs": [{"name": "w"}]}, "$.outputs[0].name", "no output"),
        ({"inputs": [one()], "outputs": [{"name": "y"}, {"name": "y"}]}, "$.outputs[1].name", "twice"),
        ({"inputs": [one(parameters={"shared_memory_region": "r"})]}, None, "shared memory"),
        ({"inputs": [one(parameters={"binary_data_size": 8})]}, "$.inputs[0]", "one of them"),
    ],
)
def test_what_is_refused_says_where_and_why(raw, path, text):
    with pytest.raises(gr.RequestError, match=text) as found:
        parse(raw)
    assert found.value.status == 400
    assert path is None or found.value.path == path


@pytest.mark.parametrize("size", [7, 9, -8, 8.0, True, "8", None, 1 << 70])
def test_binary_sizes_that_do_not_fit(size):
    raw = {"inputs": [one(parameters={"binary_data_size": size})]}
    del raw["inputs"][0]["data"]
    with pytest.raises(gr.RequestError):
        parse(raw, b"12345678")


def test_bytes_that_nothing_takes_and_bytes_that_lack():
    raw = {"inputs": [one(parameters={"binary_data_size": 8})]}
    del raw["inputs"][0]["data"]
    for tail in (b"1234567", b"123456789"):
        with pytest.raises(gr.RequestError, match="bytes"):
            parse(raw, tail)
    with pytest.raises(gr.RequestError, match="data and binary"):
        parse({"inputs": [one(parameters={"binary_data_size": 8})]}, b"12345678")


def test_a_text_that_comes_again_is_read_for_its_own_model_and_bytes():
    other = Served(X.inputs, X.outputs[:1], (1, 4), ())
    narrow = served_of(Port("x", "float32", (OPEN, 1)))
    raw = {"inputs": [one(parameters={"binary_data_size": 8})]}
    del raw["inputs"][0]["data"]
    for value in (1.0, 2.0):
        tail = np.full(2, value, np.float32).tobytes()
        assert parse(raw, tail).inputs["x"].tolist() == [[value, value]]
        assert [asked.name for asked in parse(raw, tail, other).outputs] == ["y"]
        assert [asked.name for asked in parse(raw, tail).outputs] == ["y", "z"]
        with pytest.raises(gr.RequestError, match="is \\[-1, 1\\]"):
            parse(raw, tail, narrow)
        with pytest.raises(gr.RequestError, match="bytes follow"):
            parse(raw, tail + b"1")
        with pytest.raises(gr.RequestError, match="are left in the body"):
            parse(raw, tail[:-1])


def test_texts_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(requests, "_known", {})
    for at in range(1000):
        raw = {"id": str(at), "inputs": [one(parameters={"binary_data_size": 8})]}
        del raw["inputs"][0]["data"]
        assert parse(raw, b"12345678").id == str(at)
    assert 0 < len(requests._known) <= 256
    monkeypatch.setattr(requests, "_known", {})
    parse({"inputs": [one()]})
    parse({**raw, "id": "", "parameters": {"note": "a" * 5000}}, b"12345678")
    assert not requests._known, "values in JSON and long texts are read anew"


def test_header_lengths_beyond_the_body():
    for length in (-1, 99999):
        with pytest.raises(gr.RequestError):
            parse_request(b"{}", length, X)


def test_a_long_text_among_data_takes_no_memory_of_its_width():
    """numpy makes an array of texts as wide as the longest: these would take 40 GB."""
    raw = {"inputs": [one(shape=[2000, 1], data=["a" * 5_000_000] + ["b"] * 1999)]}
    with pytest.raises(gr.RequestError, match="numbers"):
        parse(raw, served=served_of(Port("x", "float32", (OPEN, 1))))


def test_integers_are_exact_and_in_range():
    served = served_of(Port("x", "uint64", (OPEN, 2)))
    big = (1 << 64) - 1
    assert parse({"inputs": [one("UINT64", data=[big, 0])]}, served=served).inputs["x"].tolist() == [[big, 0]]
    for data in ([-1, 0], [1.0, 2], [1 << 64, 0]):
        with pytest.raises(gr.RequestError, match="integers from 0"):
            parse({"inputs": [one("UINT64", data=data)]}, served=served)


def test_a_bool_is_a_byte_0_or_1():
    served = served_of(Port("x", "bool", (OPEN, 2)))
    raw = {"inputs": [one("BOOL", parameters={"binary_data_size": 2})]}
    del raw["inputs"][0]["data"]
    assert parse(raw, b"\0\1", served).inputs["x"].tolist() == [[False, True]]
    with pytest.raises(gr.RequestError, match="byte, 0 or 1"):
        parse(raw, b"\0\2", served)


def test_responses_of_json_keep_values_and_ids():
    outputs = {"y": np.array([[0.1, 2]], np.float32), "z": np.array([3])}
    response = make_response("m", "2", "q", [Asked("y", False), Asked("z", False)], outputs)
    raw = json.loads(response.body[0])
    assert (raw["model_name"], raw["model_version"], raw["id"]) == ("m", "2", "q")
    assert raw["outputs"][0]["shape"] == [1, 2]
    assert np.float32(raw["outputs"][0]["data"][0]) == np.float32(0.1)
    half = make_response("m", "1", "", [Asked("y", False)], {"y": np.ones(2, ml_dtypes.bfloat16)})
    assert json.loads(half.body[0])["outputs"][0] == {
        "name": "y",
        "datatype": "BF16",
        "shape": [2],
        "data": [1.0, 1.0],
    }


def test_json_has_no_nan():
    with pytest.raises(gr.RequestError, match="binary_data") as found:
        make_response("m", "1", "", [Asked("y", False)], {"y": np.array([np.nan])})
    assert found.value.status == 422
    assert make_response("m", "1", "", [Asked("y", True)], {"y": np.array([np.nan])}).status == 200
