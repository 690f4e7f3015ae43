"""Walk over ops in the text's order. Calls, and branches and loops whose conditions are known, are replaced
by the ops inside them.

The inlined ops get new names, so that the whole text becomes one list of ops. A walk that may wait keeps the
ops that depend on a run (an unknown condition, a loop that is not unrolled) and all ops that need their
results; any other walk raises UnknownValueError at such an op. To find a loop's number of iterations, only
those ops of its body and condition are computed on which the condition depends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ...base.errors import GraphError, GraphRuntimeError
from ...ir.value import where
from ..onnx.context import UnknownValueError
from ..onnx.tape import Tape, TapeValue
from .source import Source
from .syntax import HloOp, OpRegion, TextFunc

UNKNOWN: Any = object()  # result of an op that waits, or that could not be converted
MOST_UNROLLED = 16  # a walk that may wait unrolls only loops of at most so many iterations
_MOST_TRIPS = 10_000
_MOST_CHEAP = 64  # most ops of branches that are all computed if a run chooses among them
_MOST_COPIES = 200_000
_CHEAP = frozenset(
    "add subtract multiply divide maximum minimum select compare and or xor not negate abs constant "
    "broadcast_in_dim reshape convert slice concatenate iota exponential log tanh logistic sqrt rsqrt power "
    "clamp sign floor ceil transpose return call pad".split()
)


def flat(region: OpRegion) -> Iterator[HloOp]:
    """All ops of a region, and those of the regions in it."""
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from flat(inner)


class Walk:
    """One walk. ``scope``: values by name. ``waits``: whether ops may wait. ``rest``: ops that wait.
    ``loops``: those waiting loops whose inputs are all available. ``asked``: names of unknown values that
    decide which ops run. ``returned``: names of the values that the last op returns."""

    def __init__(self, importer: Converting, scope: MutableMapping[str, Any], waits: bool):
        self.importer, self.scope, self.waits = importer, scope, waits
        self.queue: deque[HloOp] = deque()
        self.rest: list[HloOp] = []
        self.loops: list[HloOp] = []
        self.asked: dict[str, None] = {}
        self.returned: list[str] = []

    def go(self, ops: Iterable[HloOp]) -> None:
        """Walk over ops. Raises UnknownValueError, DocumentError, GraphError."""
        self.queue.extend(ops)
        while self.queue:
            self._op(self.queue.popleft())

    def _op(self, op: HloOp) -> None:
        short = op.name.rpartition(".")[2]
        values = [self._value(name, op) for name in op.inputs]
        if short == "return":
            self.returned = op.inputs
        elif short == "bind":
            self.scope.update(zip(op.outputs, values, strict=True))
            if any(value is UNKNOWN for value in values):
                self.rest.append(op)
        elif op.name in ("func.call", "stablehlo.composite"):
            self._call(op)
        elif any(value is UNKNOWN for value in values) or any(
            self.scope[name] is UNKNOWN for name in free_names(op) if self._has(name)
        ):
            self._wait(op)
        elif short == "while":
            self._while(op, values)
        elif short in ("case", "if"):
            self._case(op, values, short)
        else:
            self._bind(op, self._convert(op, values))

    def _convert(self, op: HloOp, values: Sequence[TapeValue]) -> Sequence[Any]:
        try:
            return self.importer.convert(op, self.scope, values)
        except UnknownValueError as error:
            raise self._unknown(op, str(error)) from None

    def _unknown(self, op: HloOp, text: str) -> UnknownValueError:
        """The error about an op that needs a value which only a run finds."""
        line, column = self.importer.source.text.position(op.at)
        return UnknownValueError(f"line {line}: {text}", op=op.name, line=line, column=column)

    def _value(self, name: str, op: HloOp) -> Any:
        try:
            return self.scope[name]
        except KeyError:
            shown = name.rpartition("/")[2]
            self.importer.source.text.fail(f"{op.name} reads {shown}, which is not defined before it", op.at)

    def _has(self, name: str) -> bool:
        try:
            return self.scope[name] is not None
        except KeyError:
            return False

    def _bind(self, op: HloOp, results: Sequence[Any]) -> None:
        if len(results) != len(op.outputs):
            text = f"{op.name} has {len(op.outputs)} results, but {len(results)} are computed"
            self.importer.source.text.fail(text, op.at)
        self.scope.update(zip(op.outputs, results, strict=True))

    def _wait(self, op: HloOp) -> None:
        self.rest.append(op)
        self._bind(op, [UNKNOWN] * len(op.outputs))

    # ---------------------------------------------------------------- putting in

    def _put(
        self, region: OpRegion, inputs: Sequence[str], op: HloOp, more: Sequence[HloOp] = ()
    ) -> list[str]:
        """Replace an op by the ops of a region. ``more``: ops to run after those of the region. Without
        ``more`` the values that the region returns become the op's outputs. Returns the names of the values
        that the region returns."""
        importer = self.importer
        importer.copies += 1
        importer.tape.budget.step(1, op.name)
        if len(inputs) != len(region.args):
            importer.source.text.fail(
                f"{op.name} gives {len(inputs)} values to {len(region.args)} arguments", op.at
            )
        if not region.ops or not region.ops[-1].name.endswith("return"):
            importer.source.text.fail(f"a region of {op.name} returns nothing", op.at)
        prefix = f"{importer.copies}/"
        names = {arg: name for (arg, _), name in zip(region.args, inputs, strict=True)}
        ops = [inner.renamed(prefix, names) for inner in region.ops]
        importer.tape.budget.step(len(ops) // 8, op.name)
        end = ops.pop()
        self.queue.extendleft(
            reversed([*ops, *more, *([] if more else [_bind_to(end.inputs, op, importer)])])
        )
        return end.inputs

    def _call(self, op: HloOp) -> None:
        importer = self.importer
        name = op.attrs.get("callee") or op.attrs.get("decomposition")
        func = importer.function(name, op.at)
        if importer.copies > _MOST_COPIES:
            raise GraphError(f"functions that call functions expand to more than {_MOST_COPIES} calls")
        self._put(func.body, op.inputs, op)

    # ---------------------------------------------------------------- control

    def _while(self, op: HloOp, values: Sequence[TapeValue]) -> None:
        cond, body = _regions(op, 2, self.importer)
        go = self._condition(cond, values)
        trips = op.attrs.get("unrolled", 0)
        known = go.known()
        if known is not None and not known.reshape(-1)[0]:
            self._bind(op, values)
            return
        stays = known is None
        if self.waits and not trips and known is not None:
            count = trip_count(self.importer, op, values, self.scope, MOST_UNROLLED)
            stays = count is None
        if stays and self.waits:
            self._loop(op, go)
            return
        if stays or trips >= _MOST_TRIPS:
            why = "its condition must be known" if stays else f"it has more than {_MOST_TRIPS} iterations"
            text = f"while: {why} before a run; gr.create and graph-runtime run run it as a loop"
            raise self._unknown(op, text)
        again = replace(op, attrs={**op.attrs, "unrolled": trips + 1})
        again.inputs = self._put(body, op.inputs, op, [again])

    def _condition(self, cond: OpRegion, values: Sequence[TapeValue]) -> TapeValue:
        made = self.importer.region(cond, values, self.scope)
        if len(made) != 1 or made[0].type.dtype != "bool" or made[0].shape:
            raise GraphError("the condition of a while must be one tensor<i1>", op="stablehlo.while")
        return made[0]

    def _loop(self, op: HloOp, go: TapeValue) -> None:
        """Keep a loop as a loop, with its condition as an additional first input."""
        self.importer.copies += 1
        name = f"{self.importer.copies}/go"
        self.scope[name] = go
        loop = replace(op, name="stablehlo.loop", inputs=[name, *op.inputs])
        self.loops.append(loop)
        self._wait(loop)

    def _case(self, op: HloOp, values: Sequence[TapeValue], short: str) -> None:
        regions = _regions(op, 2 if short == "if" else 1, self.importer)
        if short == "if":
            regions = regions[::-1]  # index 0 is false
        index = values[0]
        known = index.known()
        if known is not None:
            at = int(known.reshape(-1)[0])
            self._put(regions[at if 0 <= at < len(regions) else -1], [], op)
        elif self._cheap(regions):
            self._bind(op, self._chosen(index, regions))
        elif self.waits:
            self.asked[op.inputs[0]] = None
            self._wait(op)
        else:
            text = f"{short}: its condition must be known before a run; gr.create and graph-runtime run "
            raise self._unknown(op, text + "find it while they run")

    def _cheap(self, regions: Sequence[OpRegion]) -> bool:
        """Whether the branches are so small that all may be computed, to choose among their results."""
        count, stack = 0, list(regions)
        while stack:
            for op in stack.pop().ops:
                count += 1
                short = op.name.rpartition(".")[2]
                if short not in _CHEAP or count > _MOST_CHEAP:
                    return False
                if short == "call":
                    stack.append(self.importer.function(op.attrs.get("callee"), op.at).body)
        return True

    def _chosen(self, index: TapeValue, regions: Sequence[OpRegion]) -> list[TapeValue]:
        made = [self.importer.region(region, [], self.scope) for region in regions]
        if len({tuple(value.type for value in each) for each in made}) != 1:
            raise GraphError("the branches of a case return different types", op="stablehlo.case")
        found = made[-1]
        for at in range(len(made) - 2, -1, -1):
            is_it = ~index if index.dtype == "bool" else index.equal(at)
            found = [
                own if own is other else where(is_it, own, other)
                for own, other in zip(made[at], found, strict=True)
            ]
        return found


def _bind_to(names: Sequence[str], op: HloOp, importer: Converting) -> HloOp:
    if len(names) != len(op.outputs):
        importer.source.text.fail(
            f"{op.name} has {len(op.outputs)} results, but {len(names)} are returned", op.at
        )
    return HloOp("bind", list(names), op.outputs, [], op.at)


def _regions(op: HloOp, least: int, importer: Converting) -> list[OpRegion]:
    if len(op.regions) < least:
        importer.source.text.fail(f"{op.name} has {len(op.regions)} regions, but needs {least}", op.at)
    return op.regions


# ---------------------------------------------------------------- numbers of iterations


class Converting(Protocol):
    """The part of the importer that converters and walks use. ``thin``: {id of a broadcast value: (the value
    before the broadcast, the broadcast value)}; ``copies``: number of functions, bodies and branches inlined.
    """

    source: Source
    tape: Tape
    thin: dict[int, tuple[TapeValue, TapeValue]]
    copies: int

    def convert(self, op: HloOp, scope: MutableMapping[str, Any], values: Sequence[TapeValue]) -> list[Any]:
        """Results of an op."""

    def region(
        self, region: OpRegion, values: Sequence[TapeValue], scope: MutableMapping[str, Any]
    ) -> list[TapeValue]:
        """Values that a region returns for the arguments ``values``."""

    def function(self, name: Any, at: int) -> TextFunc:
        """The function with this name."""


def free_names(op: HloOp) -> set[str]:
    """Names of outer values that the regions of an op read."""
    found: set[str] = set()
    for region in op.regions:
        found |= free_of(region)
    return found


def free_of(region: OpRegion) -> set[str]:
    """Names of outer values that a region reads."""
    own = {name for name, _ in region.args}
    found: set[str] = set()
    for op in region.ops:
        found |= (set(op.inputs) | free_names(op)) - own
        own |= set(op.outputs)
    return found


def trip_count(
    importer: Converting,
    op: HloOp,
    values: Sequence[TapeValue],
    scope: MutableMapping[str, Any],
    most: int,
) -> int | None:
    """Number of iterations of a while; None if this number is unknown before a run, or greater than
    ``most``."""
    cond, body = op.regions
    if not cond.ops or not body.ops or len(body.ops[-1].inputs) != len(values):
        return None
    states = _states(cond, body)
    tests, steps = _needed(cond, cond.ops[-1].inputs), _needed(body, [body.ops[-1].inputs[i] for i in states])
    held = {i: values[i] for i in states}
    before = len(importer.tape.nodes)
    try:
        for count in range(most + 1):
            go = _run(importer, cond, tests, cond.ops[-1].inputs, held, scope)[0].known()
            if go is None:
                return None
            if not go.reshape(-1)[0]:
                return count
            wanted = [body.ops[-1].inputs[i] for i in states]
            held = dict(zip(states, _run(importer, body, steps, wanted, held, scope), strict=True))
    except GraphRuntimeError:
        return None
    finally:
        del importer.tape.nodes[before:]
    return None


def _states(cond: OpRegion, body: OpRegion) -> list[int]:
    """Indices of the states on which the condition depends."""
    found: set[int] = set()
    new = arguments_read(cond, cond.ops[-1].inputs)
    while new - found:
        found |= new
        new = arguments_read(body, [body.ops[-1].inputs[i] for i in found])
    return sorted(found)


def arguments_read(region: OpRegion, wanted: Sequence[str]) -> set[int]:
    """Indices of the arguments on which the ``wanted`` values of a region depend."""
    names = set(wanted)
    for op in _needed(region, wanted):
        names |= set(op.inputs) | free_names(op)
    return {i for i, (name, _) in enumerate(region.args) if name in names}


def _needed(region: OpRegion, wanted: Sequence[str]) -> list[HloOp]:
    """The ops of a region on which the ``wanted`` values depend, in order."""
    names, found = set(wanted), []
    for op in reversed(region.ops[:-1]):
        if names & set(op.outputs):
            names |= set(op.inputs) | free_names(op)
            found.append(op)
    return found[::-1]


def _run(
    importer: Converting,
    region: OpRegion,
    ops: Sequence[HloOp],
    wanted: Sequence[str],
    held: dict[int, TapeValue],
    scope: MutableMapping[str, Any],
) -> list[TapeValue]:
    args = [region.args[i] for i in held]
    end = HloOp("stablehlo.return", list(wanted), [], [], region.ops[-1].at)
    return importer.region(OpRegion(args, [*ops, end]), list(held.values()), scope)
