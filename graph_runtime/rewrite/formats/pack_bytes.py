"""Constant weights of quantized products in panels of bytes, beside the nodes that read them."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...ir.model import Constant
from ...ir.ops.integers.quantized_products import is_depthwise
from ...ir.ops.products.byte_panels import bytes_type, depthwise_k, pack_bytes, pack_convolution
from ..net import Net, NetNode, NetValue

__all__ = ["integer_dense", "packed_bytes_convolution"]


def integer_dense(
    net: Net, node: NetNode, values: list[NetValue], origins: Any = (), **attrs: Any
) -> NetValue:
    """quantized_dense in front of ``node``: x, its weight int16 [n, k] (a constant), zero point, and what
    follows."""
    x, weight, *rest = values
    constant, (n, k) = weight.constant, weight.shape
    if n == 0:  # no columns: there is nothing to pack, and packed=0 says that nothing is
        return net.add("quantized_dense", values, before=node, origins=origins, **attrs)
    assert constant is not None, f"{weight.name} is no constant"
    made = Constant.derived(
        bytes_type(n, k),
        pack_bytes,
        constant,
        source=f"panels of {constant.source}",
        recipe=("pack_bytes",),
    )
    panels = net.constant(made, f"{weight.name}.panels")
    panels.device = node.device
    return net.add("quantized_dense", [x, panels, *rest], before=node, origins=origins, packed=n, **attrs)


def packed_bytes_convolution(net: Net, node: NetNode) -> NetValue:
    """The constant weight of a quantized_conv2d NCHW in panels, as a constant beside ``node``."""
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
