"""Bytes -> document: what JSON is accepted, and where an error says it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import DocumentError, GraphRuntimeError
from graph_runtime.base.json_text import json_path, parse_json, read_source, tells_all
from graph_runtime.ir.documents.document import read_document
from graph_runtime.ir.documents.loader import load_graph

EMPTY = {
    "nodes": [],
    "arg_nodes": [],
    "heads": [],
    "node_row_ptr": [0],
    "attrs": {"dltype": ["list_str", []], "shape": ["list_shape", []]},
}


def text(document=EMPTY, **changes) -> bytes:
    return json.dumps({**document, **changes}).encode()


def refused(data: bytes, strict: bool = False) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read_document(data, strict=strict)
    return caught.value


def outcome(data: bytes, strict: bool = False) -> str:
    """ "" for a graph, else the text of the typed error."""
    try:
        load_graph(data, strict=strict)
    except GraphRuntimeError as error:
        return str(error)
    return ""


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize("tail", [b" x", b"}", b'\n{"a": 1}', b"\xff\xfe", b"\x00", b"[" * 2000, b"9" * 9000])
def test_text_after_the_closing_brace_is_ignored(tail):
    assert read_document(text() + tail) == EMPTY
    assert refused(text() + b" x", strict=True).offset == len(text()) + 1


def test_white_space_around_the_document_is_no_trailing_text():
    assert read_document(b" \n\t" + text() + b"\r\n ", strict=True) == EMPTY


@pytest.mark.parametrize(
    ("data", "line", "column", "offset"),
    [
        (b"", 1, 1, 0),
        (b'{"nodes":\n  [1, 2', 2, 8, 17),
        (b'{"nodes":\n  [1,, 2]}', 2, 6, 15),
        (b'{"a": "\xc3\xa9", "b": }', 1, 18, 17),  # columns and offsets count bytes
        (b'{"a":\n"\xff"}', 2, 2, 7),
        (b'{"a": NaN}', 1, 7, 6),
        (b'{"a": Infinity}', 1, 7, 6),
    ],
)
def test_a_syntax_error_has_line_column_and_byte(data, line, column, offset):
    error = refused(data)
    assert (error.line, error.column, error.offset) == (line, column, offset)
    assert f"line {line}, column {column} (byte {offset})" in str(error)


@pytest.mark.parametrize("size", [2000, 100_000])
def test_deep_nesting_is_a_typed_error(size):
    refused(b"[" * size)
    refused(b'{"a":' * size)
    refused(text(metadata=0)[:-1] + b', "x": ' + b"[" * size + b"]" * size + b"} tail")


@pytest.mark.parametrize(
    "number", [b"1e999", b"-1e999", b"9" * 400, b"1" * 5000, b"123456789012345678901234567890"]
)
def test_huge_numbers_are_typed_errors(number):
    refused(text().replace(b'"node_row_ptr": [0]', b'"node_row_ptr": [' + number + b"]"))


def test_escapes_of_full_json_are_read():  # trap 4: TVM's reader knows only \r \n \t \\ \"
    document = text(nodes=[{"op": "null", "name": "@", "inputs": []}])
    for written, name in (
        (rb"\u00e9", "é"),
        (rb"\/\b\f", "/\b\f"),
        (rb"\ud83d\ude00", "😀"),
        (b"\xc3\xa9", "é"),
    ):
        assert read_document(document.replace(b"@", written))["nodes"][0]["name"] == name
    assert "surrogate" in str(refused(document.replace(b"@", rb"\ud800")))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (text().replace(b'"nodes": []', b'"nodes": 7, "nodes": []'), "$.nodes"),
        (text().replace(b'"nodes": []', b'"n\\u006fdes": 7, "nodes": []'), "$.nodes"),
        (text().replace(b'"nodes": []', b'"nodes": [{"name": "a:", "name": "\\u003a"}]'), "$.nodes[0].name"),
        (
            text(metadata={"a": [0, {"b": 1}]}).replace(b'"b": 1', b'"b" :1, "c": "::", "b":1'),
            "$.metadata.a[1].b",
        ),
    ],
)
def test_a_repeated_key_is_refused_with_its_path(data, path):
    """orjson takes the last value, as TVM's reader does, without a word; another reader takes the first."""
    for strict in (False, True):
        error = refused(data, strict)
        assert "stands twice" in str(error)
        assert error.path == path


