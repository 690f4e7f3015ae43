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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ..errors import expect
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
    """What an operation accepts as one tensor of a call: the argument ``name``, or each tensor of a list that
    is the argument. ``dtypes``, ``layouts``, ``memories`` (of TensorMemoryLayout): names separated by spaces,
    "" for all; ``ranks``: all if empty. ``text``: the error's text, in which {dtype}, {layout}, {memory} and
    {rank} are the tensor's; "" for a text that lists what is accepted. ``within``: a layout; the rule is for
    tensors of that layout only."""

    name: str
    dtypes: str = ""
    layouts: str = ""
    memories: str = ""
    ranks: Sequence[int] = ()
    text: str = ""
    within: str = ""

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
        where = f" in {self.within}" if self.within else ""
        return f"{self.name}{where}: {'; '.join(part for part in parts if part)}"

    def fault(self, given: Given) -> str:
        """The error's text for the arguments, "" if they are accepted."""
        value = getattr(given, self.name)
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor) and not self._takes(tensor):
                return self._refusal(tensor)
        return ""

    def _takes(self, x: Tensor) -> bool:
        kinds = _kinds(self)
        if kinds.within and x.layout not in kinds.within:
            return True
        return (
            (not kinds.dtypes or x.dtype in kinds.dtypes)
            and (not kinds.layouts or x.layout in kinds.layouts)
            and (not kinds.memories or _memory(x) in kinds.memories)
            and (not self.ranks or len(x.shape) in self.ranks)
        )

    def _refusal(self, x: Tensor) -> str:
        has = {
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
class Rule:
    """A rule about several arguments. ``says``: the rule in words; ``fault(given)``: the error's text for the
    arguments, "" if they are accepted."""

    says: str
    fault: Callable[[Given], str]


@dataclass(frozen=True)
class Row:
    """What an operation accepts: ``rules`` in the order in which they are checked, and the ``source`` of
    them."""

    rules: tuple[Operand | Rule, ...]
    source: str

    def check(self, given: Given) -> None:
        """Raise RuntimeError, in ttnn's form, for the first rule that the arguments break."""
        for rule in self.rules:
            try:
                text = rule.fault(given)
            except (AttributeError, IndexError, TypeError, ValueError):
                continue  # an argument of another kind: the body says so
            expect(not text, text)


ACCEPTED: dict[str, Row] = {}  # name of an operation, without "ttnn." -> what it accepts


def accepts(names: str, *rules: Operand | Rule, source: str) -> None:
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


_found: dict[Operand, SimpleNamespace] = {}


def _kinds(operand: Operand) -> SimpleNamespace:
    """The sets that the names of an operand's rule stand for; made at the first call."""
    made = _found.get(operand)
    if made is None:
        made = _found[operand] = SimpleNamespace(
            dtypes=frozenset(_members(DataType, operand.dtypes)),
            layouts=frozenset(_members(Layout, operand.layouts)),
            memories=frozenset(_members(TensorMemoryLayout, operand.memories)),
            within=frozenset(_members(Layout, operand.within)),
        )
    return made


def _members(kind: Any, names: str) -> Iterator[Any]:
    return (kind[name] for name in names.split())


def _memory(x: Tensor) -> TensorMemoryLayout:
    return x.memory_config().memory_layout


def _spoken(ranks: Sequence[int]) -> str:
    whole = list(ranks)
    if len(whole) > 2 and whole == list(range(whole[0], whole[-1] + 1)):
        return f"{whole[0]} to {whole[-1]}"
    return " or ".join(map(str, whole))
