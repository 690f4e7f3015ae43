"""Rules that save work in convolutions on cpu, before their weights go into panels.

taps that read only padding (a dilated kernel on a small image)  ->  removed from the weight
several results per channel (groups of one channel)              ->  conv2d(x repeated), one result per
                                                                     channel; results put in place
an odd number of channels, weight stored in bf16                 ->  conv2d of adjacent columns as
                                                                     channels, or with one channel more:
                                                                     windows of pairs
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops import steps
from ...ir.ops.moving.shape import exactly
from ...ir.ops.products.halves import IN_REGISTERS
from ...ir.ops.products.packed import refuse_panels
from ..formats.pack_weights import is_host, without_defaults
from ..formats.store_weights import HOST_FORMATS
from ..net import Net, NetNode, NetValue
from ..neutral import reshaped

_FORMAT = HOST_FORMATS[1]
_FEW = range(1, 16, 2)  # odd numbers of channels for which gathering windows takes longer than copying images
_ONE_MORE = 3  # number of channels from which one more channel costs little to multiply


def lean_convolutions(net: Net) -> None:
    """Save work in convolutions of float32 with a constant weight, and channels first."""
    for node in list(net.nodes("conv2d")):
        if _is_known(node):
            node = _without_taps(net, node)
            _one_result_a_channel(net, node)


def _is_known(node: NetNode) -> bool:
    w, attrs = node.inputs[1], node.attrs
    plain = attrs["layout"] == "NCHW" and not refuse_panels(node.input_types, node.output_types, attrs)
    return is_host(node) and plain and min(w.shape) > 0 and w.constant is not None


def _derived(
    net: Net,
    node: NetNode,
    value: NetValue,
    shape: tuple[int, ...],
    compute: Callable[[np.ndarray], np.ndarray],
    word: str,
    recipe: Hashable,
) -> NetValue:
    """A constant computed from another, as a new constant for the node. ``word``: added to its name."""
    constant = value.constant
    assert constant is not None, f"{value.name} is no constant"
    source = f"{word} of {constant.source}"
    derived = Constant.derived(
        TensorType(value.dtype, shape), compute, constant, source=source, recipe=recipe
    )
    made = net.constant(derived, f"{value.name}.{word}")
    made.device = node.device
    return made


# ---------------------------------------------------------------- taps that meet padding only


@dataclass(frozen=True)
class _Taps:
    """Taps first .. last-1 of a dimension, and the remaining padding before and after."""

    first: int
    last: int
    before: int
    after: int

    @staticmethod
    def of(n: int, kernel: int, stride: int, dilation: int, before: int, after: int, size: int) -> _Taps:
        """The taps that meet the image. ``n``, ``size``: elements of the image and the result."""
        starts = [tap * dilation - before for tap in range(kernel)]
        meets = [
            tap for tap, start in enumerate(starts) if any(0 <= start + i * stride < n for i in range(size))
        ]
        if not meets:
            return _Taps(0, kernel, before, after)
        first = min(meets[0], before // dilation)
        last = max(meets[-1] + 1, kernel - after // dilation)
        return _Taps(first, last, before - first * dilation, after - (kernel - last) * dilation)


def _without_taps(net: Net, node: NetNode) -> NetNode:
    """The node without taps that meet only padding: itself if there are none."""
    (x, w), attrs, out = node.inputs[:2], node.attrs, node.output.shape
    top, left, bottom, right = attrs["pads"]
    ends = ((top, bottom), (left, right))
    rows, columns = (
        _Taps.of(x.shape[d], w.shape[d], stride, dilation, *end, out[d])
        for d, stride, dilation, end in zip((2, 3), attrs["strides"], attrs["dilations"], ends, strict=True)
    )
    kept = (rows.first, rows.last, columns.first, columns.last)
    if kept == (0, w.shape[2], 0, w.shape[3]):
        return node
    shape = (*w.shape[:2], rows.last - rows.first, columns.last - columns.first)
    weight = _derived(net, node, w, shape, partial(_cut, kept=kept), "taps", ("taps", kept))
    more = without_defaults("conv2d", attrs, ("strides", "dilations", "group", "epilogue"))
    pads = (rows.before, columns.before, rows.after, columns.after)
    made = net.add("conv2d", [x, weight, *node.inputs[2:]], before=node, pads=pads, **more)
    text = f"{node.name} has {shape[2]} x {shape[3]} taps: the others meet padding only"
    net.note("lean_convolutions", text, [node])
    net.replace(node.output, made)
    return made.maker


def _cut(w: np.ndarray, kept: tuple[int, int, int, int]) -> np.ndarray:
    top, bottom, left, right = kept
    return np.ascontiguousarray(w[:, :, top:bottom, left:right])


# ---------------------------------------------------------------- several results a channel


def _one_result_a_channel(net: Net, node: NetNode) -> None:
    """Rewrite a convolution with m results per channel, in which channel g of the image makes results g m ..
    g m + m - 1. The image is repeated m times; channel g of copy j makes result j of channel g."""
    x, _, *rest = node.inputs
    group, (n, o, oh, ow), epilogue = node.attrs["group"], node.output.shape, node.attrs["epilogue"]
    several = o // max(group, 1)
    own = len(node.inputs) - len(steps.extras(epilogue))
    if group == 1 or x.shape[1] != group or several < 2 or (own == 3 and rest[0].constant is None):
        return
    turn = partial(_by_result, several=several)
    inputs = [net.add("concatenate", [x] * several, before=node, axis=1)]
    for value in node.inputs[1:own]:
        inputs.append(_derived(net, node, value, value.shape, turn, "by_result", ("by_result", several)))
    more = without_defaults("conv2d", node.attrs, ("strides", "pads", "dilations"))
    made = net.add("conv2d", inputs, before=node, group=o, **more)
    made = reshaped(net, made, (n, several, group, oh, ow), node)
    made = net.add("transpose", [made], before=node, perm=[0, 2, 1, 3, 4])
    made = net.add("reshape", [made], before=node, **exactly((n, o, oh, ow)))
    if epilogue:  # input 0 becomes the product's result; the epilogue's inputs follow
        shift = own - 1
        body = [
            [op, [k - shift if k >= 0 else 0 if k == -1 else k + 1 for k in reads], attrs]
            for op, reads, attrs in epilogue
        ]
        made = net.add("fused", [made, *node.inputs[own:]], before=node, body=body)
    text = f"{node.name} makes {several} results of a channel: a convolution of one each"
    net.note("lean_convolutions", text, [node])
    net.replace(node.output, made)


def _by_result(values: np.ndarray, several: int) -> np.ndarray:
    """The weights reordered: [group several, ..] -> [several group, ..]."""
    first = values.reshape(-1, several, *values.shape[1:])
    return np.ascontiguousarray(first.swapaxes(0, 1)).reshape(values.shape)


# ---------------------------------------------------------------- an odd number of channels


def pair_channels(net: Net, formats: Mapping[str, str]) -> None:
    """Give convolutions an even number of channels if they have a small odd number and a weight that will be
    stored in bf16. The padding moves into the image. ``formats``: name -> format."""
    for node in list(net.nodes("conv2d")):
        w, attrs = node.inputs[1], node.attrs
        if formats.get(node.name) != _FORMAT or not _is_known(node) or attrs["group"] != 1:
            continue
        _, channels, *window = w.shape
        quick = all(step[0] in IN_REGISTERS for step in attrs["epilogue"])  # otherwise the image is not bf16
        if channels not in _FEW or window == [1, 1] or not quick:
            continue
        if attrs["strides"][1] % 2 == 0 and attrs["dilations"][1] == 1:
            _columns_as_channels(net, node)
        elif channels >= _ONE_MORE:
            _channel_more(net, node)


def _columns_as_channels(net: Net, node: NetNode) -> None:
    """Turn each group of adjacent columns, as many as the window's stride, into the channels of one column,
    so that windows move by one such column. With channels last, that moves no data."""
    (x, w, *rest), attrs = node.inputs, node.attrs
    (rows, step), (top, left, bottom, _) = attrs["strides"], attrs["pads"]
    (n, c, h, width), (o, _, kh, kw) = x.shape, w.shape
    taps = -(-kw // step)
    columns = node.output.shape[3] - 1 + taps
    x = net.add("pad", [x], before=node, pads=(0, 0, top, left, 0, 0, bottom, step * columns - width - left))
    x = net.add("transpose", [x], before=node, perm=[0, 2, 3, 1])
    x = reshaped(net, x, (n, h + top + bottom, columns, step * c), node)
    x = net.add("transpose", [x], before=node, perm=[0, 3, 1, 2])
    turn, shape = partial(_by_step, step=step), (o, step * c, kh, taps)
    weight = _derived(net, node, w, shape, turn, "by_step", ("by_step", step))
    more = without_defaults("conv2d", attrs, ("dilations", "epilogue"))
    made = net.add("conv2d", [x, weight, *rest], before=node, strides=(rows, 1), **more)
    text = f"{node.name} reads {step} columns beside each other as channels: pairs of bf16"
    net.note("pair_channels", text, [node])
    net.replace(node.output, made)


def _by_step(w: np.ndarray, step: int) -> np.ndarray:
    """The weight reordered: [o, c, kh, kw] -> [o, step c, kh, kw / step]."""
    o, c, kh, kw = w.shape
    whole = np.pad(w, ((0, 0), (0, 0), (0, 0), (0, -kw % step)))
    turned = whole.reshape(o, c, kh, -1, step).transpose(0, 4, 1, 2, 3)
    return np.ascontiguousarray(turned).reshape(o, step * c, kh, -1)


def _channel_more(net: Net, node: NetNode) -> None:
    (x, w, *rest), attrs = node.inputs, node.attrs
    top, left, bottom, right = attrs["pads"]
    x = net.add("pad", [x], before=node, pads=(0, 0, top, left, 0, 1, bottom, right))
    o, channels, *window = w.shape
    shape = (o, channels + 1, *window)
    weight = _derived(net, node, w, shape, _with_zeros, "even", ("channel_more",))
    more = without_defaults("conv2d", attrs, ("strides", "dilations", "epilogue"))
    made = net.add("conv2d", [x, weight, *rest], before=node, **more)
    text = f"{node.name} has a channel of zeros more: its windows are pairs of bf16"
    net.note("pair_channels", text, [node])
    net.replace(node.output, made)


def _with_zeros(w: np.ndarray) -> np.ndarray:
    return np.pad(w, ((0, 0), (0, 1), (0, 0), (0, 0)))
