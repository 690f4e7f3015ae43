"""What rules that look for patterns ask: numbers, factors, and whether anybody else reads a part."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .net import NetNode, NetValue
from .ranges import keeps_range

__all__ = ["Factors", "closed", "factors", "is_close", "only_reader", "other", "with_number"]

_TOLERANCE = 1e-4  # exported constants are float32, or written with few digits (0.044715, 0.7978845)


def is_close(number: float | None, wanted: float) -> bool:
    """Whether a constant is what a formula wants, as exact as exporters write it."""
    return number is not None and math.isclose(number, wanted, rel_tol=_TOLERANCE)


def other(node: NetNode, value: NetValue) -> NetValue | None:
    """The other input of a node of two; None if ``value`` is none of them."""
    if len(node.inputs) != 2 or value not in node.inputs:
        return None
    return node.inputs[1] if node.inputs[0] is value else node.inputs[0]


def only_reader(value: NetValue) -> NetNode | None:
    """The node that alone reads a value, once; None where others do, or the value is an output."""
    return value.users()[0] if value.used_once else None


def with_number(value: NetValue, op: str) -> tuple[NetValue, float] | None:
    """(x, number) of a value that is op(x, number) or, where the op commutes, op(number, x), of x's type."""
    if value.op != op:
        return None
    x, y = value.maker.inputs
    for a, b in ((x, y), (y, x)) if op in ("add", "multiply") else ((x, y),):
        number = b.scalar()
        if number is not None and a.type == value.type:
            return a, number
    return None


def closed(nodes: Iterable[NetNode], root: NetNode) -> bool:
    """Whether only these nodes read what they make, but for the root's results."""
    inside = set(nodes) | {root}
    return all(
        not value.heads and all(user in inside for user in value.readers)
        for node in inside
        if node is not root
        for value in node.outputs
    )


class Factors:
    """A product taken apart: ``number`` times ``values``; ``nodes`` are the multiplies and divides in it. A
    number that may not be moved (ranges.py) is one of the values."""

    number: float

    def __init__(self) -> None:
        self.number = 1.0
        self.values: list[NetValue] = []
        self.nodes: list[NetNode] = []

    def take(self, value: NetValue, root: bool = False) -> None:
        """Add the factors of ``value``; of a product of its own only if it has no other reader, or is the
        ``root``."""
        node = value.producer
        if node is not None and node.op == "multiply" and (root or value.used_once):
            self.nodes.append(node)
            for part in node.inputs:
                self.take(part)
        elif (
            node is not None
            and node.op == "divide"
            and (root or value.used_once)
            and (divisor := _factor(node.inputs[1]))  # neither None nor 0
        ):
            self.nodes.append(node)
            self.number /= divisor
            self.take(node.inputs[0])
        elif (number := _factor(value)) is not None:
            self.number *= number
        else:
            self.values.append(value)


def _factor(value: NetValue) -> float | None:
    """The one number of a constant that may be moved, else None."""
    number = value.scalar()
    return number if number is not None and keeps_range(value.dtype, number) else None


def factors(value: NetValue) -> Factors:
    """The factors of a value; those of parts that have another reader are not taken apart."""
    found = Factors()
    found.take(value, root=True)
    return found
