"""Rules that say what an operation of ttnn accepts. A row of a table here (the other modules of this folder)
is an operation's name and its rules; Operation (operations/operation.py) checks them before a body runs.

    accepts(
        "topk",
        Operand("input_tensor", dtypes="BFLOAT16 BFLOAT8_B FLOAT32", layouts="TILE"),
        Rule("k is at most the size of dim", lambda c: "" if c.k <= c.input_tensor.shape[c.dim] else "K ..."),
        source="ttnn/cpp/ttnn/operations/reduction/topk/device/topk_device_operation.cpp",
    )

Rules are those of the release ttnn 0.81.1; ``source`` is the file of tt-metal that has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from ..errors import failed
from ..memory.values import DataType, Layout, TensorMemoryLayout
from ..registry import find
from ..tensors.tensor import Tensor

INTERLEAVED = "INTERLEAVED"
SHARDED = "HEIGHT_SHARDED WIDTH_SHARDED BLOCK_SHARDED ND_SHARDED"
FLOATS = "BFLOAT16 FLOAT32 BFLOAT8_B BFLOAT4_B"
INTEGERS = "INT32 UINT32 UINT16 UINT8"


class Given:
    """The arguments of a call as attributes, by the names of the operation's signature; a name that the
    caller leaves out has its default, or None."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]):
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return self._values.get(name)


@dataclass(frozen=True)
class Operand:
    """What an operation accepts as one tensor of a call: each of the arguments ``name`` (names separated by
    spaces), or each tensor of a list that is the argument. ``dtypes``, ``layouts``, ``memories`` (of
    TensorMemoryLayout): names separated by spaces, "" for all; ``ranks``: all if empty. ``text``: the error's
    text, in which {name}, {dtype}, {layout}, {memory} and {rank} are the tensor's; "" for a text that lists
    what is accepted. ``within``: a layout; the rule is for tensors of that layout only. ``filled``: whether
    the rule is for tensors with elements only."""

    name: str
    dtypes: str = ""
    layouts: str = ""
    memories: str = ""
    ranks: Sequence[int] = ()
    text: str = ""
    within: str = ""
    filled: bool = False

    @property
    def says(self) -> str:
        """The rule in words, for docs and errors."""
        parts = [
            self.dtypes.replace(" ", ", "),
            self.layouts.replace(" ", ", "),
            self.memories.replace(" ", ", "),
        ]
        if self.ranks:
            parts.append(f"rank {_spoken(self.ranks)}")
        where = (f" in {self.within}" if self.within else "") + (" with elements" if self.filled else "")
        return f"{', '.join(self._names)}{where}: {'; '.join(part for part in parts if part)}"

    def fault(self, given: Given) -> str:
        """The error's text for the arguments, "" if they are accepted."""
        for name in self._names:
            value = getattr(given, name)
            if isinstance(value, Tensor):
                if not self._takes(value):
                    return self._refusal(name, value)
            elif isinstance(value, (list, tuple)):
                for one in value:
                    if isinstance(one, Tensor) and not self._takes(one):
                        return self._refusal(name, one)
        return ""

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.name.split())

    @cached_property
    def _kinds(self) -> SimpleNamespace:
        """The sets that the names of the rule stand for."""
        return SimpleNamespace(
            dtypes=frozenset(_members(DataType, self.dtypes)),
            layouts=frozenset(_members(Layout, self.layouts)),
            memories=frozenset(_members(TensorMemoryLayout, self.memories)),
            within=frozenset(_members(Layout, self.within)),
        )

    def _takes(self, x: Tensor) -> bool:
        kinds = self._kinds
        if (kinds.within and x.layout not in kinds.within) or (self.filled and not math.prod(x.shape)):
            return True
        return (
            (not kinds.dtypes or x.dtype in kinds.dtypes)
            and (not kinds.layouts or x.layout in kinds.layouts)
            and (not kinds.memories or _memory(x) in kinds.memories)
            and (not self.ranks or len(x.shape) in self.ranks)
        )

    def _refusal(self, name: str, x: Tensor) -> str:
        has = {
            "name": name,
            "dtype": f"DataType::{x.dtype.name}",
            "layout": f"Layout::{x.layout.name}",
            "memory": f"TensorMemoryLayout::{_memory(x).name}",
            "rank": len(x.shape),
        }
        if self.text:
            return self.text.format(**has)
        return (
            f"It takes {self.says}, got {has['dtype']}, {has['layout']}, {has['memory']}, rank {has['rank']}"
        )


