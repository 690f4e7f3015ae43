"""Strings: what moves them in programs, what makes them on the host, and models of ai.onnx.ml that label by
them. Each result is ONNX Runtime's where that has the op, else it is worked out here."""

from __future__ import annotations

import time

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
import graph_runtime.compat.onnxruntime as names  # noqa: E402
from graph_runtime.base.errors import GraphError, GraphRuntimeError, InputError  # noqa: E402
from graph_runtime.frontends.onnx.regular import Pattern  # noqa: E402

TEXT, FLOAT, INT = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64


def _model(nodes, inputs, outputs, initial=()):
    """``inputs``, ``outputs``: {name: element type}; shapes are open."""
    made = [
        [helper.make_tensor_value_info(name, kind, None) for name, kind in each.items()]
        for each in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "texts", *made, list(initial))
    domains = [("", 20), ("ai.onnx.ml", 3), ("com.microsoft", 1)]
    opsets = [helper.make_opsetid(*each) for each in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


_TWO = ("StringSplit", "LinearClassifier")  # they have two outputs


def _one(op, x, made=TEXT, **attrs):
    domain = attrs.pop("domain", "")
    outputs = {"y": made} | ({"z": INT if op == "StringSplit" else FLOAT} if op in _TWO else {})
    node = helper.make_node(op, ["x"], list(outputs), domain=domain, **attrs)
    kind = TEXT if x.dtype == object else INT if x.dtype == np.int64 else FLOAT
    return _model([node], {"x": kind}, outputs), {"x": x}


def _run(model, values):
    session = names.InferenceSession(model.SerializeToString())
    session.run(None, values)
    return session.run(None, values)


def _compare(model, values):
    ort = pytest.importorskip("onnxruntime")
    ort.set_default_logger_severity(4)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, values)
    for got, expected in zip(_run(model, values), wanted, strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if got.dtype == np.float32:
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        else:
            np.testing.assert_array_equal(got, expected)


def _words(*words):
    return np.array(words, object)


_X = _words("b", "a", "ü", "", "b", "日本")
_CASES = {
    "lower": _one("StringNormalizer", _words("Ab", "cD", "é"), case_change_action="LOWER", locale="C"),
    "stop": _one("StringNormalizer", _words("a", "b", "A"), stopwords=["a"], is_case_sensitive=1, locale="C"),
    "stop all": _one("StringNormalizer", _words("a", "a"), stopwords=["a"], is_case_sensitive=1, locale="C"),
    "split": _one("StringSplit", _words("a,b", "", "c,,d,e"), delimiter=",", maxsplit=2),
    "blanks": _one("StringSplit", _words(" a  b ", "c")),
    "match": _one("RegexFullMatch", _words("ab", "abb", "xab", ""), TensorProto.BOOL, pattern="ab+"),
    "to text": _one("Cast", np.array([1.5, -2, np.nan, np.inf, 1e-9, 123456789], np.float32), to=TEXT),
    "whole to text": _one("Cast", np.array([1, -2]), to=TEXT),
    "to float": _one("Cast", _words("1.5", "-2e3", "7"), FLOAT, to=FLOAT),
    "to int": _one("Cast", _words("15", "-2"), INT, to=INT),
    "tokens": _one(
        "Tokenizer",
        _words("the cat", "a-b", ""),
        domain="com.microsoft",
        mark=0,
        mincharnum=1,
        pad_value="#",
        tokenexp="[a-z]+",
    ),
    "encoded": _one(
        "LabelEncoder", _X, INT, domain="ai.onnx.ml", keys_strings=["a", "ü"], values_int64s=[5, 7]
    ),
    "renamed": _one(
        "LabelEncoder", _X, domain="ai.onnx.ml", keys_strings=["a", "b"], values_strings=["x", "y"]
    ),
    "one hot": _one("OneHotEncoder", _X, FLOAT, domain="ai.onnx.ml", cats_strings=["b", "日本"]),
    "mapped": _one("CategoryMapper", _X, INT, domain="ai.onnx.ml", cats_strings=["b"], cats_int64s=[3]),
    "mapped back": _one(
        "CategoryMapper", np.array([3, 4]), domain="ai.onnx.ml", cats_strings=["b"], cats_int64s=[3]
    ),
    "linear": _one(
        "LinearClassifier",
        np.array([[1, 2], [3, -1]], np.float32),
        domain="ai.onnx.ml",
        coefficients=[1.0, 2.0, -1.0, 0.5, 0.1, 0.2],
        intercepts=[0.1, 0.2, 0.3],
        classlabels_strings=["u", "v", "w"],
    ),
    "n-grams": _one(
        "TfIdfVectorizer",
        _words("a", "b", "a", "c"),
        FLOAT,
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=1,
        mode="TFIDF",
        ngram_counts=[0, 2],
        ngram_indexes=[2, 0, 1, 3],
        pool_strings=["a", "c", "a", "b", "a", "a"],
        weights=[1.0, 2.0, 3.0, 4.0],
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_texts_as_onnx_runtime(case):
    _compare(*_CASES[case])


def test_texts_move_in_programs():
    nodes = [
        helper.make_node("Concat", ["x", "w"], ["all"], axis=0),
        helper.make_node("Gather", ["all", "at"], ["some"]),
        helper.make_node("Equal", ["some", "b"], ["same"]),
        helper.make_node("Where", ["same", "w0", "some"], ["y"]),
        helper.make_node("StringConcat", ["y", "b"], ["z"]),
        helper.make_node("Shape", ["z"], ["n"]),
    ]
    initial = [
        helper.make_tensor("w", TEXT, [2], [b"w", b"b"]),
        helper.make_tensor("w0", TEXT, [1], ["日".encode()]),
        helper.make_tensor("b", TEXT, [], [b"b"]),
        helper.make_tensor("at", INT, [3], [0, 6, 7]),
    ]
    model = _model(nodes, {"x": TEXT}, {"y": TEXT, "z": TEXT, "n": INT}, initial)
    y, z, n = _run(model, {"x": _X})
    assert (y.tolist(), z.tolist(), n.tolist()) == (["日", "w", "日"], ["日b", "wb", "日b"], [3])
    _compare(model, {"x": _X})


def test_what_a_run_brings_is_forgotten_when_it_is_over():
    model, _ = _one("Identity", _X)
    module = gr.create(model)
    for i in range(3):
        module.run(x=_words(*(f"{i}.{k}" for k in range(50))))
    assert module.get_output(0).numpy()[7] == "2.7"
    assert module.get_output(0).dtype == "string"
    assert module.flow.origin.strings.texts == []


@pytest.mark.parametrize("value", [np.zeros(3, np.float32), _words("a", 3), np.array([b"\xff"], object)])
def test_what_is_no_text_is_refused_and_the_next_run_works(value):
    model, values = _one("Identity", _X)
    module = gr.create(model)
    with pytest.raises(InputError):
        module.run(x=value)
    module.run(**values)
    assert module.get_output(0).numpy().tolist() == _X.tolist()


def test_arithmetic_takes_no_texts():
    model, values = _one("Neg", _X)
    with pytest.raises(GraphRuntimeError, match="does not support elements of string"):
        gr.create(model).run(**values)


# ---------------------------------------------------------------- hostile


def _pool(**attrs):
    base = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    base |= {"ngram_counts": [0], "ngram_indexes": [0], "pool_strings": ["a"]}
    return _one("TfIdfVectorizer", _words("a"), FLOAT, **{**base, **attrs})[0]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (_pool(ngram_indexes=[2**62]), "at most"),
        (_pool(ngram_counts=[0, 2**40]), "do not fill"),
        (_pool(ngram_counts=[3, 0]), "must not descend"),
        (_pool(ngram_indexes=[-1]), "must be 0 or more"),
        (_pool(mode="BM25"), "BM25"),
        (_pool(max_skip_count=-1), "max_skip_count -1"),
        (_pool(weights=[1.0, 2.0]), "2 weights for 1"),
        (_one("RegexFullMatch", _X, TensorProto.BOOL, pattern="(a")[0], "regular expression"),
        (_one("RegexFullMatch", _X, TensorProto.BOOL, pattern=r"(a)\1")[0], "more than one pass"),
        (_one("RegexFullMatch", _X, TensorProto.BOOL, pattern="(?=a)b")[0], "more than one pass"),
        (_one("RegexFullMatch", _X, TensorProto.BOOL, pattern="((a{999}){999}){999}")[0], "10000 states"),
        (
            _one("RegexFullMatch", _X, TensorProto.BOOL, pattern="(" * 5000 + ")" * 5000)[0],
            "regular expression",
        ),
        (_one("StringNormalizer", _X, case_change_action="TITLE")[0], "TITLE"),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_run(model, words):
    with pytest.raises(GraphError, match=words):
        gr.create(model)


@pytest.mark.parametrize(("dims", "texts"), [([2**31], []), ([2], [b"a"]), ([1], [b"\xff"]), ([-1], [b"a"])])
def test_tensors_that_claim_what_they_have_not_are_refused(dims, texts):
    tensor = TensorProto(name="w", data_type=TEXT)
    tensor.dims.extend(dims)
    tensor.string_data.extend(texts)
    model = _model([helper.make_node("Identity", ["w"], ["y"])], {}, {"y": TEXT}, [tensor])
    with pytest.raises(GraphError, match="initializer 'w'"):
        gr.create(model)


def test_texts_that_double_end_in_an_error():
    nodes = [helper.make_node("StringConcat", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(64)]
    model = _model(nodes, {"t0": TEXT}, {"t64": TEXT})
    module = gr.create(model)
    with pytest.raises(GraphError, match="StringConcat"):
        module.run(t0=_words("a" * 2**20))


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*c", "(a*)*d", "(.*)*(.*)*x"])
def test_patterns_that_explode_take_steps_by_length_alone(pattern):
    start = time.process_time()
    assert not Pattern(pattern).fits("a" * 20_000)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        (r"\w+@\w+\.(com|org)", "ann@site.org", True),
        (r"[^a-c]{2,3}?", "xyz", True),
        (r"[^a-c]{2,3}", "xya", False),
        (r"(?i)AbC", "aBc", True),
        (r"\bab\b|c$", "ab", True),
        (r"a.c", "a\nc", False),
        (r"(?s)a.c", "a\nc", True),
        (r"a$", "a\n", False),
        (r"[[:alpha:]]+", "abZ", True),
        (r"\d", "٣", False),
        (r"", "", True),
    ],
)
def test_patterns_are_those_of_re2(pattern, text, wanted):
    assert Pattern(pattern).fits(text) is wanted


@pytest.mark.parametrize(
    ("op", "given", "text"),
    [
        ("StringNormalizer", "x", r"StringNormalizer 'n': it does not take float32\[2\]"),
        ("Bernoulli", "", "Bernoulli 'n': it does not take nothing"),
        ("RandomNormalLike", "", "RandomNormalLike 'n': it does not take nothing"),
    ],
)
def test_what_a_node_of_the_hosts_does_not_take_is_said_with_the_node(op, given, text):
    node = helper.make_node(op, [given], ["y"], name="n")
    module = gr.create(_model([node], {"x": FLOAT}, {"y": FLOAT}))
    with pytest.raises(GraphError, match=text):
        module.run(x=np.ones(2, np.float32))
