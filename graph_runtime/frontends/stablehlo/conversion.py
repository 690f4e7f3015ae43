"""StableHLO -> Model: ops are converted to registry ops in the order of the text, and all refusals are
collected into one error.

Calls are inlined, and loops with a known number of iterations are unrolled. Where a condition is known, only
the branch that it selects is converted. All other loops and branches are refused here; op_stages.py leaves
them to a flow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...base.errors import DocumentError, GraphError, GraphRuntimeError, UnsupportedOpError
from ...ir.graph import TensorType
from ...ir.model import Model
from ..onnx.budget import CONSTANT, Budget
from ..onnx.context import UnknownValueError
from ..onnx.emit import emit
from ..onnx.read import check_size
from ..onnx.tape import Tape, TapeValue
from .op_context import HloContext, table
from .source import Source
from .syntax import HloOp, OpRegion, TextFunc
from .walk import UNKNOWN, Walk, flat

_MOST_LINES = 5  # most lines in an error, per reason
_MOST_KINDS = 100  # most kinds of failures in an error
_MOST_FAILURES = 10_000  # after so many failures, conversion stops
_CONTROL = frozenset(
    ["func.call", "func.return", "stablehlo.composite", "sdy.return"]
    + [f"{dialect}.{op}" for dialect in ("stablehlo", "mhlo") for op in ("return", "while", "if", "case")]
)
_DIALECTS = ("stablehlo", "chlo", "mhlo")
_MALFORMED = (LookupError, ValueError, TypeError, ArithmeticError, AttributeError)


@dataclass(frozen=True, slots=True)
class OpFailure:
    """An op that cannot be converted. ``at``: number of its token. ``error``: the error of the op's
    converter; None if there is no converter."""

    op: str
    reason: str
    at: int
    error: GraphRuntimeError | None = None


@dataclass(eq=False)
class OpImporter:
    """Conversion of one text. ``thin``: {id of a broadcast value: (the value before the broadcast, the
    broadcast value)}."""

    source: Source
    tape: Tape = field(default_factory=Tape)
    failures: list[OpFailure] = field(default_factory=list)
    thin: dict[int, tuple[TapeValue, TapeValue]] = field(default_factory=dict)
    lifted: bool = False  # whether a region written for scalars is being applied to tensors, elementwise
    copies: int = 0  # number of functions, bodies and branches inlined

    def __post_init__(self) -> None:
        self.tape.budget = Budget(len(self.source.text.data))

    def model(self) -> Model:
        """The Model. Raises UnsupportedOpError, which lists every op that cannot be converted and how often
        it occurs; GraphError for an ill-formed graph; UnknownValueError if a branch or loop depends on a run.
        """
        self.check()
        inputs = [TapeValue(kind, name, tape=self.tape) for name, kind in self.source.inputs().items()]
        entry = self.source.entry
        scope = dict(zip((name for name, _, _ in entry.args), inputs, strict=True))
        walk = Walk(self, scope, waits=False)
        walk.go(entry.body.ops)
        self.refuse()
        made = self.source.outputs()
        if len(walk.returned) != len(made):
            text = f"@{entry.name} has {len(made)} results, but returns {len(walk.returned)}"
            self.source.text.fail(text, entry.at)
        outputs = {name: scope[value] for name, value in zip(made, walk.returned, strict=True)}
        scope.clear()
        return replace(emit(self.tape, inputs, outputs, (), {}, self.source.aliases()), offers=True)

    def call(self) -> HloOp:
        """Call of the entry function, from the inputs to the outputs by their names."""
        entry = self.source.entry
        outputs = self.source.outputs()
        return HloOp(
            "func.call",
            list(self.source.inputs()),
            list(outputs),
            list(outputs.values()),
            entry.at,
            {"callee": f"@{entry.name}"},
        )

    def function(self, name: Any, at: int) -> TextFunc:
        """The function with this name. Raises DocumentError if it does not exist."""
        func = self.source.module.funcs.get(str(name).removeprefix("@"))
        if func is None:
            self.source.text.fail(f"there is no function {name}", at)
        return func

    # ---------------------------------------------------------------- before all

    def check(self) -> None:
        """Raise UnsupportedOpError with counts for all ops and types that have no converter."""
        for func in self._reached():
            for op in flat(func.body):
                foreign = [kind for kind in op.types if not isinstance(kind, TensorType)]
                if foreign and op.name not in _CONTROL:
                    self._note(op, f"of type {foreign[0]}")
                elif op.name not in _CONTROL and not _known(op.name):
                    self._note(op, "no converter")
        self.refuse()
        self.source.inputs()
        self.source.outputs()

    def _note(self, op: HloOp, reason: str) -> None:
        target = op.attrs.get("callee") or op.attrs.get("call_target_name")
        name = f"{op.name} {target}" if target and op.name.endswith("custom_call") else op.name
        self._failed(OpFailure(name, reason, op.at))

    def _failed(self, failure: OpFailure) -> None:
        self.failures.append(failure)
        if len(self.failures) >= _MOST_FAILURES:
            self.refuse()

    def _reached(self) -> list[TextFunc]:
        """The entry and all functions that it calls, directly or indirectly."""
        found: dict[str, TextFunc] = {}
        stack = [self.source.entry]
        while stack:
            func = stack.pop()
            if func.name in found:
                continue
            found[func.name] = func
            for op in flat(func.body):
                if op.name in ("func.call", "stablehlo.composite"):
                    stack.append(
                        self.function(op.attrs.get("callee") or op.attrs.get("decomposition"), op.at)
                    )
        return list(found.values())

    # ---------------------------------------------------------------- ops

    def convert(self, op: HloOp, scope: MutableMapping[str, Any], values: Sequence[TapeValue]) -> list[Any]:
        """Results of an op. If it cannot be converted, they are UNKNOWN, and the reason is among the
        failures. Raises UnknownValueError."""
        self.tape.budget.step(1 + CONSTANT * (op.name == "stablehlo.constant"), op.name)
        try:
            return self._converted(op, scope, values)
        except UnknownValueError:
            raise
        except DocumentError as error:
            if "line" in error.fields:
                raise
            self.source.text.fail(str(error), op.at)
        except GraphRuntimeError as error:
            if self.tape.budget.is_spent:
                raise
            failed = error
        except _MALFORMED as error:
            failed = GraphError(f"ill-formed: {type(error).__name__}: {error}", op=op.name)
        failed.__traceback__ = None  # a traceback keeps all values of its frames alive
        self._failed(OpFailure(op.name, str(failed), op.at, failed))
        return [UNKNOWN] * len(op.outputs)

    def _converted(
        self, op: HloOp, scope: MutableMapping[str, Any], values: Sequence[TapeValue]
    ) -> list[TapeValue]:
        for kind in op.types:
            if not isinstance(kind, TensorType):
                raise UnsupportedOpError(f"a result of type {kind} is not supported", op=op.name)
            check_size(kind, f"{op.name}: a result", op=op.name)
        found = _known(op.name)
        if found is None:
            raise UnsupportedOpError("no converter", op=op.name)
        if self.lifted:
            values, op = self._lift(values, op)
        outer = self.tape.what
        context = HloContext(self, op, values, scope)
        made = found(context)
        context.check_taken()
        self.tape.what = outer
        results = [made] if isinstance(made, TapeValue) else list(made)
        got = [value.type for value in results]
        if got != op.types:
            says = ", ".join(map(str, op.types))
            raise GraphError(f"it makes {', '.join(map(str, got))}, but the text declares {says}", op=op.name)
        return results

    def _lift(self, values: Sequence[TapeValue], op: HloOp) -> tuple[Sequence[TapeValue], HloOp]:
        """(operands, op) with which an op on scalars is applied elementwise. The operands are broadcast to
        one shape, and the op's results get this shape."""
        shape = np.broadcast_shapes(*(value.shape for value in values))
        whole = [self._expanded(value, shape) for value in values]
        return whole, replace(
            op, types=[TensorType(kind.dtype, shape) for kind in op.types if isinstance(kind, TensorType)]
        )

    def _expanded(self, value: TapeValue, shape: tuple[int, ...]) -> TapeValue:
        if value.shape == shape:
            return value
        thin = self.thin.get(id(value), (value, value))[0]
        if thin.rank < len(shape):
            (thin,) = self.tape.op(
                "reshape", [thin], {"shape": [1] * (len(shape) - thin.rank) + [*thin.shape]}
            )
        (made,) = self.tape.op("broadcast_to", [value], {"shape": list(shape)})
        self.thin[id(made)] = (thin, made)
        return made

    def region(
        self, region: OpRegion, values: Sequence[TapeValue], scope: MutableMapping[str, Any]
    ) -> list[TapeValue]:
        """Values that a region returns for the arguments ``values``. Raises UnsupportedOpError,
        UnknownValueError."""
        if len(values) != len(region.args):
            raise GraphError(f"a region of {len(region.args)} arguments gets {len(values)}")
        inner = _Inner(scope)
        inner.update((name, value) for (name, _), value in zip(region.args, values, strict=True))
        before, lifted = len(self.failures), self.lifted
        scalars = all(isinstance(kind, TensorType) and not kind.shape for _, kind in region.args)
        self.lifted = lifted or (scalars and any(value.shape for value in values))
        walk = Walk(self, inner, waits=False)
        try:
            walk.go(region.ops)
        finally:
            self.lifted = lifted
        if failed := self.failures[before:]:
            del self.failures[before:]
            raise UnsupportedOpError(f"its region: {failed[0].op}: {failed[0].reason}", op=failed[0].op)
        return [inner[name] for name in walk.returned]

    # ---------------------------------------------------------------- refusing

    def refuse(self) -> None:
        """Raise one error that lists all failures so far."""
        if not self.failures:
            return
        groups: dict[tuple[str, str], list[OpFailure]] = {}
        for failure in self.failures:
            groups.setdefault((failure.op, failure.reason), []).append(failure)
        counts = Counter({key: len(found) for key, found in groups.items()})
        shown = counts.most_common(_MOST_KINDS)
        named = [f.at for key, _ in shown for f in groups[key][: _MOST_LINES + 1]]
        lines = self.source.text.lines(named)
        texts = []
        for (op, reason), count in shown:
            at = sorted({lines.get(f.at, 0) for f in groups[op, reason][: _MOST_LINES + 1]})
            more = ", ..." if len(at) > _MOST_LINES else ""
            texts.append(f"{count} x {op} ({reason}; line {', '.join(map(str, at[:_MOST_LINES]))}{more})")
        if len(counts) > len(shown):
            texts.append(f"and {len(counts) - len(shown)} more kinds")
        kinds = [f.error for f in self.failures]
        wrong = all(e is not None and not isinstance(e, UnsupportedOpError) for e in kinds)
        first = self.failures[0]
        line, column = self.source.text.position(first.at)
        raise (GraphError if wrong else UnsupportedOpError)(
            f"{len(self.failures)} op{'s' * (len(self.failures) > 1)} of {self.source.text.name} cannot be "
            f"converted: {'; '.join(texts)}",
            op=first.op,
            line=line,
            column=column,
            failures=tuple(self.failures),
            counts=dict(counts),
        )


class _Inner(dict[str, Any]):
    """Values of a region by name. A name that the region lacks is looked up in ``outer``."""

    def __init__(self, outer: MutableMapping[str, Any]):
        super().__init__()
        self.outer = outer

    def __missing__(self, name: str) -> Any:
        return self.outer[name]


def _known(name: str) -> Any:
    """Converter of an op by the op's name; None if there is none."""
    dialect, _, short = name.partition(".")
    return table().get(short) if dialect in _DIALECTS else table().get(name)
