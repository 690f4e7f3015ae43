"""Layers: ops of the registry that numpy has no function for. Their attributes are described in
docs/ops.md."""

from __future__ import annotations

from typing import Any

from ..run.tensors.tensor import Tensor
from .routines import call


def relu(x: Tensor) -> Tensor:
    """max(x, 0)"""
    return call("relu", x)


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """The Gaussian error linear unit, computed by erf, or by tanh with ``approximate="tanh"``."""
    return call("gelu", x, approximate=approximate)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))"""
    return call("sigmoid", x)


def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """exp(x) / sum of exp(x) along an axis."""
    return call("softmax", x, axis=axis)


def layer_norm(x: Tensor, scale: Any, bias: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """x normalised over the dimensions from ``axis`` on, then multiplied by ``scale``, plus ``bias``."""
    return call("layer_norm", x, scale, bias, axis=axis, epsilon=epsilon)


def dense(x: Tensor, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.T + bias"""
    return call("dense", x, weight) if bias is None else call("dense", x, weight, bias)


def conv2d(x: Tensor, weight: Any, bias: Any = None, **attrs: Any) -> Tensor:
    """2-d convolution of NCHW images by OIHW weights. Attributes: strides, pads, dilations, group."""
    return call("conv2d", x, weight, **attrs) if bias is None else call("conv2d", x, weight, bias, **attrs)


def max_pool2d(x: Tensor, **attrs: Any) -> Tensor:
    """The greatest element of each window. Attributes: kernel_shape, strides, pads, ceil_mode."""
    return call("max_pool2d", x, **attrs)


def avg_pool2d(x: Tensor, **attrs: Any) -> Tensor:
    """The mean of each window. Attributes: kernel_shape, strides, pads, ceil_mode, count_include_pad."""
    return call("avg_pool2d", x, **attrs)
