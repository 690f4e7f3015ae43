"""Registry ops as converters emit them: typed at once, computed at once where all is known and small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import KernelError
from ...ir.documents.draft import OpCall, op_call
from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops import registry
from .budget import Budget
from .read import check_size

__all__ = ["SizeBound", "Tape", "TapeNode", "TapeSequence", "TapeValue"]

SMALL = 64 * 1024  # bytes of each tensor of an op that is computed here
MOST_FOLDED = 2**24  # flops of an op that is computed here


@dataclass(eq=False, slots=True)
class TapeValue:
    """A tensor: an input of the graph (neither ``node`` nor ``constant``), a constant, or a node's result.

    ``name``: of an input, or of a constant that has one. ``bits``: 4 where it holds integers of so many bits
    as int8 or uint8, which few ops may be given; 0 for all others. ``bound``: of a value whose size along an
    axis a run finds; its type says how large it gets.
    """

    type: TensorType
    name: str = ""
    constant: Constant | None = None
    node: TapeNode | None = None
    index: int = 0
    bits: int = 0
    bound: SizeBound | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

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
    bits = 0
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
    """Nodes in the order in which they were emitted, and what the file that they are of may grow to."""

    budget: Budget = field(default_factory=lambda: Budget(0))
    nodes: list[TapeNode] = field(default_factory=list)

    def array(self, array: Any, dtype: str | None = None, source: str = "a constant") -> TapeValue:
        """A constant with these values."""
        array = np.asarray(array, None if dtype is None else dtypes.to_numpy(dtype))
        self.budget.room(array.nbytes, source)
        return TapeValue(
            TensorType(dtypes.from_numpy(array.dtype), array.shape), constant=Constant.of(array, source)
        )

    def op(self, op: str, inputs: Sequence[TapeValue], attrs: Mapping[str, Any]) -> tuple[TapeValue, ...]:
        """The results of a registry op. Raises UnsupportedOpError for one that is not registered, GraphError
        for inputs or attributes that it refuses, KernelError for constants that it cannot compute with."""
        call = op_call(op, [value.type for value in inputs], attrs)
        for t in call.made:
            check_size(t, f"op {op}: a result", op=op)
        folded = self._fold(call, inputs)
        if folded is not None:
            return folded
        self.budget.node(op)
        node = TapeNode(call, tuple(inputs))
        node.outputs = tuple(TapeValue(t, node=node, index=i) for i, t in enumerate(call.made))
        self.nodes.append(node)
        return node.outputs

    def _fold(self, call: OpCall, inputs: Sequence[TapeValue]) -> tuple[TapeValue, ...] | None:
        constants = [value.constant for value in inputs if value.constant is not None]
        if not inputs or len(constants) < len(inputs):
            return None
        entry, types, made = registry.require(call.op), [value.type for value in inputs], list(call.made)
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
            TapeValue(t, constant=Constant.of(np.asarray(array), source))
            for t, array in zip(made, results, strict=True)
        )
