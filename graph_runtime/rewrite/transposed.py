"""The rule that makes a transposed convolution on cpu a convolution: a stride is more channels of it.

With i + pad = s a + r, element i of a dimension of the result is the sum over t of x[a - t] w[r + s t]: for
each r a convolution of ceil(k / s) taps. All r are made at once, as s times as many channels, and then moved
beside each other:

    conv_transpose2d(x, w)  ->  [n, h, w, s, s, o] = conv2d(x, w of s s o channels), without its rim

Its bias, and a function of one input that follows, go with the convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..ir.graph import TensorType
from ..ir.model import Constant
from ..ir.ops.shape import exactly
from .groups import is_step
from .matching import only_reader
from .net import Net, NetNode, NetValue
from .neutral import reshaped
from .pack_weights import is_host

__all__ = ["transposed_convolutions"]


def transposed_convolutions(net: Net) -> None:
    """Those of float32 with a constant weight and no dilation."""
    done = [node for node in net.nodes("conv_transpose2d") if _is_taken(node)]
    for node in done:
        last, program = _following(node)
        made = _convolved(net, node, program)
        if len(node.inputs) == 3 and node.inputs[2].constant is None:
            made = net.add("bias_add", [made, node.inputs[2]], before=node, axis=1)
        net.replace(last.output, made)
    if done:
        text = f"{len(done)} transposed convolutions on cpu are convolutions of more channels"
        net.note("transposed_convolutions", text, done)


def _is_taken(node: NetNode) -> bool:
    return (
        is_host(node)
        and node.output.dtype == "float32"
        and node.inputs[1].constant is not None
        and tuple(node.attrs["dilations"]) == (1, 1)
        and min(*node.inputs[1].shape, *node.output.shape) > 0
    )


def _following(node: NetNode) -> tuple[NetNode, list[Any]]:
    """The function that alone reads the result, and its steps as an epilogue; the node itself where there is
    none. A bias that is no constant is added behind the convolution, so nothing can come before it."""
    reader = only_reader(node.output)
    if reader is None or (len(node.inputs) == 3 and node.inputs[2].constant is None):
        return node, []
    same = reader.device == node.device and reader.outputs[0].type == node.output.type
    if not same or any(v is not node.output for v in reader.inputs):
        return node, []
    if (
        reader.op == "fused"
    ):  # its input 0 is an epilogue's -1, its step j, which is -1 - j, that one's -2 - j
        body = reader.attrs["body"]
        return reader, [[op, [k - 1 if k < 0 else -1 for k in reads], attrs] for op, reads, attrs in body]
    if is_step(reader) and len(reader.inputs) == 1:
        return reader, [[reader.op, [-1], reader.given_attrs()]]
    return node, []


@dataclass(frozen=True)
class _Side:
    """One dimension: the convolution's ``taps`` and zeros before and after, the ``places`` that it makes; the
    result is ``first`` .. ``first + size - 1`` of the places times the stride."""

    taps: int
    before: int
    after: int
    places: int
    first: int
    size: int

    @staticmethod
    def of(n: int, kernel: int, stride: int, pad: int, size: int) -> _Side:
        """``n``, ``size``: elements of the image and the result."""
        taps = -(-kernel // stride)
        before = max(0, taps - 1 - pad // stride)
        after = max(0, (pad + size - 1) // stride - (n - 1))
        start = taps - 1 - before  # the place a that is made first
        return _Side(taps, before, after, n + after - start, pad - start * stride, size)


def _convolved(net: Net, node: NetNode, program: list[Any]) -> NetValue:
    (x, w), group, (sh, sw) = node.inputs[:2], node.attrs["group"], node.attrs["strides"]
    n, o, oh, ow = node.output.shape
    top, left = node.attrs["pads"][:2]
    high = _Side.of(x.shape[2], w.shape[2], sh, top, oh)
    wide = _Side.of(x.shape[3], w.shape[3], sw, left, ow)
    inputs = [x, _weight(net, node, (sh, sw), (high.taps, wide.taps))]
    if len(node.inputs) == 3 and node.inputs[2].constant is not None:
        inputs.append(_repeated_bias(net, node, (group, sh * sw, o // group)))
    pads = (high.before, wide.before, high.after, wide.after)
    steps: dict[str, Any] = {"epilogue": program} if program else {}
    made = net.add("conv2d", inputs, before=node, pads=pads, group=group, **steps)
    made = net.add("transpose", [made], before=node, perm=[0, 2, 3, 1])
    if sh * sw > 1:
        made = _side_by_side(net, node, made, (n, high.places, wide.places, group, sh, sw, o // group))
    axes, starts, ends = [], [], []
    for axis, side in ((1, high), (2, wide)):
        if made.shape[axis] != side.size:
            axes.append(axis)
            starts.append(side.first)
            ends.append(side.first + side.size)
    if axes:
        made = net.add("slice", [made], before=node, axes=axes, starts=starts, ends=ends)
    return net.add("transpose", [made], before=node, perm=[0, 3, 1, 2])


def _side_by_side(net: Net, node: NetNode, made: NetValue, sizes: tuple[int, ...]) -> NetValue:
    """[n, h, w, group sh sw o] -> [n, h sh, w sw, group o]."""
    n, h, w, group, sh, sw, o = sizes
    split: tuple[int, ...]
    if group == 1:  # rows of sw o elements stay together
        split, perm = (n, h, w, sh, sw * o), [0, 1, 3, 2, 4]
    else:
        split, perm = sizes, [0, 1, 4, 2, 5, 3, 6]
    moved = net.add("transpose", [reshaped(net, made, split, node)], before=node, perm=perm)
    return net.add("reshape", [moved], before=node, **exactly((n, h * sh, w * sw, group * o)))


def _weight(net: Net, node: NetNode, strides: tuple[int, int], taps: tuple[int, int]) -> NetValue:
    """The convolution's weight [group sh sw o, c, taps, taps], as a constant beside the node."""
    w, group = node.inputs[1], node.attrs["group"]
    constant = w.constant
    assert constant is not None, f"{w.name} is no constant"
    shape = (group * strides[0] * strides[1] * w.shape[1], w.shape[0] // group, *taps)
    derived = Constant.derived(
        TensorType(w.dtype, shape),
        partial(_spread, group=group, strides=strides, shape=shape),
        constant,
        source=f"steps of {constant.source}",
        recipe=("steps", group, strides),
    )
    value = net.constant(derived, f"{w.name}.steps")
    value.device = node.device
    return value


def _repeated_bias(net: Net, node: NetNode, sizes: tuple[int, int, int]) -> NetValue:
    """The bias [group o] for the channels [group, steps, o], as a constant beside the node."""
    bias = node.inputs[2]
    constant = bias.constant
    assert constant is not None, f"{bias.name} is no constant"
    derived = Constant.derived(
        TensorType(bias.dtype, (math.prod(sizes),)),
        partial(_for_each_step, sizes=sizes),
        constant,
        source=f"{constant.source} for each step",
        recipe=("steps_bias", sizes),
    )
    value = net.constant(derived, f"{bias.name}.steps")
    value.device = node.device
    return value


def _for_each_step(bias: np.ndarray, sizes: tuple[int, int, int]) -> np.ndarray:
    group, _, o = sizes
    return np.ascontiguousarray(np.broadcast_to(bias.reshape(group, 1, o), sizes)).reshape(-1)


def _spread(w: np.ndarray, group: int, strides: tuple[int, int], shape: tuple[int, ...]) -> np.ndarray:
    """[c, o, kh, kw] -> [group sh sw o, c, taps, taps], the taps from last to first."""
    (sh, sw), (th, tw) = strides, shape[2:]
    c, o, kh, kw = w.shape
    padded = np.zeros((c, o, th * sh, tw * sw), w.dtype)
    padded[:, :, :kh, :kw] = w
    steps = padded.reshape(group, c // group, o, th, sh, tw, sw)[:, :, :, ::-1, :, ::-1]
    return np.ascontiguousarray(steps.transpose(0, 4, 6, 2, 1, 3, 5)).reshape(shape)