def test_colons_and_escapes_in_texts_are_no_repeated_keys():
    names = ("a:b", ':"', '\\":', "\\u003a", ":", '": "', "\u00e9:")
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    for ascii in (False, True):
        data = json.dumps({**EMPTY, "nodes": nodes}, ensure_ascii=ascii).encode()
        assert read_document(data)["nodes"] == nodes
    data = text().replace(b'"nodes": []', b'"nodes": [{"op": "null", "name": "\\u003a", "inputs": []}]')
    assert read_document(data)["nodes"][0]["name"] == ":"
    for told in (
        rb'{"\u003a": ":\\", "a\"b": "\\\":"}',
        rb'["\u003a", {"\\": {}}]',
    ):  # without the slow parser
        assert tells_all(told, json.loads(told))


_KEYS = st.sampled_from(["a", ":", '":', "\\"])


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.sampled_from([0, 1.5, "", ":", '"', "\\", 'a": ', "é"]),
        lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_KEYS, inner), max_size=3).map(tuple),
        max_leaves=15,
    ),
    st.booleans(),
)
def test_repeated_keys_are_found_and_no_others(value, spaced):
    """Objects are tuples of pairs here, so that a key may stand twice."""

    def written(value) -> str:
        if isinstance(value, tuple):
            colon = " : " if spaced else ":"
            return "{" + ",".join(json.dumps(key) + colon + written(inner) for key, inner in value) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(written, value)) + "]"
        return json.dumps(value, ensure_ascii=spaced)

    def repeats(value) -> bool:
        if isinstance(value, tuple):
            return len(dict(value)) < len(value) or any(repeats(inner) for _, inner in value)
        return isinstance(value, list) and any(map(repeats, value))

    data = written(value).encode()
    if repeats(value):
        with pytest.raises(DocumentError, match="stands twice"):
            parse_json(data, "it")
    else:
        assert parse_json(data, "it") == json.loads(data)


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda s: ("{" + s).encode("utf-8", "surrogatepass"))
)
def test_any_bytes_give_a_value_or_a_typed_error(data):
    for strict in (False, True):
        assert "\n" not in outcome(data, strict)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["nodes", "arg_nodes", "heads", "node_row_ptr", "attrs", "metadata"]), _JSON)
def test_any_json_in_a_field_gives_a_value_or_a_typed_error(key, value):
    value = {"graph_runtime": value} if key == "metadata" else value
    error = outcome(json.dumps({**EMPTY, key: value}).encode())
    assert not error or "$" in error or "JSON" in error


# ---------------------------------------------------------------- metadata ends the document


def test_keys_after_metadata_are_ignored():  # trap 3
    assert read_document(text(metadata={"a": 1}, zzz=1, attr=[]))["metadata"] == {"a": 1}
    assert "metadata" in str(refused(text(metadata={}, zzz=1), strict=True))


def test_metadata_that_is_not_last_hides_what_is_needed():  # trap 3
    error = refused(json.dumps({"metadata": {}, **EMPTY}).encode())
    assert "missing keys 'nodes', 'arg_nodes', 'heads', 'attrs', 'node_row_ptr'" in str(error)
    assert error.path == "$"


def test_a_key_repeated_after_metadata_is_not_read():
    for tail in (b'"nodes": 7', b'"x": {"nodes": 7}, "nodes": [3]', b'"metadata": {"b": 2}'):
        data = text(metadata={"a": 1})[:-1] + b", " + tail + b"} trailing"
        found = read_document(data)
        assert found["nodes"] == []
        assert set(found) == {*EMPTY, "metadata"}


@pytest.mark.parametrize("value", [None, 3, "text", [1, {"graph_runtime": 1}], {"graph_runtimes": 1}])
def test_metadata_of_others_is_anything(value):
    assert read_document(text(metadata=value))["metadata"] == value


