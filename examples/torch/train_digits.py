"""Train a classifier of digits, with forward and backward on the simulated tt:0, loss and optimizer on the
CPU. Then save it, export it to a bundle, and run the bundle with the command line, which needs no torch.

    pip install -e '.[torch]' scikit-learn
    python examples/torch/train_digits.py [--folder out] [--epochs 4]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import graph_runtime.torch as tt


def batches(
    images: torch.Tensor, labels: torch.Tensor, size: int = 128
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    order = torch.randperm(len(images))[: len(images) // size * size]
    return zip(images[order].split(size), labels[order].split(size), strict=True)


def train(
    host: nn.Module, device: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int
) -> None:
    """Train ``host``, whose parameters the optimizer updates, with forward and backward on ``device``, its
    copy on tt:0."""
    run = torch.compile(device, backend="tt")
    optimizer = torch.optim.Adam(host.parameters(), 3e-3)
    for epoch in range(epochs):
        for x, y in batches(images, labels):
            loss = functional.cross_entropy(run(x.to("tt:0")).to("cpu"), y)
            device.zero_grad()
            loss.backward()  # autograd runs backward on the device
            for parameter, twin in zip(host.parameters(), device.parameters(), strict=True):
                parameter.grad = twin.grad.to("cpu")
            optimizer.step()
            device.load_state_dict(host.state_dict())
        print(f"epoch {epoch}: loss {loss.item():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on tt:0, save, export to a bundle, run the bundle.")
    parser.add_argument("--folder", type=Path, help="where model and bundle go; default: a temporary one")
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    data = load_digits()
    images, labels = torch.from_numpy(data.data).float() / 16, torch.from_numpy(data.target)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    twin = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    twin.load_state_dict(model.state_dict())
    train(model, twin.to("tt:0"), images[:1536], labels[:1536], options.epochs)
    print(tt.stats())

    torch.save(twin.state_dict(), folder / "digits.pt")
    model.load_state_dict(torch.load(folder / "digits.pt", map_location="cpu"))
    test, truth = images[1536:], labels[1536:]
    program = torch.export.export(model.eval(), (test,))
    bundle = tt.export(program, folder / "digits.bundle", devices=("tt:0", "cpu:0"))
    (name,) = program.graph_signature.user_inputs
    np.save(folder / "inputs.npy", test.numpy())
    subprocess.run(
        [
            sys.executable,
            "-m",
            "graph_runtime.cli",
            "run",
            str(bundle),
            "--input",
            f"{name}={folder / 'inputs.npy'}",
            "--output",
            str(folder / "outputs.npz"),
        ],
        check=True,
    )
    (made,) = np.load(folder / "outputs.npz").values()
    right = float((made.argmax(1) == truth.numpy()).mean())
    print(f"{bundle}: {right:.1%} of {len(truth)} digits it never saw are right")


if __name__ == "__main__":
    main()
