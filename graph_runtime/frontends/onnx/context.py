"""What a converter works with: one ONNX node, its typed inputs and attributes, and the tape.

@converter("Selu")
def _selu(ctx):
    return ctx.op("selu", ctx.input(0), alpha=ctx.attr("alpha", 1.67326), gamma=ctx.attr("gamma", 1.0507))

A converter returns the node's results in order: a TapeValue, or a tuple of them, in which None is a result
that it cannot make. It reads every attribute that it honours through ``attr``; one that it does not read is
an error, so that no attribute is ever ignored by oversight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...base.dtypes import FLOATS
from ...base.errors import UnsupportedOpError
from ...ir.ops.moving.shape import exactly
from .batch import Batch
from .elements import Element
from .emitting import Emitting
from .tape import Tape, TapeSequence, TapeValue

__all__ = [
    "FLOATS",
    "Context",
    "Converter",
    "Results",
    "UnknownValueError",
    "converter",
    "no_converter",
    "table",
]

Results = TapeValue | TapeSequence | None | tuple[TapeValue | TapeSequence | None, ...]
_MISSING: Any = object()


class UnknownValueError(UnsupportedOpError):
    """A value is needed while the model is converted and known at run time only; ``inputs``: of the graph's
    inputs those that it is computed from. ``value``: of the tape, None where it is inside of a subgraph or a
    size."""

    inputs: tuple[str, ...] = ()
    value: TapeValue | None = None


@dataclass(frozen=True, slots=True)
class Converter:
    """``limits``: what of the ONNX op is not done, for people; "" where all is."""

    op: str
    domain: str
    convert: Callable[[Context], Results]
    limits: str


_TABLE: dict[tuple[str, str], Converter] = {}


_OF_A_MACHINE = ("com.microsoft.nchwc", "com.ms.internal.nhwc")  # domains


def no_converter(domains: Iterable[str]) -> str:
    """What more there is to say of ops of these domains that have no converter; "" for nothing."""
    if not (made := sorted(set(domains) & set(_OF_A_MACHINE))):
        return ""
    return (
        f"; ops of {' and '.join(made)} are what ONNX Runtime's optimizer makes of others for the machine "
        "that it runs on: give the file that was optimized, or have it optimized again with "
        "graph_optimization_level = ORT_ENABLE_EXTENDED"
    )


def converter(*ops: str, limits: str = "", domain: str = "") -> Callable[..., Any]:
    """Register a function as the converter of these ONNX ops."""

    def add(function: Callable[[Context], Results]) -> Callable[[Context], Results]:
        for op in ops:
            if (domain, op) in _TABLE:
                raise UnsupportedOpError(f"ONNX op {op} has two converters", op=op)
            _TABLE[domain, op] = Converter(op, domain, function, limits)
        return function

    return add


def table() -> dict[tuple[str, str], Converter]:
    """Every converter by (domain, op)."""
    return _TABLE


class Context(Emitting):
    """One node while it is converted. ``opset``: the version of the node's domain. ``subgraph(graph, {name:
    value}, step)``: the values of a graph attribute's outputs (families/control.py). ``batch``: how the
    file's batch was changed."""

    inputs: list[TapeValue | None]
    node: Any
    opset: int
    num_outputs: int
    onnx_op: str

    def __init__(
        self,
        tape: Tape,
        node: Any,
        inputs: list[TapeValue | None],
        attrs: dict[str, Any],
        opset: int,
        onnx_op: str,
        num_outputs: int,
        subgraph: Callable[[Any, Mapping[str, TapeValue], str], list[TapeValue]],
        batch: Batch | None = None,
    ):
        self.tape, self.node, self.inputs, self.opset = tape, node, inputs, opset
        self.onnx_op, self.num_outputs, self.subgraph = onnx_op, num_outputs, subgraph
        self.batch, self.what = batch, node.name or onnx_op
        self._attrs = attrs
        self._read: set[str] = set()

    # ---------------------------------------------------------------- the node

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> TapeValue:
        """A required input. Raises UnsupportedOpError where the node lacks it."""
        value = self.optional(index)
        if value is None:
            self.fail(f"input {index} is missing")
        return value

    def optional(self, index: int) -> TapeValue | None:
        """Input ``index``, None where the node leaves it out."""
        return self.inputs[index] if self.has(index) else None

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is used."""
        return index < self.num_outputs and bool(self.node.output[index])

    def attr(self, name: str, default: Any = _MISSING) -> Any:
        """An attribute: int, float, str, list of these, a Constant or a GraphProto. Without a default it is
        required."""
        self._read.add(name)
        if name not in self._attrs and default is _MISSING:
            self.fail(f"attribute {name!r} is missing")
        return self._attrs.get(name, default)

    def unread(self) -> list[str]:
        """Attributes that the converter did not read."""
        return sorted(set(self._attrs) - self._read)

    def ignore(self, *names: str) -> None:
        """Attributes that change no result."""
        self._read |= set(names)

    def fail(self, reason: str, **fields: Any) -> NoReturn:
        """Refuse the node. ``reason`` goes into the list that the user gets."""
        raise UnsupportedOpError(reason, op=self.onnx_op, **fields)

    # ---------------------------------------------------------------- values that must be known

    def value(self, index: int, default: Any = _MISSING) -> np.ndarray:
        """The values of an input, which must be known now; ``default`` where it is not given."""
        if not self.has(index) and default is not _MISSING:
            return default
        return self.values_of(self.input(index), f"input {index}")

    def values_of(self, value: TapeValue, what: str) -> np.ndarray:
        """Raises UnknownValueError where the values are known at run time only, or absent."""
        if value.element is not None:
            self.fail(f"{what} is of {value.dtype}, its values are no numbers")
        array = value.known()
        if array is not None:
            return array
        if value.constant is not None:
            self.fail(
                f"the values of {what} ({value.constant.source}) are needed to convert the node, and "
                f"are {'absent' if value.constant.is_small else 'too many'}"
            )
        inputs = tuple(value.inputs())
        raise UnknownValueError(
            f"{what} must be known before a run, but it is computed from {', '.join(map(repr, inputs))}",
            op=self.onnx_op,
            inputs=inputs,
            value=value,
        )

    def ints(self, index: int, default: Any = _MISSING) -> list[int]:
        """The values of an input of integers, flat."""
        found = self.value(index, default)
        return found if found is default else [int(v) for v in np.asarray(found).reshape(-1)]

    def single(self, index: int, default: Any = _MISSING) -> Any:
        """The value of an input of one element, as a numpy scalar."""
        found = self.value(index, default)
        if found is default:
            return found
        if found.size != 1:
            self.fail(f"input {index} must have one element, it is {self.input(index).type}")
        return found.reshape(-1)[0]

    def axis(self, value: int, rank: int, name: str = "axis") -> int:
        """A non-negative axis."""
        if not -rank <= value < rank:
            self.fail(f"{name} {value} is out of range for {rank} dimensions")
        return value % rank if rank else 0

    def axes(self, values: Iterable[int], rank: int, name: str = "axes") -> list[int]:
        """Non-negative axes, in their order; one named twice, be it once from the back, is refused."""
        given = [int(value) for value in values]
        found = [self.axis(value, rank, name) for value in given]
        if len(set(found)) != len(found):
            self.fail(f"{name} {given} name an axis twice")
        return found

    # ---------------------------------------------------------------- elements

    def stored(self, x: TapeValue) -> TapeValue:
        """What stands for the elements of x, as numbers."""
        if x.element is None:
            return x
        if x.constant is not None:
            return TapeValue(x.type, x.name, x.constant)
        made = self.op("reshape", x, **exactly(x.shape))
        made.element = None
        return made

    def of_element(self, x: TapeValue, element: Element) -> TapeValue:
        """What has been made to stand for elements, as those."""
        made = (
            TapeValue(x.type, constant=x.constant)
            if x.constant
            else self.op("reshape", x, **exactly(x.shape))
        )
        made.element = element
        return made
