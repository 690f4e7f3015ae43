"""Activations without a kernel of their own."""

from __future__ import annotations

from typing import TypeVar

from ..ir.value import Value

V = TypeVar("V", bound=Value)


def hardmish(x: V) -> V:
    """x min(max(x / 2 + 1, 0), 1)"""
    return x * (x * 0.5 + 1.0).clip(min=0.0, max=1.0)


def log_sigmoid(x: V) -> V:
    """log(sigmoid(x))"""
    return -(-x).op("softplus")


def tanhshrink(x: V) -> V:
    """x - tanh(x)"""
    return x - x.tanh()
