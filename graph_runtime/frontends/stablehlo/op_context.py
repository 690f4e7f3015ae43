"""Context of a converter: one op, its typed inputs and attributes, and the tape.

@converter("exponential", "exp")
def _exp(ctx):
    return ctx.op("exp", ctx.input(0))

A converter returns the op's results in order. Their types are compared with those that the text declares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...base.errors import UnsupportedOpError
from ...ir.graph import TensorType
from ..onnx.context import UnknownValueError
from ..onnx.emitting import Emitting
from ..onnx.tape import TapeValue
from .literals import constant_of, values_of
from .syntax import Dense, HloOp, OpRegion
from .walk import Converting

Results = TapeValue | Sequence[TapeValue]
Converter = Callable[["HloContext"], Results]
_TABLE: dict[str, Converter] = {}
_MISSING: Any = object()
_MOST_INTS = 1024  # most elements of an attribute that repeats one value


def converter(*ops: str) -> Callable[..., Any]:
    """Register a function as the converter of these ops, whose names are without dialect."""

    def add(function: Converter) -> Converter:
        for op in ops:
            if op in _TABLE:
                raise UnsupportedOpError(f"op {op} has two converters", op=op)
            _TABLE[op] = function
        return function

    return add


def table() -> dict[str, Converter]:
    """All converters, by the op's name without dialect."""
    return _TABLE


