"""Between floats and int32 by a scale and a zero point: quantize, requantize, dequantize."""

from __future__ import annotations

from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...errors import check
from ...memory.configs import MemoryConfig
from ...memory.values import DataType
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import device_tensor, target
from ..wide import Wide

__all__: list[str] = []


def _checked(op: str, x: Tensor, axis: int | None, scale: Any, zero: Any) -> None:
    """Raise RuntimeError for a scale or zero point that does not go with the input."""
    if axis is not None:
        rank = len(x.shape)
        check(-rank <= axis < rank, op, f"Axis {axis} is outside the range [{-rank}, {rank - 1}]")
    for what, value in (("scale", scale), ("zero-point", zero)):
        if not isinstance(value, Tensor):
            check(axis is None, op, f"Per-channel quantization expects 1D {what} tensors")
            continue
        fits = value.logical_volume() == 1
        text = f"Per-tensor quantization only takes scalar-tensor {what}s"
        if axis is not None:
            fits = len(value.shape) == 1 and value.logical_volume() == x.shape[axis]
            text = (
                f"Size of the {what} tensor doesn't match the size of the input tensor along the given axis"
            )
        check(fits, op, text)
    floats = (DataType.FLOAT32, DataType.BFLOAT16)
    text = "Quantization only takes floating-point number scales"
    check(not isinstance(scale, Tensor) or scale.dtype in floats, op, text)
    text = "Quantization only takes int32 zero-points for now"
    check(not isinstance(zero, Tensor) or zero.dtype is DataType.INT32, op, text)


def _along(w: Wide, x: Tensor, axis: int | None, value: Any) -> Any:
    """A scale or zero point as float32 that broadcasts against the input."""
    if not isinstance(value, Tensor):
        return float(value)
    handle = w.cast(value._handle, "float32")
    shape = [1] * len(x.shape)
    if axis is not None:
        shape[axis] = x.shape[axis]
    return w.reshape(w.rows(handle), shape)


def _shifted(w: Wide, made: Handle, scale: Any, zero: Any) -> Handle:
    """round(x / scale + zero) as int32."""
    return w.cast(w("round", w("add", w("divide", made, scale), zero)), "int32")


@operation("quantize", "divide, add, round, cast")
def quantize(
    input_tensor: Tensor,
    scale: Any,
    zero_point: Any,
    *,
    axis: int | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """round(x / scale + zero_point) as int32: one scale and zero point, or one a channel of ``axis``."""
    op = "ttnn.quantize"
    x = device_tensor(op, input_tensor)
    check(x.dtype.is_float, op, "Quantize only takes floating-point number inputs")
    check(dtype in (None, DataType.INT32), op, "Quantize only supports int32 outputs for now")
    _checked(op, x, axis, scale, zero_point)
    w = Wide(x._handle.device)
    made = _shifted(w, x._handle, _along(w, x, axis, scale), _along(w, x, axis, zero_point))
    return target(op, x, memory_config, output_tensor, DataType.INT32).wrap(made)


def _back(w: Wide, x: Tensor, axis: int | None, scale: Any, zero: Any) -> Handle:
    apart = w("subtract", w.cast(x._handle, "float32"), _along(w, x, axis, zero))
    return w("multiply", apart, _along(w, x, axis, scale))


@operation("dequantize", "cast, subtract, multiply")
def dequantize(
    input_tensor: Tensor,
    scale: Any,
    zero_point: Any,
    *,
    axis: int | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """(q - zero_point) scale, bfloat16 unless ``dtype`` says float32."""
    op = "ttnn.dequantize"
    x = device_tensor(op, input_tensor)
    check(x.dtype is DataType.INT32, op, "Dequantize only supports int32 inputs for now")
    kind = dtype or (DataType.BFLOAT16 if output_tensor is None else output_tensor.dtype)
    text = "Dequantize only supports bf16/f32 outputs for now"
    check(kind in (DataType.BFLOAT16, DataType.FLOAT32), op, text)
    _checked(op, x, axis, scale, zero_point)
    made = _back(Wide(x._handle.device), x, axis, scale, zero_point)
    return target(op, x, memory_config, output_tensor, kind).wrap(made)


@operation("requantize", "cast, subtract, multiply, divide, add, round")
def requantize(
    input_tensor: Tensor,
    in_scale: Any,
    in_zero_point: Any,
    out_scale: Any,
    out_zero_point: Any,
    *,
    axis: int | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """int32 of one scale and zero point as int32 of another."""
    op = "ttnn.requantize"
    x = device_tensor(op, input_tensor)
    check(x.dtype is DataType.INT32, op, "Requantize only supports int32 inputs for now")
    check(dtype in (None, DataType.INT32), op, "Requantize only supports int32 outputs for now")
    _checked(op, x, axis, in_scale, in_zero_point)
    _checked(op, x, axis, out_scale, out_zero_point)
    w = Wide(x._handle.device)
    made = _back(w, x, axis, in_scale, in_zero_point)
    made = _shifted(w, made, _along(w, x, axis, out_scale), _along(w, x, axis, out_zero_point))
    return target(op, x, memory_config, output_tensor, DataType.INT32).wrap(made)
