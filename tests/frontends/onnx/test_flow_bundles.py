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
from graph_runtime.artifacts.bundles.bundle import read_bundle  # noqa: E402
from graph_runtime.artifacts.bundles.flow_check import read_flow  # noqa: E402
from graph_runtime.base.errors import DocumentError, GraphRuntimeError, InputError  # noqa: E402
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
    path = module.save(tmp_path_factory.mktemp("flows") / "net.bundle", closed=True)
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


def test_nothing_is_saved_before_a_run(saved, tmp_path):
    module = gr.create(model(), compile=False)
    with pytest.raises(InputError, match="nothing to save yet"):
        module.save(tmp_path / "net.bundle", closed=True)
    assert not (tmp_path / "net.bundle").exists()
    with pytest.raises(InputError, match="of a bundle: copy that"):
        gr.load(saved[0]).save(tmp_path / "again.bundle")


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
        (lambda d: d["steps"][0].update(last=True), "has further steps"),
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


@pytest.mark.parametrize("name", ["net.bundle", "net.zip"])
@pytest.mark.parametrize("runs", [0, 1])
def test_a_bundle_with_its_model_serves_what_no_run_had_met(tmp_path, name, runs):
    module = gr.create(model(), compile=False, most_steps=50)
    for _ in range(runs):
        check(module, feed(5, 20, True))
    loaded = gr.load(module.save(tmp_path / name))
    assert len(read_bundle(tmp_path / name).programs) == (4 if runs else 0)
    for rows, n, positive in ((5, 20, True), (7, 3, False), (5, 20, True), (5, 2, False)):
        check(loaded, feed(rows, n, positive))
    with pytest.raises(GraphRuntimeError, match="50 iterations and goes on"):
        loaded.run(**feed(6, 60, True))
    assert "by the model itself" in loaded.describe()
    assert loaded.proto.graph.name == "g"


def test_a_model_with_external_data_goes_along_in_a_folder(tmp_path):
    (tmp_path / "a").mkdir()
    onnx.save(
        model(), tmp_path / "a" / "net.onnx", save_as_external_data=True, location="w", size_threshold=0
    )
    module = gr.create(tmp_path / "a" / "net.onnx", compile=False)
    path = module.save(tmp_path / "net.bundle")
    (tmp_path / "a" / "w").unlink()
    check(gr.load(path), feed(5, 3, True))
    with pytest.raises(GraphRuntimeError, match="its file is absent"):
        module.save(tmp_path / "other.bundle")
    onnx.save(
        model(), tmp_path / "a" / "net.onnx", save_as_external_data=True, location="w", size_threshold=0
    )
    with pytest.raises(InputError, match="write a folder"):
        module.save(tmp_path / "net.zip")
    held = path / "source" / "model.onnx"
    held.write_bytes(bytes(held.stat().st_size))
    with pytest.raises(GraphRuntimeError, match="was changed"):
        gr.load(path).run(**feed(5, 3, True))


def open_sizes():
    """y = softmax(x w) of any number of rows."""
    nodes = [node("MatMul", ["x", "w"], ["xw"]), node("Softmax", ["xw"], ["y"], axis=0)]
    init = [numpy_helper.from_array(W, "w")]
    graph = helper.make_graph(nodes, "open", [value("x", ["rows", 4])], [value("y")], init)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def softmax(x):
    made = np.exp(x @ W)
    return made / made.sum(axis=0)


def test_buckets_stay_buckets_in_a_bundle(tmp_path):
    module = gr.create(open_sizes(), dims={"rows": (4, 8)}, compile=False)
    loaded = gr.load(module.save(tmp_path / "net.bundle"))
    for rows in (3, 4, 7, 9):
        x = RNG.standard_normal((rows, 4)).astype(np.float32)
        loaded.run(x=x)
        np.testing.assert_allclose(loaded.get_output(0).numpy(), softmax(x), rtol=1e-4)
    assert loaded.stats()["bucket_runs"] == 3
    assert loaded.stats()["exact_runs"] == 1


def test_runs_of_one_program_are_queued_at_any_size(tmp_path):
    module = gr.create(open_sizes(), compile=False)
    loaded = gr.load(module.save(tmp_path / "net.bundle"))
    given = [RNG.standard_normal((rows, 4)).astype(np.float32) for rows in (3, 5, 3, 8)]
    for each in (module, loaded):
        for x, run in [(x, each.run_async(x=x)) for x in given]:
            np.testing.assert_allclose(run.outputs[0].numpy(), softmax(x), rtol=1e-4)
    with pytest.raises(InputError, match="finds sizes or values while it runs"):
        gr.create(model(), compile=False).run_async(**feed(5, 3, True))
    with pytest.raises(InputError, match="inputs without a value: x"):
        module.run_async()


