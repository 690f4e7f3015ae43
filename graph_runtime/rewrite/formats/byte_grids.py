"""The grids of bytes that dequantize and quantize name, where they are constants."""

from __future__ import annotations

import numpy as np

from ...ir.ops import registry
from ...ir.ops.integers.quantized import table_of
from ...ir.ops.integers.quantized_products import BYTES
from ..net import NetNode, NetValue
from .pack_weights import is_host

__all__ = ["ByteGrid", "on_bytes", "to_bytes"]


class ByteGrid:
    """The grid of a tensor of bytes: one scale, one zero point, both known."""

    def __init__(self, node: NetNode, dtype: str):
        self.dtype = dtype
        scale, zero = node.inputs[1].scalar(), node.inputs[2].scalar()
        usable = scale is not None and zero is not None and np.isfinite(scale) and scale > 0
        self.known = usable and node.inputs[1].type.size == 1
        self.scale = np.float32(scale if self.known else 1)
        self.zero = int(zero or 0)

    def same(self, other: ByteGrid) -> bool:
        return (self.dtype, self.scale, self.zero) == (other.dtype, other.scale, other.zero)

    def real(self) -> np.ndarray:
        """float32 [256]: what each number means."""
        return self.real_of(table_of(self.dtype))

    def real_of(self, numbers: np.ndarray | float) -> np.ndarray:
        """float32: what these numbers mean."""
        apart = np.asarray(numbers).astype(np.int32) - self.zero
        return np.asarray(apart.astype(np.float32) * self.scale)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """float32 on the grid, as quantize."""
        arrays = [np.asarray(x, np.float32), np.asarray(self.scale), np.asarray(self.zero, self.dtype)]
        return registry.require("quantize").reference(arrays, {"axis": 0})[0]


def on_bytes(value: NetValue) -> tuple[NetValue, ByteGrid] | None:
    """(bytes, their grid) of a value that is dequantize of bytes on one grid."""
    if value.op != "dequantize":
        return None
    x = value.maker.inputs[0]
    if x.dtype not in BYTES or not is_host(value.maker):
        return None
    grid = ByteGrid(value.maker, x.dtype)
    return (x, grid) if grid.known else None


def to_bytes(node: NetNode) -> ByteGrid | None:
    """The grid that a node quantize makes, where it is one of bytes."""
    if node.op != "quantize" or node.output.dtype not in BYTES or node.inputs[0].dtype != "float32":
        return None
    grid = ByteGrid(node, node.output.dtype)
    return grid if grid.known else None
