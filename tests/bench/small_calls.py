"""Operations that training uses most, for bench_torch.py: each of (x, y, w, bias, places, classes), the first
three [32, 32]."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["CALLS", "given"]

CALLS = {
    "add": lambda x, y, w, b, at, to: x + y,
    "mul": lambda x, y, w, b, at, to: x * y,
    "div": lambda x, y, w, b, at, to: x / y,
    "mm": lambda x, y, w, b, at, to: x @ y,
    "addmm": lambda x, y, w, b, at, to: torch.addmm(b, x, w),
    "linear": lambda x, y, w, b, at, to: functional.linear(x, w, b),
    "relu": lambda x, y, w, b, at, to: torch.relu(x),
    "gelu": lambda x, y, w, b, at, to: functional.gelu(x),
    "threshold_backward": lambda x, y, w, b, at, to: torch.ops.aten.threshold_backward(x, y, 0.0),
    "softmax": lambda x, y, w, b, at, to: torch.softmax(x, -1),
    "layer_norm": lambda x, y, w, b, at, to: functional.layer_norm(x, (32,), b, b),
    "sum": lambda x, y, w, b, at, to: x.sum(),
    "sum along": lambda x, y, w, b, at, to: x.sum(0),
    "mean": lambda x, y, w, b, at, to: x.mean(),
    "cat": lambda x, y, w, b, at, to: torch.cat([x, y]),
    "embedding": lambda x, y, w, b, at, to: functional.embedding(at, w),
    "nll_loss": lambda x, y, w, b, at, to: functional.nll_loss(x, to),
    "mse_loss": lambda x, y, w, b, at, to: functional.mse_loss(x, y),
    "addcmul": lambda x, y, w, b, at, to: torch.addcmul(x, y, w, value=0.1),
    "clone": lambda x, y, w, b, at, to: x.clone(),
    "add_ of alpha": lambda x, y, w, b, at, to: x.add_(y, alpha=1e-6),
    "zeros": lambda x, y, w, b, at, to: torch.zeros(32, 32, device=x.device),
}


def given() -> list[torch.Tensor]:
    """On the CPU."""
    return [*(torch.rand(32, 32) for _ in range(3)), torch.rand(32), *(torch.arange(32) for _ in range(2))]
