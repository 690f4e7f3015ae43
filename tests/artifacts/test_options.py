"""Options: one value of what a caller may choose, the same for create(), prepare(), bundles and commands."""

import ast
import inspect
import re
import warnings
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from typer.testing import CliRunner

import graph_runtime as gr
from graph_runtime import cli
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.machine.devices import parse
from graph_runtime.base.options import Options
from graph_runtime.cli.app import typer_app
from graph_runtime.cli.bench import bench
from graph_runtime.cli.options import FORMS
from graph_runtime.ir.model import Model
from graph_runtime.views import report

NAMES = {one.name for one in fields(Options)}
DEVICES = ["cpu:0", "tt:0"]
PLACES = {"reading", "rewriting", "compiling", "placing", "storing", "running", "flows"}


def mlp() -> gr.GraphBuilder:
    rng = np.random.default_rng(0)
    builder = gr.GraphBuilder()
    x = builder.input("x", (32, 64))
    w = builder.param("w", rng.random((64, 64), np.float32))
    v = builder.param("v", rng.random((64, 32), np.float32))
    builder.output(builder.op("matmul", builder.op("relu", builder.op("matmul", x, w)), v))
    return builder


# **************** one list of names ****************


def test_the_keywords_of_create_are_the_fields_and_none_of_them_has_a_default_of_its_own():
    parameters = inspect.signature(gr.create).parameters
    own = {"graph", "library", "devices", "params", "options", "name", "concurrent", "unknown"}
    assert set(parameters) - own == NAMES
    assert all(parameters[name].default is None for name in NAMES)


def said_to_callers(annotation: str) -> str:
    """The type of a field as a caller may give it."""
    if annotation.startswith("tuple["):
        annotation = f"Sequence[{annotation[6:].removesuffix(', ...]')}]"
    return annotation if annotation == "Any" or annotation.endswith("| None") else f"{annotation} | None"


def test_the_keywords_that_type_checkers_see_are_the_fields():
    source = Path(inspect.getsourcefile(Options)).read_text("utf-8")
    (words,) = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef) and n.name == "Words")
    lines = [ast.unparse(node) for node in words.body if isinstance(node, ast.AnnAssign)]
    assert lines == [f"{one.name}: {said_to_callers(one.type)}" for one in fields(Options)]


def test_the_docstring_says_what_each_field_is():
    assert NAMES == set(re.findall(r"``(\w+)``", Options.__doc__))


def test_a_field_says_where_it_applies_and_a_flag_that_is_not_given_says_nothing():
    parameters = inspect.signature(bench).parameters  # of a command with all flags
    for one in fields(Options):
        assert set(one.metadata["at"]) <= PLACES, one.name
        for flag in one.metadata["flags"]:
            shown = parameters[flag.name.replace("-", "_")]
            assert shown.annotation.__metadata__[0].help == flag.help
            assert Options.of(**{one.name: FORMS[flag.form].read(shown.default, flag)}) == Options()


@pytest.mark.parametrize(
    "door",
    [
        lambda **words: gr.create(mlp(), **words),
        lambda **words: gr.prepare(mlp(), "cpu:0", **words),
        lambda **words: gr.build_bundle(mlp(), "cpu:0", "nowhere", **words),
        lambda **words: gr.Options(**words),
        lambda **words: gr.Options.of(gr.Options(), **words),
    ],
)
def test_an_unknown_option_is_answered_by_the_one_that_was_meant_and_all_that_there_are(door):
    with pytest.raises(gr.InputError, match=r"no option 'generate' .there are: batch, .*, values"):
        door(generate=False)
    with pytest.raises(gr.InputError, match=r"'thread' \(did you mean 'threads'\?\); there are: batch"):
        door(thread=2)


@pytest.mark.parametrize(
    ("door", "meant"),
    [
        (lambda: gr.load("nowhere", thread=1), "threads"),
        (lambda: gr.place(mlp().build(), "cpu:0", objectiv="serial"), "objective"),
        (lambda: gr.simulate(gr.prepare(mlp(), "cpu:0").plan, run=2), "runs"),
        (lambda: gr.load_model(b"", dim={}), "dims"),
        (lambda: gr.create(mlp(), fallback="hst"), "host"),
        (lambda: gr.create(mlp(), queues="thread"), "threads"),
        (lambda: gr.create(mlp(), unset_inputs="alow"), "allow"),
        (lambda: gr.empty((32, 32)).to("tt:0", format="bf61"), "bf16"),
        (lambda: gr.build_library([], "nowhere.so", jbos=1), "jobs"),
        (lambda: gr.creat, "create"),
        (lambda: gr.cluster.conect, "connect"),
        (lambda: gr.runtime.submitt, "submit"),
        (lambda: gr.eager.softmx, "softmax"),
        (lambda: gr.eager.tanhh, "tanh"),
        (lambda: gr.errors.InputEror, "InputError"),
    ],
)
def test_every_unknown_word_is_answered_by_the_one_that_was_meant(door, meant):
    with pytest.raises(
        (gr.GraphRuntimeError, AttributeError), match=rf"did you mean '{meant}'\?\); there are: .*\b{meant}\b"
    ):
        door()


# **************** the value ****************


def test_words_come_before_options_and_none_leaves_them_as_they_were():
    options = Options(policy="nlp", threads=2)
    assert Options.of(options, threads=3, policy=None) == replace(options, threads=3)


