"""doctor, --version, completion, and what plan and estimate show of a large model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import graph_runtime as gr
from graph_runtime import cli
from graph_runtime.base.config import config
from graph_runtime.cli.app import COMMANDS


@pytest.fixture
def call(capsys):
    def run(*args):
        with pytest.raises(SystemExit) as end:
            cli.main([str(a) for a in args])
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


@pytest.fixture
def graph_file(tmp_path):
    def write(nodes):
        b = gr.GraphBuilder()
        x = b.op("matmul", b.input("x", (40, 40), device="cpu:0"), b.input("w", (40, 40)), name="mm")
        for i in range(nodes - 1):
            x = b.op("relu", x, name=f"r{i}", device="tt:0" if i % 2 else "cpu:0")
        b.output(x)
        path = tmp_path / "net.json"
        path.write_text(b.to_json())
        return path

    return write


def test_a_whole_installation(call, kernel_cache):
    with config(CACHE_DIR=kernel_cache):
        code, out, err = call("doctor", "--json")
    found = {row["what"]: row for row in json.loads(out)["findings"]}
    assert (code, err, json.loads(out)["ok"]) == (0, "", True)
    assert {"package", "cpu", "cores", "compiler", "cache", "kernels", "package numpy"} <= set(found)
    assert found["kernels"]["found"] == "a product on cpu:0 and on tt:0 equals numpy's"
    assert kernel_cache in found["cache"]["found"]
    if find_spec("torch") is not None:
        assert found["torch calls"]["found"].startswith(("by C++", "by Python"))
    assert not any(what.startswith(("package pytest", "package mkdocs")) for what in found)
    for row in found.values():
        assert bool(row["remedy"]) == (row["state"] != "ok")


def test_without_a_compiler_and_a_cache(call, tmp_path):
    (tmp_path / "file").write_text("")
    with config(CC="/nonexistent/cc", CACHE_DIR=str(tmp_path / "file")):
        code, out, _ = call("doctor")
    assert code == 1
    lines = out.splitlines()
    assert any(line.startswith("BROKEN compiler: none") for line in lines)
    assert any("apt install gcc" in line for line in lines)
    assert any(line.startswith("absent cache: the cache ") for line in lines)
    assert lines[-1].startswith("1 broken, ")
    with config(CACHE_DIR="/dev/null/cache"):
        code, out, _ = call("doctor")
    assert code == 1
    assert "BROKEN cache: cannot write /dev/null/cache" in out


def test_what_lacks_a_package(call, monkeypatch):
    from graph_runtime.views import health

    def version(name):
        if name in ("onnx", "orjson"):
            raise health.metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(health.metadata, "version", version)
    code, out, _ = call("doctor")
    assert code == 1
    assert "absent package onnx (extra onnx): not installed\n       pip install 'onnx>=1.16'" in out
    assert "BROKEN package orjson: not installed\n       pip install orjson" in out


def test_a_core_that_does_not_load_and_a_checkout_that_is_not_installed(call, monkeypatch):
    from graph_runtime.views import health

    def missing(*_):
        raise ImportError("graph_runtime/_core.abi3.so: undefined symbol: gr_call")

    monkeypatch.setattr(health, "_cores", missing)
    monkeypatch.setattr(health, "_DISTRIBUTION", "no-such-package")
    code, out, _ = call("doctor")
    assert code == 1
    assert "BROKEN cores: graph_runtime/_core.abi3.so: undefined symbol" in out
    assert "BROKEN package: No package metadata was found for no-such-package" in out


def test_version(call):
    assert call("--version") == (0, f"graph-runtime {gr.__version__}\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "wanted"),
    [("graph-runtime ", set(COMMANDS)), ("graph-runtime plan --who", {"--whole"})],
)
def test_a_shell_completes(words, wanted):
    asked = {
        "_GRAPH_RUNTIME_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from graph_runtime.cli import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == wanted


def test_a_large_plan_has_a_summary_first(call, graph_file):
    devices = ("--device", "cpu:0", "--device", "tt:0")
    code, out, _ = call("plan", graph_file(200), *devices)
    assert code == 0
    for title in ("devices", "ops: the 10", "copies", "memories", "alive at the peak", "why: the 3"):
        assert title in out
    assert "pool maps" not in out
    assert len(out.splitlines()) < 80
    assert "--whole" in out
    _, whole, _ = call("plan", graph_file(200), *devices, "--whole")
    assert "pool maps" in whole
    assert len(whole.splitlines()) > 200
    _, small, _ = call("plan", graph_file(20), *devices)
    assert "pool maps" in small


def test_a_large_estimate_has_a_summary_first(call, graph_file):
    devices = ("--device", "cpu:0", "--device", "tt:0")
    code, out, _ = call("estimate", graph_file(200), *devices)
    assert code == 0
    assert out.index("alive at the peak") < out.index("latency")
    assert "nodes that take less; --whole shows them" in out
    _, whole, _ = call("estimate", graph_file(200), *devices, "--whole")
    assert "nodes that take less" not in whole
    assert all(f"r{i} " in whole for i in range(199))
