"""Export a module to a bundle, and run the bundle at two sizes of its dynamic batch with the command line,
which needs no torch.

pip install -e '.[torch]'
python examples/torch/export_bundle.py [--folder out]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import graph_runtime.torch as tt


class Encoder(nn.Module):
    """Attention over a few tokens, followed by a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended, _ = self.attention(x, x, x, need_weights=False)
        return self.head(self.norm(x + attended).mean(1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Export a module, run the bundle by the command line.")
    parser.add_argument("--folder", type=Path, help="where the bundle goes; default: a temporary one")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model, batch = Encoder().eval(), torch.export.Dim("batch", min=1, max=16)
    program = torch.export.export(model, (torch.rand(2, 6, 32),), dynamic_shapes=({0: batch},))
    bundle = folder / "encoder.bundle"
    tt.export(program, bundle, devices=("tt:0", "cpu:0"), sizes={"batch": [1, 4]})
    for size in (1, 4):
        x = torch.rand(size, 6, 32)
        worst = float(np.abs(run(bundle, folder, x.numpy()) - model(x).detach().numpy()).max())
        print(f"batch {size}: largest difference to torch on the CPU {worst:.1e}")
        if worst > 1e-4:
            sys.exit("other values than torch's")


def run(bundle: Path, folder: Path, x: np.ndarray) -> np.ndarray:
    """The result of running the bundle on an array with the command line."""
    np.save(folder / "x.npy", x)
    command = [sys.executable, "-m", "graph_runtime.cli", "run", str(bundle)]
    command += ["--input", f"x={folder / 'x.npy'}", "--output", str(folder / "y.npz")]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    print(done.stdout or done.stderr)
    if done.returncode:
        sys.exit("the command failed")
    (made,) = np.load(folder / "y.npz").values()
    return made


if __name__ == "__main__":
    main()
