"""Wide: several registry ops on one device, with float32 tiles between them, rounded once at the end; with
tiles of the operands' format, as kernels of a card keep them, where CONFIG.numerics is "ttnn"."""

from __future__ import annotations

import math
from typing import Any

from ...base.machine.devices import Device
from ...base.machine.layout import DRAM, ROW_MAJOR, TILE
from ...base.machine.layout import Layout as Placed
from ...run.tensors.tensor import Tensor as Handle
from ..devices import kernels
from ..memory.values import DataType

_SIGN = 1 << 31


class Wide:
    """``w("add", x, 1.0)`` runs an op of the registry; numbers are constants of the device, of the dtype of
    the tensors beside them. Results are float32 (or the op's own dtype)."""

    def __init__(self, device: Device):
        self.device = device

    def __call__(self, op: str, *operands: Any, **attrs: Any) -> Handle:
        dtype = next((x.dtype for x in reversed(operands) if isinstance(x, Handle)), "float32")
        inputs = [x if isinstance(x, Handle) else self.number(x, dtype) for x in operands]
        return kernels.run(op, inputs, attrs, self._to(op, inputs))

    @staticmethod
    def _to(op: str, inputs: list[Handle]) -> Placed | None:
        """Floats between two steps are f32 where every input of the op is a float."""
        floats = all(x.dtype == "float32" for x in inputs)
        return kernels.between(inputs) if floats and op not in _TO_OTHERS else None

    def number(self, value: Any, dtype: str = "float32") -> Handle:
        """A constant: a number (of an integer dtype cut off and wrapped, as C casts it) or an array."""
        if isinstance(value, (int, float)) and dtype not in ("float32", "bool"):
            value = _wrapped(int(value), dtype)
        return kernels.constant(value, self.device, dtype)

    def cast(self, x: Handle, dtype: str) -> Handle:
        """Elements of another dtype."""
        if x.dtype == dtype:
            return x
        to = kernels.WIDE if dtype == "float32" else Placed(DRAM, TILE, dtype)
        return kernels.run("cast", [x], {"to": dtype}, to)

    def select(self, condition: Handle, a: Any, b: Any) -> Handle:
        """a where the condition (bool) holds, else b."""
        dtype = next((x.dtype for x in (a, b) if isinstance(x, Handle)), "float32")
        chosen = [x if isinstance(x, Handle) else self.number(x, dtype) for x in (a, b)]
        to = kernels.between([x for x in (a, b) if isinstance(x, Handle)]) if dtype == "float32" else None
        return kernels.run("where", [condition, *chosen], {}, to)

    def packed(self, x: Handle, dtype: DataType) -> Handle:
        """Infinity for NaN where ``dtype`` is bfloat16: what silicon's pack makes of a result of the matrix
        unit or of a quotient."""
        return self.select(self("isnan", x), math.inf, x) if dtype is DataType.BFLOAT16 else x

    def true(self, x: Handle) -> Handle:
        """Where elements are not zero, as bool."""
        return x if x.dtype == "bool" else self("not_equal", *self.same(x, 0))

    def same(self, *operands: Any) -> list[Handle]:
        """Integers as int32 that compare for equality as they do."""
        dtype = next(x.dtype for x in operands if isinstance(x, Handle))
        return [self.int32(x if isinstance(x, Handle) else self.number(x, dtype)) for x in operands]

    def int32(self, x: Handle) -> Handle:
        """int32 of an integer tensor: the bits of uint32, the values of smaller types; floats as they are."""
        if x.dtype == "uint32":
            return kernels.reinterpret(x, "int32")
        return x if x.dtype in ("int32", "float32") else self.cast(x, "int32")

    def ordered(self, x: Handle) -> Handle:
        """int32 in the order of an integer tensor."""
        if x.dtype == "uint32":
            return kernels.reinterpret(self.flip(x), "int32")
        return self.int32(x)

    def flip(self, x: Handle) -> Handle:
        """uint32 with the upper bit turned over."""
        return kernels.run("bitwise_xor", [x, self.number(_SIGN, "uint32")], {}, x.layout)

    def reshape(self, x: Handle, shape: Any) -> Handle:
        return kernels.run("reshape", [x], {"shape": tuple(shape), "allowzero": True}, x.layout)

    def rows(self, x: Handle) -> Handle:
        """The values in rows: shapes change there without a copy."""
        fmt = "f32" if x.dtype == "float32" else x.dtype
        return kernels.convert(x, Placed(DRAM, ROW_MAJOR, fmt))

    def wide(self, x: Handle) -> Handle:
        """A float tensor as f32 tiles, an integer one as tiles."""
        fmt = "f32" if x.dtype == "float32" else x.dtype
        return kernels.convert(x, Placed(DRAM, TILE, fmt))


def _wrapped(value: int, dtype: str) -> int:
    bits = {"uint8": 8, "uint16": 16}.get(dtype, 32)
    value &= (1 << bits) - 1
    return value - (1 << 32) if dtype == "int32" and value >= 1 << 31 else value


_TO_OTHERS = {
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "isnan",
    "isinf",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "argmax",
    "argmin",
    "cast",
}
