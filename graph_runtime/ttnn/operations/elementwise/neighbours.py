"""Numbers next to others in a floating-point format."""

from __future__ import annotations

import numpy as np

from ....ir.value import where
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.values import DataType
from ...tensors.tensor import Tensor
from ..operation import operation


@operation("nextafter", "equal, less, add, where", takes="memory_config", like="input_tensor_a")
def nextafter(input_tensor_a: Tensor, input_tensor_b: Tensor) -> WideValue:
    """The number after a, in a's format, on the way to b; b where they are equal, NaN where one is NaN."""
    kinds = {input_tensor_a.dtype, input_tensor_b.dtype}
    text = "is not supported for binary operation BinaryOpType::NEXTAFTER"
    expect(len(kinds) == 1, f"Mixed dtype {text}")
    kind = input_tensor_a.dtype
    expect(kind in (DataType.BFLOAT16, DataType.FLOAT32), f"Input tensor A dtype {kind.name} {text}")
    step = 1 if kind is DataType.FLOAT32 else 1 << 16
    a, b = input_tensor_a._value.wide(), input_tensor_b._value.wide()
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (x.op("broadcast_to", shape=shape).wide() for x in (a, b))
    bits = a.reinterpret("int32")
    away = (bits < 0) ^ (a < b)  # from 0: the bits of the magnitude grow
    moved = where(away, bits + step, bits - step)
    least = where(a < b, bits.full_like(step), bits.full_like(step - (1 << 31)))
    moved = where(a.equal(0.0), least, moved).reinterpret("float32")
    return where(a.equal(b), b, where(a.isnan(), a, where(b.isnan(), b, moved)))
