"""The sizes that a torch graph leaves open: their symbols, and their values in a call.

sizes = OpenSizes.of(gm)          None without open sizes, or if arguments do not determine all of them
sizes.of_call(args)               the values of the symbols in a call, such as {"s27": 5}
sizes.arguments_at({"s27": 8})    arguments of these sizes, without values, for which the graph is lowered
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from ...rewrite.buckets import Choice, power_of_two, with_room
from .graphs import hint

_Part = int | str  # an axis's summand: a number, or the symbol of an open size


@dataclass(frozen=True)
class OpenSizes:
    """The open sizes of a graph.

    ``metas``: traced values of the graph's arguments.
    ``found``: {symbol: (argument, axis)}; the axis is None for an argument that is a number.
    ``growing``: {symbol: growth}. The growth is 0 for an axis that the graph itself lengthens by a number,
    such as the axis of a cache. It is that number for the axis of another argument, such as a mask, that is
    as long as the lengthened result.
    """

    metas: tuple[Any, ...]
    found: Mapping[str, tuple[int, int | None]]
    growing: Mapping[str, int]

    @classmethod
    def of(cls, gm: torch.fx.GraphModule) -> OpenSizes | None:
        metas = tuple(node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder")
        found: dict[str, tuple[int, int | None]] = {}
        wanted: set[str] = set()
        for number, meta in enumerate(metas):
            for axis, size in _sizes(meta):
                expression = size.node.expr
                wanted |= {str(symbol) for symbol in expression.free_symbols}
                if isinstance(expression, sympy.Symbol):
                    found.setdefault(str(expression), (number, axis))
        by_sizes = (torch.Tensor, torch.SymInt, int, type(None))  # arguments known from their sizes
        if not wanted or wanted - set(found) or not all(isinstance(meta, by_sizes) for meta in metas):
            return None
        return cls(metas, found, _growing(gm, metas))

    @property
    def choices(self) -> dict[str, Choice]:
        """{symbol: rule that chooses the bucket size for a size}."""

        def of(symbol: str) -> Choice:
            more = self.growing.get(symbol)
            return power_of_two if more is None else lambda size: with_room(max(size - more, 1)) + more

        return {symbol: of(symbol) for symbol in self.found}

    def of_call(self, args: Sequence[Any]) -> dict[str, int]:
        """The symbols' values in a call."""
        return {
            symbol: int(args[number] if axis is None else args[number].shape[axis])
            for symbol, (number, axis) in self.found.items()
        }

    def arguments_at(self, sizes: Mapping[str, int]) -> list[Any]:
        """The graph's arguments at given sizes: tensors without values, and numbers."""
        values = {sympy.Symbol(name): size for name, size in sizes.items()}

        def at(size: Any) -> int:
            if not isinstance(size, torch.SymInt):
                return int(size)
            expression = size.node.expr
            return int(expression.subs({s: values[sympy.Symbol(str(s))] for s in expression.free_symbols}))

        return [
            torch.empty([at(n) for n in meta.shape], dtype=meta.dtype, device="meta")
            if isinstance(meta, torch.Tensor)
            else at(meta)
            if isinstance(meta, torch.SymInt)
            else meta
            for meta in self.metas
        ]

    def axes(self, names: Mapping[int, str]) -> dict[str, tuple[tuple[_Part, ...] | str | None, ...]]:
        """{name of an argument: for each axis what _parts returns}, in the form that buckets take; ``names``
        {number of an argument: its name}."""
        return {
            name: tuple(_parts(size) for size in self.metas[number].shape) for number, name in names.items()
        }


def _sizes(meta: Any) -> list[tuple[int | None, torch.SymInt]]:
    if isinstance(meta, torch.SymInt):
        return [(None, meta)] if meta.node.expr.free_symbols else []
    if not isinstance(meta, torch.Tensor):
        return []
    return [
        (axis, size)
        for axis, size in enumerate(meta.shape)
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
    ]


def _parts(size: Any) -> tuple[_Part, ...] | str | None:
    """The size of an axis in the form that buckets take. A size that is one symbol is that symbol. A sum of
    symbols and a positive number, such as s + 1, is the tuple of its summands. Any other size is None."""
    if not isinstance(size, torch.SymInt):
        return None
    expression = size.node.expr
    if isinstance(expression, sympy.Symbol):
        return str(expression)
    if not isinstance(expression, sympy.Add):
        return None
    symbols = [str(part) for part in expression.args if isinstance(part, sympy.Symbol)]
    numbers = [int(part) for part in expression.args if part.is_Integer]
    if len(symbols) + len(numbers) != len(expression.args) or any(n < 1 for n in numbers):
        return None
    return (*symbols, *numbers)


def _growing(gm: torch.fx.GraphModule, metas: Sequence[Any]) -> dict[str, int]:
    """{symbol: growth}. The growth is 0 for an axis that a result has longer by a number; it is that number
    for an argument's axis that was as long as the result when the graph was traced."""
    found: dict[str, int] = {}
    grown: dict[int, int] = {}
    for node in next(iter(reversed(gm.graph.nodes))).all_input_nodes:
        for _, size in _sizes(node.meta.get("val")):
            parts = _parts(size)
            if isinstance(parts, tuple) and len(parts) == 2 and isinstance(parts[1], int):
                found[str(parts[0])] = 0
                grown[hint(size)] = parts[1]
    for meta in metas:
        for _, size in _sizes(meta):
            symbol = _parts(size)
            if isinstance(symbol, str) and hint(size) in grown:
                found.setdefault(symbol, grown[hint(size)])
    return found
