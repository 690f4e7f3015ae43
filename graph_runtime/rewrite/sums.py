"""Sums of convolutions of one image become one convolution with the sum of their weights. Networks have such
branches because these make training easier.

    conv(x, w, b) + conv(x, v, c)  ->  conv(x, w + v, b + c), where zeros enlarge the smaller kernel
    conv(x, w, b) + x * s + t      ->  conv(x, w + s, b + t), where s is added to the tap on the pixel itself
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from ..ir.graph import TensorType
from ..ir.model import Constant
from .net import Net, NetNode, NetValue
from .neutral import reshaped
from .products import absorb_affine, as_constant, given, is_channelwise, is_plain
from .ranges import is_usual


@dataclass
class _Term:
    """A summand: the convolution ``taps`` of ``image``. If ``taps`` is None, the summand is the image with
    each channel multiplied by its number in ``weight``, or unchanged if ``weight`` is None, too. ``nodes``:
    the nodes that compute the summand."""

    image: NetValue
    weight: NetValue | None
    bias: NetValue | None
    taps: NetNode | None
    nodes: tuple[NetNode, ...]


def summed_convolutions(net: Net) -> None:
    """Join added convolutions of float32, NCHW, whose weights are constant and whose results only the sum
    reads."""
    for node in net.nodes():
        if node.op in ("add", "subtract") and node.output.dtype == "float32" and len(node.output.shape) == 4:
            made = _summed(net, node)
            if made is not None:
                absorb_affine(net, made)


def _summed(net: Net, node: NetNode) -> NetNode | None:
    """The convolution that replaces a sum or difference (``node``) together with both of its inputs; None if
    no such convolution exists."""
    first, second = node.inputs
    if first is second or first.type != node.output.type or second.type != node.output.type:
        return None
    terms = [_convolution(first) or _scaled(first), _convolution(second) or _scaled(second)]
    if terms[0].taps is None and terms[1].taps is None:
        return None
    a, b = terms
    nodes = (*a.nodes, *b.nodes, node)
    if a.image is not b.image or not net.together(nodes):
        return None
    larger, smaller = (a, b) if _area(a) >= _area(b) else (b, a)
    taps, zeros = larger.taps, _zeros(larger, smaller)
    numbers = [v for term in terms for v in (term.weight, term.bias) if v is not None]
    if taps is None or zeros is None or not all(map(is_usual, numbers)):
        return None
    inputs = [a.image, _sum(net, node, (a, b), taps, zeros)]
    bias = _sum_of_biases(net, node, a.bias, b.bias)
    inputs += [] if bias is None else [bias]
    attrs = given(taps)
    if not net.keeps_support(nodes, "conv2d", inputs, **attrs):
        return None
    origins = [name for each in nodes for name in each.origins]
    net.note("summed_convolutions", f"{node.name} adds results of one image: one convolution", nodes)
    made = net.add("conv2d", inputs, before=node, origins=origins, **attrs)
    net.replace(node.output, made)
    return made.maker


# ---------------------------------------------------------------- terms


def _convolution(value: NetValue) -> _Term | None:
    if value.op != "conv2d" or not value.used_once:
        return None
    node = value.maker
    if (
        not is_plain(node)
        or node.attrs["layout"] != "NCHW"
        or any(v.constant is None for v in node.inputs[1:])
    ):
        return None
    return _Term(node.inputs[0], node.inputs[1], (*node.inputs, None)[2], node, (node,))


def _scaled(value: NetValue) -> _Term:
    """The summand for a value x, x * s or x * s + t, where x is the image, and s and t have one number per
    channel."""
    nodes: list[NetNode] = []
    found: dict[str, NetValue] = {}
    image = value
    for ops in (("add", "bias_add"), ("multiply",)):
        if image.op not in ops or not image.used_once:
            continue
        node, channels = image.maker, image.shape[1]
        for x, number in (tuple(node.inputs), tuple(node.inputs)[::-1]):
            by_axis = node.op == "bias_add" and node.attrs["axis"] in (1, -3)
            known = number.constant is not None and number.type.size == channels and x.type == image.type
            if known and (by_axis or (node.op != "bias_add" and is_channelwise(image.shape, 1, number))):
                found[ops[-1]] = number
                nodes.append(node)
                image = x
                break
    if "multiply" not in found:
        return _Term(value, None, None, None, ())
    return _Term(image, found["multiply"], found.get("bias_add"), None, tuple(nodes))


# ---------------------------------------------------------------- places of taps


def _area(term: _Term) -> int:
    """Taps per channel; 0 for a term without taps."""
    return 0 if term.taps is None or term.weight is None else term.weight.shape[2] * term.weight.shape[3]


def _zeros(larger: _Term, smaller: _Term) -> tuple[int, ...] | None:
    """The zeros to add around the smaller kernel, in the order of a pad, so that it has the size of the
    larger kernel. None if the smaller kernel does not fit, or if its taps would not read the same pixels."""
    node, other = larger.taps, smaller.taps
    assert node is not None, "one of them has taps"
    strides, group = tuple(node.attrs["strides"]), node.attrs["group"]
    if other is None:
        if strides != (1, 1) or not _has_place(node, smaller):
            return None
        kernel, pads, dilations = [1, 1], [0, 0, 0, 0], [1, 1]
    else:
        if tuple(other.attrs["strides"]) != strides or other.attrs["group"] != group:
            return None
        kernel = list(other.inputs[1].shape[2:])
        pads, dilations = other.attrs["pads"], other.attrs["dilations"]
    zeros = [0] * 8
    for side in (0, 1):
        step, size = node.attrs["dilations"][side], node.inputs[1].shape[2 + side]
        if kernel[side] > 1 and dilations[side] != step:
            return None
        before, rest = divmod(node.attrs["pads"][side] - pads[side], step)
        behind = size - kernel[side] - before
        if rest or before < 0 or behind < 0:
            return None
        zeros[2 + side], zeros[6 + side] = before, behind
    return tuple(zeros)


def _has_place(node: NetNode, term: _Term) -> bool:
    """Whether the convolution's weight has an element by which a channel is multiplied for its own result. An
    unchanged image added to a convolution of all channels is left alone: Winograd's sums would round it."""
    channels, group = node.output.shape[1], node.attrs["group"]
    same = node.inputs[0].type == node.output.type
    return same and (group == channels or (group == 1 and term.weight is not None))