@dataclass(frozen=True)
class Mix:
    """Which types tensors of a call may have beside each other: the arguments ``names`` (separated by spaces)
    that are tensors have the type of the first of them, or both types are in one of the ``groups`` (names
    separated by spaces). ``text``: the error's text, in which {a} and {b} are two types that do not mix."""

    names: str
    groups: tuple[str, ...] = ()
    text: str = "Mixed dtype is not supported: {a} and {b}"

    @property
    def says(self) -> str:
        """The rule in words, for docs and errors."""
        several = [" ".join(group.split()).replace(" ", ", ") for group in self.groups]
        mixed = "".join(f", or of {one}" for one in several)
        return f"{self.names.replace(' ', ', ')}: one type{mixed}"

    def fault(self, given: Given) -> str:
        """The error's text for the arguments, "" if they are accepted."""
        first = None
        for name in self._names:
            value = getattr(given, name)
            if isinstance(value, Tensor):
                first = first or value.dtype
                if not self.takes(first, value.dtype):
                    return self.text.format(a=f"DataType::{first.name}", b=f"DataType::{value.dtype.name}")
        return ""

    def takes(self, a: DataType, b: DataType) -> bool:
        """Whether the types mix."""
        return a is b or any(a in group and b in group for group in self._sets)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.names.split())

    @cached_property
    def _sets(self) -> tuple[frozenset[DataType], ...]:
        return tuple(frozenset(_members(DataType, group)) for group in self.groups)


@dataclass(frozen=True)
class Rule:
    """A rule about several arguments. ``says``: the rule in words; ``fault(given)``: the error's text for the
    arguments, "" if they are accepted."""

    says: str
    fault: Callable[[Given], str]


AnyRule = Operand | Mix | Rule


@dataclass(frozen=True)
class Row:
    """What an operation accepts: ``rules`` in the order in which they are checked, and the ``source`` of
    them."""

    rules: tuple[AnyRule, ...]
    source: str

    def check(self, given: Given) -> None:
        """Raise RuntimeError, in ttnn's form, for the first rule that the arguments break."""
        for rule in self.rules:
            try:
                text = rule.fault(given)
            except (AttributeError, IndexError, TypeError, ValueError):
                continue  # an argument of another kind: the body says so
            if text:
                raise failed(text)


ACCEPTED: dict[str, Row] = {}  # name of an operation, without "ttnn." -> what it accepts


def accepts(names: str, *rules: AnyRule, source: str) -> None:
    """Add the same row for each of the ``names``, which spaces separate. Raises ValueError for a name that
    has a row."""
    row = Row(rules, source)
    for name in names.split():
        if name in ACCEPTED:
            raise ValueError(f"ttnn.{name} has a row of what it accepts: add the rules there")
        ACCEPTED[name] = row


def ttnn_accepts(name: str) -> str:
    """The rules of a function, a line each, then their source. ``name`` may begin with "ttnn."; raises
    InputError, with similar names, for an unknown one."""
    operation = find(name)
    row = ACCEPTED.get(operation.name)
    if row is None:
        return f"{operation.python_fully_qualified_name}: no rules of its own"
    lines = [f"- {rule.says}" for rule in row.rules]
    return "\n".join([f"{operation.python_fully_qualified_name} accepts", *lines, f"source: {row.source}"])


def _members(kind: Any, names: str) -> Iterator[Any]:
    return (kind[name] for name in names.split())


def _memory(x: Tensor) -> TensorMemoryLayout:
    return x.memory_config().memory_layout


def _spoken(ranks: Sequence[int]) -> str:
    whole = list(ranks)
    if len(whole) > 2 and whole == list(range(whole[0], whole[-1] + 1)):
        return f"{whole[0]} to {whole[-1]}"
    return " or ".join(map(str, whole))
