"""Operations of a graph that the host does before a run: random numbers each time, ranges once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .counters import Unsupported

__all__ = ["HOISTED"]

Made = tuple[Callable[[], torch.Tensor], bool]  # what makes the values; whether they are others each time


_MOST = 2**31 - 1


def _dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.int32 if dtype == torch.int64 else dtype


def _random(make: Callable[..., torch.Tensor]) -> Callable[[Any, Any, torch.dtype], Made]:
    def hoisted(args: Any, kwargs: Any, dtype: torch.dtype) -> Made:
        shape = tuple(args[0].shape if hasattr(args[0], "shape") else args[0])
        return lambda: make(shape, dtype=dtype), True

    return hoisted


def _range(args: Any, kwargs: Any, dtype: torch.dtype) -> Made:
    if any(hasattr(arg, "shape") for arg in args):
        raise Unsupported("the length of a range depends on values")
    if dtype == torch.int64 and any(abs(arg) > _MOST for arg in args):
        raise Unsupported(f"a range of {', '.join(map(str, args))} does not fit 32 bits")
    return lambda: torch.arange(*args, dtype=_dtype(dtype)), False


HOISTED: dict[str, Callable[[Any, Any, torch.dtype], Made]] = {
    "rand": _random(torch.rand),
    "randn": _random(torch.randn),
    "rand_like": _random(torch.rand),
    "randn_like": _random(torch.randn),
    "arange": _range,
}
