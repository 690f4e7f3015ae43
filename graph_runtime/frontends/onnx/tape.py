"""Registry ops as converters emit them: typed at once, computed at once where all is known and small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import KernelError, UnsupportedOpError
from ...ir.documents.draft import OpCall, op_call
from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops import registry
from .budget import Budget
from .elements import STRING, Element, Strings
from .read import check_size

__all__ = ["SizeBound", "Tape", "TapeNode", "TapeSequence", "TapeValue"]

SMALL = 64 * 1024  # bytes of each tensor of an op that is computed here
MOST_FOLDED = 2**24  # flops of an op that is computed here
_MOST_CALLS = 1024  # that are remembered
_MOST_LISTED = 64  # values of an attribute of one of these


@dataclass(eq=False, slots=True)
class TapeValue:
    """A tensor: an input of the graph (neither ``node`` nor ``constant``), a constant, or a node's result.

    ``name``: of an input, or of a constant that has one. ``element``: what its elements are where a graph has
    no dtype for that; ``type`` and ``constant`` are then what stands for them. ``bound``: of a value whose
    size along an axis a run finds; its type says how large it gets.
    """

    type: TensorType
    name: str = ""
    constant: Constant | None = None
    node: TapeNode | None = None
    index: int = 0
    element: Element | None = None
    bound: SizeBound | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        """The name of its element type: a dtype, or that of its element."""
        return self.element.name if self.element else self.type.dtype

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    def known(self) -> np.ndarray | None:
        """The values, None where they are not known before a run, absent, or too many to look at."""
        return None if self.constant is None else self.constant.peek()

    def inputs(self) -> list[str]:
        """Names of the graph's inputs that it is computed from."""
        found, seen, stack = [], set(), [self]
        while stack:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if value.node is not None:
                stack += value.node.inputs
            elif value.constant is None:
                found.append(value.name)
        return sorted(set(found))


@dataclass(frozen=True, slots=True)
class SizeBound:
    """How much of a value along ``axis`` is meant: the first ``count``, an integer that a run finds."""

    count: TapeValue
    axis: int


@dataclass(eq=False, slots=True)
class TapeSequence:
    """A sequence of ONNX: of how many values is known while the model is converted. ``absent``: it stands
    for an optional without a value; one that has a value is that value."""

    values: tuple[TapeValue, ...]
    absent: bool = False
    element = None
    bound = None

    def known(self) -> None:
        """A sequence is no array."""
        return None


@dataclass(eq=False, slots=True)
class TapeNode:
    """A call of a registry op. ``name`` is given when the ONNX node that it stands for is done."""

    call: OpCall
    inputs: tuple[TapeValue, ...]
    outputs: tuple[TapeValue, ...] = ()
    name: str = ""


