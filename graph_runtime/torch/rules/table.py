"""The table of lowering rules: how an aten operation is done by ops of the registry.

A rule is a function of the aten op's arguments with tensors as values of an Emitter. The same rules serve
eager operations (each op is launched at once) and compiled graphs (each op becomes a node):

    @rule("addmm")
    def addmm(e, bias, a, b, *, beta=1, alpha=1): return e.op("add", e.op("matmul", a, b), bias)

An Emitter has ``op(name, *values, **attrs)`` and ``scalar(number, dtype)``; a value has ``dtype``, the
runtime's name of it, and ``shape``. A rule that cannot raises Unsupported with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Protocol

from ..counters import Unsupported

__all__ = ["Emitter", "Rule", "find", "rule", "table"]


class Emitter(Protocol):
    """What rules are written against. ``graph``: whether nodes are collected, or done at once; ``narrow``:
    whether 64-bit integers are computed with here, as ``integers``; ``used``: which of the results of a node
    of a graph are read."""

    graph: bool
    narrow: bool
    integers: str
    used: Set[Any]

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        """One op of the registry: its output, or a tuple of them. Raises Unsupported."""

    def scalar(self, number: Any, dtype: str) -> Any:
        """A value of no dimensions."""

    def array(self, values: Any, dtype: str) -> Any:
        """Values that are known: numbers, nested lists, an array."""

    def filled(self, shape: tuple[int, ...], number: Any, dtype: str) -> Any:
        """A value whose elements are all the same."""

    def has(self, name: str, value: Any) -> bool:
        """Whether the device of a value has a kernel for an op of one input."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``indices``: positions of arguments that may be 64-bit integers, because they are indices: rules see
    them as int32. ``wide``: positions of results that are places of elements of an argument, 64-bit integers,
    the rule's int32."""

    body: Callable[..., Any]
    indices: tuple[int, ...] = ()
    wide: tuple[int, ...] = ()


_rules: dict[str, Rule] = {}


def rule(*names: str, indices: tuple[int, ...] = (), wide: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Decorates the rule of the aten operations ``names`` (of all their overloads)."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in _rules:
                raise ValueError(f"two rules for aten::{name}")
            _rules[name] = Rule(body, indices, wide)
        return body

    return decorate


def find(name: str) -> Rule:
    """The rule of aten::name. Raises Unsupported where there is none."""
    found = _rules.get(name)
    if found is None:
        raise Unsupported(f"no rule for aten::{name}")
    return found


def table() -> dict[str, Rule]:
    """All rules by the name of their aten operation."""
    return dict(_rules)