def test_a_bundle_with_neither_programs_nor_a_model_is_refused(saved, tmp_path):
    import shutil

    for name, spoil, text in (
        ("a", lambda d: d.update(programs=[]), "neither programs nor a model"),
        ("b", lambda d: d.update(source={"model": "source/model.onnx", "data": []}), "not among its files"),
        ("c", lambda d: d.update(source={"model": "flow.json", "data": []}), "must match"),
        ("d", lambda d: d.update(source={"model": "source/model.onnx"}), "data"),
    ):
        shutil.copytree(saved[0], tmp_path / name)
        index = json.loads((tmp_path / name / "bundle.json").read_text())
        spoil(index)
        (tmp_path / name / "bundle.json").write_text(json.dumps(index))
        with pytest.raises(DocumentError, match=text):
            read_bundle(tmp_path / name)


def test_commands_on_a_bundle_without_programs(tmp_path, capsys):
    def command(*words, code=0):
        with pytest.raises(SystemExit) as stopped:
            cli.main(list(map(str, words)))
        printed = "".join(capsys.readouterr())
        assert (stopped.value.code or 0) == code, printed
        return " ".join(printed.split())

    file, out = tmp_path / "open.onnx", tmp_path / "open.bundle"
    onnx.save(open_sizes(), str(file))
    said = command("compile", file, "-o", out, "--no-compile")
    assert "no program yet; the model is in it" in said
    assert "x float32[rows, 4]" in command("inspect", out)
    assert "ok: the model" in command("verify", out)
    for path in (file, out):
        for look in ("plan", "estimate"):
            said = command(look, path)
            assert (
                f"{path.name} leaves rows open: what follows is of the specialization at rows = 1 alone"
                in said
            )
    assert "at rows = 8 alone" in command("estimate", file, "--dim", "rows=4,8")
    assert "at rows = 8 alone" in command("estimate", out, "--dim", "rows=4,8")
    np.save(tmp_path / "x.npy", np.ones((6, 4), np.float32))
    said = command("run", out, "--input", f"x={tmp_path / 'x.npy'}")
    assert "1 specializations: x float32[6, 4]" in said
    said = command("run", file, "--input", f"x={tmp_path / 'x.npy'}", "--compare", "--no-compile")
    assert "as numpy: worst nmse" in said
    assert "bind each" in command("compile", file, "-o", tmp_path / "c", "--closed", code=2)
    onnx.save(model(), str(file))
    said = command("plan", file)
    assert "its first specialization alone at rows = 1, x -> rows" in said


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
    flags = ("-o", out, "--no-compile", "--closed")
    assert "Loop 'Loop_twice' makes twice" in command("compile", file, *flags, *inputs)
    command("run", out, *inputs, "-o", tmp_path / "y.npz")
    made = np.load(tmp_path / "y.npz")
    for name, want in zip(("y", "sums", "total"), expected(**given), strict=True):
        np.testing.assert_allclose(made[name], want, rtol=2e-4, atol=1e-5)
    assert "which program a run takes" in command("inspect", out)
    assert "--compare looks at one program" in command("run", out, *inputs, "--compare", fails=True)
    assert "bind each, as in --dim rows=1" in command("compile", file, *flags, fails=True)
    sizes = command("compile", file, *flags, "--dim", "rows=3,4", *inputs[2:])
    assert "with x float32[3, 4]" in sizes
    assert "with x float32[4, 4]" in sizes


def test_a_bundle_without_programs_says_so_where_one_is_asked_for(tmp_path):
    path = gr.create(open_sizes(), compile=False).save(tmp_path / "net.bundle")
    x = np.ones((3, 4), np.float32)
    for kernels in ({"libraries": False}, {"verify": "full"}):
        loaded = gr.load(path, **kernels)
        loaded.run(x=x)
        np.testing.assert_allclose(loaded.get_output(0).numpy(), softmax(x), rtol=1e-4)
    with pytest.raises(DocumentError, match="has no program 'main'"):
        gr.load(path, program="main")
    with pytest.raises(DocumentError, match="no programs, but the model of which they are made"):
        read_bundle(path).program()


def test_a_bundle_whose_model_and_options_disagree_is_refused(tmp_path):
    path = gr.create(open_sizes(), compile=False).save(tmp_path / "net.bundle")
    index = json.loads((path / "bundle.json").read_text())
    x = np.ones((3, 4), np.float32)
    for options, text in (
        ({"dims": {"nope": [1]}}, "no dimension 'nope'"),
        ({"values": {"zz": 3}}, "no input 'zz'"),
        ({"dims": {"rows": 5}}, r"input 'x' is float32\[5, 4\]"),
    ):
        (path / "bundle.json").write_text(json.dumps({**index, "options": options}))
        with pytest.raises(InputError, match=text):
            gr.load(path).run(x=x)
