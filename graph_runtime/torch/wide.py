"""64-bit integers, which a device keeps as words, as the int32 that it computes with, and back."""

from __future__ import annotations

import torch

from ..single import operands
from ..tensors.tensor import Tensor
from . import content
from .store import store_of

__all__ = ["narrowed", "widened"]


def narrowed(x: torch.Tensor) -> Tensor:
    """64-bit integers as int32 on the device: their low words. Indices have no more."""
    store = store_of(x)
    if store.dtype != torch.int64 or not content.shows_all(x, store) or store.base is None:
        return content.upload(content.fetch(x).to(torch.int32), store)
    key = ("narrowed", tuple(x.shape))
    found = store.images.get(key)
    if found is None:
        count = x.numel()
        words = content.apply("reshape", (("shape", (count, 2)),), store.base)
        low = content.apply("slice", (("starts", (0,)), ("ends", (1,)), ("axes", (1,))), words)
        found = store.keep(key, content.apply("reshape", (("shape", tuple(x.shape)),), low))
    return found


def widened(values: Tensor) -> Tensor:
    """int32 values as the words of 64-bit ones: the upper word is 0, or -1 below zero."""
    shape = (*values.type.shape, 1)
    low = content.apply("reshape", (("shape", shape),), values)
    below = content.apply("subtract", (), low, content.apply("relu", (), low))
    high = content.apply("maximum", (), below, operands.on_device(-1, values.device, "int32"))
    words = content.apply("concatenate", (("axis", len(shape) - 1),), low, high)
    stored = (*values.type.shape[:-1], 2 * values.type.shape[-1]) if values.type.shape else (2,)
    return content.apply("reshape", (("shape", stored),), words)
