"""quantize, requantize, dequantize: conversion between floats and int32 by a scale and a zero point."""

from __future__ import annotations

from typing import Any

from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.values import DataType
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target


def _checked(x: Tensor, axis: int | None, scale: Any, zero: Any) -> None:
    """Raise RuntimeError for a scale or zero point that does not fit the input."""
    if axis is not None:
        rank = len(x.shape)
        expect(-rank <= axis < rank, f"Axis {axis} is outside the range [{-rank}, {rank - 1}]")
    for what, value in (("scale", scale), ("zero-point", zero)):
        if not isinstance(value, Tensor):
            expect(axis is None, f"Per-channel quantization expects 1D {what} tensors")
            continue
        fits = value.logical_volume() == 1
        text = f"Per-tensor quantization only takes scalar-tensor {what}s"
        if axis is not None:
            fits = len(value.shape) == 1 and value.logical_volume() == x.shape[axis]
            text = (
                f"Size of the {what} tensor doesn't match the size of the input tensor along the given axis"
            )
        expect(fits, text)
    floats = (DataType.FLOAT32, DataType.BFLOAT16)
    text = "Quantization only takes floating-point number scales"
    expect(not isinstance(scale, Tensor) or scale.dtype in floats, text)
    text = "Quantization only takes int32 zero-points for now"
    expect(not isinstance(zero, Tensor) or zero.dtype is DataType.INT32, text)


def _along(x: Tensor, axis: int | None, value: Any) -> Any:
    """A scale or zero point as a float, or as a float32 tensor that broadcasts with the input."""
    if not isinstance(value, Tensor):
        return float(value)
    handle = value._value.cast("float32")
    shape = [1] * len(x.shape)
    if axis is not None:
        shape[axis] = x.shape[axis]
    return handle.reshape(shape)


def _shifted(made: WideValue, scale: Any, zero: Any) -> WideValue:
    """round(x / scale + zero) as int32."""
    return (made / scale + zero).round().cast("int32")


_TAKES = "..., dtype, memory_config, output_tensor"


@operation("quantize", "divide, add, round, cast", takes=_TAKES, dtype=DataType.INT32)
def quantize(
    input_tensor: Tensor, scale: Any, zero_point: Any, *, axis: int | None = None, goal: Target
) -> WideValue:
    """round(x / scale + zero_point) as int32; scale and zero point are one number each, or one for each
    channel of ``axis``."""
    x = input_tensor
    expect(x.dtype.is_float, "Quantize only takes floating-point number inputs")
    expect(goal.dtype is DataType.INT32, "Quantize only supports int32 outputs for now")
    _checked(x, axis, scale, zero_point)
    return _shifted(x._value, _along(x, axis, scale), _along(x, axis, zero_point))


def _back(x: Tensor, axis: int | None, scale: Any, zero: Any) -> WideValue:
    apart = x._value.cast("float32") - _along(x, axis, zero)
    return apart * _along(x, axis, scale)


@operation("dequantize", "cast, subtract, multiply", takes=_TAKES)
def dequantize(
    input_tensor: Tensor, scale: Any, zero_point: Any, *, axis: int | None = None, goal: Target
) -> Tensor:
    """(q - zero_point) scale, in bfloat16 unless ``dtype`` is float32."""
    x = input_tensor
    expect(x.dtype is DataType.INT32, "Dequantize only supports int32 inputs for now")
    if goal.into is None and goal.dtype is DataType.INT32:
        goal.dtype = DataType.BFLOAT16
    text = "Dequantize only supports bf16/f32 outputs for now"
    expect(goal.dtype in (DataType.BFLOAT16, DataType.FLOAT32), text)
    _checked(x, axis, scale, zero_point)
    return goal.wrap(_back(x, axis, scale, zero_point))


@operation("requantize", "cast, subtract, multiply, divide, add, round", takes=_TAKES, dtype=DataType.INT32)
def requantize(
    input_tensor: Tensor,
    in_scale: Any,
    in_zero_point: Any,
    out_scale: Any,
    out_zero_point: Any,
    *,
    axis: int | None = None,
    goal: Target,
) -> WideValue:
    """int32 values with one scale and zero point, converted to int32 values with another scale and zero
    point."""
    x = input_tensor
    expect(x.dtype is DataType.INT32, "Requantize only supports int32 inputs for now")
    expect(goal.dtype is DataType.INT32, "Requantize only supports int32 outputs for now")
    _checked(x, axis, in_scale, in_zero_point)
    _checked(x, axis, out_scale, out_zero_point)
    made = _back(x, axis, in_scale, in_zero_point)
    return _shifted(made, _along(x, axis, out_scale), _along(x, axis, out_zero_point))
