"""Operations of a graph that the host does: random numbers before each run, and ranges once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..counters import Unsupported

Made = tuple[Callable[[], torch.Tensor], bool]  # (maker of the values, whether they differ in each run)


_MOST = 2**31 - 1


def _dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.int32 if dtype == torch.int64 else dtype


def _shape(like: Any) -> tuple[int, ...]:
    """The shape given by a list of sizes, or the shape of a value."""
    return tuple(like.shape if hasattr(like, "shape") else like)


def _random(make: Callable[..., torch.Tensor]) -> Callable[[Any, Any, torch.dtype], Made]:
    def hoisted(args: Any, kwargs: Any, dtype: torch.dtype) -> Made:
        shape = _shape(args[0])
        return lambda: make(shape, dtype=dtype), True

    return hoisted


def _drawn(method: str, least: int = 0) -> Callable[[Any, Any, torch.dtype], Made]:
    """A function that makes random numbers by ``method`` of torch.Tensor, in the shape of the operation's
    first argument. The operation's other arguments, at least ``least`` of them, are passed to the method."""

    def hoisted(args: Any, kwargs: Any, dtype: torch.dtype) -> Made:
        shape, numbers = _shape(args[0]), args[1:]
        own = kwargs.get("generator") is not None
        if own or len(numbers) < least or any(hasattr(number, "shape") for number in numbers):
            raise Unsupported("it draws with its own generator, or its parameters are tensors")
        return lambda: getattr(torch.empty(shape, dtype=dtype), method)(*numbers), True

    return hoisted


def _whole(make: Callable[..., torch.Tensor]) -> Callable[[Any, Any, torch.dtype], Made]:
    """A function that makes random integers by ``make`` (torch.randint or torch.randperm). The integers must
    fit 32 bits."""

    def hoisted(args: Any, kwargs: Any, dtype: torch.dtype) -> Made:
        if any(abs(number) > _MOST for number in args if isinstance(number, int)):
            raise Unsupported("random integers do not fit 32 bits")
        return lambda: make(*args, dtype=dtype).to(_dtype(dtype)), True

    return hoisted


def _mask(args: Any, kwargs: Any, dtype: torch.dtype) -> Made:
    """The mask of native_dropout: true where an element is kept."""
    shape, keep = _shape(args[0]), 1 - args[1]
    return lambda: torch.empty(shape, dtype=torch.bool).bernoulli_(keep), True


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
    "randint": _whole(torch.randint),
    "randperm": _whole(torch.randperm),
    "bernoulli": _drawn("bernoulli_", 1),
    "uniform": _drawn("uniform_"),
    "exponential": _drawn("exponential_"),
    "normal_functional": _drawn("normal_"),
    "native_dropout": _mask,
    "arange": _range,
}


def dropout(e: Any, x: Any, p: float, mask: Any) -> tuple[Any, Any]:
    """(result, mask) of native_dropout; a ``mask`` of None keeps all elements. The result is a product, as on
    the CPU, so that NaN stays NaN."""
    if mask is None:
        return x, e.filled(x.shape, True, "bool")
    kept = x * mask.cast(x.dtype)
    return kept * (1 / (1 - p) if p < 1 else 0.0), mask
