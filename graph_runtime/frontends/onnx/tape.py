"""The tape: the registry ops that converters emit. Each is typed at once, and computed at once if its inputs
are known and small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import KernelError, UnsupportedOpError
from ...ir.documents.draft import OpCall, op_call
from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops import registry
from ...ir.value import Value, with_constants
from .budget import Budget
from .elements import STRING, Element, Strings
from .read import check_size

SMALL = 64 * 1024  # most bytes of each tensor of an op that is computed during conversion
MOST_FOLDED = 2**24  # most flops of an op that is computed during conversion
_MOST_CALLS = 1024  # calls that are cached
_MOST_LISTED = 64  # most values of an attribute in a cached call


@dataclass(eq=False, slots=True)
class TapeValue(Value):
    """A tensor: an input of the graph (neither ``node`` nor ``constant``), a constant, or a node's result.

    ``name``: name of an input, and of some constants. ``element``: the element type, if graphs have no dtype
    for it; ``type`` and ``constant`` then describe the numbers that encode the elements. ``bound``: the valid
    size, if only a run finds the size along an axis; ``type`` then has the greatest possible size. ``tape``:
    the tape on which operators emit; the tape of an input is set by the context that reads the input.
    """

    type: TensorType
    name: str = ""
    constant: Constant | None = None
    node: TapeNode | None = None
    index: int = 0
    element: Element | None = None
    bound: SizeBound | None = None
    tape: Tape | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        """Name of the element type: a dtype or an Element."""
        return self.element.name if self.element else self.type.dtype

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Any:
        """Result of an op on the tape; a constant if all inputs are known and small. Raises the errors of
        Tape.op."""
        tape = next(x.tape for x in operands if isinstance(x, TapeValue) and x.tape)
        made = tape.op(op, with_constants(op, operands, tape.constant), attrs)
        return made[0] if len(made) == 1 else made

    def scalar(self, number: Any, dtype: str | None = None) -> TapeValue:
        """A constant on the same tape."""
        if self.tape is None:
            raise UnsupportedOpError(f"{self.name or 'a value'} is on no tape")
        return self.tape.constant(number, dtype or self.dtype)

    def known(self) -> np.ndarray | None:
        """The elements; None if they are not known before a run, absent, or too many to read."""
        return None if self.constant is None else self.constant.peek()

    def inputs(self) -> list[str]:
        """Names of the graph inputs on which the value depends."""
        values = reached([self]).values()
        return sorted({value.name for value in values if value.node is None and value.constant is None})


def reached(values: Iterable[TapeValue]) -> dict[int, TapeValue]:
    """{id: value} of the values and of all values on which they depend."""
    found: dict[int, TapeValue] = {}
    stack = list(values)
    while stack:
        value = stack.pop()
        if id(value) not in found:
            found[id(value)] = value
            stack += value.node.inputs if value.node is not None else ()
    return found


@dataclass(frozen=True, slots=True)
class SizeBound:
    """The valid part of a value. Along ``axis`` only the first ``count`` elements are valid, a number that a
    run finds."""

    count: TapeValue
    axis: int


@dataclass(eq=False, slots=True)
class TapeSequence:
    """A sequence of ONNX, whose length is known while the model is converted. ``absent``: whether the object
    represents an optional without a value. An optional with a value is represented by the value itself."""

    values: tuple[TapeValue, ...]
    absent: bool = False
    element = None
    bound = None

    def known(self) -> None:
        """None: a sequence is not an array."""
        return None


@dataclass(eq=False, slots=True)
class TapeNode:
    """A call of a registry op. ``name``: name of the node, which is set when the conversion of its ONNX node
    ends."""

    call: OpCall
    inputs: tuple[TapeValue, ...]
    outputs: tuple[TapeValue, ...] = ()
    name: str = ""


@dataclass(eq=False, slots=True)
class Tape:
    """Nodes in the order in which they were emitted, and the budget of their file. ``what``: name of the node
    in conversion, for error texts. ``strings``: table of the model's texts. ``has_infinite_grid``: whether
    the scale of a quantization is infinite or NaN, so that later values may be NaN."""

    strings: Strings = field(default_factory=Strings)
    budget: Budget = field(default_factory=lambda: Budget(0))
    nodes: list[TapeNode] = field(default_factory=list)
    has_infinite_grid: bool = False
    what: str = ""
    calls: dict[tuple[Any, ...], OpCall] = field(default_factory=dict)

    def array(self, array: Any, dtype: str | None = None, source: str = "a constant") -> TapeValue:
        """A constant with these values; an array of str becomes numbers of texts."""
        array = np.asarray(array, None if dtype in (None, STRING.name) else dtypes.to_numpy(dtype))
        if array.dtype.kind in "OU":
            made = self.array(self.strings.encoded(array, source), source=source)
            made.element = STRING
            return made
        self.budget.room(array.nbytes, source)
        return TapeValue(
            TensorType(dtypes.from_numpy(array.dtype), array.shape),
            constant=Constant.of(array, source),
            tape=self,
        )

    def constant(self, array: Any, dtype: str | None = None) -> TapeValue:
        """A constant for the node in conversion. Raises UnsupportedOpError if conversion to ``dtype`` would
        change its values."""
        made = self.array(array, dtype, f"a constant of {self.what}")
        if dtypes.is_integer(made.dtype) and np.asarray(array).dtype.kind == "f":
            held = made.known()
            if held is not None and not np.array_equal(array, held):
                raise UnsupportedOpError(f"{self.what} has a number that {dtype} cannot hold", got=array)
        return made

    def op(self, op: str, inputs: Sequence[TapeValue], attrs: Mapping[str, Any]) -> tuple[TapeValue, ...]:
        """Results of a registry op. Raises UnsupportedOpError for an unregistered op, GraphError for inputs
        or attributes that the op refuses, KernelError for constants with which it cannot compute."""
        call = self._call(op, inputs, attrs)
        element = _moved(op, inputs, attrs)
        results = self._fold(call, inputs) or self._node(call, inputs)
        if element is not None:
            results[0].element = element
        return results

    def _call(self, op: str, inputs: Sequence[TapeValue], attrs: Mapping[str, Any]) -> OpCall:
        """The OpCall. Equal calls share one object, because a model may have hundreds of thousands."""
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
        node.outputs = tuple(TapeValue(t, node=node, index=i, tape=self) for i, t in enumerate(call.made))
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
        except Exception as error:  # a reference checks its inputs less than a kernel does
            raise KernelError(f"op {entry.name}: {error}", op=entry.name) from error
        source = f"{entry.name} of {', '.join(c.source for c in constants)}"[:200]
        return tuple(
            TapeValue(
                t,
                constant=Constant.folded(
                    np.asarray(array), entry.name, call.attrs, *constants, source=source, result=i
                ),
                tape=self,
            )
            for i, (t, array) in enumerate(zip(made, results, strict=True))
        )


def _is_plain(value: Any) -> bool:
    """Whether the repr of an attribute's value is complete."""
    if type(value) in (list, tuple):
        return len(value) <= _MOST_LISTED and all(map(_is_plain, value))
    return type(value) in (int, float, str, bool, type(None))


def _moved(op: str, inputs: Sequence[TapeValue], attrs: Mapping[str, Any]) -> Element | None:
    """The Element of an op's first result; None if the result's type is a dtype. Raises UnsupportedOpError
    for an op that would compute with the numbers that encode elements."""
    found = {value.element for value in inputs if value.element is not None}
    if not found:
        return None
    entry = registry.require(op)
    others = entry.moves or ()
    data = {value.element for i, value in enumerate(inputs) if i not in others}
    element = min(found, key=lambda e: e.name)
    plain = attrs.get("reduction") in (None, "none")  # "reduction" is a scatter's attribute
    if data == found and len(found) == 1 and plain:
        if entry.moves is not None:
            return element
        if entry.equality and element.kind != "float":
            return None
    raise UnsupportedOpError(f"{op} does not support elements of {element.name}", op=op, got=element.name)
