"""What docs/adding.md says of adding: its snippets, and two made-up device kinds (a C file and a descriptor
each), are put into a copy of the sources, which is built and used without any other change."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# an accelerator that shares the host's memory and runs the cpu's kernels
_NPU_C = """
#include "host.h"

static const gr_device_ops npu_ops = {.kind = "npu", .alloc = gr_host_alloc, .release = gr_host_release};

GR_REGISTER_DEVICE(npu_ops)
"""
_NPU = {
    "kind": "npu",
    "board": "npu1",
    "stack": "made up",
    "dl_type": 16,
    "grid": [1, 1],
    "default": True,
    "memories": [{"name": "host", "banks": 1, "bank_bytes": 1 << 24, "base": 0, "alignment": 128}],
    "layouts": ["row_major"],
    "formats": ["f32", "int32"],
    "kernels": "cpu",
    "sources": {"kind": "made up"},
}

# memory of its own that only copies reach: one bank of rows, each on a multiple of 16 bytes; no kernels
_VAULT_C = """
#include <string.h>

#include "host.h"

static uint8_t *row(const gr_arg *arg, gr_pages pages, int64_t i) {
  return (uint8_t *)(uintptr_t)arg->addr + (uint64_t)(pages.first + i) * ((arg->page_bytes + 15) / 16 * 16)
         + pages.offset;
}

static int32_t vault_in(gr_device *device, const gr_arg *arg, gr_pages pages, const uint8_t *host,
                        uint64_t stride) {
  (void)device;
  for (int64_t i = 0; i < pages.count; ++i)
    memcpy(row(arg, pages, i), host + (uint64_t)i * stride, pages.bytes);
  return GR_OK;
}

static int32_t vault_out(gr_device *device, const gr_arg *arg, gr_pages pages, uint8_t *host,
                         uint64_t stride) {
  (void)device;
  for (int64_t i = 0; i < pages.count; ++i)
    memcpy(host + (uint64_t)i * stride, row(arg, pages, i), pages.bytes);
  return GR_OK;
}

static const gr_device_ops vault_ops = {.kind = "vault", .alloc = gr_host_alloc, .release = gr_host_release,
                                        .copy_in = vault_in, .copy_out = vault_out};

GR_REGISTER_DEVICE(vault_ops)
"""
_VAULT = {
    "kind": "vault",
    "board": "vault1",
    "stack": "made up",
    "dl_type": 17,
    "grid": [1, 1],
    "default": True,
    "memories": [{"name": "dram", "banks": 1, "bank_bytes": 1 << 20, "base": 0, "alignment": 16}],
    "layouts": ["row_major"],
    "formats": ["f32", "bool"],
    "sources": {"kind": "made up"},
}


def snippets() -> list[tuple[str, list[str]]]:
    """(file, lines to add) of each snippet of the page."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"(?:^    .*\n)+", (ROOT / "docs/adding.md").read_text(), re.M):
        lines = [line[4:] for line in block.splitlines()]
        if any(line.startswith("+") for line in lines):
            for line in lines:
                if line.startswith("+"):
                    found[-1][1].append(line[1:])
                else:
                    found.append((line.partition(",")[0], []))
    return found


