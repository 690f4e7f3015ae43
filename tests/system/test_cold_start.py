"""What a process imports before its first result: modules that its work has no need of stay out, by name."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest

import graph_runtime as gr

# each is there in a process that needs it only
NEVER = {"onnx", "onnxruntime", "pytest", "rich", "scipy", "torch", "graph_runtime.codegen"}
NEVER |= {
    f"graph_runtime.{name}" for name in ("compat", "eager", "rewrite", "simulation", "study", "ttnn", "views")
}
PLANNER = {
    f"graph_runtime.plan.{name}" for name in ("balance", "passes", "placement", "placing", "storage.memory")
}
ARCHIVES = {"tempfile", "zipfile"}

LOADED = """
    import sys
    import numpy as np
    import graph_runtime as gr
    module = {make}
    module.run(x=np.ones((4, 4), np.float32))
    assert module.get_output(0).numpy().sum() == 32
    print(*sys.modules)
"""
MAKE = {
    "bundle": ("gr.load('net.bundle')", NEVER | PLANNER | {"typer", "zipfile", "graph_runtime.cli"}),
    "graph": (
        "gr.create('net.json', params='net.params')",
        NEVER | ARCHIVES | {"jsonschema_rs", "typer", "graph_runtime.cli", "graph_runtime.artifacts.bundles"},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cold")
    builder, ones = gr.GraphBuilder(), np.ones((4, 4), np.float32)
    builder.output(builder.op("add", builder.input("x", (4, 4)), builder.param("w", ones)))
    gr.build_bundle(builder, ["cpu:0"], folder / "net.bundle", compile=False)
    (folder / "net.json").write_text(builder.to_json())
    (folder / "net.params").write_bytes(gr.save_params({"w": ones}))
    return folder


def _modules(folder, text: str) -> set[str]:
    command = [sys.executable, "-c", dedent(text)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("kind", MAKE)
def test_a_first_result_takes_few_modules(folder, kind):
    make, never = MAKE[kind]
    assert _modules(folder, LOADED.format(make=make)) & never == set()


def test_a_command_loads_no_other_command(folder):
    text = """
        import contextlib, io, sys
        from graph_runtime import cli
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            cli.main(["run", "net.bundle", "--input", "x=random"])
        print(*sys.modules)
    """
    loaded = _modules(folder, text)
    assert "graph_runtime.cli.run" in loaded
    commands = {name.rpartition(".")[2] for name in loaded if name.startswith("graph_runtime.cli.")}
    assert (
        commands & {"bench", "compile", "estimate", "export", "inspect", "plan", "study", "verify"} == set()
    )
    assert loaded & (NEVER | {"graph_runtime.plan.balance", "graph_runtime.plan.placing"}) == set()
