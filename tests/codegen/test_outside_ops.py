"""Ops of other packages: registered through an entry point, their C compiled for graphs that use them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/extending.md").read_text()
OPS = re.search(r"```text\n(# cubes/ops.py\n.*?)```", PAGE, re.S)[1]
C = re.search(r"```c\n(/\* cubes/kernels/cpu/cubed.h \*/\n.*?)```", PAGE, re.S)[1]
RUN = """
    import numpy as np
    import graph_runtime as gr

    b = gr.GraphBuilder()
    b.output(b.op("relu", b.op("cubed", b.input("x", (3, 5), "{dtype}"))))
    module = gr.create(b.to_json())
    x = np.linspace(-2, 2, 15, dtype="{dtype}").reshape(3, 5)
    module.run(x=x)
    np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(x**3, 0), rtol=1e-6)
    rows = gr.place(b.build(), ["cpu:0", "tt:0"], placement="greedy").report()
    assert [row["device"] for row in rows] == ["cpu:0"] * 2, rows
    print("ran")
"""


@pytest.fixture
def installed(tmp_path):
    """A folder of site-packages with the package cubes."""

    def install(ops: str = OPS, c: str = C, header: str = "cubed.h", name: str = "cubes") -> Path:
        package, info = tmp_path / name, tmp_path / f"{name}-1.0.dist-info"
        (package / "kernels" / "cpu").mkdir(parents=True)
        info.mkdir()
        (package / "__init__.py").write_text("")
        (package / "ops.py").write_text(textwrap.dedent(ops))
        (package / "kernels" / "cpu" / header).write_text(c)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[graph_runtime.ops]\n{name} = {name}.ops\n")
        return tmp_path

    return install


def python(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(path), "GR_CACHE_DIR": str(path / "cache")}
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_installed_package_brings_an_op_and_its_kernel(installed, dtype):
    done = python(installed(), RUN.replace("{dtype}", dtype))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "ran\n"


def test_a_header_that_changed_is_compiled_anew(installed):
    path = installed()
    assert python(path, RUN.replace("{dtype}", "float32")).returncode == 0
    header = path / "cubes" / "kernels" / "cpu" / "cubed.h"
    header.write_text(C.replace("x[i] * x[i] * x[i]", "x[i] * x[i] * x[i] + 1"))
    done = python(path, RUN.replace("{dtype}", "float32"))
    assert "Mismatched elements" in done.stderr, done.stderr[-500:]


def test_a_package_that_fails_is_a_warning_and_its_ops_are_unknown(installed):
    code = 'import graph_runtime as gr; b = gr.GraphBuilder(); b.op("cubed", b.input("x", (3,)))'
    done = python(installed(ops="import nowhere_at_all"), code)
    assert "ops of cubes (cubes.ops) were not loaded: ModuleNotFoundError" in done.stderr
    assert "UnsupportedOpError: unknown op 'cubed'" in done.stderr


@pytest.mark.parametrize(
    ("c", "header", "text"),
    [
        (C.replace("cpu/cubed : f32 f64", "cpu/relu : f32"), "cubed.h", "give both names of its own"),
        (C, "where.h", "give both names of its own"),
        (C.replace(": f32 f64 */", "f32 f64"), "cubed.h", "no announcing line"),
    ],
)
def test_bodies_that_would_hide_others_are_refused(installed, c, header, text):
    done = python(installed(c=c, header=header), RUN.replace("{dtype}", "float32"))
    assert done.returncode != 0
    assert text in done.stderr, done.stderr[-1500:]
