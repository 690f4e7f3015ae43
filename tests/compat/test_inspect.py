"""What a library's file tells of its maker."""

import json
import subprocess

import numpy as np
import pytest

from graph_runtime import cli
from graph_runtime.base.errors import LibraryError
from graph_runtime.compat.tvm_files.inspect import describe
from graph_runtime.compat.tvm_files.library import load_module

W = {"w": np.arange(6, dtype="f4").reshape(2, 3)}


@pytest.fixture
def made(tmp_path):
    def build(source):
        (tmp_path / "l.c").write_text(source)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", str(tmp_path / "l.c"), "-o", str(tmp_path / "l.so")], check=True
        )
        return tmp_path / "l.so"

    return build


@pytest.mark.parametrize(
    ("flavours", "kind"),
    [
        (("LLVM",), "operator library (LLVM target)"),
        (("CTARGET",), "operator library (C target)"),
        (("SYSTEM",), "system library"),
    ],
)
def test_kinds_of_operator_libraries(tvm_library, flavours, kind):
    found = describe(tvm_library(*flavours))
    assert found["kind"] == kind
    assert found["releases"] == "0.8 to 0.20"  # its functions are called tvmgen_...
    assert "myadd" in found["functions"]
    assert (found["devices"], found["params"], found["imports"], found["problem"]) == (["cpu"], {}, [], None)


@pytest.mark.parametrize(
    ("key", "releases"), [("GraphExecutorFactory", "0.9 to 0.19"), ("GraphRuntimeFactory", "unknown: ")]
)
def test_a_single_file(tvm_library, blobs, key, releases):
    found = describe(tvm_library("LLVM", blob=blobs.model("mlp", key)))
    assert found["kind"] == f"single-file library ({key})"
    assert found["releases"].startswith(releases)  # tvmgen_ is of 0.8, that factory of 0.7
    assert found["imports"] == [key, "_lib"]
    assert found["params"]["p0"] == "float32[8, 784, 16]"
    assert found["devices"] == ["cpu"]


def test_releases_follow_from_marks(made):
    assert describe(made("int f(void) { return 0; }"))["releases"] == "unknown"
    old = "void *__TVMAPISetLastError; int fused_nn_relu(void) { return 0; }"
    assert describe(made(old))["releases"] == "0.5 to 0.7"
    linked = "void *__TVMAPISetLastError; int tvmgen_f(void) { return 0; } int _lookup_linked_param(void) {}"
    assert describe(made(linked))["releases"] == "0.8"
    ffi = describe(made("void *__TVMFFIFunctionCall; int __tvm_ffi_f(void) { return 0; }"))
    assert (ffi["kind"], ffi["releases"]) == ("tvm-ffi library", "0.21 or later")
    assert "other arguments" in ffi["problem"]


@pytest.mark.parametrize("key", ["cuda", "opencl", "some_byoc"])
def test_what_cannot_run_is_shown_nevertheless(tvm_library, blobs, key, capsys):
    path = tvm_library(
        "LLVM", blob=blobs.blob(blobs.factory("{}", W), blobs.lib(), blobs.text(key) + b"payload")
    )
    with pytest.raises(LibraryError, match=key):
        load_module(path)
    found = describe(path)
    assert found["imports"] == ["GraphExecutorFactory", "_lib", key]
    assert key in found["problem"]
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(path)])
    assert "cannot be loaded: " in capsys.readouterr().out


def test_the_command(tvm_library, blobs, capsys):
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(tvm_library("LLVM", blob=blobs.model("mlp"))), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["made"]) == ("library", "single-file library (GraphExecutorFactory)")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"attrs": 5}', '{"attrs": {"device_index": 7}}', '{"attrs": {}}']
)
def test_a_factory_with_any_graph_is_described(tvm_library, blobs, text):
    assert describe(tvm_library("LLVM", blob=blobs.blob(blobs.factory(text, W))))["params"] == {
        "w": "float32[2, 3]"
    }