class HloContext(Emitting):
    """An op during its conversion. ``types``: types of its results as the text declares them."""

    def __init__(
        self, importer: Converting, op: HloOp, inputs: Sequence[TapeValue], scope: MutableMapping[str, Any]
    ):
        self.importer, self.tape, self.node = importer, importer.tape, op
        self._inputs, self._taken = inputs, 0
        self.what = op.name
        self.types = [kind for kind in op.types if isinstance(kind, TensorType)]
        self._scope = scope
        self.emits(inputs)

    def fail(self, reason: str) -> NoReturn:
        """Refuse the op; ``reason`` appears in the error that lists all refused ops."""
        raise UnsupportedOpError(reason, op=self.node.name)

    # ---------------------------------------------------------------- operands and results

    @property
    def inputs(self) -> Sequence[TapeValue]:
        """All operands, for an op that takes any number of them."""
        self._taken = len(self._inputs)
        return self._inputs

    def input(self, index: int) -> TapeValue:
        """An operand. Raises UnsupportedOpError if the op lacks it."""
        if index >= len(self._inputs):
            self.fail(f"operand {index} is missing: it has only {len(self._inputs)}")
        self._taken = max(self._taken, index + 1)
        return self._inputs[index]

    def check_taken(self) -> None:
        """Raise UnsupportedOpError for an operand after the last that the converter took."""
        if self._taken < len(self._inputs):
            self.fail(f"it has {len(self._inputs)} operands, but takes {self._taken}")

    @property
    def made(self) -> TensorType:
        """Type of the op's only result."""
        if len(self.types) != 1:
            self.fail(f"it has {len(self.node.types)} results, but should have one")
        return self.types[0]

    def known(self, value: TapeValue, what: str) -> np.ndarray:
        """The elements of a value, which must be known at conversion. Raises UnknownValueError if only a run
        finds them."""
        array = value.known()
        if array is None:
            raise UnknownValueError(f"{what} must be known before a run", op=self.node.name)
        return array

    def thin(self, x: TapeValue) -> TapeValue:
        """The value from which x was broadcast, with as many dimensions as x, so that ops broadcast it
        themselves; x if it was not broadcast."""
        return self.importer.thin.get(id(x), (x, x))[0]

    # ---------------------------------------------------------------- attributes

    def attr(self, *names: str, default: Any = _MISSING) -> Any:
        """The first of these attributes that exists, or the default. Raises UnsupportedOpError if there is
        neither."""
        for name in names:
            if name in self.node.attrs:
                return self.node.attrs[name]
        if default is _MISSING:
            self.fail(f"attribute {names[0]} is missing")
        return default

    def ints(self, *names: str, default: Any = _MISSING) -> list[int]:
        """An attribute of integers (a list, an array or a dense literal), as a flat list."""
        found = self.attr(*names, default=default)
        if isinstance(found, Dense):
            if not isinstance(found.type, TensorType):
                self.fail(f"attribute {names[0]} is not a list of integers")
            array = values_of(found, found.type, self.importer.source)
            found = [int(v) for v in array.reshape(-1)] if array.dtype.kind in "iub" else None
            if found is not None and len(found) == 1:  # one value stands for all elements
                count = math.prod(self.attr(*names).type.shape)
                found = found * min(count, _MOST_INTS)
        if found is default:
            return found
        if not isinstance(found, list) or not all(isinstance(v, (int, bool)) for v in found):
            self.fail(f"attribute {names[0]} is not a list of integers")
        return [int(v) for v in found]

    def _typed(self, names: tuple[str, ...], kind: type, what: str, default: Any = _MISSING) -> Any:
        found = self.attr(*names, default=default)
        if found is not default and not isinstance(found, kind):
            self.fail(f"attribute {names[0]} {what}")
        return found

    def number(self, *names: str, default: Any = _MISSING) -> int:
        """An attribute that is a single integer."""
        return self._typed(names, int, "is not an integer", default)

    def word(self, *names: str, default: Any = _MISSING) -> str:
        """An attribute that is a word or a string."""
        return self._typed(names, str, "is not a word", default)

    def fields(self, *names: str) -> dict[str, Any]:
        """An attribute with fields, such as #stablehlo.gather<...>."""
        return self._typed(names, dict, "has no fields")

    def field_ints(self, fields: dict[str, Any], name: str) -> list[int]:
        """A list of integers among an attribute's fields; empty if the field is missing."""
        found = fields.get(name, [])
        if not isinstance(found, list) or not all(isinstance(v, int) for v in found):
            self.fail(f"{name} is not a list of integers")
        return found

    def dims(self, values: Sequence[int], rank: int, name: str) -> list[int]:
        """Dimensions of a tensor; they must exist and be different."""
        if len(set(values)) != len(values) or not all(0 <= v < rank for v in values):
            self.fail(f"{name} {list(values)} must be different dimensions below {rank}")
        return list(values)

    def literal(self, dense: Any) -> TapeValue:
        """The constant of a dense literal, with the type of the op's result."""
        if not isinstance(dense, Dense):
            self.fail("its value is not a dense literal")
        constant = constant_of(dense, self.made, self.importer.source)
        return TapeValue(self.made, constant=constant, tape=self.tape)

    # ---------------------------------------------------------------- regions

    def region(self, index: int) -> OpRegion:
        """A region. Raises UnsupportedOpError if the op lacks it."""
        if index >= len(self.node.regions):
            self.fail(f"region {index} is missing")
        return self.node.regions[index]

    def run(self, region: OpRegion, values: Sequence[TapeValue]) -> list[TapeValue]:
        """Values that a region returns for the arguments ``values``. A region of elementwise ops on scalars
        also accepts tensors of equal shapes."""
        return self.importer.region(region, values, self._scope)

    def body_op(self, region: OpRegion) -> str:
        """Name, without dialect, of the only op of a region, if the op is applied to the region's two
        arguments; "first" or "second" if the region returns that argument; "" for any other region."""
        args, ops = [name for name, _ in region.args], region.ops
        if not ops or len(args) != 2 or len(ops[-1].inputs) != 1:
            return ""
        if len(ops) == 1 and ops[0].inputs[0] in args:
            return ("first", "second")[args.index(ops[0].inputs[0])]
        if len(ops) != 2 or ops[1].inputs != ops[0].outputs or sorted(ops[0].inputs) != sorted(args):
            return ""
        return ops[0].name.rpartition(".")[2]

    def body_compare(self, region: OpRegion) -> str:
        """Direction of the comparison, such as "GT", if a region compares its two arguments; "" for any other
        region."""
        args, ops = [name for name, _ in region.args], region.ops
        if len(ops) != 2 or ops[0].inputs != args or ops[1].inputs != ops[0].outputs:
            return ""
        if ops[0].name.rpartition(".")[2] != "compare":
            return ""
        found = ops[0].words[0] if ops[0].words else ops[0].attrs.get("comparison_direction", "")
        return found if isinstance(found, str) else ""
