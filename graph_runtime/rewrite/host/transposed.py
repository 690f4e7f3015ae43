"""The rule that replaces a transposed convolution on cpu by a convolution whose channels include the steps of
a stride.

With i + pad = s a + r, element i of a dimension of the result is the sum over t of x[a - t] w[r + s t]: that
is, for each r, a convolution of ceil(k / s) taps. One convolution with s times as many channels computes all
r, whose results are then interleaved:

conv_transpose2d(x, w)  ->  [n, h, w, s, s, o] = conv2d(x, w of s s o channels), without its border

One convolution wastes work if many of its places lie outside the result (small images), or if many of its
weights are zeros (kernels that are not a multiple of the stride). Then each r is a separate convolution.

The bias, and a following function of one input, move into the convolution.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops.moving.shape import exactly
from ..formats.pack_weights import is_host
from ..groups import is_step
from ..matching import only_reader
from ..net import Net, NetNode, NetValue
from ..neutral import reshaped

_COLUMNS = 16  # number of columns that a product computes with one vector
_PAYS = 1.2  # least ratio of the numbers of multiplications for which phases pay


def transposed_convolutions(net: Net) -> None:
    """Replace transposed convolutions of float32 with a constant weight and no dilation."""
    done = [node for node in net.nodes("conv_transpose2d") if _is_taken(node)]
    for node in done:
        last, epilogue = _following(node)
        made = _convolved(net, node, epilogue)
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
    """The elementwise function that alone reads the node's result, and its steps as an epilogue; the node
    itself and [] if there is no such function. No function moves if the bias is not constant, because such a
    bias is added after the convolution."""
    reader = only_reader(node.output)
    if reader is None or (len(node.inputs) == 3 and node.inputs[2].constant is None):
        return node, []
    same = reader.device == node.device and reader.outputs[0].type == node.output.type
    if not same or any(v is not node.output for v in reader.inputs):
        return node, []
    if reader.op == "fused":  # the epilogue calls input 0 -1, and step j -2 - j instead of -1 - j
        body = reader.attrs["body"]
        return reader, [[op, [k - 1 if k < 0 else -1 for k in reads], attrs] for op, reads, attrs in body]
    if is_step(reader) and len(reader.inputs) == 1:
        return reader, [[reader.op, [-1], reader.given_attrs()]]
    return node, []


@dataclass(frozen=True)
class _Side:
    """One dimension of the convolution. ``before``, ``after``: zeros around the image. ``places``: number of
    places that the convolution computes. Each place has as many elements as the stride; the result consists
    of elements ``first`` .. ``first + size - 1``."""

    taps: int
    before: int
    after: int
    places: int
    first: int
    size: int

    @staticmethod
    def of(n: int, kernel: int, stride: int, pad: int, size: int) -> _Side:
        """The dimension along which the image has ``n`` elements and the result ``size``."""
        taps = -(-kernel // stride)
        before = max(0, taps - 1 - pad // stride)
        after = max(0, (pad + size - 1) // stride - (n - 1))
        start = taps - 1 - before  # the first place a that the convolution computes
        return _Side(taps, before, after, n + after - start, pad - start * stride, size)


@dataclass(frozen=True)
class _Phase:
    """A convolution for every stride-th element of the result along one dimension: its taps are elements
    ``first``, ``first + stride`` .. of the weight. ``before``, ``after``: zeros around the image."""

    first: int
    taps: int
    before: int
    after: int

    @staticmethod
    def all(n: int, kernel: int, stride: int, pad: int, size: int) -> list[_Phase] | None:
        """The phase for each element of a stride, or None if one of these phases is not a convolution of the
        whole image. The arguments are those of _Side.of."""
        made = []
        for q in range(stride):
            place, first = divmod(q + pad, stride)
            taps = -(-(kernel - first) // stride)
            made.append(_Phase(first, taps, taps - 1 - place, size // stride + place - n))
        fits = size % stride == 0 and all(min(p.taps - 1, p.before, p.after) >= 0 for p in made)
        return made if fits else None


def _convolved(net: Net, node: NetNode, epilogue: list[Any]) -> NetValue:
    x, w = node.inputs[:2]
    group, (sh, sw), (top, left) = node.attrs["group"], node.attrs["strides"], node.attrs["pads"][:2]
    n, o, oh, ow = node.output.shape
    rows, columns = (x.shape[2], w.shape[2], sh, top, oh), (x.shape[3], w.shape[3], sw, left, ow)
    high, wide = _Side.of(*rows), _Side.of(*columns)
    phases = _Phase.all(*rows), _Phase.all(*columns)
    if phases[0] and phases[1] and group == 1 and _phases_pay((high, wide), (phases[0], phases[1]), node):
        made = _by_phases(net, node, epilogue, phases[0], phases[1])
        high, wide = replace(high, places=oh // sh, first=0), replace(wide, places=ow // sw, first=0)
    else:
        made = _at_once(net, node, epilogue, high, wide)
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


def _at_once(net: Net, node: NetNode, epilogue: list[Any], high: _Side, wide: _Side) -> NetValue:
    """The result, if one convolution computes all elements of a stride as its channels."""
    group, (sh, sw) = node.attrs["group"], node.attrs["strides"]
    inputs = [node.inputs[0], _weight(net, node, (sh, sw), (high.taps, wide.taps))]
    if len(node.inputs) == 3 and node.inputs[2].constant is not None:
        inputs.append(_repeated_bias(net, node, (group, sh * sw, node.output.shape[1] // group)))
    pads = (high.before, wide.before, high.after, wide.after)
    steps: dict[str, Any] = {"epilogue": epilogue} if epilogue else {}
    return net.add("conv2d", inputs, before=node, pads=pads, group=group, **steps)


def _phases_pay(sides: tuple[_Side, _Side], phases: tuple[list[_Phase], list[_Phase]], node: NetNode) -> bool:
    """Whether separate convolutions multiply so much less that interleaving their results pays.
    Multiplications of whole vectors of columns are counted."""
    o, (sh, sw) = node.output.shape[1], node.attrs["strides"]
    places, at_once = sides[0].places * sides[1].places, sides[0].taps * sides[1].taps
    taps = sum(p.taps for p in phases[0]) * sum(p.taps for p in phases[1])
    apart = node.output.shape[2] * node.output.shape[3] // (sh * sw) * taps * -(-o // _COLUMNS)
    return sh * sw > 1 and _PAYS * apart < places * at_once * -(-o * sh * sw // _COLUMNS)


def _by_phases(
    net: Net, node: NetNode, epilogue: list[Any], high: list[_Phase], wide: list[_Phase]
) -> NetValue:
    """The result, if there is a separate convolution for each pair of elements of both strides; their
    channels are concatenated."""
    x, w, *rest = node.inputs
    bias = [value for value in rest if value.constant is not None]
    steps: dict[str, Any] = {"epilogue": epilogue} if epilogue else {}
    parts = []
    for p, q in itertools.product(high, wide):
        pads, taps = (p.before, q.before, p.after, q.after), (p.taps, q.taps)
        weight = _phase(net, node, w, (p.first, q.first), taps)
        parts.append(net.add("conv2d", [x, weight, *bias], before=node, pads=pads, **steps))
    return net.add("concatenate", parts, before=node, axis=1)


def _phase(net: Net, node: NetNode, w: NetValue, first: tuple[int, int], taps: tuple[int, int]) -> NetValue:
    """The weight [o, c, taps, taps] of one phase, as a new constant."""
    constant, strides = w.constant, node.attrs["strides"]
    assert constant is not None, f"{w.name} is no constant"
    derived = Constant.derived(
        TensorType(w.dtype, (w.shape[1], w.shape[0], *taps)),
        partial(_every, first=first, strides=strides),
        constant,
        source=f"a step of {constant.source}",
        recipe=("step", first, tuple(strides)),
    )
    value = net.constant(derived, f"{w.name}.step")
    value.device = node.device
    return value


def _every(w: np.ndarray, first: tuple[int, int], strides: tuple[int, int]) -> np.ndarray:
    """The weight of one phase: [c, o, kh, kw] -> [o, c, taps, taps], with the taps in reverse order."""
    taps = w[:, :, first[0] :: strides[0], first[1] :: strides[1]][:, :, ::-1, ::-1]
    return np.ascontiguousarray(taps.swapaxes(0, 1))


def _side_by_side(net: Net, node: NetNode, made: NetValue, sizes: tuple[int, ...]) -> NetValue:
    """The places' elements side by side: [n, h, w, group sh sw o] -> [n, h sh, w sw, group o]."""
    n, h, w, group, sh, sw, o = sizes
    split: tuple[int, ...]
    if group == 1:  # with one group, rows of sw o elements stay together
        split, perm = (n, h, w, sh, sw * o), [0, 1, 3, 2, 4]
    else:
        split, perm = sizes, [0, 1, 4, 2, 5, 3, 6]
    moved = net.add("transpose", [reshaped(net, made, split, node)], before=node, perm=perm)
    return net.add("reshape", [moved], before=node, **exactly((n, h * sh, w * sw, group * o)))


def _weight(net: Net, node: NetNode, strides: tuple[int, int], taps: tuple[int, int]) -> NetValue:
    """The convolution's weight [group sh sw o, c, taps, taps], as a new constant."""
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
    """The bias [group o] repeated for the channels [group, steps, o], as a new constant."""
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
    """The weight with the strides' steps as channels: [c, o, kh, kw] -> [group sh sw o, c, taps, taps], with
    the taps in reverse order."""
    (sh, sw), (th, tw) = strides, shape[2:]
    c, o, kh, kw = w.shape
    padded = np.zeros((c, o, th * sh, tw * sw), w.dtype)
    padded[:, :, :kh, :kw] = w
    steps = padded.reshape(group, c // group, o, th, sh, tw, sw)[:, :, :, ::-1, :, ::-1]
    return np.ascontiguousarray(steps.transpose(0, 4, 6, 2, 1, 3, 5)).reshape(shape)
