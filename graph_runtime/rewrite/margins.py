"""Margins of images. A pad with zeros before a convolution becomes padding of the convolution, and a slice
that cuts the sides of a convolution's result becomes less padding. Causal networks have both, in one
dimension, with a reshape between that adds or removes a dimension of 1.

    conv(pad(x))    ->  conv(x) with more padding
    slice(conv(x))  ->  conv(x) with less padding
"""

from __future__ import annotations

from ..ir.ops.moving.slicing import slices_of
from .formats.pack_weights import without_defaults
from .net import Net, NetNode, NetValue
from .neutral import reshaped

_KEPT = ("strides", "dilations", "group", "epilogue")


def margins(net: Net) -> None:
    """Move margins into convolutions of images, channels first."""
    for node in list(net.nodes("conv2d")):
        if node.attrs["layout"] == "NCHW":
            _less_padding(net, _more_padding(net, node))


def _through_reshape(inner: NetValue, outer: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dimensions of ``outer``, the type of an image, that the dimensions of ``inner`` become by a
    reshape. They are all dimensions of ``outer``, or all but one of size 1 if ``inner`` has three. None if
    the reshape does anything else."""
    shape = inner.shape
    if len(shape) == 4 and shape == outer:
        return (0, 1, 2, 3)
    for one in (2, 3):
        if len(shape) == 3 and outer[one] == 1 and shape == tuple(n for d, n in enumerate(outer) if d != one):
            return tuple(d for d in range(4) if d != one)
    return None


# ---------------------------------------------------------------- conv(pad(x))


def _more_padding(net: Net, node: NetNode) -> NetNode:
    """The new convolution, which reads the input before its pad; the node itself if its input is not
    padded."""
    image = node.inputs[0]
    padded = image.maker.inputs[0] if image.op == "reshape" and image.used_once else image
    if padded.op != "pad" or not padded.used_once or not image.used_once:
        return node
    pad, places = padded.maker, _through_reshape(padded, image.shape)
    zeros = pad.attrs["mode"] == "constant" and pad.attrs["value"] == 0
    if places is None or not zeros or len(pad.inputs) > 1 or not net.together([pad, node]):
        return node
    before, after, half = [0] * 4, [0] * 4, len(places)
    for d, place in enumerate(places):
        before[place], after[place] = pad.attrs["pads"][d], pad.attrs["pads"][half + d]
    if min(*before, *after) < 0 or any(before[:2]) or any(after[:2]):
        return node
    shape = tuple(n - a - b for n, a, b in zip(image.shape, before, after, strict=True))
    if min(shape) < 1:
        return node
    more = tuple(
        own + added for own, added in zip(node.attrs["pads"], (*before[2:], *after[2:]), strict=True)
    )
    inputs = [reshaped(net, pad.inputs[0], shape, node), *node.inputs[1:]]
    attrs = {**without_defaults("conv2d", node.attrs, _KEPT), "pads": more}
    if not net.keeps_support([pad, node], "conv2d", inputs, **attrs):
        return node
    made = net.add("conv2d", inputs, before=node, **attrs)
    net.note("margins", f"{node.name} pads what it reads, {pad.name} no longer does", [pad, node])
    net.replace(node.output, made)
    return made.maker


# ---------------------------------------------------------------- slice(conv(x))


def _less_padding(net: Net, node: NetNode) -> None:
    made = node.output
    seen = made.users()[0].output if made.used_once and made.users()[0].op == "reshape" else made
    if not seen.used_once or seen.users()[0].op != "slice":
        return
    cut, places = seen.users()[0], _through_reshape(seen, made.shape)
    if places is None or not net.together([node, cut]):
        return
    pads = _pads_of_part(node, cut, places)
    attrs = {**without_defaults("conv2d", node.attrs, _KEPT), "pads": pads}
    if pads is None or not net.keeps_support([node, cut], "conv2d", node.inputs, **attrs):
        return
    part = net.add("conv2d", node.inputs, before=node, **attrs)
    net.note("margins", f"{node.name} makes what {cut.name} left of it", [node, cut])
    net.replace(cut.output, reshaped(net, part, cut.output.shape, node))


def _pads_of_part(node: NetNode, cut: NetNode, places: tuple[int, ...]) -> tuple[int, ...] | None:
    """The padding with which a convolution computes just the part of its result that ``cut`` keeps; None if
    no padding does."""
    image, kernel, attrs = node.inputs[0].shape, node.inputs[1].shape, node.attrs
    before, after = list(attrs["pads"][:2]), list(attrs["pads"][2:])
    for d, (start, count, step) in enumerate(slices_of(cut.input_types, cut.attrs)):
        size, place = cut.inputs[0].shape[d], places[d] - 2
        if step != 1 or count < 1 or (place < 0 and count != size):
            return None
        if place < 0 or count == size:
            continue
        stride = attrs["strides"][place]
        reach = (count - 1) * stride + (kernel[2 + place] - 1) * attrs["dilations"][place] + 1
        left = before[place] - start * stride
        right = reach - image[2 + place] - left
        if left < 0 or not 0 <= right <= after[place]:
            return None
        before[place], after[place] = left, right
    return (*before, *after)
