"""A script in the form that tt-mlir's EmitPy writes runs as it is, and computes the network that it says."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graph_runtime.compat import ttnn

SCRIPT = Path(__file__).resolve().parents[1] / "golden" / "emitpy" / "main.py"
rng = np.random.default_rng(6)


def test_a_script_of_a_compiler_runs(tmp_path):
    image, weight, dense = (
        rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 8, 8), (8, 3, 3, 3), (10, 8))
    )
    for name, values in (("image", image), ("weight", weight), ("dense", dense)):
        ttnn.dump_tensor(str(tmp_path / f"{name}.tensorbin"), ttnn.from_torch(values))
    command = [sys.executable, "-m", "graph_runtime.ttnn", str(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *found, best = map(float, done.stdout.split())
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    made = np.maximum(np.einsum("nchwij,ocij->nhwo", taps, weight), 0)
    pooled = made.reshape(1, 4, 2, 4, 2, 8).max((2, 4)).reshape(16, 8)
    scores = (pooled @ dense.T + 1).mean(0)
    powers = np.exp(scores - scores.max())
    assert np.allclose(found, powers / powers.sum(), atol=1e-2)
    assert best == scores.argmax()


def test_two_files_with_a_trace_run_by_the_utils_that_come_along(tmp_path):
    pytest.importorskip("torch")  # what the compiler left to the host is torch's
    inputs = [rng.standard_normal((32, 64)).astype(np.float32) for _ in range(2)]
    weight = rng.standard_normal((96, 64)).astype(np.float32)
    for name, values in (("a", inputs[0]), ("b", inputs[1]), ("arg1", weight)):
        ttnn.dump_tensor(
            tmp_path / f"{name}.tensorbin", ttnn.from_torch(values, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
        )
    script = SCRIPT.parent / "split" / "main.py"
    command = [sys.executable, "-m", "graph_runtime.ttnn", str(script), "a.tensorbin", "b.tensorbin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for line, x in zip(done.stdout.splitlines(), inputs, strict=True):
        product = x @ (2 * weight).T
        want = product * 0.5 * (1 + np.vectorize(math.erf)(product / math.sqrt(2)))
        found = np.array(line.split(), np.float32).reshape(want.shape)
        assert np.corrcoef(found.ravel(), want.ravel())[0, 1] > 0.9995
