"""The way from an ONNX file to a result, by the command line: what README's quick start types, and what
happens to files that are damaged or killed in the middle."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graph_runtime as gr
from graph_runtime import cli
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.base.config import config

ROOT = Path(__file__).resolve().parents[3]
DEVICES = ("--device", "cpu:0", "--device", "tt:0")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the example's model.onnx (its batch bound to 1) and x.npy, and a cache for all tests."""
    spec = importlib.util.spec_from_file_location("onnx_quickstart", ROOT / "examples" / "onnx_quickstart.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    folder = tmp_path_factory.mktemp("quickstart")
    onnx.save(example.network(), folder / "model.onnx")
    np.save(folder / "x.npy", np.random.default_rng(1).standard_normal((1, 3, 64, 64)).astype(np.float32))
    return folder


@pytest.fixture
def command(made, tmp_path, capsys, monkeypatch):
    """command(*args) -> (exit code, stdout, stderr), in a folder with the model."""
    for name in ("model.onnx", "x.npy"):
        shutil.copy(made / name, tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*args):
        with config(CACHE_DIR=str(made / "cache")), pytest.raises(SystemExit) as stopped:
            cli.main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


def wanted(folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.load(folder / "x.npy")})[0]


@pytest.mark.parametrize("bundle", ["model.bundle", "model.zip"])
def test_two_commands_from_a_model_to_its_output(command, tmp_path, bundle):
    assert command("compile", "model.onnx", "-o", bundle, *DEVICES, "--dim", "batch=1")[0] == 0
    assert command("run", bundle, "--input", "x=x.npy", "-o", "y.npz")[0] == 0
    with np.load(tmp_path / "y.npz") as made:
        np.testing.assert_allclose(made["probabilities"], wanted(tmp_path), rtol=1e-4, atol=1e-6)
    report = json.loads(command("inspect", bundle, "--json")[1])
    assert report["devices"] == ["cpu:0", "tt:0"]
    assert {row["memory"] for row in report["memories"]} >= {"host", "dram"}  # it is a mixed one
    assert command("verify", bundle)[0] == 0


def test_a_bundle_of_several_sizes_says_which_program_is_shown(command):
    flags = ("-o", "two.bundle", "--dim", "batch=1,2", "--no-compile")
    code, _, err = command("compile", "model.onnx", *flags)
    assert code == 0, err
    for look in ("plan", "estimate"):
        code, _, err = command(look, "two.bundle")
        assert code == 0
        said = "two.bundle has 2 programs: step0, step1; what follows is of step0 alone, x float32[1, 3,"
        assert said in " ".join(err.split())


def test_a_model_runs_without_a_bundle_and_agrees_with_two_judges(command):
    pytest.importorskip("onnxruntime")
    code, out, _ = command(
        "run",
        "model.onnx",
        "--dim",
        "batch=1",
        *DEVICES,
        "--input",
        "x=x.npy",
        "--compare",
        "--against",
        "onnxruntime",
        "--json",
    )
    result = json.loads(out)
    assert code == 0
    assert result["compare"]["ok"]
    assert result["onnxruntime"]["ok"]
    rows = result["compare"]["isolated"]
    assert {row["device"] for row in rows} == {"cpu:0", "tt:0"}
    assert rows == sorted(rows, key=lambda row: -row["nmse"])


def test_without_a_compiler_a_model_runs_on_the_kernels_built_in(command, tmp_path):
    with config(CC="/nonexistent/cc"):
        code, _, err = command(
            "run",
            "model.onnx",
            "--dim",
            "batch=1",
            "--device",
            "cpu:0",
            "--no-fuse",
            "--input",
            "x=x.npy",
            "-o",
            "y.npz",
        )
    assert code == 0
    assert "no C compiler found" in err
    with np.load(tmp_path / "y.npz") as made:
        np.testing.assert_allclose(made["probabilities"], wanted(tmp_path), rtol=1e-4, atol=1e-6)


