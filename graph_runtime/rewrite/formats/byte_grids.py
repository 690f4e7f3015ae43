"""Constant grids of bytes, given by scale and zero point to dequantize and quantize; weights of quantized
products in panels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...ir.model import Constant
from ...ir.ops import registry
from ...ir.ops.integers.quantized import table_of
from ...ir.ops.integers.quantized_products import BYTES, is_depthwise
from ...ir.ops.products.byte_panels import bytes_type, depthwise_k, pack_bytes, pack_convolution
from ..net import Net, NetNode, NetValue
from .pack_weights import is_host


class ByteGrid:
    """The grid of a tensor of bytes: one known scale and one known zero point."""

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
        """The real value of each byte, float32 [256]."""
        return self.real_of(table_of(self.dtype))

    def real_of(self, numbers: np.ndarray | float) -> np.ndarray:
        """The real values of the given bytes, float32."""
        apart = np.asarray(numbers).astype(np.int32) - self.zero
        return np.asarray(apart.astype(np.float32) * self.scale)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """The nearest values on the grid, float32, rounded as quantize rounds."""
        arrays = [np.asarray(x, np.float32), np.asarray(self.scale), np.asarray(self.zero, self.dtype)]
        return registry.require("quantize").reference(arrays, {"axis": 0})[0]


def on_bytes(value: NetValue) -> tuple[NetValue, ByteGrid] | None:
    """(bytes, their grid) of a value that a dequantize makes from bytes on one grid; None for other
    values."""
    if value.op != "dequantize":
        return None
    x = value.maker.inputs[0]
    if x.dtype not in BYTES or not is_host(value.maker):
        return None
    grid = ByteGrid(value.maker, x.dtype)
    return (x, grid) if grid.known else None


def to_bytes(node: NetNode) -> ByteGrid | None:
    """The grid of bytes on which a quantize node rounds; None for other nodes."""
    if node.op != "quantize" or node.output.dtype not in BYTES or node.inputs[0].dtype != "float32":
        return None
    grid = ByteGrid(node, node.output.dtype)
    return grid if grid.known else None


def integer_dense(
    net: Net, node: NetNode, values: list[NetValue], origins: Any = (), **attrs: Any
) -> NetValue:
    """Result of a quantized_dense that is inserted before ``node``. ``values``: x, the constant weight, int16
    [n, k], the zero point and further inputs."""
    x, weight, *rest = values
    constant, (n, k) = weight.constant, weight.shape
    if n == 0:  # nothing to pack; packed=0 tells the kernel so
        return net.add("quantized_dense", values, before=node, origins=origins, **attrs)
    assert constant is not None, f"{weight.name} is no constant"
    made = Constant.derived(
        bytes_type(n, k), pack_bytes, constant, source=f"panels of {constant.source}", recipe=("pack_bytes",)
    )
    panels = net.constant(made, f"{weight.name}.panels")
    panels.device = node.device
    return net.add("quantized_dense", [x, panels, *rest], before=node, origins=origins, packed=n, **attrs)


def packed_bytes_convolution(net: Net, node: NetNode) -> NetValue:
    """The constant weight of ``node``, a quantized_conv2d NCHW, in panels, as a new constant."""
    weight = node.inputs[1]
    constant, (o, channels, kh, kw) = weight.constant, weight.shape
    assert constant is not None, f"{weight.name} is no constant"
    depthwise = is_depthwise(weight.shape, node.attrs["group"])
    k = depthwise_k((kh, kw)) if depthwise else channels * kh * kw
    made = Constant.derived(
        bytes_type(o, k),
        partial(pack_convolution, depthwise=depthwise),
        constant,
        source=f"panels of {constant.source}",
        recipe=("pack_convolution", depthwise),
    )
    value = net.constant(made, f"{weight.name}.panels")
    value.device = node.device
    return value