def test_a_field_cannot_be_changed_nor_what_is_in_it():
    pins = {"a": "tt:0"}
    options = Options(place=pins)
    pins["b"] = "cpu:0"
    assert dict(options.place) == {"a": "tt:0"}
    with pytest.raises(TypeError):
        options.place["b"] = "cpu:0"
    with pytest.raises(AttributeError):
        options.policy = "nlp"


def test_an_unknown_word_is_refused_with_the_one_that_was_meant():
    with pytest.raises(gr.InputError, match=r"no option 'polcy'.*'policy'"):
        Options.of(polcy="nlp")
    with pytest.raises(gr.InputError, match=r"options must be a gr\.Options, got dict"):
        gr.create(mlp(), options={"policy": "nlp"})


@pytest.mark.parametrize("name", ["place", "device_map", "formats", "layouts", "numerics", "dims"])
def test_a_field_that_should_be_a_mapping_says_so(name):
    with pytest.raises(gr.InputError, match=f"{name} is a mapping, as"):
        Options(**{name: "tt:0"})


def test_options_as_json_and_back_are_equal():
    words = {"dims": {"n": 2}, "fuse": True, "numerics": {"tt": {"fidelity": "LoFi"}}}
    raw = orjson.loads(orjson.dumps(Options(place={"a": parse("tt:0")}, **words).as_json()))
    assert raw == {**words, "place": {"a": "tt:0"}}
    assert Options.from_json(raw) == Options(place={"a": "tt:0"}, **words)
    assert Options().as_json() == {}


# **************** where it goes ****************


def test_prepare_says_what_it_decided():
    model = Model.from_builder(mlp())
    assert prepare(mlp(), DEVICES).options == Options(fuse=False, reuse="serial")
    assert prepare(model, DEVICES).options == Options(fuse=True, placement="mincut", reuse="serial")
    assert prepare(model, DEVICES, place={"*": "tt:0"}).options.placement is None
    assert prepare(model, DEVICES, kept=True).options.reuse == "safe"
    assert prepare(mlp(), DEVICES, queues="threads").options.reuse == "safe"


def test_a_bundle_keeps_its_options_and_load_follows_them(tmp_path):
    options = Options(fuse=True, placement="single", threads=1, max_in_flight=3, unset_inputs="allow")
    gr.build_bundle(mlp(), DEVICES, tmp_path / "b", options, compile=False)
    assert read_bundle(tmp_path / "b").options == replace(options, compile=False)
    module = gr.load(tmp_path / "b")
    module.run()  # x was never set: the bundle says that this is allowed
    assert module.session.max_in_flight == 3
    with pytest.raises(gr.InputError):
        gr.load(tmp_path / "b", unset_inputs="refuse").run()


@pytest.mark.parametrize("wrong", [{"polcy": "nlp"}, {"place": 3}, 7])
def test_options_in_a_bundle_that_are_none_are_refused(tmp_path, wrong):
    gr.build_bundle(mlp(), "cpu:0", tmp_path / "b", compile=False)
    index = tmp_path / "b" / "bundle.json"
    index.write_bytes(orjson.dumps(orjson.loads(index.read_bytes()) | {"options": wrong}))
    with pytest.raises(gr.DocumentError, match="options"):
        gr.load(tmp_path / "b")


def test_python_and_the_command_make_the_same_plan(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(mlp().to_json())
    words = {"placement": "mincut", "objective": "makespan", "formats": {"tt": "bfp8_b"}, "reuse": "off"}
    flags = "--placement mincut --objective makespan --format tt=bfp8_b --reuse off --fuse --json".split()
    command = ["plan", str(path), "--device", DEVICES[0], "--device", DEVICES[1], *flags]
    shown = orjson.loads(CliRunner().invoke(typer_app(), command, catch_exceptions=False).stdout)
    module = gr.create(path, None, DEVICES, fuse=True, compile=False, **words)
    ours = orjson.loads(orjson.dumps(report.describe(module.session.plan)))
    del ours["memories"]  # the command adds what other modes would take
    assert ours == {name: shown[name] for name in ours}
    assert shown["options"] == Options(fuse=True, **words).as_json()


@pytest.mark.parametrize(("most", "said"), [(None, 6), (2, 3), (0, 0), (8, 8)])
def test_most_warnings_says_how_many_of_a_plan_are_given(most, said, tmp_path, capsys):
    builder = gr.GraphBuilder()
    x = builder.input("x", (4,))
    for _ in range(8):
        x = builder.op("relu", x)
    builder.output(x)
    document = orjson.loads(builder.to_json())
    document["attrs"]["device_index"] = ["list_int", [1, 2, 4, 5, 6, 7, 8, 9, 10]]  # eight that are not there
    path = tmp_path / "graph.json"
    path.write_bytes(orjson.dumps(document))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        gr.create(path, most_warnings=most)
    assert len(found) == said
    assert any("more of these" in str(one.message) for one in found) == (0 < said < 8)
    flag = [] if most is None else [f"--most-warnings={most}"]
    with pytest.raises(SystemExit) as done:
        cli.main(["run", str(path), "--input", "x=random", *flag])
    assert not done.value.code
    assert capsys.readouterr().err.count("warning: ") == said
    with pytest.raises(gr.InputError, match="most_warnings is a number"):
        gr.create(path, most_warnings=-1)
