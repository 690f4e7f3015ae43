"""GraphModule: values in and out, names, parameters; create and load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.ir.documents.params import save_params
from graph_runtime.run import benchmark

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"

F32 = np.float32


@pytest.fixture
def text(document) -> str:
    """y = relu(x + w), x and w float32[4]."""
    x, w = document.input("x"), document.input("w")
    return document.json(document.call("relu_4", document.call("add_4", x, w, op="add"), op="relu", name="y"))


@pytest.fixture
def mod(text):
    return gr.create(text)


# **************** inputs ****************


@pytest.mark.parametrize(
    "value",
    [
        np.array([1, 2, 3, 4], F32),
        np.array([1, 2, 3, 4], np.float64),
        np.array([1, 2, 3, 4]),
        [1, 2, 3, 4],
        (1.0, 2.0, 3.0, 4.0),
        np.array([[1, 9], [2, 9], [3, 9], [4, 9]], F32)[:, 0],
    ],
    ids=str,
)
def test_set_input_takes_what_numpy_takes(mod, value):
    mod.run(x=value, w=np.zeros(4, F32))
    assert mod.get_output(0).numpy().tolist() == [1, 2, 3, 4]
    assert mod.get_input("x").numpy().dtype == F32


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(5, F32), "shape (5,)"),
        (np.zeros((4, 1), F32), "shape (4, 1)"),
        (3.0, "shape ()"),
        (np.zeros(4, np.complex64), "complex64"),
        (np.array(["a"] * 4), "<U1|str"),
        (object(), "object"),
        (None, "NoneType"),
        ([[1, 2], [3]], "inhomogeneous|list"),
    ],
    ids=lambda given: "an object" if type(given) is object else str(given),
)
def test_set_input_refuses_what_does_not_fit(mod, value, words):
    with pytest.raises(gr.InputError) as caught:
        mod.set_input("x", value)
    assert any(word in str(caught.value) for word in words.split("|"))


def test_integer_inputs_take_no_floats(document):
    x = document.input("x", (2,), "int8")
    mod = gr.create(document.json(x))
    with pytest.raises(gr.InputError, match=r"astype\('int8'\)"):
        mod.set_input("x", [1.5, 2.5])
    with pytest.raises(gr.InputError, match="does not fit int8"):
        mod.set_input("x", [1, 300])
    mod.run(x=[1, -3])
    assert mod.get_output(0).numpy().tolist() == [1, -3]


def test_nothing_is_set_when_a_name_is_unknown(mod):
    mod.set_input(x=np.zeros(4, F32), w=np.zeros(4, F32))
    with pytest.raises(gr.InputError, match="'nope'"):
        mod.set_input(x=np.ones(4, F32), nope=np.ones(4, F32))
    assert mod.get_input("x").numpy().tolist() == [0] * 4


def test_tensors_go_from_session_to_session(text):
    first, second = gr.create(text), gr.create(text, None, "tt:0")
    first.run(x=[1, 2, 3, 4], w=[0, 0, 0, 0])
    second.run(x=first.get_output("y"), w=[1, 1, 1, 1])
    assert second.get_output("y").numpy().tolist() == [2, 3, 4, 5]
    third = gr.create(text)
    third.run(x=second.get_output(0), w=second.get_input("w"))
    assert third.get_output(0).numpy().tolist() == [3, 4, 5, 6]


# **************** outputs ****************


def test_get_output_writes_into_out(mod):
    mod.run(x=[1, 2, 3, 4], w=[0, 0, 0, 0])
    out = np.empty(4, F32)
    assert mod.get_output("y", out) is out
    assert out.tolist() == [1, 2, 3, 4]
    mod.get_output(0, mod.get_input("w"))
    assert mod.get_input("w").numpy().tolist() == [1, 2, 3, 4]
    for wrong in (np.empty(5, F32), np.empty(4, np.int32), [0, 0, 0, 0]):
        with pytest.raises(gr.InputError, match="out is"):
            mod.get_output(0, wrong)


def test_functions_by_name_as_tvms_raw_module(mod):
    mod["set_input"]("x", [1, 1, 1, 1])
    mod["set_input"]("w", [1, 1, 1, 1])
    mod["run"]()
    assert mod["get_output"](0).numpy().tolist() == [2] * 4
    assert mod["get_num_inputs"]() == 2
    with pytest.raises(AttributeError, match=r"no function 'runn' \(did you mean 'run'"):
        mod["runn"]
    with pytest.raises(NotImplementedError, match="head"):
        mod.debug_get_output(0)


# **************** parameters ****************


@pytest.mark.parametrize("form", ["bytes", "path", "npz", "dict"])
def test_load_params(mod, tmp_path, form):
    params = {"w": np.array([4, 3, 2, 1], F32)}
    given = {
        "bytes": lambda: save_params(params),
        "dict": lambda: params,
        "path": lambda: tmp_path / "p.bin",
        "npz": lambda: str(tmp_path / "p.npz"),
    }[form]()
    save_params(params, tmp_path / "p.bin")
    np.savez(tmp_path / "p.npz", **params)
    mod.load_params(given)
    assert mod.get_input_info()[0] == {"x": (4,)}
    mod.run(x=[1, 1, 1, 1])
    assert mod.get_output(0).numpy().tolist() == [5, 4, 3, 2]


# **************** create ****************


def test_create_takes_text_bytes_path_graph_and_plan(text, tmp_path):
    (tmp_path / "g.json").write_text(text)
    graph = gr.load_graph(text)
    planned = gr.create(text).session.plan
    for source in (text, text.encode(), tmp_path / "g.json", str(tmp_path / "g.json"), graph, planned):
        made = gr.create(source)
        made.run(x=[1, 2, 3, 4], w=[1, 1, 1, 1])
        assert made.get_output(0).numpy().tolist() == [2, 3, 4, 5]


def test_a_function_nobody_has_is_named(document):
    x = document.input("x")
    with pytest.raises(gr.LibraryError, match="mystery"):
        gr.create(document.json(document.call("mystery", x)))


def test_copies_to_devices_run_when_their_input_is_set(document):
    x = document.input("x")
    on_cpu = document.call("relu_4", x, op="relu", name="here")
    on_tt = document.call("tanh_4", x, op="tanh", name="there")
    mod = gr.create(document.json(on_cpu, on_tt), None, ["cpu:0", "tt:0"], place={"there": "tt:0"})
    assert mod.session.program.at_input
    mod.set_input("x", [1, 2, 3, 4])
    mod.run()
    mod.run()
    np.testing.assert_allclose(mod.get_output(1).numpy(), np.tanh([1, 2, 3, 4]), rtol=1e-5)
    mine = gr.aligned_empty(4)
    mod.set_input_zero_copy("x", mine)
    for value in (0.5, -1.0):  # a bound input is copied on each run
        mine[:] = value
        mod.run()
        np.testing.assert_allclose(mod.get_output(1).numpy(), np.full(4, np.tanh(value)), rtol=1e-5)
    mod.reset_zero_copy("x")
    mod.run(x=[0, 0, 0, 0])
    assert mod.get_output(1).numpy().tolist() == [0] * 4


# **************** benchmark ****************


def test_measure_calls_as_often_as_asked():
    calls = []
    result = benchmark.measure(lambda: calls.append(1), repeat=3, number=4)
    assert len(calls) == 1 + 3 * 4
    assert len(result.results) == 3
    with pytest.raises(gr.InputError, match="repeat"):
        benchmark.measure(lambda: None, repeat=0, number=1)


def test_measure_raises_number_until_it_takes_long_enough():
    calls = []
    benchmark.measure(lambda: calls.append(1), repeat=1, number=1, min_repeat_ms=5)
    assert len(calls) > 10


# **************** the package ****************


def test_public_names_are_sorted_and_exist():
    assert gr.__all__ == sorted(gr.__all__)
    for name in gr.__all__:
        assert getattr(gr, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_this"):
        gr.nothing_like_this  # noqa: B018


def test_import_is_lazy():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, graph_runtime; print('numpy' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip() == "False"
    heavy = ("typer", "rich", "hypothesis", "pytest", "graph_runtime.codegen")
    code = f"import sys, graph_runtime as gr; gr.create; print([m for m in {heavy!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_numpy_need_not_know_bfloat16_before():
    """Its type is that of ml_dtypes, which is imported when a graph has it."""
    code = """
