"""Train the digit network with numpy alone and write params.bin (TVM's parameter format).

It takes well under a minute on one core. The seed is fixed, so the same machine and numpy give the same file
again; another BLAS may round differently. Exits with 1, and writes nothing, if fewer than 97 % of the
held-out digits are read right.

    python examples/digits/train.py
"""

from __future__ import annotations

import sys
import time

import numpy as np
from dataset import HERE, held_out, training
from layers import Conv3x3, Dense, Dropout, Flatten, Layer, MaxPool2, Relu, softmax_cross_entropy

import graph_runtime as gr

EPOCHS = 80
BATCH = 64
PEAK_RATE = 2e-3
WEIGHT_DECAY = 0.05
DROPOUT = 0.3
NAMES = ("conv1", "conv2", "fc1", "fc2")


class Network:
    """conv 3x3 (16) - relu - conv 3x3 (32) - relu - maxpool 2 - dense (64) - relu - dense (10)."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.layers: list[Layer] = [
            Conv3x3(rng, 1, 16),
            Relu(),
            Conv3x3(rng, 16, 32),
            Relu(),
            MaxPool2(),
            Flatten(),
            Dropout(rng, DROPOUT),
            Dense(rng, 512, 64),
            Relu(),
            Dropout(rng, DROPOUT),
            Dense(rng, 64, 10),
        ]

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Logits [N, 10] for images [N, 1, 8, 8]."""
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, dy: np.ndarray) -> None:
        for layer in reversed(self.layers):
            dy = layer.backward(dy)

    def finish(self) -> None:
        """End the training: dropout becomes the identity."""
        for layer in self.layers:
            if isinstance(layer, Dropout):
                layer.training = False

    @property
    def params(self) -> list[np.ndarray]:
        return [p for layer in self.layers for p in layer.params]

    @property
    def grads(self) -> list[np.ndarray]:
        return [g for layer in self.layers for g in layer.grads]

    def named(self) -> dict[str, np.ndarray]:
        """{name that network.py gives an input: parameter}."""
        keys = [f"{name}.{part}" for name in NAMES for part in ("weight", "bias")]
        return dict(zip(keys, self.params, strict=True))


class Adam:
    """Adam with decoupled weight decay (AdamW), in place."""

    def __init__(self, params: list[np.ndarray]) -> None:
        self.params, self.step_count = params, 0
        self.mean = [np.zeros_like(p) for p in params]
        self.square = [np.zeros_like(p) for p in params]

    def step(self, grads: list[np.ndarray], rate: float) -> None:
        self.step_count += 1
        correct = np.sqrt(1 - 0.999**self.step_count) / (1 - 0.9**self.step_count)
        for p, g, m, s in zip(self.params, grads, self.mean, self.square, strict=True):
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            update = np.float32(correct) * m / (np.sqrt(s) + 1e-8)
            p -= np.float32(rate) * (update + np.float32(WEIGHT_DECAY) * p)


def varied(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Images randomly moved by up to one pixel, with zeros filled in, and up to 20 % lighter or darker."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = rng.choice(3, size=(len(images), 2), p=(0.15, 0.7, 0.15))
    moved = np.stack([padded[i, :, r : r + 8, c : c + 8] for i, (r, c) in enumerate(moves)])
    return moved * rng.uniform(0.8, 1.2, (len(images), 1, 1, 1)).astype(np.float32)


def train(seed: int = 0) -> Network:
    """A trained network. Prints the loss during training."""
    images, labels = training()
    network, rng = Network(seed), np.random.default_rng(seed + 1)
    adam = Adam(network.params)
    steps = EPOCHS * -(-len(images) // BATCH)
    for epoch in range(EPOCHS):
        losses = []
        order = rng.permutation(len(images))
        for start in range(0, len(images), BATCH):
            pick = order[start : start + BATCH]
            loss, dy = softmax_cross_entropy(network.forward(varied(images[pick], rng)), labels[pick])
            network.backward(dy)
            rate = PEAK_RATE * 0.5 * (1 + np.cos(np.pi * adam.step_count / steps))
            adam.step(network.grads, rate)
            losses.append(loss)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3} of {EPOCHS}: loss {np.mean(losses):.4f}", flush=True)
    network.finish()
    return network


def main() -> int:
    start = time.perf_counter()
    network = train()
    images, labels = held_out()
    right = int((network.forward(images).argmax(axis=1) == labels).sum())
    print(
        f"{right} of {len(labels)} held-out digits right ({right / len(labels):.2%}), "
        f"{time.perf_counter() - start:.0f} s"
    )
    if right < 0.97 * len(labels):
        print("below 97 %: params.bin is not written", file=sys.stderr)
        return 1
    gr.save_params(network.named(), HERE / "params.bin")
    return 0


if __name__ == "__main__":
    sys.exit(main())
