"""What a converter works with: one op, its typed inputs and attributes, and the tape.

@converter("exponential", "exp")
def _exp(ctx):
    return ctx.op("exp", ctx.input(0))

A converter returns the op's results in order. What it makes is compared with the types that the text
declares.
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
from .converting import Converting
from .literals import constant_of, values_of
from .syntax import Dense, HloOp, OpRegion

__all__ = ["HloContext", "Results", "converter", "table"]

Results = TapeValue | Sequence[TapeValue]
Converter = Callable[["HloContext"], Results]
_TABLE: dict[str, Converter] = {}
_MISSING: Any = object()
_MOST_INTS = 1024  # of an attribute that says one value for all


def converter(*ops: str) -> Callable[[Converter], Converter]:
    """Register a function as the converter of these ops, named without their dialect."""

    def add(function: Converter) -> Converter:
        for op in ops:
            if op in _TABLE:
                raise UnsupportedOpError(f"op {op} has two converters", op=op)
            _TABLE[op] = function
        return function

    return add


def table() -> dict[str, Converter]:
    """Every converter by the op's name without its dialect."""
    return _TABLE


class HloContext(Emitting):
    """One op while it is converted. ``types``: of its results, as the text declares them."""

    def __init__(
        self, importer: Converting, op: HloOp, inputs: Sequence[TapeValue], scope: MutableMapping[str, Any]
    ):
        self.importer, self.tape, self.node, self.inputs = importer, importer.tape, op, inputs
        self.what = op.name
        self.types = [kind for kind in op.types if isinstance(kind, TensorType)]
        self._scope = scope

    def fail(self, reason: str) -> NoReturn:
        """Refuse the op. ``reason`` goes into the list that the user gets."""
        raise UnsupportedOpError(reason, op=self.node.name)

    # ---------------------------------------------------------------- operands and results

    def input(self, index: int) -> TapeValue:
        """An operand. Raises UnsupportedOpError where the op lacks it."""
        if index >= len(self.inputs):
            self.fail(f"operand {index} is missing, it has {len(self.inputs)}")
        return self.inputs[index]

    @property
    def made(self) -> TensorType:
        """The type of its one result."""
        if len(self.types) != 1:
            self.fail(f"it has {len(self.node.types)} results, it should have one")
        return self.types[0]

    def known(self, value: TapeValue, what: str) -> np.ndarray:
        """The values of something. Raises UnknownValueError where a run finds them."""
        array = value.known()
        if array is None:
            raise UnknownValueError(f"{what} must be known before a run", op=self.node.name)
        return array

    def thin(self, x: TapeValue) -> TapeValue:
        """What x was broadcast from, in as many dimensions, so that an elementwise op broadcasts it; or x."""
        return self.importer.thin.get(id(x), (x, x))[0]

    def whole(self, x: TapeValue, shape: Sequence[int]) -> TapeValue:
        """x, which may be thinner, in its full shape."""
        return self.expand(x, tuple(shape))

    # ---------------------------------------------------------------- attributes

    def attr(self, *names: str, default: Any = _MISSING) -> Any:
        """The first of these attributes that is there. Without a default one must be."""
        for name in names:
            if name in self.node.attrs:
                return self.node.attrs[name]
        if default is _MISSING:
            self.fail(f"attribute {names[0]} is missing")
        return default

    def ints(self, *names: str, default: Any = _MISSING) -> list[int]:
        """An attribute of integers: a list, an array, a dense literal of integers, flat."""
        found = self.attr(*names, default=default)
        if isinstance(found, Dense):
            if not isinstance(found.type, TensorType):
                self.fail(f"attribute {names[0]} is no list of integers")
            array = values_of(found, found.type, self.importer.source)
            found = [int(v) for v in array.reshape(-1)] if array.dtype.kind in "iub" else None
            if found is not None and len(found) == 1:  # one value throughout
                count = math.prod(self.attr(*names).type.shape)
                found = found * min(count, _MOST_INTS)
        if found is default:
            return found
        if not isinstance(found, list) or not all(isinstance(v, (int, bool)) for v in found):
            self.fail(f"attribute {names[0]} is no list of integers")
        return [int(v) for v in found]

    def number(self, *names: str, default: Any = _MISSING) -> int:
        """An attribute that is an integer."""
        found = self.attr(*names, default=default)
        if found is not default and not isinstance(found, int):
            self.fail(f"attribute {names[0]} is no integer")
        return found

    def word(self, *names: str, default: Any = _MISSING) -> str:
        """An attribute that is a word or a string."""
        found = self.attr(*names, default=default)
        if found is not default and not isinstance(found, str):
            self.fail(f"attribute {names[0]} is no word")
        return found

    def fields(self, *names: str) -> dict[str, Any]:
        """An attribute with fields, as #stablehlo.gather<...>."""
        found = self.attr(*names)
        if not isinstance(found, dict):
            self.fail(f"attribute {names[0]} has no fields")
        return found

    def field_ints(self, fields: dict[str, Any], name: str) -> list[int]:
        """A list of integers of such an attribute; none where it is not there."""
        found = fields.get(name, [])
        if not isinstance(found, list) or not all(isinstance(v, int) for v in found):
            self.fail(f"{name} is no list of integers")
        return found

    def dims(self, values: Sequence[int], rank: int, name: str) -> list[int]:
        """Different dimensions of a tensor."""
        if len(set(values)) != len(values) or not all(0 <= v < rank for v in values):
            self.fail(f"{name} {list(values)} are no different dimensions of {rank}")
        return list(values)

    def literal(self, dense: Any) -> TapeValue:
        """The constant of a dense literal, of the type of the op's result."""
        if not isinstance(dense, Dense):
            self.fail("its value is no dense literal")
        constant = constant_of(dense, self.made, self.importer.source)
        return TapeValue(self.made, constant=constant)

    # ---------------------------------------------------------------- regions

    def region(self, index: int) -> OpRegion:
        """A region. Raises UnsupportedOpError where the op lacks it."""
        if index >= len(self.node.regions):
            self.fail(f"region {index} is missing")
        return self.node.regions[index]

    def run(self, region: OpRegion, values: Sequence[TapeValue]) -> list[TapeValue]:
        """What a region returns for these values, converted here. Where the region is about scalars and its
        ops are elementwise, values of any equal shape do."""
        return self.importer.region(region, values, self._scope)

    def body_op(self, region: OpRegion) -> str:
        """The name of the one op that a region of two arguments applies to them, without its dialect; "first"
        or "second" where it returns one of them, "" for any other."""
        args, ops = [name for name, _ in region.args], region.ops
        if not ops or len(args) != 2 or len(ops[-1].inputs) != 1:
            return ""
        if len(ops) == 1 and ops[0].inputs[0] in args:
            return ("first", "second")[args.index(ops[0].inputs[0])]
        if len(ops) != 2 or ops[1].inputs != ops[0].outputs or sorted(ops[0].inputs) != sorted(args):
            return ""
        return ops[0].name.rpartition(".")[2]

    def body_compare(self, region: OpRegion) -> str:
        """The direction in which a region compares its two arguments, "" for any other region."""
        args, ops = [name for name, _ in region.args], region.ops
        if len(ops) != 2 or ops[0].inputs != args or ops[1].inputs != ops[0].outputs:
            return ""
        if ops[0].name.rpartition(".")[2] != "compare":
            return ""
        found = ops[0].words[0] if ops[0].words else ops[0].attrs.get("comparison_direction", "")
        return found if isinstance(found, str) else ""
