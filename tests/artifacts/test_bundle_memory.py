"""Loading a bundle: parameters stay in the mapped file; a library for another processor steps aside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime import GraphBuilder
from graph_runtime.base.machine import isa

SIZE = 1500  # float32[SIZE, SIZE]: 9 MB


def _products(count: int, devices: list[str], path) -> str:
    b = GraphBuilder()
    x = b.input("x", (1, SIZE))
    for i in range(count):
        w = np.full((SIZE, SIZE), 1 / SIZE, np.float32)
        w[i, :] = 0
        x = b.op("matmul", x, b.param(f"w{i}", w), name=f"y{i}")
    b.output(x)
    return build_bundle(b, devices, path, compile=False)


@pytest.mark.parametrize("name", ["net.bundle", "net.zip"])
def test_parameters_of_a_host_are_the_mapped_file_and_may_be_set(tmp_path, name):
    path = _products(2, ["cpu:0"], tmp_path / name)
    module, other = gr.load(path), gr.load(path)
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    index = module.get_input_index("w0")
    address, _ = module.session.home(int(module.session.graph.input_eids[index]))
    ranges = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in maps]
    assert any(begin <= address < end for begin, end in ranges)
    assert address % 64 == 0
    module.run(x=np.ones((1, SIZE), np.float32))
    before = module.get_output(0).numpy().copy()
    module.set_input("w0", np.zeros((SIZE, SIZE), np.float32))
    module.run()
    assert not module.get_output(0).numpy().any()
    other.run(x=np.ones((1, SIZE), np.float32))
    np.testing.assert_array_equal(other.get_output(0).numpy(), before)
    assert module.get_input_info()[0] == {"x": (1, SIZE)}


_CHILD = """
import sys
import numpy as np
import graph_runtime as gr
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
warm = gr.load(sys.argv[1])              # libraries, pages of code
warm.run(x=np.ones((1, 1500), np.float32))
before = peak()
module = gr.load(sys.argv[2])
module.run(x=np.ones((1, 1500), np.float32))
print(peak() - before)
"""


@pytest.mark.skipif(bool(os.environ.get("GR_BUILD")), reason="sanitizers keep bytes beside each of ours")
def test_peak_memory_is_the_parameters_and_the_pools(tmp_path):
    """24 products of 9 MB each: what loading and running them adds to a process, at most 1.1 of that."""
    small, large = (_products(n, ["cpu:0"], tmp_path / f"{n}.bundle") for n in (1, 25))
    done = subprocess.run(
        [sys.executable, "-P", "-c", _CHILD, str(small), str(large)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) * 1024 <= 1.1 * 25 * SIZE * SIZE * 4


def test_parameters_of_a_device_are_converted_once(tmp_path):
    module = gr.load(_products(1, ["tt:0"], tmp_path / "net.bundle"))
    module.run(x=np.ones((1, SIZE), np.float32))
    np.testing.assert_allclose(module.get_output(0).numpy(), np.full((1, SIZE), (SIZE - 1) / SIZE), rtol=1e-3)


def test_a_library_for_another_processor_steps_aside_with_a_warning(tmp_path, monkeypatch):
    b = GraphBuilder()
    b.output(b.op("exp", b.input("x", (4,)), name="y"))
    path = build_bundle(b, ["cpu:0"], tmp_path / "net.bundle", march="x86-64-v2", jobs=1)
    x = np.arange(4, dtype=np.float32)
    expected = gr.load(path)
    expected.run(x=x)
    monkeypatch.setattr(isa, "host_features", lambda: frozenset({"fpu"}))
    with pytest.warns(UserWarning, match="lacks .* kernels built into this installation serve"):
        module = gr.load(path)
    assert {kernel.origin for kernel in module.session.program.kernels} == {"built in: cpu/exp/f32"}
    module.run(x=x)
    np.testing.assert_array_equal(module.get_output(0).numpy(), expected.get_output(0).numpy())
