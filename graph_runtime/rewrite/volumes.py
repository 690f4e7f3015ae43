"""The rule that makes a convolution of volumes one of images, on cpu, whose kernels of images are far faster:

    conv3d(x [N,C,D,H,W], w)  ->  conv2d([N*D', KD*C, H, W], [O, KD*C, KH, KW])

Each plane of the result reads the KD planes of x that its taps see; they lie beside each other as channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.graph import TensorType
from ..ir.model import Constant
from .net import Net, NetNode, NetValue
from .pack_weights import is_host

__all__ = ["volumes_as_images"]


def volumes_as_images(net: Net) -> None:
    """Every float32 conv3d on cpu of one group, whose weight is a constant."""
    done = []
    for node in net.nodes("conv3d"):
        x, w = node.inputs[:2]
        constant = w.constant is not None
        if is_host(node) and constant and x.dtype == "float32" and node.attrs["group"] == 1 and x.type.size:
            done.append(node)
            net.replace(node.output, _as_image(net, node))
    if done:
        net.note("volumes", f"{len(done)} convolutions of volumes on cpu are convolutions of images", done)


def _as_image(net: Net, node: NetNode) -> NetValue:
    x, w, *bias = node.inputs
    attrs, out = node.attrs, node.output.shape
    pads, strides, dilations = attrs["pads"], attrs["strides"], attrs["dilations"]

    def op(name: str, *inputs: NetValue, **attrs: Any) -> NetValue:
        made = net.add(name, inputs, before=node, **attrs)
        assert isinstance(made, NetValue)  # ops of one result alone are added
        return made

    planes = op("transpose", x, perm=(0, 2, 1, 3, 4))
    if pads[0] or pads[3]:
        planes = op("pad", planes, pads=(0, pads[0], 0, 0, 0, 0, pads[3], 0, 0, 0))
    taps = []
    for tap in range(w.shape[2]):
        first = tap * dilations[0]
        last = first + (out[2] - 1) * strides[0]
        taps.append(op("slice", planes, axes=[1], starts=[first], ends=[last + 1], steps=[strides[0]]))
    seen = taps[0] if len(taps) == 1 else op("concatenate", *taps, axis=2)
    images = op("reshape", seen, shape=(out[0] * out[2], *seen.shape[2:]))
    found = op(
        "conv2d",
        images,
        _flat_weight(net, node, w),
        *bias,
        pads=(*pads[1:3], *pads[4:]),
        strides=strides[1:],
        dilations=dilations[1:],
    )
    back = op("reshape", found, shape=(out[0], out[2], out[1], *out[3:]))
    return op("transpose", back, perm=(0, 2, 1, 3, 4))


def _flat_weight(net: Net, node: NetNode, w: NetValue) -> NetValue:
    """[O, KD*C, KH, KW] of [O, C, KD, KH, KW], as a constant beside the node."""
    constant, (outputs, channels, depth, *taps) = w.constant, w.shape
    assert constant is not None, f"{w.name} is no constant"
    made = TensorType(w.dtype, (outputs, depth * channels, *taps))

    def flat(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array.transpose(0, 2, 1, 3, 4)).reshape(made.shape)

    value = net.constant(
        Constant.derived(made, flat, constant, source=f"planes of {constant.source}", recipe="planes"),
        f"{w.name}.planes",
    )
    value.device = node.device
    return value
