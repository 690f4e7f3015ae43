"""Context of a converter: one ONNX node, its typed inputs and attributes, and the tape.

@converter("Selu")
def _selu(ctx):
    return ctx.op("selu", ctx.input(0), alpha=ctx.attr("alpha", 1.67326), gamma=ctx.attr("gamma", 1.0507))

A converter returns the node's results in order: a TapeValue, or a tuple of them, with None for a result that
it cannot produce. It reads through ``attr`` every attribute that it honours; an attribute that is never read
is an error, so that none is ignored by oversight.

A converter that needs only inputs and attributes can be written as a function of them:

@function("PRelu")
def _prelu(x, slope):
    return where(x < 0, x * slope, x)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...base.errors import GraphError, UnsupportedOpError, nearest
from ...ir.ops.moving.shape import exactly
from .attributes import check_inputs
from .batch import Batch
from .elements import Element
from .emitting import Emitting
from .tape import Tape, TapeSequence, TapeValue

Results = TapeValue | TapeSequence | None | tuple[TapeValue | TapeSequence | None, ...]
_MISSING: Any = object()
# {type of an attribute's default: (kinds of attributes that are accepted, name of these kinds in errors)}
_KINDS: dict[type, tuple[type, str]] = {
    bool: (int, "an integer"),
    int: (int, "an integer"),
    float: (float, "a float"),
    str: (str, "a string"),
    list: (list, "a list"),
    tuple: (list, "a list"),
}
_BY_NAME = {kind.__name__: kind for kind in _KINDS}  # kinds by the names that annotations use


class UnknownValueError(UnsupportedOpError):
    """The conversion needs a value that only a run computes. ``inputs``: graph inputs on which the value
    depends. ``value``: the needed value on the tape; None if a size is needed, or a value inside a subgraph.
    """

    inputs: tuple[str, ...] = ()
    value: TapeValue | None = None


@dataclass(frozen=True, slots=True)
class Converter:
    """A registered converter. ``limits``: the cases of the ONNX op that are unsupported, as text for users;
    "" if there are none."""

    op: str
    domain: str
    convert: Callable[[Context], Results]
    limits: str


_TABLE: dict[tuple[str, str], Converter] = {}


_MOST_MEANT = 5  # number of unknown ops for which similar names are suggested
_OF_A_MACHINE = ("com.microsoft.nchwc", "com.ms.internal.nhwc")  # domains of machine-specific ops


def no_converter(ops: Iterable[tuple[str, str]]) -> str:
    """Advice on ops without a converter, with similar names and domains; "" if there is no advice. ``ops``:
    pairs (domain, name)."""
    keys = sorted(set(ops))
    text = "".join(_meant(*key) for key in keys[:_MOST_MEANT])
    if not (made := sorted({domain for domain, _ in keys} & set(_OF_A_MACHINE))):
        return text
    return text + (
        f"; ONNX Runtime's optimizer has written ops of {' and '.join(made)} for the machine "
        "on which it ran: use the file from before that, or optimize again with "
        "graph_optimization_level = ORT_ENABLE_EXTENDED"
    )


def _meant(domain: str, op: str) -> str:
    """Suggestion for an unknown op. It names the domains that have an op of this name; if there are none, an
    op of the same domain with a similar name; else a domain with a similar name."""
    if domains := sorted(of for of, name in _TABLE if name == op):
        return f" ({op} is an op of {' and '.join(of or 'the default domain' for of in domains)})"
    names = [name for of, name in _TABLE if of == domain]
    if (close := nearest(op, names)) is not None:
        return f" (did you mean {'.'.join(filter(None, (domain, close)))!r}?)"
    close = nearest(domain, [] if names else sorted({of for of, _ in _TABLE if of}))
    return f" (did you mean the domain {close!r}?)" if close is not None else ""


def converter(*ops: str, limits: str = "", domain: str = "") -> Callable[..., Any]:
    """Register a function as the converter of these ONNX ops."""

    def add(function: Callable[[Context], Results]) -> Callable[[Context], Results]:
        for op in ops:
            if (domain, op) in _TABLE:
                raise UnsupportedOpError(f"ONNX op {op} has two converters", op=op)
            _TABLE[domain, op] = Converter(op, domain, function, limits)
        return function

    return add


def function(*ops: str, limits: str = "", domain: str = "") -> Callable[..., Any]:
    """Register a function of values as the converter of these ONNX ops. Its positional arguments are the
    inputs, an optional input with the default None; its keyword arguments are the attributes."""

    def add(made_of: Callable[..., TapeValue]) -> Callable[..., TapeValue]:
        parameters = inspect.signature(made_of).parameters.values()
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        arguments = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        defaults = {
            p.name: _BY_NAME.get(p.annotation, _MISSING) if p.default is p.empty else p.default
            for p in keywords
        }
        takes_all = len(keywords) + len(arguments) < len(parameters)

        def convert(ctx: Context) -> Results:
            attrs = {name: ctx.attr(name, default) for name, default in defaults.items()}
            if takes_all:
                return made_of(*(ctx.input(i) for i in range(len(ctx.inputs))), **attrs)
            check_inputs(ctx.onnx_op, [x is not None for x in ctx.inputs], len(arguments))
            read = (ctx.input if p.default is p.empty else ctx.optional for p in arguments)
            return made_of(*(each(i) for i, each in enumerate(read)), **attrs)

        converter(*ops, limits=limits, domain=domain)(convert)
        return made_of

    return add


def table() -> dict[tuple[str, str], Converter]:
    """All converters by (domain, op)."""
    return _TABLE


@dataclass(eq=False)
class Context(Emitting):
    """A node during its conversion. ``opset``: version of the node's domain. ``subgraph(graph, {name: value},
    step)`` returns the values of a graph attribute's outputs (families/control.py). ``batch``: change of the
    file's batch, None if it is unchanged."""

    tape: Tape
    node: Any
    inputs: list[TapeValue | None]
    attrs: dict[str, Any]
    opset: int
    onnx_op: str
    num_outputs: int
    subgraph: Callable[[Any, Mapping[str, TapeValue], str], list[TapeValue]]
    batch: Batch | None = None

    def __post_init__(self) -> None:
        self.what = self.node.name or self.onnx_op
        self._read: set[str] = set()
        self.emits(self.inputs)

    # ---------------------------------------------------------------- the node

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> TapeValue:
        """A required input. Raises UnsupportedOpError if the node lacks it."""
        value = self.optional(index)
        if value is None:
            self.fail(f"input {index} is missing")
        return value

    def optional(self, index: int) -> TapeValue | None:
        """Input ``index``; None if the node omits it."""
        return self.inputs[index] if self.has(index) else None

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is used by the file."""
        return index < self.num_outputs and bool(self.node.output[index])

    def attr(self, name: str, default: Any = _MISSING) -> Any:
        """Value of an attribute: an int, float or str, a list of these, a Constant or a GraphProto. An
        attribute is required if there is no default, or if ``default`` is a type. Raises GraphError if the
        attribute's type is not the default's; an integer is accepted for a float."""
        self._read.add(name)
        is_required = default is _MISSING or isinstance(default, type)
        if name not in self.attrs:
            return self.fail(f"attribute {name!r} is missing") if is_required else default
        value = self.attrs[name]
        kind, words = _KINDS.get(default if is_required else type(default), (object, ""))
        if kind is float and isinstance(value, int):
            return float(value)
        if not isinstance(value, kind):
            text = f"attribute {name!r} is {value!r:.60}, but {self.onnx_op} takes {words}"
            raise GraphError(text, op=self.onnx_op, got=value)
        return value

    def unread(self) -> list[str]:
        """Names of attributes that the converter did not read."""
        return sorted(set(self.attrs) - self._read)

    def ignore(self, *names: str) -> None:
        """Mark attributes that do not affect the result as read."""
        self._read |= set(names)

    def fail(self, reason: str, **fields: Any) -> NoReturn:
        """Refuse the node; ``reason`` appears in the error that lists all refused nodes."""
        raise UnsupportedOpError(reason, op=self.onnx_op, **fields)

    # ---------------------------------------------------------------- values that must be known

    def value(self, index: int, default: Any = _MISSING) -> np.ndarray:
        """The elements of an input, which must be known at conversion; ``default`` if the input is
        omitted."""
        if not self.has(index) and default is not _MISSING:
            return default
        return self.values_of(self.input(index), f"input {index}")

    def values_of(self, value: TapeValue, what: str) -> np.ndarray:
        """The elements of a TapeValue. Raises UnknownValueError if only a run computes them,
        UnsupportedOpError if the value is absent."""
        if value.element is not None:
            self.fail(f"{what} is of {value.dtype}, its values are not numbers")
        array = value.known()
        if array is not None:
            return array
        if value.constant is not None:
            self.fail(
                f"the values of {what} ({value.constant.source}) are needed to convert the node, and "
                f"are {'absent' if value.constant.is_small else 'too many'}"
            )
        inputs = tuple(value.inputs())
        text = f"{what} must be known before a run, but it is computed from {', '.join(map(repr, inputs))}"
        raise UnknownValueError(text, op=self.onnx_op, inputs=inputs, value=value)

    def ints(self, index: int, default: Any = _MISSING) -> list[int]:
        """The elements of an integer input, as a flat list."""
        found = self.value(index, default)
        return found if found is default else [int(v) for v in np.asarray(found).reshape(-1)]

    def single(self, index: int, default: Any = _MISSING) -> Any:
        """The only element of an input, as a numpy scalar."""
        found = self.value(index, default)
        if found is default:
            return found
        if found.size != 1:
            self.fail(f"input {index} must have one element, but it is {self.input(index).type}")
        return found.reshape(-1)[0]

    def axis(self, value: int, rank: int, name: str = "axis") -> int:
        """The axis as a non-negative number. Raises UnsupportedOpError if it is out of range."""
        if not -rank <= value < rank:
            self.fail(f"{name} {value} is out of range for {rank} dimensions")
        return value % rank if rank else 0

    def axes(self, values: Iterable[int], rank: int, name: str = "axes") -> list[int]:
        """The axes as non-negative numbers, in the given order. Raises UnsupportedOpError if an axis occurs
        twice, for example as 1 and -1."""
        given = [int(value) for value in values]
        found = [self.axis(value, rank, name) for value in given]
        if len(set(found)) != len(found):
            self.fail(f"{name} {given} name an axis twice")
        return found

    # ---------------------------------------------------------------- elements

    def stored(self, x: TapeValue) -> TapeValue:
        """The tensor of numbers that encode the elements of x; x itself if its elements have a dtype."""
        if x.element is None:
            return x
        if x.constant is not None:
            return TapeValue(x.type, x.name, x.constant, tape=self.tape)
        made = self.op("reshape", x, **exactly(x.shape))
        made.element = None
        return made

    def of_element(self, x: TapeValue, element: Element) -> TapeValue:
        """A tensor of numbers, typed as the elements that they encode."""
        made = (
            TapeValue(x.type, constant=x.constant, tape=self.tape)
            if x.constant
            else self.op("reshape", x, **exactly(x.shape))
        )
        made.element = element
        return made