def add(tree: Path, file: str, lines: list[str]) -> None:
    """Put lines where a reader would: at the head of a table, behind others that begin so, at the foot."""
    path, text = tree / file, "\n".join(lines) + "\n"
    old = path.read_text() if path.exists() else ""
    if text in old or "..." in text:  # there already, as an example; of many files
        return
    alike = re.findall(rf"^{re.escape(lines[0].partition('(')[0])}\(.*\n", old, re.M)
    if file.endswith("app.py"):
        new = old.replace("COMMANDS = (\n", f"COMMANDS = (\n{text}")
    elif file.endswith(".h"):
        head, last, tail = old.rpartition(alike[-1])
        new = head + last + text + tail
    else:
        new = old + text
    assert new != old, file
    path.write_text(new)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """run(script) -> what a Python with the extended sources prints; run.tree, where they are."""
    tree = tmp_path_factory.mktemp("third")
    for folder in ("graph_runtime", "codegen", "schemas", "native"):
        shutil.copytree(
            ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("_core.*.so", "__pycache__")
        )
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    for descriptor, source in ((_NPU, _NPU_C), (_VAULT, _VAULT_C)):
        (tree / "native" / "core" / f"device_{descriptor['kind']}.c").write_text(source)
        (tree / "schemas" / "devices" / f"{descriptor['board']}.json").write_text(json.dumps(descriptor))
    for file, lines in snippets():
        add(tree, file, lines)
    site = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": str(site), "GR_BUILD": "debug"}

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=site,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    there = importlib.util.find_spec("setuptools") and int(version("setuptools").split(".")[0]) >= 77
    how = ("--no-build-isolation",) if there else ()  # else pip fetches it
    python("-m", "pip", "install", "-q", "--no-deps", *how, "--target", str(site), str(tree))

    def script(text: str) -> str:
        return python("-c", text)

    script.python, script.tree = python, tree
    return script


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kind_that_runs_the_kernels_of_another(run):
    run("""
import numpy as np
import graph_runtime as gr
from graph_runtime.plan.device_columns import asked_devices
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.plan import plan
from graph_runtime.plan.record import record
from graph_runtime.ir.documents.write import graph_to_json

b = gr.GraphBuilder()
x, w = b.input("x", (5, 7)), b.input("w", (3, 7))
hidden = b.op("dense", x, w, device="npu:0")
b.output(b.op("relu", hidden, device="cpu:0"))
b.output(b.op("exp", hidden, device="npu:1"))
graph = gr.load_graph(b.to_json())
assert set(graph.hints.device_type.tolist()) == {1, 16}
assert asked_devices(graph) == ["cpu:0", "npu:0", "npu:1"]

def results(text, devices):
    mod = gr.create(gr.load_graph(text), [], devices)
    mod.run(x=data, w=weights)
    return [mod.get_output(i).numpy() for i in range(2)]

rng = np.random.default_rng(0)
data, weights = (rng.normal(size=s).astype("float32") for s in ((5, 7), (3, 7)))
want = data @ weights.T
for devices in (["cpu:0", "npu:0", "npu:1"], ["npu:0", "tt:0", "npu:1", "cpu:0"]):
    written = graph_to_json(record(plan(graph, parse_list(devices))))
    assert b'"npu:1"' in written
    for text in (b.to_json(), written):
        positive, exp = results(text, devices)
        np.testing.assert_allclose(positive, np.maximum(want, 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(exp, np.exp(want), rtol=1e-5)
""")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kind_with_memory_and_a_layout_of_its_own(run):
    run("""
import numpy as np
import pytest
import graph_runtime as gr
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.errors import PlanError, UnsupportedOpError
from graph_runtime.plan import check, plan
from graph_runtime.plan.record import record
from graph_runtime.ir.documents.write import graph_to_json

def through(dtype):
    b = gr.GraphBuilder()
    x = b.input("x", (3, 5), dtype)
    b.output(b.copy(b.copy(b.copy(x, "vault:0"), "tt:0"), "cpu:0"))
    return gr.load_graph(b.to_json())

devices = parse_list(["cpu:0", "vault:0", "tt:0"])
planned = plan(through("float32"), devices)
check(planned)
assert str(planned.layouts[planned.layout_id[1]]) == "dram/row_major/f32"
written = graph_to_json(record(planned))
data = np.arange(15, dtype="float32").reshape(3, 5)
for graph in (through("float32"), gr.load_graph(written)):
    mod = gr.create(graph, [], devices)
    mod.run(x=data)
    np.testing.assert_array_equal(mod.get_output(0).numpy(), data)

with pytest.raises(PlanError, match="vault holds no int32"):
    plan(through("int32"), devices)
with pytest.raises(PlanError, match="vault:0 stores tensors in their own dtype"):
    plan(through("float32"), devices, formats={"vault:0": "bf16"})
b = gr.GraphBuilder()
b.output(b.op("relu", b.input("x", (3, 5)), device="vault:0"))
with pytest.raises(UnsupportedOpError, match="no kernel for vault"):
    plan(gr.load_graph(b.to_json()), devices)
""")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_commands_know_a_kind(run):
    run("""
import json
from pathlib import Path

import pytest

import graph_runtime as gr
from graph_runtime import cli
from graph_runtime.base.files.mapped import data_folder

b = gr.GraphBuilder()
x, w = b.input("x", (5, 7)), b.input("w", (3, 7))
b.output(b.op("relu", b.op("dense", x, w, name="d"), name="r"))
Path("net.json").write_text(b.to_json())
board = json.loads((data_folder("graph_runtime.schemas") / "devices" / "npu1.json").read_text())
Path("npu2.json").write_text(json.dumps({**board, "board": "npu2", "default": False}))

def call(*words):
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert not stopped.value.code, words

call("devices")
for device in ("npu:0", "npu:1=npu1", "npu:0=./npu2.json"):
    for command in ("plan", "run", "verify", "estimate"):
        given = ("--input", "x=random", "--input", "w=random") if command == "run" else ()
        call(command, "net.json", "--device", device, "--device", "cpu:0", *given)
    call("run", "net.json", "--device", device, "--compare")
call("compile", "net.json", "-o", "net.bundle", "--device", "npu:0")
call("run", "net.bundle", "--input", "x=random", "--input", "w=random")
""")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_pages_function_and_reduction(run):
    """cpu, tt by silicon's and by ttnn's numerics, graphs, eager calls; and the cases that follow."""
    run("""
import numpy as np
import graph_runtime as gr

x = np.linspace(-1, 3, 12, dtype="float32").reshape(3, 4)
for name, want in (("clipped6", np.clip(3 * x, 0, 6)), ("sum_fourths", ((3 * x) ** 4).sum(1))):
    attrs = {"axes": [1], "keepdims": False} if name == "sum_fourths" else {}
    for device, numerics in (("cpu:0", None), ("tt:0", None), ("tt:0", {"tt": {"numerics": "ttnn"}})):
        b = gr.GraphBuilder()
        b.output(b.op(name, b.input("x", x.shape), **attrs))
        mod = gr.create(b, None, [device], **({"numerics": numerics} if numerics else {}))
        mod.run(x=3 * x)
        np.testing.assert_allclose(mod.get_output(0).numpy(), want, rtol=2e-2, atol=2e-2)
    got = gr.eager.call(name, gr.eager.array(3 * x), **attrs).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
""")
    shutil.copytree(ROOT / "tests", run.tree / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    chosen = "clipped6 or sum_fourths"
    files = [str(run.tree / "tests/kernels" / f"test_ops_{kind}.py") for kind in ("cpu", "tt")]
    rootdir = f"--rootdir={run.tree}"
    said = run.python("-m", "pytest", "-q", "-p", "no:cacheprovider", rootdir, *files, "-k", chosen)
    assert re.search(r"[1-9]\d* passed", said), said


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_pages_converter_and_command(run):
    pytest.importorskip("onnx")
    run("""
import numpy as np
import onnx
from onnx import TensorProto, helper

import graph_runtime as gr

node = helper.make_node("SlopeBelow", ["x", "s"], ["y"], domain="com.example")
types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xsy"]
graph = helper.make_graph([node], "g", types[:2], types[2:])
imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), "slope.onnx")
mod = gr.create("slope.onnx")
x, s = np.array([-2, -1, 0, 3], "float32"), np.full(4, 0.5, "float32")
mod.run(x=x, s=s)
np.testing.assert_array_equal(mod.get_output(0).numpy(), np.where(x < 0, x * s, x))
""")
    said = run.python("-m", "graph_runtime.cli", "hello", "you")
    assert said.strip() == "hello you"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_pages_composition(run):
    """A function of ttnn's and its gradient, by their rows."""
    run("""
import numpy as np
from graph_runtime.compat import ttnn

device = ttnn.open_device(device_id=0)
x = np.array([[-2.0, 0.0, 0.5, 3.0]], "float32")
given = ttnn.from_torch(x, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
ones = ttnn.from_torch(np.ones_like(x), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
np.testing.assert_allclose(ttnn.relu_squared(given).to_numpy(), np.maximum(x, 0) ** 2)
(made,) = ttnn.relu_squared_bw(ones, given)
np.testing.assert_allclose(made.to_numpy(), 2 * np.maximum(x, 0))
""")
