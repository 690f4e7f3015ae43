"""Gates and activations of single model families: softcap, gated halves that are given apart, snake, the
rotation of complex pairs."""

from __future__ import annotations

from ...devices.chips import Arch
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import operation


def blackhole_only(x: Tensor, what: str) -> None:
    """Raise RuntimeError unless the tensor is on a Blackhole."""
    assert x._device is not None
    arch = x._device.arch()
    text = f"{what} is implemented for Blackhole only, got arch {arch.name.lower()}"
    expect(arch is Arch.BLACKHOLE, text)


def _capped(x: WideValue, beta: float) -> WideValue:
    expect(beta != 0, "softcap: beta must be non-zero")
    return (x / float(beta)).tanh() * float(beta)


@operation("softcap", "divide, tanh, multiply", takes="memory_config, output_tensor")
def softcap(input_tensor: Tensor, beta: float) -> WideValue:
    """beta tanh(x / beta): nearly x while that is small, and never beyond beta. Blackhole has it only."""
    blackhole_only(input_tensor, "Unary: SOFTCAP")
    return _capped(input_tensor._value, beta)


@operation("situ_glu", "divide, tanh, sigmoid, multiply", takes="memory_config")
def situ_glu(gate: Tensor, up: Tensor, beta1: float, beta2: float) -> WideValue:
    """beta1 tanh(gate / beta1) sigmoid(gate), times beta2 tanh(up / beta2). Blackhole has it only."""
    blackhole_only(gate, "Unary: SOFTCAP")
    return _capped(gate._value, beta1) * gate._value.sigmoid() * _capped(up._value, beta2)


@operation("clamped_silu_glu", "clip, silu, multiply", takes="memory_config")
def clamped_silu_glu(gate: WideValue, up: WideValue, limit: float) -> WideValue:
    """silu(gate), where gate is at most ``limit``, times up clipped to [-limit, limit]."""
    expect(limit > 0, f"clamped_silu_glu: limit must be positive, got {limit}")
    return gate.clip(max=float(limit)).op("silu") * up.clip(-float(limit), float(limit))


@operation("snake_beta", "multiply, sin, square, divide, add", takes="memory_config, output_tensor")
def snake_beta(input_tensor: Tensor, alpha: Tensor, beta: Tensor) -> WideValue:
    """x + sin(alpha x)**2 / beta; alpha and beta have one element for each element of the last dimension."""
    operands = (input_tensor, alpha, beta)
    kinds = (DataType.BFLOAT16, DataType.FLOAT32)
    for x in operands:
        expect(
            x.dtype in kinds, f"snake_beta supports only BFLOAT16 or FLOAT32, got DataType::{x.dtype.name}"
        )
        expect(x.layout is Layout.TILE, "snake_beta requires all tensors in TILE layout")
    last = input_tensor.shape[-1]
    for x in (alpha, beta):
        fits = x.logical_volume() == last == x.shape[-1]
        expect(fits, f"Broadcasting rule violation: {x.shape} has more than the last dimension {last}")
    values, a, b = (one._value for one in operands)
    return values + (a * values).sin().square() / b


@operation(
    "alt_complex_rotate90", "slice, negative, concatenate, reshape", takes="memory_config, output_tensor"
)
def alt_complex_rotate90(input_tensor: WideValue) -> WideValue:
    """Pairs (a, b) side by side in the last dimension become (-b, a)."""
    x = input_tensor
    expect(x.shape[-1] % 2 == 0, f"the last dimension {x.shape[-1]} must be even")
    pairs = x.reshape((*x.shape[:-1], x.shape[-1] // 2, 2))
    axis = len(x.shape)
    first, second = pairs.part(axis, 0, 1), pairs.part(axis, 1, 2)
    return (-second).op("concatenate", first, axis=axis).reshape(x.shape)
