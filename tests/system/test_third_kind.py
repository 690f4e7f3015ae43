"""A device kind is one C file and one descriptor: two made-up kinds are dropped into a copy of the sources,
which is built and used without any other change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """run(script) -> what a Python with the extended sources prints."""
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

    python("-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(tree))
    return lambda script: python("-c", script)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kind_that_runs_the_kernels_of_another(run):
    run("""
import numpy as np
import graph_runtime as gr
from graph_runtime.cli.sources import asked_devices
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
from graph_runtime.base.packaged import data_folder

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
