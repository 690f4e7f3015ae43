"""A training loop like those of torchvision's reference scripts, on the simulated tt:0: a small residual
network, a loader with pinned memory, SGD with a schedule, and bf16 by autocast. The images are made here.

    pip install -e '.[torch]'
    python examples/torch/train_images.py [--epochs 2]
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import graph_runtime.torch as tt


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.shortcut = nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def images(count: int) -> TensorDataset:
    """float32 [count, 1, 16, 16] images with a square or a cross at a random place, and int64 [count] labels
    that say which."""
    x, y = 0.2 * torch.rand(count, 1, 16, 16), torch.arange(count) % 2
    for image, kind in zip(x[:, 0], y.tolist(), strict=True):
        row, column = (int(at) for at in torch.randint(0, 10, (2,)))
        part = image[row : row + 6, column : column + 6]
        if kind:
            part[2:4] = part[:, 2:4] = 1
        else:
            part[0] = part[-1] = part[:, 0] = part[:, -1] = 1
    return TensorDataset(x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small residual network on tt:0 in bf16.")
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(
        Block(1, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2)
    )
    model.to("tt")
    loader = DataLoader(images(256), 32, shuffle=True, pin_memory=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=options.epochs * len(loader))
    for epoch in range(options.epochs):
        right, losses = 0, []
        for x, y in loader:
            x, y = x.to("tt", non_blocking=True), y.to("tt", non_blocking=True)
            with torch.autocast("tt"):
                scores = model(x)
                loss = nn.functional.cross_entropy(scores, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            right += int((scores.argmax(1) == y).sum())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, right {right} of {len(loader.dataset)}")
    print(torch.tt.memory_summary(abbreviated=True))
    print(tt.stats())
    if right < 0.6 * len(loader.dataset):
        sys.exit("the network did not learn")


if __name__ == "__main__":
    main()
