"""Flows in bundles: written, printed, checked, walked again; and what hostile ones get."""

from __future__ import annotations

import contextlib
import copy
import json
from functools import partial

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime import cli  # noqa: E402
from graph_runtime.base.errors import DocumentError, GraphRuntimeError, InputError  # noqa: E402
from graph_runtime.build.bundles.bundle import read_bundle  # noqa: E402
from graph_runtime.build.bundles.flow_check import read_flow  # noqa: E402
from graph_runtime.run.flows import loaded as loaded_flows  # noqa: E402
from graph_runtime.run.flows.loaded import flow_of_bundle, load_flow  # noqa: E402
from graph_runtime.run.loading import open_program  # noqa: E402

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(5)
W = RNG.standard_normal((4, 4)).astype(np.float32)


def value(name, shape=None, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs, outputs, f"{op}_{outputs[0]}", **attrs)


def model():
    """Rows of x w that are positive in the first column; doubled n times if their sum is above 0, else
    negated; and a running sum of the result."""
    body = helper.make_graph(
        [node("Add", ["s", "s"], ["s_"]), node("Identity", ["go"], ["on"])],
        "body",
        [value("i", [], INT), value("go", [], BOOL), value("s", None)],
        [value("on", [], BOOL), value("s_", None)],
    )
    double = helper.make_graph(
        [node("Loop", ["n", "", "rows"], ["twice"], body=body)], "then", [], [value("twice")]
    )
    negate = helper.make_graph([node("Neg", ["rows"], ["less"])], "else", [], [value("less")])
    scan = helper.make_graph(
        [node("Add", ["t", "r"], ["t_"]), node("Identity", ["t_"], ["u"])],
        "scan",
        [value("t", [4]), value("r", [4])],
        [value("t_", [4]), value("u", [4])],
    )
    nodes = [
        node("MatMul", ["x", "w"], ["xw"]),
        node("Gather", ["xw", "first"], ["column"], axis=1),
        node("Greater", ["column", "zero"], ["keep"]),
        node("Compress", ["xw", "keep"], ["rows"], axis=0),
        node("ReduceSum", ["rows"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["positive"]),
        node("If", ["positive"], ["y"], then_branch=double, else_branch=negate),
        node("Scan", ["start", "y"], ["total", "sums"], body=scan, num_scan_inputs=1),
    ]
    constants = {"w": W, "first": np.array(0), "zero": np.float32(0), "start": np.zeros(4, np.float32)}
    init = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    inputs = [value("x", ["rows", 4]), value("n", [], INT)]
    graph = helper.make_graph(nodes, "g", inputs, [value("y"), value("sums"), value("total")], init)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(x, n):
    rows = x @ W
    rows = rows[rows[:, 0] > 0]
    y = rows * 2.0**n if rows.sum() > 0 else -rows
    return y, np.cumsum(y, axis=0), y.sum(axis=0)


def feed(rows, n, positive):
    while True:
        x = RNG.standard_normal((rows, 4)).astype(np.float32)
        kept = (x @ W)[(x @ W)[:, 0] > 0]
        if len(kept) == 2 and (kept.sum() > 0) == positive:
            return {"x": x, "n": np.array(n)}


def check(module, inputs):
    module.run(**inputs)
    for i, want in enumerate(expected(**inputs)):
        np.testing.assert_allclose(module.get_output(i).numpy(), want, rtol=2e-4, atol=1e-5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    module = gr.create(model(), compile=False)
    for positive in (True, False):
        check(module, feed(5, 20, positive))
    path = module.save(tmp_path_factory.mktemp("flows") / "net.bundle")
    return path, module


def test_a_bundle_walks_the_flow_that_runs_found(saved):
    path, module = saved
    loaded = gr.load(path)
    assert [str(port) for port in loaded.inputs] == [str(port) for port in module.inputs]
    for positive, n in ((True, 20), (False, 20), (True, 3), (True, 20)):
        check(loaded, feed(5, n, positive))
    assert loaded.describe() == module.describe()
    assert "Loop 'Loop_twice' makes twice" in loaded.describe()


def test_sizes_that_a_bundle_has_not_are_named_and_it_still_runs(saved):
    loaded = gr.load(saved[0])
    with pytest.raises(InputError, match=r"no program for x float32\[7, 4\].*compiled for float32\[5, 4\]"):
        loaded.run(x=np.ones((7, 4), np.float32), n=np.array(2))
    with pytest.raises(InputError, match="values found on the way"):
        loaded.run(x=np.zeros((5, 4), np.float32), n=np.array(2))
    check(loaded, feed(5, 2, True))


def test_nothing_is_saved_before_a_run(tmp_path):
    module = gr.create(model(), compile=False)
    with pytest.raises(InputError, match="nothing to save before a run"):
        module.save(tmp_path / "net.bundle")
    assert not (tmp_path / "net.bundle").exists()


@pytest.mark.parametrize("every", [41, pytest.param(1, marks=pytest.mark.slow)])
def test_mutated_flows_are_refused_or_run_to_typed_errors(saved, monkeypatch, every):
    """Each key and element of the document changed in turn: a typed error, or a flow that can be walked."""
    bundle = read_bundle(saved[0])
    programs = {p.name: (p.inputs, p.outputs) for p in bundle.programs}
    document, refused, kept = flow_of_bundle(bundle), 0, 0
    inputs = feed(5, 20, True)
    for change in list(_changes(document))[::every]:
        mutated = copy.deepcopy(document)
        change(mutated)
        try:
            read_flow(json.dumps(mutated).encode(), programs, "flow.json")
        except DocumentError:
            refused += 1
            continue
        kept += 1
        monkeypatch.setattr(loaded_flows, "flow_of_bundle", lambda _, found=mutated: found)
        with contextlib.suppress(GraphRuntimeError):
            load_flow(bundle, partial(open_program, bundle)).run(**inputs)
    assert refused > 200 / every
    assert kept < refused  # other sizes, names of nodes, bytes of constants


def _changes(document):
    """Functions that spoil one place of a copy each."""

    def walk(at, path):
        items = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
        for key, inner in items:
            yield from _spoiled((*path, key), inner)
            yield from walk(inner, (*path, key))

    yield from walk(document, ())


def _spoiled(path, inner):
    others = ["delete"]
    if isinstance(inner, bool):
        others += [not inner]
    elif isinstance(inner, int):
        others += [-1, 10**6, inner + 1]
    elif isinstance(inner, str):
        others += ["nothing like it", 5]
    elif isinstance(inner, list):
        others += [[*inner, inner[0]] if inner else [None], {}]
    elif inner is None:
        others += ["x"]

    def change(document, other):
        at = document
        for key in path[:-1]:
            at = at[key]
        if other == "delete":
            del at[path[-1]]
        else:
            at[path[-1]] = other

    for other in others:
        yield lambda document, other=other: change(document, other)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: d["steps"][0].update(program="step99"), "no program 'step99'"),
        (lambda d: d["steps"][0]["then"][0].update(step=0), "reached twice"),
        (lambda d: d["steps"][0]["reads"].clear(), "reads 1 values"),
        (lambda d: d["flows"][0]["outputs"].append("q"), "outputs are not the model's"),
        (lambda d: d["steps"][0].update(last=True), "has steps behind it"),
    ],
    ids=range(6),
)
def test_what_is_wrong_is_said(saved, spoil, text):
    bundle = read_bundle(saved[0])
    document = flow_of_bundle(bundle)
    spoil(document)
    programs = {p.name: (p.inputs, p.outputs) for p in bundle.programs}
    with pytest.raises(DocumentError, match=text):
        read_flow(json.dumps(document).encode(), programs, "flow.json")


