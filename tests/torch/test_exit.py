"""A process ends at once with work that is queued and that nothing waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")

SCRIPT = """
import torch
import graph_runtime.torch

net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).to("tt")
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    net(torch.rand(32, 64).to("tt")).square().mean().backward()
    optimizer.step()
wide = torch.rand(1024, 1024).to("tt")
made = [wide @ wide for _ in range(100)]
print("queued", made[-1].shape, flush=True)
"""


def test_a_process_ends_with_work_in_its_queues():
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("queued")
