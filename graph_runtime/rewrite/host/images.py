"""Values in channels-last form, while channels_last visits a graph: for a value NC.. of three dimensions or
more, the same value as N..C."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...ir.ops.moving.shape import exactly
from ..net import Net, NetNode, NetValue
from ..neutral import source_of_channels


def behind(ndim: int) -> list[int]:
    """The permutation that moves channels, dimension 1, to the end."""
    return [0, *range(2, ndim), 1]


def before(ndim: int) -> list[int]:
    """The inverse of behind()."""
    return [0, ndim - 1, *range(1, ndim - 1)]


def turned_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with the channels last."""
    return (shape[0], *shape[2:], shape[1])


def axis(axis: int, ndim: int) -> int:
    """The index, with channels last, of a dimension given with channels first."""
    return behind(ndim).index(axis % ndim)


class Images:
    """Values that exist with their channels last, while nodes are visited in order."""

    def __init__(self, net: Net, windows: Collection[str] = ()):
        self.net = net
        self.windows = windows  # names of convolutions that do not use Winograd's tiles
        self.last: dict[NetValue, NetValue] = {}  # {value NC..: the same value as N..C}
        self.convolutions: list[NetNode] = []

    # ---------------------------------------------------------------- values

    def beside(self, value: NetValue, shape: tuple[int, ...]) -> bool:
        """Whether a node can read an operand next to a channels-last image of ``shape``: the operand is an
        image, too, or its elements have the same order in both layouts."""
        return value.shape == shape or value in self.last or in_order(value.shape, len(shape))

    def laid_out(self, value: NetValue, node: NetNode, shape: tuple[int, ...]) -> NetValue:
        """An operand of a node on images of ``shape``, in channels-last form."""
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
        """Whether at least half of the values' elements exist in channels-last form."""
        there = sum(v.type.size for v in values if v in self.last)
        return 2 * there >= sum(v.type.size for v in values)

    # ---------------------------------------------------------------- results

    def made(self, node: NetNode, inputs: list[NetValue], **attrs: Any) -> None:
        """Replace a node by the same op with channels last. Readers that need channels first get a
        transpose."""
        self.gives(node, self.net.add(node.op_name, inputs, before=node, **attrs))

    def gives(self, node: NetNode, made: NetValue) -> None:
        """Register ``made`` as the result of ``node`` with channels last."""
        if all(n == 1 for n in made.shape[1:-1]):  # one pixel: its elements stay in order
            first = self.reshaped(made, node.output.shape, node)
        else:
            first = self.net.add("transpose", [made], before=node, perm=before(len(made.shape)))
        self.net.replace(node.output, first)
        self.last[first] = made


def in_order(shape: tuple[int, ...], ndim: int) -> bool:
    """Whether the elements of an operand with ``ndim`` dimensions have the same order in both layouts."""
    own = (1,) * (ndim - len(shape)) + shape
    return own[1] == 1 or all(n == 1 for n in own[2:])
