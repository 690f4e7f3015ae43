"""The few layers that train.py needs, forward and backward in numpy. Images are float32 NCHW.

``backward`` uses values that the last ``forward`` stored in the layer. ``params`` and ``grads`` have equal
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Layer(Protocol):
    """A layer of a network. ``params`` are trained; ``backward`` computes their gradients, ``grads``."""

    @property
    def params(self) -> Sequence[np.ndarray]: ...
    @property
    def grads(self) -> Sequence[np.ndarray]: ...
    def forward(self, x: np.ndarray) -> np.ndarray: ...
    def backward(self, dy: np.ndarray) -> np.ndarray: ...


class Conv3x3:
    """3x3 convolution, stride 1, padding 1: [N, C, H, W] -> [N, M, H, W]. Weight [M, C, 3, 3], bias [M]."""

    def __init__(self, rng: np.random.Generator, channels: int, filters: int) -> None:
        scale = np.sqrt(2 / (channels * 9))
        weight = rng.normal(0, scale, (filters, channels, 3, 3)).astype(np.float32)
        self.params = [weight, np.zeros(filters, np.float32)]
        self.grads: list[np.ndarray] = []

    def forward(self, x: np.ndarray) -> np.ndarray:
        weight, bias = self.params
        n, channels, height, width = self.shape = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # [N, C, H, W, 3, 3]
        self.columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, channels * 9)
        y = self.columns @ weight.reshape(len(weight), -1).T + bias
        return y.reshape(n, height, width, len(weight)).transpose(0, 3, 1, 2)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        weight, _ = self.params
        n, channels, height, width = self.shape
        dy = dy.transpose(0, 2, 3, 1).reshape(-1, len(weight))
        self.grads = [(dy.T @ self.columns).reshape(weight.shape), dy.sum(axis=0)]
        windows = (dy @ weight.reshape(len(weight), -1)).reshape(n, height, width, channels, 3, 3)
        dx = np.zeros((n, channels, height + 2, width + 2), np.float32)
        for row in range(3):
            for column in range(3):
                part = windows[..., row, column].transpose(0, 3, 1, 2)
                dx[:, :, row : row + height, column : column + width] += part
        return dx[:, :, 1:-1, 1:-1]


class Dense:
    """x @ weight.T + bias: [N, K] -> [N, M]. Weight [M, K], bias [M]."""

    def __init__(self, rng: np.random.Generator, inputs: int, units: int) -> None:
        weight = rng.normal(0, np.sqrt(2 / inputs), (units, inputs)).astype(np.float32)
        self.params = [weight, np.zeros(units, np.float32)]
        self.grads: list[np.ndarray] = []

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x = x
        return x @ self.params[0].T + self.params[1]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        self.grads = [dy.T @ self.x, dy.sum(axis=0)]
        return dy @ self.params[0]


class Relu:
    """max(x, 0)."""

    params: Sequence[np.ndarray] = ()
    grads: Sequence[np.ndarray] = ()

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return dy * self.positive


class MaxPool2:
    """Largest of each 2x2 block: [N, C, H, W] -> [N, C, H/2, W/2]. Equal largest elements share the
    gradient."""

    params: Sequence[np.ndarray] = ()
    grads: Sequence[np.ndarray] = ()

    def forward(self, x: np.ndarray) -> np.ndarray:
        n, channels, height, width = x.shape
        self.blocks = x.reshape(n, channels, height // 2, 2, width // 2, 2)
        self.y = self.blocks.max(axis=(3, 5), keepdims=True)
        return self.y[:, :, :, 0, :, 0]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        winners = self.blocks == self.y
        share = dy[:, :, :, None, :, None] / winners.sum(axis=(3, 5), keepdims=True)
        n, channels, height, _, width, _ = self.blocks.shape
        return (winners * share.astype(np.float32)).reshape(n, channels, height * 2, width * 2)


class Dropout:
    """In training, sets a share of the values to zero and scales up the others; afterwards, the identity."""

    params: Sequence[np.ndarray] = ()
    grads: Sequence[np.ndarray] = ()

    def __init__(self, rng: np.random.Generator, share: float) -> None:
        self.rng, self.share, self.training = rng, share, True

    def forward(self, x: np.ndarray) -> np.ndarray:
        if not self.training:
            return x
        self.mask = (self.rng.random(x.shape, dtype=np.float32) >= self.share) / np.float32(1 - self.share)
        return x * self.mask

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return dy * self.mask


class Flatten:
    """[N, ...] -> [N, K]."""

    params: Sequence[np.ndarray] = ()
    grads: Sequence[np.ndarray] = ()

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return dy.reshape(self.shape)


def softmax_cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """(mean loss over a batch, its gradient [N, 10]), from logits [N, 10] float32 and labels [N] int64."""
    logits = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(p[rows, labels] + 1e-12).mean())
    p[rows, labels] -= 1
    return loss, p / np.float32(len(labels))