def test_create_compiles_as_the_command_does(made, tmp_path):
    """Where no compiler is found: a warning, an error where compiling was asked for, silence where not."""
    # as the file has it: made for a host, it has few kernels that the package has not
    create = partial(gr.create, made / "model.onnx", dims={"batch": 1}, fuse=False)
    with config(CC="/nonexistent/cc", CACHE_DIR=str(tmp_path)):
        with pytest.warns(UserWarning, match="no C compiler found"):
            create()
        with pytest.raises(gr.CompileError, match="no C compiler found"):
            create(compile=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            create(compile=False)


def test_bfloat16_on_tt_correlates(command, tmp_path):
    command(
        "run",
        "model.onnx",
        "--dim",
        "batch=1",
        "--device",
        "tt:0",
        "--format",
        "tt=bf16",
        "--input",
        "x=x.npy",
        "-o",
        "y.npz",
    )
    with np.load(tmp_path / "y.npz") as made:
        assert np.corrcoef(made["probabilities"].ravel(), wanted(tmp_path).ravel())[0, 1] >= 0.99


def test_plan_verify_and_inspect_read_the_model(command):
    code, out, _ = command("plan", "model.onnx", "--dim", "batch=2", "--place", "conv*=tt:0", *DEVICES)
    assert code == 0
    assert re.search(r"conv1 +conv2d +tt:0", out)
    assert "ok: " in command("verify", "model.onnx", "--dim", "batch=2")[1]
    found = json.loads(command("inspect", "model.onnx", "--dim", "batch=2", "--json")[1])
    assert found["inputs"] == {"x": "float32[2, 3, 64, 64]"}
    assert found["constants"] == 6


def test_boards_are_estimated_side_by_side_without_weights(command, tmp_path):
    model = onnx.load(tmp_path / "model.onnx")
    onnx.save(
        model, tmp_path / "absent.onnx", save_as_external_data=True, location="absent.bin", size_threshold=0
    )
    (tmp_path / "absent.bin").unlink()
    code, out, _ = command(
        "estimate", "absent.onnx", "--board", "n150,p150,e150", "--dtype", "bfp8_b", "--batch", "32", "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert [board["board"] for board in found["boards"]] == ["n150", "p150", "e150"]
    for board in found["boards"]:
        assert board["fits"]
        assert board["items_per_s"] == pytest.approx(32 * board["throughput"])
        assert 0 < len(board["slowest"]) <= 5
        bounds = {row["bound"] for row in board["slowest"]}
        assert bounds <= {"math", "NoC", "DRAM", "PCIe", "dispatch", "host"}
    text = command("estimate", "absent.onnx", "--board", "n150", "--batch", "2")[1]
    assert "bound by" in text
    code, _, err = command("run", "absent.onnx", "--dim", "batch=1", "--input", "x=random")
    assert code == 2
    assert "absent.bin" in err


def test_a_board_that_is_too_small_says_what_is_missing(command):
    code, out, _ = command("estimate", "model.onnx", "--board", "n150,e150", "--batch", "2000000", "--json")
    found = json.loads(out)["boards"]
    assert code == 0
    assert not any(board["fits"] for board in found)
    for board in found:
        assert board["latency_ns"] is None
        assert board["memories"][0]["needed"] > board["memories"][0]["available"] > 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["compile", "model.onnx", "-o", "b", "--closed"], "bind each, as in --dim batch=1"),
        (["compile", "model.onnx", "-o", "b", "--dim", "batch=0"], "a size is a positive number"),
        (["compile", "model.onnx", "-o", "b", "--dim", "bach=1"], "batch"),
        (["compile", "cut.onnx", "-o", "b", "--dim", "batch=1"], "cut.onnx"),
        (["run", "noise.onnx"], "noise.onnx"),
        (["run", "empty.onnx"], "empty.onnx"),
        (["run", "gone.onnx"], "gone.onnx"),
        (["run", "model.onnx", "--dim", "batch=1"], "inputs without a value: x"),
        (
            ["run", "model.onnx", "--dim", "batch=1", "--input", "x=x.npy", "--against", "onnxruntme"],
            "did you mean 'onnxruntime'",
        ),
        (["estimate", "model.onnx", "--board", "n15", "--batch", "1"], "there is no board 'n15'"),
        (["estimate", "model.onnx", "--board", "n150", "--device", "tt:0"], "exclude each other"),
        (["inspect", "cut.onnx"], "cut.onnx"),
        (["inspect", "model.onnx", "--value", "x=many"], "a value is a number"),
        (["inspect", "model.onnx", "--value", "x=gone.npy"], "gone.npy"),
        (["inspect", "model.onnx", "--value", "y=1"], "the model has no input 'y'"),
        (["verify", "model.onnx", "--dim", "batch=1x2"], "dimensions without a size: batch"),
        (["verify", "noise.onnx"], "noise.onnx"),
        (["plan", "x.npy"], "not valid JSON"),
    ],
)
def test_bad_files_and_options_are_one_line_and_leave_nothing(command, tmp_path, args, words):
    whole = (tmp_path / "model.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "noise.onnx").write_bytes(np.random.default_rng(0).bytes(4000))
    (tmp_path / "empty.onnx").write_bytes(b"")
    before = sorted(os.listdir(tmp_path))
    code, out, err = command(*args)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert words in err
    assert sorted(os.listdir(tmp_path)) == before


def test_run_takes_a_model_of_open_sizes_and_refuses_what_looks_at_one_program(command, tmp_path):
    x = np.random.default_rng(2).standard_normal((3, *np.load(tmp_path / "x.npy").shape[1:])).astype("f4")
    np.save(tmp_path / "three.npy", x)
    code, out, err = command("run", "model.onnx", "--input", "x=three.npy", "-o", "y.npz")
    assert code == 0, err
    assert "1 specializations: x float32[3," in err
    assert next(iter(np.load(tmp_path / "y.npz").values())).shape[0] == 3
    assert command("run", "model.onnx", "--input", "x=three.npy", "--expect", "y.npz")[0] == 0
    for args, words in (
        (["--input", "x=random"], "--input x=random needs sizes: --dim batch=1"),
        (["--input", "x=random", "--profile"], "--profile looks at one program"),
        (["--input", "xx=three.npy"], "the model has no such input"),
    ):
        code, out, err = command("run", "model.onnx", *args)
        assert (code, out) == (2, "")
        assert words in err


def test_inspect_shows_a_model_whose_sizes_a_run_finds(command, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["p"]), helper.make_node("Transpose", ["p"], ["y"])],
        "found",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "found.onnx").write_bytes(made.SerializeToString())
    code, out, err = command("inspect", "found.onnx")
    assert (code, err) == (0, "")
    assert "input  x: float32[3, 4]" in out
    assert "it has no one program" in out
    assert "graph-runtime run find such values" in out
    code, _, err = command("plan", "found.onnx")
    assert code == 0
    assert "what follows is of its first specialization alone, x -> p" in err