import graph_runtime as gr
print(gr.aligned_empty((2, 3), "bfloat16").dtype, gr.empty((2, 3), "bfloat16").dtype)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["bfloat16", "bfloat16"]


def test_a_cpu_graph_loads_what_it_needs():
    code = """
import sys
import numpy
before = set(sys.modules)
import graph_runtime as gr
digits = gr.create("DIGITS/graph.json", params="DIGITS/params.bin")
digits.run(image=numpy.zeros((60, 1, 8, 8), numpy.float32))
digits.get_output(0).numpy()
print([m for m in sys.modules if m.startswith(UNUSED) and m not in before])
"""
    unused = (
        *(f"graph_runtime.{name}" for name in ("cli", "codegen", "costs", "eager", "rewrite", "simulation")),
        *(f"graph_runtime.{name}" for name in ("plan.balance", "plan.placing", "runtime", "torch", "views")),
        *(f"graph_runtime.ir.ops.{name}" for name in ("attention", "convolutions", "gather", "scatter")),
        *(
            f"graph_runtime.{name}"
            for name in ("artifacts.bundles", "artifacts.trust", "run.library", "run.loading")
        ),
        *(f"graph_runtime.artifacts.libraries.{name}" for name in ("elf", "judge", "manifest", "sealed")),
        *("graph_runtime.frontends.onnx", "graph_runtime.run.benchmark", "onnx", "torch", "scipy"),
        *(
            "difflib",
            "hashlib",
            "importlib.metadata",
            "importlib.resources",
            "jsonschema_rs",
            "ml_dtypes",
            "numpy.ma",
            "random",
            "statistics",
            "zipfile",
        ),
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace("UNUSED", repr(unused)).replace("DIGITS", str(DIGITS))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_functions_are_not_hidden_by_modules_of_their_name():
    code = (
        "import graph_runtime.run.factory, graph_runtime as gr\nprint(callable(gr.load), callable(gr.create))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["True", "True"]
