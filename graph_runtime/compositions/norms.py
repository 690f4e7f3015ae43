"""Normalisation: (x - mean) / deviation, over axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ..ir.value import Value

V = TypeVar("V", bound=Value)


def centred(x: V, axes: Iterable[int]) -> tuple[V, V, V]:
    """(mean, x - mean, variance) over axes, which stay with size 1. The variance is the mean of (x -
    mean)^2."""
    axes = tuple(axes)
    mean = x.mean(axes)
    apart = x - mean
    return mean, apart, (apart * apart).mean(axes)


def moments(x: V, axes: Iterable[int]) -> tuple[V, V]:
    """(mean, variance), defined as in ``centred``."""
    mean, _, variance = centred(x, axes)
    return mean, variance


def inverse_deviation(variance: V, epsilon: float) -> V:
    """1 / deviation, computed as a quotient; it rounds once more than rsqrt."""
    return 1.0 / (variance + epsilon).sqrt()


def scaled(x: V, weight: Value | None, bias: Value | None = None) -> V:
    """x times a weight if there is one, plus a bias if there is one."""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def gradient(grad: V, normal: Value, axes: Iterable[int]) -> V:
    """The gradient with respect to x, multiplied by the deviation, where ``normal`` = (x - mean) / deviation.
    ``grad``: gradient with respect to ``normal``."""
    axes = tuple(axes)
    return grad - grad.mean(axes) - normal * (grad * normal).mean(axes)
