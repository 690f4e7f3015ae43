"""A script in the form that tt-mlir's EmitPy writes runs as it is, and computes the network that it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

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
