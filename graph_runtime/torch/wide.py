"""64-bit integers, which a device keeps as words, as the int32 that it computes with, and back."""

from __future__ import annotations

import torch

from ..run.single import operands
from ..run.tensors.tensor import Tensor
from . import content
from .counters import Unsupported, note_host
from .store import Store, store_of

__all__ = ["narrowed", "widened"]


def narrowed(x: torch.Tensor) -> Tensor:
    """64-bit integers as int32 on the device: their low words. Indices have no more."""
    store = store_of(x)
    key = ("narrowed", x.shape, x.stride(), x.storage_offset())
    found = store.images.get(key)
    if found is None:
        try:
            found = store.keep(key, _low_words(x, store))
        except Unsupported as refused:
            note_host("aten::_to_copy", x, refused.args[0])
            found = store.keep(key, content.upload(content.fetch(x).to(torch.int32), store))
    return found


def _low_words(x: torch.Tensor, store: Store) -> Tensor:
    if store.dtype != torch.int64 or store.base is None:
        raise Unsupported(f"its storage holds {store.dtype}, seen as int64".replace("torch.", ""))
    count = store.nbytes // 8
    words = content.apply("reshape", (("shape", (count, 2)),), store.base)
    low = content.apply("slice", (("starts", (0,)), ("ends", (1,)), ("axes", (1,))), words)
    if content.shows_all(x, store):
        return content.apply("reshape", (("shape", tuple(x.shape)),), low)
    flat = content.apply("reshape", (("shape", (count,)),), low)
    return content.cut(x, Store(store.device, store.index, 4 * count, flat, torch.int32))


def widened(values: Tensor) -> Tensor:
    """int32 values as the words of 64-bit ones: the upper word is 0, or -1 below zero."""
    shape = (*values.type.shape, 1)
    low = content.apply("reshape", (("shape", shape),), values)
    below = content.apply("subtract", (), low, content.apply("relu", (), low))
    high = content.apply("maximum", (), below, operands.on_device(-1, values.device, "int32"))
    words = content.apply("concatenate", (("axis", len(shape) - 1),), low, high)
    stored = (*values.type.shape[:-1], 2 * values.type.shape[-1]) if values.type.shape else (2,)
    return content.apply("reshape", (("shape", stored),), words)
