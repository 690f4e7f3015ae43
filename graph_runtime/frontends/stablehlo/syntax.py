"""Data structures for a parsed text: functions of ops in SSA form, and attributes as trees.

A value has its name in the text: "%0" is the first result of an op, "%0#1" the second. An attribute is an
int, a float, a bool, a str (for a string, a word, or a symbol with its @), a list, a dict, a type, a Dense,
or an Opaque, which no converter reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ...ir.graph import TensorType


@dataclass(frozen=True, slots=True)
class ForeignType:
    """A type that graphs lack: complex, dynamic or quantised tensors, tokens, tuples."""

    text: str

    def __str__(self) -> str:
        return self.text


Type = TensorType | ForeignType


@dataclass(frozen=True, slots=True)
class FuncType:
    """Types of a function's arguments and results."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Dense:
    """A dense or dense_resource literal. ``text``: characters between the angle brackets. ``kind``: the word
    before the brackets. ``type``: type of the value; None if the text gives none."""

    kind: str
    text: str
    type: Type | None


@dataclass(frozen=True, slots=True)
class Opaque:
    """An attribute that was skipped. ``text``: its first tokens."""

    text: str


@dataclass(slots=True, eq=False)
class OpRegion:
    """A region of one block. ``args``: (name, type) of each argument. ``ops``: ops of the block; the last op
    returns."""

    args: list[tuple[str, Type]]
    ops: list[HloOp]


@dataclass(slots=True, eq=False)
class HloOp:
    """An op. ``name``: name of the op, with its dialect. ``inputs``, ``outputs``: names of values. ``types``:
    types of the outputs. ``at``: number of the op's first token. ``words``: bare words of a pretty form, in
    order."""

    name: str
    inputs: list[str]
    outputs: list[str]
    types: list[Type]
    at: int
    attrs: dict[str, Any] = field(default_factory=dict)
    regions: list[OpRegion] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def renamed(self, prefix: str, names: dict[str, str]) -> HloOp:
        """The op with other names of values. A name in ``names`` is replaced. The names of the op's own
        results get ``prefix``, and are added to ``names``."""
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
    """A function. ``args``: (name, type, attributes) of each argument; ``results``: (type, attributes) of
    each result."""

    name: str
    args: list[tuple[str, Type, dict[str, Any]]]
    results: list[tuple[Type, dict[str, Any]]]
    body: OpRegion
    private: bool
    at: int


@dataclass(slots=True, eq=False)
class Module:
    """A parsed module. ``funcs``: {name: function}, in the order of the text."""

    name: str
    funcs: dict[str, TextFunc]
    attrs: dict[str, Any]