@dataclass(eq=False, slots=True)
class Tape:
    """Nodes in the order in which they were emitted, and what the file that they are of may grow to.
    ``strings``: the texts of the model. ``has_infinite_grid``: whether a scale of one is infinite or NaN, so
    that what follows may be NaN."""

    strings: Strings = field(default_factory=Strings)
    budget: Budget = field(default_factory=lambda: Budget(0))
    nodes: list[TapeNode] = field(default_factory=list)
    has_infinite_grid: bool = False
    calls: dict[tuple[Any, ...], OpCall] = field(default_factory=dict)

    def array(self, array: Any, dtype: str | None = None, source: str = "a constant") -> TapeValue:
        """A constant with these values; of texts where they are str."""
        array = np.asarray(array, None if dtype in (None, STRING.name) else dtypes.to_numpy(dtype))
        if array.dtype.kind in "OU":
            made = self.array(self.strings.encoded(array, source), source=source)
            made.element = STRING
            return made
        self.budget.room(array.nbytes, source)
        return TapeValue(
            TensorType(dtypes.from_numpy(array.dtype), array.shape), constant=Constant.of(array, source)
        )

    def op(self, op: str, inputs: Sequence[TapeValue], attrs: Mapping[str, Any]) -> tuple[TapeValue, ...]:
        """The results of a registry op. Raises UnsupportedOpError for one that is not registered, GraphError
        for inputs or attributes that it refuses, KernelError for constants that it cannot compute with."""
        call = self._call(op, inputs, attrs)
        element = _moved(op, inputs, attrs)
        results = self._fold(call, inputs) or self._node(call, inputs)
        if element is not None:
            results[0].element = element
        return results

    def _call(self, op: str, inputs: Sequence[TapeValue], attrs: Mapping[str, Any]) -> OpCall:
        """The call, which is one object for all that are equal: a model has hundreds of thousands."""
        types = tuple(value.type for value in inputs)
        key = (op, types, repr(attrs)) if all(map(_is_plain, attrs.values())) else None
        found = self.calls.get(key) if key else None
        if found is not None:
            return found
        self.budget.kind(op)
        call = op_call(op, types, attrs)
        for t in call.made:
            check_size(t, f"op {op}: a result", op=op)
        if key:
            if len(self.calls) >= _MOST_CALLS:
                self.calls.clear()
            self.calls[key] = call
        return call

    def _node(self, call: OpCall, inputs: Sequence[TapeValue]) -> tuple[TapeValue, ...]:
        self.budget.node(call.op)
        node = TapeNode(call, tuple(inputs))
        node.outputs = tuple(TapeValue(t, node=node, index=i) for i, t in enumerate(call.made))
        self.nodes.append(node)
        return node.outputs

    def _fold(self, call: OpCall, inputs: Sequence[TapeValue]) -> tuple[TapeValue, ...] | None:
        constants = [value.constant for value in inputs if value.constant is not None]
        if not inputs or len(constants) < len(inputs) or not self.budget.folds:
            return None
        entry, types, made = registry.require(call.op), [value.type for value in inputs], list(call.made)
        if entry.late:
            return None
        flops = entry.flops(types, made, call.attrs)
        if max(t.nbytes for t in (*types, *made)) > SMALL or flops > MOST_FOLDED:
            return None
        arrays = [array for value in inputs if (array := value.known()) is not None]
        if len(arrays) < len(inputs):
            return None
        if not self.budget.may_fold(sum(t.nbytes for t in made), flops):
            return None
        try:
            results = entry.reference(arrays, call.attrs)
        except KernelError:
            raise
        except Exception as error:  # a reference is written for values that a kernel would take
            raise KernelError(f"op {entry.name}: {error}", op=entry.name) from error
        source = f"{entry.name} of {', '.join(c.source for c in constants)}"[:200]
        return tuple(
            TapeValue(
                t,
                constant=Constant.folded(
                    np.asarray(array), entry.name, call.attrs, *constants, source=source, result=i
                ),
            )
            for i, (t, array) in enumerate(zip(made, results, strict=True))
        )


def _is_plain(value: Any) -> bool:
    """Whether a value of an attribute is all that its repr says."""
    if type(value) in (list, tuple):
        return len(value) <= _MOST_LISTED and all(map(_is_plain, value))
    return type(value) in (int, float, str, bool, type(None))


def _moved(op: str, inputs: Sequence[TapeValue], attrs: Mapping[str, Any]) -> Element | None:
    """What the elements of an op's first result are, None for those of its type. Raises UnsupportedOpError
    for an op that would take what stands for elements as numbers."""
    found = {value.element for value in inputs if value.element is not None}
    if not found:
        return None
    entry = registry.require(op)
    others = entry.moves or ()
    data = {value.element for i, value in enumerate(inputs) if i not in others}
    element = min(found, key=lambda e: e.name)
    plain = attrs.get("reduction") in (None, "none")  # of a scatter
    if data == found and len(found) == 1 and plain:
        if entry.moves is not None:
            return element
        if entry.equality and element.kind != "float":
            return None
    raise UnsupportedOpError(f"{op} takes no elements of {element.name}", op=op, got=element.name)
