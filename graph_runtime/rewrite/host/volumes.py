"""Volumes on cpu with their channels last [N,D,H,W,C], run by the much faster kernels for images.

    conv3d(x, w)   ->  conv2d of [N*D', H, W, KD*C]: each plane of the result reads the KD planes under its
                       taps, as channels; following ops become its epilogue
    max_pool3d(x)  ->  max_pool2d of each plane, [N*D, H, W, C], and max_pool2d along the planes,
                       [N, D, H'*W', C]

The planes of a channels-first volume are concatenated before they are turned. Importers write the maximum of
a volume as two maxima of [N, C*D, H, W] and [N, C, D, H'*W'], which pool_of_planes recognises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ...ir.graph import TensorType
from ...ir.model import Constant
from ..formats.pack_weights import is_host, without_defaults
from ..groups import Group, grow
from ..matching import only_reader
from ..net import Net, NetNode, NetValue
from .images import Images, before, behind

_WINDOW = ("kernel_shape", "strides", "pads", "ceil_mode")

# **************** convolutions ****************


def volume_as_planes(images: Images, node: NetNode, turn: Callable[[Images, NetNode], None]) -> None:
    """Replace a float32 conv3d of one group with a constant weight by a conv2d of planes; ``turn`` then packs
    its weight into panels."""
    net, (x, w, *bias), attrs = images.net, node.inputs, node.attrs
    if w.constant is None or x.dtype != "float32" or attrs["group"] != 1 or not x.type.size:
        return
    group = _following(net, node)
    last = group.nodes[-1] if group is not None else node
    extras, epilogue = group.body(len(node.inputs)) if group is not None else ([], [])
    (n, o, depth, *plane), pads = node.output.shape, attrs["pads"]
    seen = _as_image(images, _planes_seen(images, node), last)
    more = [_beside(images, v, node.output.shape, last) for v in extras]
    after: dict[str, Any] = {"epilogue": epilogue} if epilogue else {}
    found = net.add(
        "conv2d",
        [seen, _flat_weight(net, node, w), *bias, *more],
        before=last,
        pads=(*pads[1:3], *pads[4:]),
        strides=attrs["strides"][1:],
        dilations=attrs["dilations"][1:],
        **after,
    )
    back = net.add("transpose", [found], before=last, perm=behind(4))
    turn(images, found.maker)
    made = images.last.get(back.maker.inputs[0], back)
    text = f"{node.name}, a convolution of volumes on cpu, is one of images"
    net.note("volumes", text, group.nodes if group is not None else [node])
    images.gives(last, images.reshaped(made, (n, depth, *plane, o), last))


def _following(net: Net, node: NetNode) -> Group | None:
    """The convolution and the nodes that can be its epilogue: their operands are as large as the result, or
    constant within a channel."""
    position = {found: i for i, found in enumerate(net.nodes())}
    for group in grow(node, position):
        if all(_fits(v, node.output.shape) for v in group.body(len(node.inputs))[0]):
            return group
    return None


def _fits(value: NetValue, shape: tuple[int, ...]) -> bool:
    own = (1,) * (len(shape) - len(value.shape)) + value.shape
    return own == shape or all(n == 1 for i, n in enumerate(own) if i != 1)


def _beside(images: Images, value: NetValue, shape: tuple[int, ...], node: NetNode) -> NetValue:
    """An operand of the epilogue of a volume of ``shape``, reshaped to planes [N*D, C, H, W]; the operand may
    have fewer axes than the volume."""
    n, c, d, h, w = shape
    if value.type.size == prod(shape):
        full = images.reshaped(value, shape, node)
        return _as_image(
            images, images.reshaped(images.laid_out(full, node, shape), (n * d, h, w, c), node), node
        )
    return images.reshaped(value, (value.type.size, 1, 1), node)


def _as_image(images: Images, image: NetValue, node: NetNode) -> NetValue:
    """The form [N, C, H, W] of an image that exists with its channels last."""
    first = images.net.add("transpose", [image], before=node, perm=before(4))
    images.last[first] = image
    return first


def _planes_seen(images: Images, node: NetNode) -> NetValue:
    """[N*D', H, W, KD*C]: for each plane of the result, the planes under its taps as channels."""
    net, (x, w) = images.net, node.inputs[:2]
    n, c, _, h, wide = x.shape
    depth, taps = node.output.shape[2], w.shape[2]
    turned = x in images.last or taps == 1
    planes = (
        images.with_channels_last(x, node)
        if turned
        else net.add("transpose", [x], before=node, perm=(0, 2, 1, 3, 4))
    )
    front, back = node.attrs["pads"][0], node.attrs["pads"][3]
    if front or back:
        planes = net.add("pad", [planes], before=node, pads=(0, front, 0, 0, 0, 0, back, 0, 0, 0))
    seen = [_of_tap(net, node, planes, tap) for tap in range(taps)]
    beside = seen[0] if taps == 1 else net.add("concatenate", seen, before=node, axis=4 if turned else 2)
    if turned:
        return images.reshaped(beside, (n * depth, h, wide, taps * c), node)
    image = images.reshaped(beside, (n * depth, taps * c, h, wide), node)
    return net.add("transpose", [image], before=node, perm=behind(4))


def _of_tap(net: Net, node: NetNode, planes: NetValue, tap: int) -> NetValue:
    """For each plane of the result, the plane out of [N, D, ..] that is under the given tap."""
    stride, depth = node.attrs["strides"][0], node.output.shape[2]
    first = tap * node.attrs["dilations"][0]
    last = first + (depth - 1) * stride
    if (first, last + 1, stride) == (0, planes.shape[1], 1):
        return planes
    return net.add("slice", [planes], before=node, axes=[1], starts=[first], ends=[last + 1], steps=[stride])


def _flat_weight(net: Net, node: NetNode, w: NetValue) -> NetValue:
    """The weight [O, C, KD, KH, KW] as [O, KD*C, KH, KW], a new constant."""
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


# **************** maxima ****************


def pool_of_volumes(images: Images, node: NetNode) -> None:
    """Replace max_pool3d of a volume that exists with its channels last."""
    attrs, x = node.attrs, node.inputs[0]
    if tuple(attrs["dilations"]) != (1, 1, 1) or x not in images.last:
        return
    (kd, *kernel), (sd, *strides), pads = attrs["kernel_shape"], attrs["strides"], attrs["pads"]
    ceil = {"ceil_mode": True} if attrs["ceil_mode"] else {}
    plane = {"kernel_shape": kernel, "strides": strides, "pads": (*pads[1:3], *pads[4:]), **ceil}
    along = {"kernel_shape": (kd, 1), "strides": (sd, 1), "pads": (pads[0], 0, pads[3], 0), **ceil}
    images.gives(node, _pooled(images, images.last[x], node, plane, along))


def pool_of_planes(images: Images, node: NetNode) -> bool:
    """Whether ``node`` is the first reshape of [N,C,D,H,W] -> [N,C*D,H,W] -> max_pool2d -> [N,C,D,H'*W'] ->
    max_pool2d -> [N,C,D',H',W']; if so, the rule makes the last of these values with channels last."""
    x, shape = node.inputs[0], node.inputs[0].shape
    if len(shape) != 5 or node.output.shape != (shape[0], shape[1] * shape[2], *shape[3:]):
        return False
    chain = [node]
    for op in ("max_pool2d", None, "max_pool2d", None):
        following = only_reader(chain[-1].output)
        if following is None or not (_is_pool(following, op) if op else following.op == "reshape"):
            return False
        chain.append(following)
    _, plane, flat, along, last = chain
    n, c, d = shape[:3]
    height, width = plane.output.shape[2:]
    if flat.output.shape != (n, c, d, height * width) or along.attrs["kernel_shape"][1] != 1:
        return False
    if along.output.shape[3] != height * width or along.attrs["pads"][1] or along.attrs["pads"][3]:
        return False
    if last.output.shape != (n, c, along.output.shape[2], height, width):
        return False
    windows = (without_defaults("max_pool2d", pool.attrs, _WINDOW) for pool in (plane, along))
    images.gives(last, _pooled(images, images.last[x], last, *windows))
    return True


def _is_pool(node: NetNode, op: str) -> bool:
    plain = node.op == op and node.attrs["layout"] == "NCHW"
    return plain and is_host(node) and tuple(node.attrs["dilations"]) == (1, 1)


def _pooled(
    images: Images, x: NetValue, node: NetNode, plane: Mapping[str, Any], along: Mapping[str, Any]
) -> NetValue:
    """[N,D,H,W,C] -> [N,D',H',W',C]: the maximum of each plane's windows, then along the planes."""
    net, (n, d, h, w, c) = images.net, x.shape
    flat = images.reshaped(x, (n * d, h, w, c), node)
    made = net.add("max_pool2d", [flat], before=node, layout="NHWC", **plane)
    height, width = made.shape[1:3]
    flat = images.reshaped(made, (n, d, prod((height, width)), c), node)
    made = net.add("max_pool2d", [flat], before=node, layout="NHWC", **along)
    return images.reshaped(made, (n, made.shape[1], height, width, c), node)
