"""Helpers of rules that look for patterns: numbers, factors, and readers of a value."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .net import NetNode, NetValue
from .ranges import keeps_range

_TOLERANCE = 1e-4  # relative: exported constants are float32, or have few digits (0.044715)


def is_close(number: float | None, wanted: float) -> bool:
    """Whether a constant equals a formula's number, within the precision with which exporters write it."""
    return number is not None and math.isclose(number, wanted, rel_tol=_TOLERANCE)


def other(node: NetNode, value: NetValue) -> NetValue | None:
    """The input of a node with two inputs that is not ``value``; None if ``value`` is neither of them."""
    if len(node.inputs) != 2 or value not in node.inputs:
        return None
    return node.inputs[1] if node.inputs[0] is value else node.inputs[0]


def only_reader(value: NetValue) -> NetNode | None:
    """The node that alone reads a value, by one input. None if there are other readers, or if the value is an
    output."""
    return value.users()[0] if value.used_once else None


def with_number(value: NetValue, op: str) -> tuple[NetValue, float] | None:
    """(x, number) of a value of x's type that is op(x, number), or op(number, x) if the op commutes; None for
    other values."""
    if value.op != op:
        return None
    x, y = value.maker.inputs
    for a, b in ((x, y), (y, x)) if op in ("add", "multiply") else ((x, y),):
        number = b.scalar()
        if number is not None and a.type == value.type:
            return a, number
    return None


def closed(nodes: Iterable[NetNode], root: NetNode) -> bool:
    """Whether only these nodes read each other's results; the root's result may have other readers."""
    inside = set(nodes) | {root}
    return all(
        not value.heads and all(user in inside for user in value.readers)
        for node in inside
        if node is not root
        for value in node.outputs
    )


class Factors:
    """A product as ``number`` times the ``values``. ``nodes``: the multiplies and divides that compute it. A
    number that may not be moved (ranges.py) counts as one of the values."""

    number: float

    def __init__(self) -> None:
        self.number = 1.0
        self.values: list[NetValue] = []
        self.nodes: list[NetNode] = []

    def take(self, value: NetValue, root: bool = False) -> None:
        """Multiply the factors of ``value`` into this product. A product among them is split only if it has
        no other reader, or if it is the ``root``."""
        node = value.producer
        if node is not None and node.op == "multiply" and (root or value.used_once):
            self.nodes.append(node)
            for part in node.inputs:
                self.take(part)
        elif (
            node is not None
            and node.op == "divide"
            and (root or value.used_once)
            and (divisor := _factor(node.inputs[1]))  # the divisor is neither None nor 0
        ):
            self.nodes.append(node)
            self.number /= divisor
            self.take(node.inputs[0])
        elif (number := _factor(value)) is not None:
            self.number *= number
        else:
            self.values.append(value)


def _factor(value: NetValue) -> float | None:
    """The number of a constant that may be moved; None for other values."""
    number = value.scalar()
    return number if number is not None and keeps_range(value.dtype, number) else None


def factors(value: NetValue) -> Factors:
    """The factors of a value; a part that has other readers is not split."""
    found = Factors()
    found.take(value, root=True)
    return found