def test_a_flow_that_was_changed_on_disk_is_refused(saved, tmp_path):
    import shutil

    path = tmp_path / "changed.bundle"
    shutil.copytree(saved[0], path)
    text = (path / "flow.json").read_text()
    (path / "flow.json").write_text(text.replace('"axis":0', '"axis":1', 1))
    with pytest.raises(GraphRuntimeError, match=r"flow\.json was changed"):
        gr.load(path)


@pytest.mark.slow
def test_the_commands_write_run_and_show_a_flow(tmp_path, capsys):
    def command(*words, fails=False):
        with pytest.raises(SystemExit) as stopped:
            cli.main(list(map(str, words)))
        printed = "".join(capsys.readouterr())
        assert bool(stopped.value.code) == fails, printed
        return printed

    file, out = tmp_path / "net.onnx", tmp_path / "net.bundle"
    onnx.save(model(), str(file))
    given = feed(5, 20, True)
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array)
    inputs = [w for name in given for w in ("--input", f"{name}={tmp_path / name}.npy")]
    assert "Loop 'Loop_twice' makes twice" in command("compile", file, "-o", out, "--no-compile", *inputs)
    command("run", out, *inputs, "-o", tmp_path / "y.npz")
    made = np.load(tmp_path / "y.npz")
    for name, want in zip(("y", "sums", "total"), expected(**given), strict=True):
        np.testing.assert_allclose(made[name], want, rtol=2e-4, atol=1e-5)
    assert "which program a run takes" in command("inspect", out)
    assert "--compare looks at one program" in command("run", out, *inputs, "--compare", fails=True)
    assert "bind each, as in --dim rows=1" in command("compile", file, "-o", out, fails=True)
    sizes = command("compile", file, "-o", out, "--no-compile", "--dim", "rows=3,4", *inputs[2:])
    assert "with x float32[3, 4]" in sizes
    assert "with x float32[4, 4]" in sizes
