"""Each line of snippets.py does what its state says, under the name tvm in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent))
from snippets import SNIPPETS, STATES

from graph_runtime.ir.documents.params import save_params

RUN = """
import contextlib, io, json, sys
from pathlib import Path
import numpy as np
from graph_runtime.compat.tvm import alias
alias.install()
import tvm
from tvm.contrib import graph_executor

said = json.load(open(sys.argv[1]))
found = []
for code in said["codes"]:
    dev = tvm.cpu(0)
    lib = tvm.runtime.load_module(said["lib"])
    names = {
        "tvm": tvm, "np": np, "graph_executor": graph_executor, "lib_path": said["lib"],
        "dev": dev, "lib": lib,
        "factory_path": said["factory"], "graph_json": said["graph"], "folder": Path(said["folder"]),
        "params_bytes": Path(said["params"]).read_bytes(), "data": np.arange(4, dtype="float32"),
        "module": graph_executor.create(said["graph"], lib, dev),
    }
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, names)
        found.append(None)
    except Exception as error:
        found.append([type(error).__name__, str(error)])
json.dump(found, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def outcomes(tvm_library, blobs, tmp_path_factory, new_document):
    """Of each snippet None, or [class, text] of what it raised."""
    folder = tmp_path_factory.mktemp("snippets")
    document = new_document()
    save_params({"x": np.zeros(4, "float32")}, folder / "x.params")
    said = {
        "codes": [one.code for one in SNIPPETS],
        "lib": str(tvm_library("LLVM")),
        "factory": str(tvm_library("LLVM", blob=blobs.model("mlp"))),
        "graph": document.json(document.call("myadd", document.input("x"))),
        "params": str(folder / "x.params"),
        "folder": str(folder),
    }
    (folder / "said.json").write_text(json.dumps(said))
    command = [sys.executable, "-P", "-c", RUN, folder / "said.json", folder / "found.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("at", range(len(SNIPPETS)))
def test_a_snippet_does_what_the_table_says(outcomes, at):
    one, found = SNIPPETS[at], outcomes[at]
    if one.state == "works":
        assert found is None, one.code
    else:
        assert found is not None, one.code
        assert one.error in found[1], one.code


def test_each_is_said_once_and_has_a_state():
    assert max(Counter((one.code, one.releases) for one in SNIPPETS).values()) == 1
    assert {one.state for one in SNIPPETS} == set(STATES)
    assert all(bool(one.why) == (one.state == "differs") for one in SNIPPETS)
    assert len(SNIPPETS) >= 150


def test_the_page_has_the_table():
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
    import tvm_table

    assert tvm_table.page() == tvm_table.PAGE.read_text(encoding="utf-8")