def test_killed_in_the_middle_leaves_the_old_bundle_or_none(made, tmp_path):
    """At any moment: what has the bundle's name is whole. Only temporary names are left beside it."""
    shutil.copy(made / "model.onnx", tmp_path)
    program = "from graph_runtime.cli import main; main()"
    args = [sys.executable, "-c", program, "compile", "model.onnx", "-o", "net.bundle", "--dim", "batch=1"]
    env = {**os.environ, "GR_CACHE_DIR": str(made / "cache")}
    subprocess.run([*args, "--device", "cpu:0"], cwd=tmp_path, env=env, check=True, capture_output=True)
    for delay in (0.05, 0.3, 0.6, 0.9):
        process = subprocess.Popen(
            [*args, *DEVICES], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (tmp_path / "net.bundle").exists():
            gr.load(tmp_path / "net.bundle")
        left = {name for name in os.listdir(tmp_path) if not name.startswith(".net.bundle.")}
        assert left <= {"model.onnx", "net.bundle"}


def test_a_decoder_of_eight_billion_parameters_is_estimated_without_them(command, tmp_path):
    """The generator of the bench, with all its layers: no weight exists anywhere."""
    spec = importlib.util.spec_from_file_location("llama", ROOT / "tests" / "bench" / "llama.py")
    llama = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(llama)
    onnx.save(llama.decoder(), tmp_path / "llama.onnx")
    args = ("--board", "n150,p150", "--dtype", "bfp8_b", "--batch", "32", "--json")
    code, out, _ = command("estimate", "llama.onnx", *args)
    small, large = json.loads(out)["boards"]
    assert code == 0
    assert not small["fits"]  # 8 GB of weights and 8 GB of caches in 12 GB
    assert large["fits"]
    (dram,) = (row for row in large["memories"] if row["memory"] == "dram")
    values = 8.03e9 + 32 * 2 * 32 * 8 * 2048 * 128
    assert dram["needed"] * dram["banks"] > values * 1088 / 1024
    # no step is faster than its weights come out of DRAM
    assert large["latency_ns"] > 7.5e9 / 512


def test_a_model_is_exported_for_tvm_with_its_weights(command, tmp_path):
    assert command("export", "model.onnx", "--dim", "batch=1", "-o", "deploy")[0] == 0
    graph = gr.load_graph(tmp_path / "deploy" / "graph.json")
    params = read_params(tmp_path / "deploy" / "params.bin")
    assert set(graph.input_names) - set(params) == {"x"}
    assert len(params) == 6


def test_create_takes_an_onnx_file(made):
    module = gr.create(made / "model.onnx", None, ["cpu:0", "tt:0"], dims={"batch": 1})
    module.run(x=np.load(made / "x.npy"))
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted(made), rtol=1e-4, atol=1e-6)
    assert module.get_input_info()[0] == {"x": (1, 3, 64, 64)}
    assert len(set(module.session.plan.did.tolist())) == 2


