"""Device kinds of other packages: descriptors by an entry point, their C compiled when a device is opened."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/extending.md").read_text()
NPU_C = re.search(r"```c\n(/\* chips/npu.c.*?)```", PAGE, re.S)[1]
MODULE = re.search(r"```text\n(# chips/__init__.py.*?)```", PAGE, re.S)[1]
NPU = {
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
# memory that only copies reach, one bank of rows, with a ledger of its own kind's making
VAULT_C = """
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "status.h"

static uint8_t *row(const gr_arg *arg, gr_pages pages, int64_t i) {
  return (uint8_t *)(uintptr_t)arg->addr + (uint64_t)(pages.first + i) * ((arg->page_bytes + 15) / 16 * 16)
         + pages.offset;
}

static int32_t vault_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder,
                           uint64_t *addr) {
  if (extent > 1 << 16) return gr_fail(GR_ERR_OUT_OF_MEMORY, "the vault is full for %s", holder);
  void *made = aligned_alloc(64, (extent + 63) / 64 * 64);
  if (!made) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory");
  *addr = (uint64_t)(uintptr_t)made;
  return gr_ledger_add(&device->memories[memory].ledger, *addr, extent, holder);
}

static void vault_release(gr_device *device, int32_t memory, const gr_holding *holding) {
  (void)device, (void)memory;
  free((void *)(uintptr_t)holding->addr);
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

static const gr_device_ops vault_ops = {.kind = "vault", .alloc = vault_alloc, .release = vault_release,
                                        .copy_in = vault_in, .copy_out = vault_out};

GR_REGISTER_DEVICE(vault_ops)
"""
VAULT = {
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


@pytest.fixture
def installed(tmp_path):
    """A folder of site-packages with the package chips, which has these descriptors and C."""

    def install(*devices: tuple[dict, str | None], module: str = MODULE, code: str = "") -> Path:
        package, info = tmp_path / "chips", tmp_path / "chips-1.0.dist-info"
        package.mkdir(), info.mkdir()
        (package / "__init__.py").write_text(textwrap.dedent(module))
        for descriptor, source in devices:
            (package / f"{descriptor['board']}.json").write_text(json.dumps(descriptor))
            if source is not None:
                (package / f"{descriptor['kind']}.c").write_text(source)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chips\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[graph_runtime.devices]\nchips = chips\n")
        return tmp_path

    return install


def python(path: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(path), "GR_CACHE_DIR": str(path / "cache")}
    command = [sys.executable, "-P", *(arguments or ("-c", textwrap.dedent(code)))]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


def test_a_kind_that_runs_the_kernels_of_the_host(installed):
    path = installed((NPU, NPU_C))
    code = """
        import numpy as np
        import graph_runtime as gr
        from graph_runtime.plan import plan

        b = gr.GraphBuilder()
        hidden = b.op("dense", b.input("x", (5, 7)), b.input("w", (3, 7)), device="npu:0")
        b.output(b.op("relu", hidden, device="cpu:0"))
        b.output(b.op("exp", hidden, device="npu:1"))
        x, w = np.ones((5, 7), "float32"), np.full((3, 7), 0.5, "float32")
        for graph in (b.build(), b.to_json()):
            module = gr.create(graph, None, ["cpu:0", "npu:0", "npu:1", "tt:0"])
            module.run(x=x, w=w)
            np.testing.assert_allclose(module.get_output(0).numpy(), x @ w.T)
            np.testing.assert_allclose(module.get_output(1).numpy(), np.exp(x @ w.T), rtol=1e-6)
        placed = gr.place(b.build(), ["cpu:0", "npu:0", "npu:1"], placement="heft")
        print(gr.simulate(plan(b.build(), ["cpu:0", "npu:0", "npu:1"])).latency_ns > 0)
    """
    for _ in range(2):  # compiled, then of the cache
        done = python(path, code)
        assert done.stdout == "True\n", done.stderr[-2000:]
    assert len(list((path / "cache").rglob("libraries/*.so"))) == 1
    assert "npu1" in python(path, "", "-m", "graph_runtime.cli", "devices").stdout


def test_a_kind_with_memory_of_its_own(installed):
    done = python(
        installed((NPU, NPU_C), (VAULT, VAULT_C)),
        """
        import numpy as np
        import graph_runtime as gr

        def through(rows):
            b = gr.GraphBuilder()
            x = b.input("x", (rows, 5))
            b.output(b.copy(b.copy(b.copy(x, "vault:0"), "npu:0"), "cpu:0"))
            return gr.create(b.to_json(), None, ["cpu:0", "vault:0", "npu:0"])

        module = through(3)
        x = np.arange(15, dtype="float32").reshape(3, 5)
        for scale in (1, 2):
            module.run(x=x * scale)
            np.testing.assert_array_equal(module.get_output(0).numpy(), x * scale)
        try:
            through(1 << 13).run(x=np.zeros((1 << 13, 5), "float32"))
        except gr.GraphRuntimeError as error:
            print("the vault is full" in str(error))
        module.run(x=x)
        np.testing.assert_array_equal(module.get_output(0).numpy(), x)
        """,
    )
    assert done.stdout == "True\n", done.stderr[-2000:]


USE = """
    import graph_runtime as gr

    b = gr.GraphBuilder()
    b.output(b.op("relu", b.input("x", (3,)), device="npu:0"))
    gr.create(b.build(), None, ["npu:0"]).run(x=[1, 2, 3])
"""


@pytest.mark.parametrize(
    ("descriptor", "source", "text"),
    [
        (NPU, None, "kind npu has no C: npu.c beside it"),
        (NPU | {"dl_type": 12}, NPU_C, "give the kind one number"),
        (NPU | {"board": "n150", "kind": "npu"}, NPU_C, "there is a device n150 already"),
        (NPU | {"grid": [0, 1]}, NPU_C, "$.grid[0]"),
        ({"kind": "npu", "board": "npu1"}, NPU_C, "is no descriptor of a device"),
    ],
)
def test_what_is_no_device_is_a_warning_and_stays_unknown(installed, descriptor, source, text):
    done = python(installed((descriptor, source)), USE)
    assert "devices of chips (chips) were not loaded: DeviceError" in done.stderr
    assert text in done.stderr
    assert "DeviceError: unknown device kind 'npu'" in done.stderr


def test_c_that_does_not_compile_or_registers_another_kind_is_told(installed):
    path = installed((NPU, "int broken = ;"))
    done = python(path, USE)
    assert "CompileError" in done.stderr, done.stderr[-1500:]
    (path / "chips" / "npu.c").write_text(NPU_C.replace('"npu"', '"other"'))
    done = python(path, USE)
    assert "registers no device kind npu" in done.stderr, done.stderr[-1500:]
    (path / "chips" / "npu.c").write_text(NPU_C.replace("gr_host_alloc", "gr_no_such_thing"))
    assert "Error" in python(path, USE).stderr


def test_without_such_a_package_nothing_changes(installed):
    done = python(installed(module="import nowhere_at_all"), USE)
    assert "were not loaded: ModuleNotFoundError" in done.stderr
    assert "DeviceError: unknown device kind 'npu'" in done.stderr