# ---------------------------------------------------------------- weights


def _sum(
    net: Net, node: NetNode, terms: tuple[_Term, _Term], taps: NetNode, zeros: tuple[int, ...]
) -> NetValue:
    parts: list[NetValue] = []
    for term in terms:
        own = term.weight if term.taps else _own_numbers(net, node, term, taps)
        assert own is not None, "a convolution has a weight"
        whole = term.taps is taps or not any(zeros)
        parts.append(own if whole else net.add("pad", [own], before=node, pads=zeros))
    return as_constant(net, net.add(node.op_name, parts, before=node), node)


def _own_numbers(net: Net, node: NetNode, term: _Term, taps: NetNode) -> NetValue:
    """The weight [o, c / group, 1, 1] that multiplies each channel by its number in ``term``."""
    channels, group = taps.output.shape[1], taps.attrs["group"]
    if term.weight is None:
        return net.constant(
            Constant.of(np.ones((channels, 1, 1, 1), np.float32), "ones"), f"{node.name}.ones"
        )
    if group == channels:
        return reshaped(net, term.weight, (channels, 1, 1, 1), node)
    known, shape = term.weight.constant, (channels, channels, 1, 1)
    assert known is not None, f"{term.weight.name} is no constant"
    recipe: Hashable = ("diagonal", shape)
    made = Constant.derived(
        TensorType("float32", shape), _diagonal, known, source=f"diagonal of {known.source}", recipe=recipe
    )
    return net.constant(made, f"{term.weight.name}.diagonal")


def _diagonal(numbers: np.ndarray) -> np.ndarray:
    return np.diag(numbers.reshape(-1)).reshape(numbers.size, numbers.size, 1, 1)


def _sum_of_biases(net: Net, node: NetNode, a: NetValue | None, b: NetValue | None) -> NetValue | None:
    shape = (node.output.shape[1],)
    parts = [reshaped(net, value, shape, node) for value in (a, b) if value is not None]
    if not parts:
        return None
    made = parts[0]
    if len(parts) == 2:
        made = net.add(node.op_name, parts, before=node)
    elif a is None and node.op == "subtract":
        made = net.add("negative", parts, before=node)
    return as_constant(net, made, node)
