"""Values that are there with their channels last while rewrite.channels_last goes through a graph: NC.. of
three dimensions or more, and the same as N..C."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...ir.ops.moving.shape import exactly
from ..net import Net, NetNode, NetValue
from ..neutral import source_of_channels

__all__ = ["Images", "axis", "before", "behind", "in_order", "turned_shape"]


def behind(ndim: int) -> list[int]:
    """The permutation that brings channels, dimension 1, behind all others."""
    return [0, *range(2, ndim), 1]


def before(ndim: int) -> list[int]:
    """Its inverse."""
    return [0, ndim - 1, *range(1, ndim - 1)]


def turned_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with the channels last."""
    return (shape[0], *shape[2:], shape[1])


def axis(axis: int, ndim: int) -> int:
    """Where a dimension is when the channels are last."""
    return behind(ndim).index(axis % ndim)


class Images:
    """Which values are there with their channels last, while nodes are visited in order."""

    def __init__(self, net: Net, windows: Collection[str] = ()):
        self.net = net
        self.windows = windows  # names of convolutions that are not made by Winograd's tiles
        self.last: dict[NetValue, NetValue] = {}  # NC.. -> N..C
        self.convolutions: list[NetNode] = []

    # ---------------------------------------------------------------- values

    def beside(self, value: NetValue, shape: tuple[int, ...]) -> bool:
        """Whether an operand of an image of ``shape`` can be read beside one with channels last: it is an
        image itself, or its elements are in the same order then."""
        return value.shape == shape or value in self.last or in_order(value.shape, len(shape))

    def laid_out(self, value: NetValue, node: NetNode, shape: tuple[int, ...]) -> NetValue:
        """The operand of a node of images of ``shape`` with channels last."""
        if len(value.shape) == len(shape) and (value in self.last or not in_order(value.shape, len(shape))):
            return self.with_channels_last(value, node)
        if value.type.size == 1:
            return self.reshaped(value, (), node)
        own = turned_shape((1,) * (len(shape) - len(value.shape)) + value.shape)
        while own[0] == 1:
            own = own[1:]
        return self.reshaped(value, own, node)

    def with_channels_last(self, value: NetValue, node: NetNode) -> NetValue:
        if value not in self.last:
            perm = behind(len(value.shape))
            found = source_of_channels(self.net, value, node)
            self.last[value] = found or self.net.add("transpose", [value], before=node, perm=perm)
        return self.last[value]

    def reshaped(self, value: NetValue, shape: Sequence[int], node: NetNode) -> NetValue:
        if value.shape == tuple(shape):
            return value
        return self.net.add("reshape", [value], before=node, **exactly(shape))

    def mostly_there(self, values: Sequence[NetValue]) -> bool:
        """Whether at least half of the elements of values are there with channels last."""
        there = sum(v.type.size for v in values if v in self.last)
        return 2 * there >= sum(v.type.size for v in values)

    # ---------------------------------------------------------------- results

    def made(self, node: NetNode, inputs: list[NetValue], **attrs: Any) -> None:
        """Put the node with channels last in the place of a node; its other readers get a transpose."""
        self.gives(node, self.net.add(node.op_name, inputs, before=node, **attrs))

    def gives(self, node: NetNode, made: NetValue) -> None:
        """``made`` is the result of ``node`` with channels last."""
        if all(n == 1 for n in made.shape[1:-1]):  # one pixel: no element moves
            first = self.reshaped(made, node.output.shape, node)
        else:
            first = self.net.add("transpose", [made], before=node, perm=before(len(made.shape)))
        self.net.replace(node.output, first)
        self.last[first] = made


def in_order(shape: tuple[int, ...], ndim: int) -> bool:
    """Whether the elements of an operand of so many dimensions are in one order in both layouts."""
    own = (1,) * (ndim - len(shape)) + shape
    return own[1] == 1 or all(n == 1 for n in own[2:])
