"""What the parser makes of a text: functions of ops in SSA form, attributes as trees.

A name of a value is as in the text, "%0" for the first result of an op and "%0#1" for its second. Attributes
are int, float, bool, str (of a string, a word or a symbol, which keeps its @), list, dict, a type, a Dense,
or an Opaque of what no op here reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ...ir.graph import TensorType

__all__ = [
    "Dense",
    "ForeignType",
    "FuncType",
    "HloOp",
    "Module",
    "OpRegion",
    "Opaque",
    "TextFunc",
    "Type",
]


@dataclass(frozen=True, slots=True)
class ForeignType:
    """A type that graphs do not have: complex, dynamic, quantised elements, tokens, tuples."""

    text: str

    def __str__(self) -> str:
        return self.text


Type = TensorType | ForeignType


@dataclass(frozen=True, slots=True)
class FuncType:
    """Types of arguments and results."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Dense:
    """A dense or dense_resource literal: ``text`` is what is between the angle brackets, ``kind`` the word
    before them; ``type`` its own, where the text says it."""

    kind: str
    text: str
    type: Type | None


@dataclass(frozen=True, slots=True)
class Opaque:
    """An attribute that is skipped, by its first token."""

    text: str


@dataclass(slots=True, eq=False)
class OpRegion:
    """One block: ``args`` (name, type) and its ops, the last of which returns."""

    args: list[tuple[str, Type]]
    ops: list[HloOp]


@dataclass(slots=True, eq=False)
class HloOp:
    """``name`` with its dialect; ``inputs`` and ``outputs`` are names of values, ``types`` those of the
    outputs; ``at``: the token that it begins with. ``words``: bare words of a pretty form in order."""

    name: str
    inputs: list[str]
    outputs: list[str]
    types: list[Type]
    at: int
    attrs: dict[str, Any] = field(default_factory=dict)
    regions: list[OpRegion] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def renamed(self, prefix: str, names: dict[str, str]) -> HloOp:
        """The op with other names: those in ``names``, and ``prefix`` before what it makes itself. ``names``
        learns the latter."""
        inputs = [names.get(name, name) for name in self.inputs]
        outputs = [prefix + name for name in self.outputs]
        names.update(zip(self.outputs, outputs, strict=True))
        regions = [_renamed(region, prefix, names) for region in self.regions]
        return replace(self, inputs=inputs, outputs=outputs, regions=regions)


def _renamed(region: OpRegion, prefix: str, names: dict[str, str]) -> OpRegion:
    own = dict(names)
    args = [(prefix + name, kind) for name, kind in region.args]
    own.update((name, prefix + name) for name, _ in region.args)
    return OpRegion(args, [op.renamed(prefix, own) for op in region.ops])


@dataclass(slots=True, eq=False)
class TextFunc:
    """``args``: (name, type, attributes); ``results``: (type, attributes)."""

    name: str
    args: list[tuple[str, Type, dict[str, Any]]]
    results: list[tuple[Type, dict[str, Any]]]
    body: OpRegion
    private: bool
    at: int


@dataclass(slots=True, eq=False)
class Module:
    """``funcs`` by name, in the order of the text."""

    name: str
    funcs: dict[str, TextFunc]
    attrs: dict[str, Any]
