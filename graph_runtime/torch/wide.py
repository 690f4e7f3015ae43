"""Conversion between 64-bit integers, which a device stores as words, and the int32 that it computes with."""

from __future__ import annotations

from typing import Any

import torch

from ..run.single import operands
from ..run.tensors.tensor import Tensor
from . import content
from .counters import Unsupported, note_host
from .store import Store, store_of


def narrowed(x: torch.Tensor) -> Tensor:
    """64-bit integers as int32 on the device: the low words, which are all that indices need."""
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
    """int32 values as the words of 64-bit integers; the upper word is 0, or -1 for negative values."""
    below = content.apply("subtract", (), values, content.apply("relu", (), values))
    high = content.apply("maximum", (), below, operands.on_device(-1, values.device, "int32"))
    return _joined(values, high)


def whole_numbers(x: Tensor) -> Tensor:
    """float32 values, truncated, as the words of 64-bit integers; the conversion is exact. Values that do not
    fit, and NaN, become the least integer, as on the CPU."""

    def number(value: float, dtype: str = "float32") -> Tensor:
        return operands.on_device(value, x.device, dtype)

    def op(name: str, *values: Tensor, **attrs: Any) -> Tensor:
        return content.apply(name, tuple(attrs.items()), *values)

    fits = op("less", op("abs", x), number(2.0**63))
    x = op("where", fits, op("trunc", x), number(0.0))
    # high * 2^32 is the multiple of 2^32 nearest to x, so that low, the rest, is exact
    high = op("floor", op("add", op("multiply", x, number(2.0**-32)), number(0.5)))
    high = op("where", op("less", op("abs", x), number(2.0**31)), number(0.0), high)
    low = op("subtract", x, op("multiply", high, number(2.0**32)))
    below = op("cast", op("less", low, number(0.0)), to="int32")
    upper = op("subtract", op("cast", high, to="int32"), below)
    upper = op("where", fits, upper, number(-(2**31), "int32"))
    return _joined(op("cast", low, to="int32"), upper)


def _joined(low: Tensor, high: Tensor) -> Tensor:
    """Low and high words side by side: [..., 2 * n] from two tensors [..., n]."""
    shape = (*low.type.shape, 1)
    pair = [content.apply("reshape", (("shape", shape),), word) for word in (low, high)]
    words = content.apply("concatenate", (("axis", len(shape) - 1),), *pair)
    stored = (*shape[:-2], 2 * shape[-2]) if len(shape) > 1 else (2,)
    return content.apply("reshape", (("shape", stored),), words)
