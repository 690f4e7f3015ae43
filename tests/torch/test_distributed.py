"""Two processes with a board each train as one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")

SCRIPT = Path(__file__).with_name("two_processes.py")


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    differences = dict(line.split() for line in done.stdout.splitlines())
    assert differences.keys() == {"ddp", "fsdp"}
    assert all(float(worst) < 1e-6 for worst in differences.values()), differences


def test_the_backend_of_tt_is_known():
    assert torch.distributed.Backend.default_device_backend_map["tt"] == "tt"