# ---------------------------------------------------------------- schema


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        ({"node_row_pointer": [0]}, "$.node_row_pointer", "did you mean 'node_row_ptr'?"),
        ({"nodes": {}}, "$.nodes", "must be array, got an object"),
        ({"nodes": [{"op": "null", "inputs": []}]}, "$.nodes[0]", "missing key 'name'"),
        (
            {"nodes": [{"op": "call", "name": "", "inputs": []}]},
            "$.nodes[0].op",
            'must be "tvm_op" or "null", got "call"',
        ),
        (
            {"nodes": [{"op": "null", "name": "", "input": [], "inputs": []}]},
            "$.nodes[0].input",
            "did you mean 'inputs'?",
        ),
        (
            {"nodes": [{"op": "null", "name": "", "inputs": [[0]]}]},
            "$.nodes[0].inputs[0]",
            "at least 2 elements, has 1",
        ),
        ({"heads": [[0, 0, 0, 0]]}, "$.heads[0]", "at most 3 elements, has 4"),
        ({"heads": [[-1, 0]]}, "$.heads[0][0]", "must be at least 0, got -1"),
        ({"arg_nodes": [2**31]}, "$.arg_nodes[0]", "must be at most 2147483647"),
        ({"attrs": {"dltype": ["list_str", []]}}, "$.attrs", "missing key 'shape'"),
        (
            {"attrs": {**EMPTY["attrs"], "dltype": ["list_int", []]}},
            "$.attrs.dltype[0]",
            'must be "list_str"',
        ),
        (
            {"attrs": {**EMPTY["attrs"], "dtypes": ["list_str", []]}},
            "$.attrs.dtypes[0]",
            "unknown column 'dtypes'",
        ),
        (
            {"attrs": {**EMPTY["attrs"], "n": ["size_t", [1]]}},
            "$.attrs.n[1]",
            "must be integer, got an array",
        ),
        ({"metadata": {"graph_runtime": {}}}, "$.metadata.graph_runtime", "missing key 'version'"),
        (
            {"metadata": {"graph_runtime": {"version": 2}}},
            "$.metadata.graph_runtime.version",
            "must be 1, got 2",
        ),
        (
            {"metadata": {"graph_runtime": {"version": 1, "alias": []}}},
            "$.metadata.graph_runtime.alias",
            "did you mean 'aliases'?",
        ),
    ],
)
def test_a_schema_error_has_its_path_and_what_to_do(changes, path, says):
    error = refused(text(**changes))
    assert error.path == path
    assert says in str(error)


def test_attrs_are_strings_only():  # trap 24
    attrs = {"func_name": "f", "num_inputs": 1, "num_outputs": "1", "flatten_data": "0"}
    error = refused(text(nodes=[{"op": "tvm_op", "name": "n", "attrs": attrs, "inputs": []}]))
    assert error.path == "$.nodes[0].attrs.num_inputs"
    assert "must be string, got 1" in str(error)


def test_an_error_about_much_is_short():
    error = refused(text(nodes=[{"op": "x" * 100_000, "name": "", "inputs": []}]))
    assert len(str(error)) < 300


def test_paths_quote_what_is_no_word():
    assert json_path(["nodes", 3, "attrs", "gr.op"]) == '$.nodes[3].attrs["gr.op"]'


# ---------------------------------------------------------------- sources


def test_a_source_is_bytes_text_or_a_path(tmp_path):
    file = tmp_path / "graph.json"
    file.write_bytes(text())
    for source in (text(), bytearray(text()), text().decode(), " \n" + text().decode(), str(file), file):
        assert read_source(source, "graph.json").strip() == text()


@pytest.mark.parametrize("source", ["no/such/file.json", "nul\0byte", "/", ""])
def test_a_file_that_cannot_be_read_is_named(source):
    with pytest.raises(DocumentError, match=r"cannot read graph\.json"):
        read_source(source, "graph.json")


def test_what_is_no_source_is_named():
    with pytest.raises(DocumentError, match="got int"):
        read_source(3, "graph.json")


def test_parse_json_alone_refuses_trailing_text():
    with pytest.raises(DocumentError, match="bundle"):
        parse_json(b"{} x", "bundle")