def test_programs_of_one_bundle_share_equal_weights(made, tmp_path):
    from graph_runtime.codegen.build import build_bundle

    from graph_runtime.artifacts.bundles.bundle import read_bundle
    from graph_runtime.frontends.onnx import load_model

    programs = {f"batch{n}": load_model(made / "model.onnx", dims={"batch": n}) for n in (1, 2)}
    path = build_bundle(programs, ["cpu:0"], tmp_path / "two.bundle", compile=False)
    bundle = read_bundle(path)
    alone = build_bundle(programs["batch1"], ["cpu:0"], tmp_path / "one.bundle", compile=False)
    assert bundle.sizes["params.bin"] == read_bundle(alone).sizes["params.bin"]
    x = np.load(made / "x.npy")
    one, two = (gr.load(path, program=name) for name in programs)
    one.run(x=x)
    two.run(x=np.concatenate([x, x]))
    np.testing.assert_allclose(two.get_output(0).numpy()[1], one.get_output(0).numpy()[0], rtol=1e-5)


def test_the_readmes_quick_start(made, tmp_path):
    """Its block of ONNX commands runs as it is written there."""
    (script,) = re.findall(r"^```sh onnx\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in (("graph-runtime", "-c 'from graph_runtime.cli import main; main()'"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {body} "$@"\n')
        (tools / name).chmod(0o755)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    env = {**os.environ, "GR_CACHE_DIR": str(made / "cache"), "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=env,
        timeout=100,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "output 0 probabilities: float32[1, 10]" in done.stdout


def test_an_unknown_input_is_told_with_the_inputs_and_without_the_weights(command):
    code, _, err = command("run", "model.onnx", "--dim", "batch=1", "--input", "image=x.npy")
    assert code == 2
    assert "the graph has no such input (there are: x)" in err


def _graph(nodes, inputs, out, opset, initializer=()):
    info = helper.make_tensor_value_info
    given = [info(name, code, [3]) for name, code in inputs.items()]
    graph = helper.make_graph(nodes, "g", given, [info("y", out, [3])], list(initializer))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def test_run_takes_and_writes_strings(command, tmp_path):
    nodes = [
        helper.make_node("StringNormalizer", ["s"], ["u"], case_change_action="UPPER"),
        helper.make_node("StringConcat", ["u", "t"], ["y"]),
    ]
    string = TensorProto.STRING
    onnx.save(_graph(nodes, {"s": string, "t": string}, string, 20), tmp_path / "join.onnx")
    np.save(tmp_path / "s.npy", np.array(["a", "bé", ""]))
    np.save(tmp_path / "objects.npy", np.array(["a", "b", "c"], object), allow_pickle=True)
    given = ("--input", "s=s.npy", "--input", "t=s.npy")
    code, out, err = command("run", "join.onnx", *given, "-o", "y.npz")
    assert code == 0, err
    assert "output 0 y: string[3] ['Aa' 'BÉbé' '']" in out
    assert np.load(tmp_path / "y.npz")["y"].tolist() == ["Aa", "BÉbé", ""]
    assert json.loads(command("run", "join.onnx", *given, "--json")[1])["outputs"][0]["dtype"] == "string"
    for args, text in [
        (("--input", "s=random", "--input", "t=s.npy"), "random strings are not made"),
        (("--input", "s=x.npy", "--input", "t=s.npy"), "no array of strings"),
        (("--input", "s=objects.npy", "--input", "t=s.npy"), "numpy.array(texts, str)"),
        (("--input", "s=absent.npy", "--input", "t=s.npy"), "absent.npy"),
    ]:
        code, _, err = command("run", "join.onnx", *args)
        assert code == 2
        assert text in err
        assert "Traceback" not in err
    code, _, err = command("compile", "join.onnx", *given, "-o", "join.bundle")
    assert code == 2
    assert "bundles do not have yet" in err


def test_run_takes_elements_of_few_bits(command, tmp_path):
    nodes = [helper.make_node("DequantizeLinear", ["x", "scale"], ["y"])]
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [0.5])
    onnx.save(_graph(nodes, {"x": TensorProto.INT4}, TensorProto.FLOAT, 21, [scale]), tmp_path / "few.onnx")
    np.save(tmp_path / "q.npy", np.array([-8, 7, 0], np.int8))
    np.save(tmp_path / "wide.npy", np.array([-9, 7, 0], np.int8))
    code, out, err = command("run", "few.onnx", "--input", "x=q.npy")
    assert code == 0, err
    assert re.search(r"float32\[3\] \[-4\. +3\.5 +0\. *\]", out)
    assert command("run", "few.onnx", "--input", "x=random")[0] == 0
    code, _, err = command("run", "few.onnx", "--input", "x=wide.npy")
    assert code == 2
    assert "-9 to 7" in err
