"""WideValue: a tensor on a device, each of whose operators runs at once. Between operators values are float32
tiles, and the last result is rounded once; if CONFIG.numerics is "ttnn", tiles have the operands' format, as
on a card."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base.machine.devices import Device
from ...base.machine.layout import DRAM, ROW_MAJOR, TILE
from ...base.machine.layout import Layout as Placed
from ...ir.value import Value, where, with_constants
from ...run.tensors.tensor import Tensor as Handle
from ..memory.values import DataType
from . import kernels

_SIGN = 1 << 31


class WideValue(Value):
    """``handle``: the tensor. Results are float32, or have the dtype that the op defines; an operand that is
    a number becomes a constant with the dtype of the other operand."""

    __slots__ = ("handle",)

    def __init__(self, handle: Handle):
        self.handle = handle

    @property
    def dtype(self) -> str:
        return self.handle.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.handle.shape

    @property
    def size(self) -> int:
        return self.handle.size

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Any:
        """The result of a registry op. Raises the errors of kernels.run."""
        inputs = [x.handle for x in with_constants(op, operands, self.scalar)]
        if op == "where":  # the format is that of the branches; the condition is a bool
            values = [x.handle for x in operands[1:] if isinstance(x, WideValue)]
            to = kernels.between(values) if inputs[1].dtype == "float32" else None
        else:
            to = _to(op, inputs)
        return WideValue(kernels.run(op, inputs, attrs, to))

    def run(self, op: str, *others: WideValue, to: Placed | None = None, **attrs: Any) -> WideValue:
        """The result of an op in the layout ``to``, by default in the layout that the op's kernel prefers."""
        return WideValue(kernels.run(op, [self.handle, *(x.handle for x in others)], attrs, to))

    def scalar(self, number: Any, dtype: str | None = None) -> WideValue:
        """A number or an array as a constant on this value's device."""
        return constant(number, self.handle.device, dtype or self.dtype)

    # ---------------------------------------------------------------- elements of other types

    def cast(self, dtype: str) -> WideValue:
        if self.dtype == dtype:
            return self
        to = kernels.WIDE if dtype == "float32" else Placed(DRAM, TILE, dtype)
        return WideValue(kernels.run("cast", [self.handle], {"to": dtype}, to))

    def reinterpret(self, dtype: str) -> WideValue:
        """The same memory viewed as elements of another dtype of 32 bits."""
        return WideValue(kernels.reinterpret(self.handle, dtype))

    def packed(self, dtype: DataType) -> WideValue:
        """The values, with infinity in place of NaN if ``dtype`` is bfloat16: silicon's packer makes it so in
        results of the matrix unit and in quotients."""
        return where(self.isnan(), math.inf, self) if dtype is DataType.BFLOAT16 else self

    def true(self) -> WideValue:
        """A bool for each element: whether the element is not zero."""
        return self if self.dtype == "bool" else self.int32().not_equal(self.scalar(0).int32())

    def int32(self) -> WideValue:
        """The integers as int32: a uint32 keeps its bits, a smaller type keeps its values. Floats are
        unchanged."""
        if self.dtype == "uint32":
            return self.reinterpret("int32")
        return self if self.dtype in ("int32", "float32") else self.cast("int32")

    def ordered(self) -> WideValue:
        """The integers as int32 values in the same order; uint32 values are mapped so that their order stays,
        too."""
        return self.flip().reinterpret("int32") if self.dtype == "uint32" else self.int32()

    def flip(self) -> WideValue:
        """The uint32 values with the highest bit flipped."""
        return self.run("bitwise_xor", self.scalar(_SIGN, "uint32"), to=self.handle.layout)

    # ---------------------------------------------------------------- shapes and layouts

    def reshape(self, shape: Sequence[int]) -> WideValue:
        """The values in another shape, stored in rows, so that most changes of shape need no copy."""
        return self.rows().reshaped(shape)

    def reshaped(self, shape: Sequence[int]) -> WideValue:
        """The values in another shape, in their present layout."""
        return self.run("reshape", to=self.handle.layout, shape=tuple(shape), allowzero=True)

    def rows(self) -> WideValue:
        return self._stored(ROW_MAJOR)

    def wide(self) -> WideValue:
        """Floats as f32 tiles, integers as tiles of their dtype."""
        return self._stored(TILE)

    def _stored(self, tiling: Any) -> WideValue:
        fmt = "f32" if self.dtype == "float32" else self.dtype
        made = kernels.convert(self.handle, Placed(DRAM, tiling, fmt))
        return self if made is self.handle else WideValue(made)

    def copied(self) -> WideValue:
        """A copy of the values in memory of its own."""
        return WideValue(kernels.copied(self.handle))

    def overwrite(self, values: WideValue) -> None:
        """Write other values into this tensor's memory."""
        kernels.overwrite(self.handle, kernels.convert(values.handle, self.handle.layout))

    def part(self, axis: int, start: int, end: int) -> WideValue:
        """The elements from start to before end along an axis."""
        return self.op("slice", starts=(start,), ends=(end,), axes=(axis,))


def constant(value: Any, device: Device, dtype: str = "float32") -> WideValue:
    """A number or an array on a device. For an integer dtype, a number is truncated and wrapped, as C casts
    it."""
    if isinstance(value, (int, float)) and dtype not in ("float32", "bool"):
        value = _wrapped(int(value), dtype)
    return WideValue(kernels.constant(value, device, dtype))


def _wrapped(value: int, dtype: str) -> int:
    bits = {"uint8": 8, "uint16": 16}.get(dtype, 32)
    value &= (1 << bits) - 1
    return value - (1 << 32) if dtype == "int32" and value >= 1 << 31 else value


def _to(op: str, inputs: list[Handle]) -> Placed | None:
    """The layout of an op's float results if all its inputs are floats (kernels.between), else None."""
    floats = all(x.dtype == "float32" for x in inputs)
    return kernels.between(inputs) if floats and op not in _TO_OTHERS else None


_TO_OTHERS = (
    "equal not_equal less less_equal greater greater_equal isnan isinf logical_and logical_or logical_xor "
    "logical_not argmax argmin cast"
).split()
