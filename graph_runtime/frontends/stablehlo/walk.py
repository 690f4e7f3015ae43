"""Ops in the order in which they come, with calls, branches and loops put in where they are known.

What is put in gets names of its own, so that all of a program is one list of ops. A walk that may wait keeps
what a run must find (a condition, a loop that stays one) and all that needs it; any other raises
UnknownValueError there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...base.errors import GraphError
from ..onnx.context import UnknownValueError
from ..onnx.tape import TapeValue
from .converting import Converting
from .syntax import HloOp, OpRegion
from .trips import free_names, trip_count

__all__ = ["MOST_UNROLLED", "UNKNOWN", "Walk", "flat"]

UNKNOWN: Any = object()  # the result of an op that waits, or could not be converted
MOST_UNROLLED = 16  # iterations; in a walk that may wait a loop of more stays one
_MOST_TRIPS = 10_000
_MOST_CHEAP = 64  # ops of branches that are all computed, where a run chooses among them
_MOST_COPIES = 200_000
_CHEAP = frozenset(
    "add subtract multiply divide maximum minimum select compare and or xor not negate abs constant "
    "broadcast_in_dim reshape convert slice concatenate iota exponential log tanh logistic sqrt rsqrt power "
    "clamp sign floor ceil transpose return call pad".split()
)


def flat(region: OpRegion) -> Iterator[HloOp]:
    """All ops of a region and the regions in it."""
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from flat(inner)


class Walk:
    """``scope``: values by name. ``waits``: whether ops may wait, then ``rest`` has them, ``loops`` those
    that have all that they read, ``asked`` names of values that decide. ``returned``: names that the last op
    returns."""

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
            line, column = self.importer.source.text.position(op.at)
            raise UnknownValueError(f"line {line}: {error}", op=op.name, line=line, column=column) from None

    def _value(self, name: str, op: HloOp) -> Any:
        try:
            return self.scope[name]
        except KeyError:
            shown = name.rpartition("/")[2]
            self.importer.source.text.fail(f"{op.name} reads {shown}, which nothing before it makes", op.at)

    def _has(self, name: str) -> bool:
        try:
            return self.scope[name] is not None
        except KeyError:
            return False

    def _bind(self, op: HloOp, results: Sequence[Any]) -> None:
        if len(results) != len(op.outputs):
            text = f"{op.name} has {len(op.outputs)} results, {len(results)} are made"
            self.importer.source.text.fail(text, op.at)
        self.scope.update(zip(op.outputs, results, strict=True))

    def _wait(self, op: HloOp) -> None:
        self.rest.append(op)
        self._bind(op, [UNKNOWN] * len(op.outputs))

    # ---------------------------------------------------------------- putting in

    def _put(
        self, region: OpRegion, inputs: Sequence[str], op: HloOp, more: Sequence[HloOp] = ()
    ) -> list[str]:
        """Put a region's ops in the place of an op, whose outputs are what it returns, unless ``more`` ops
        follow; the names of what it returns."""
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
            raise GraphError(f"functions that call functions stand for more than {_MOST_COPIES} calls")
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
            line, column = self.importer.source.text.position(op.at)
            text = f"line {line}: while: {why} before a run; gr.create and graph-runtime run run it as a loop"
            raise UnknownValueError(text, op=op.name, line=line, column=column)
        again = replace(op, attrs={**op.attrs, "unrolled": trips + 1})
        again.inputs = self._put(body, op.inputs, op, [again])

    def _condition(self, cond: OpRegion, values: Sequence[TapeValue]) -> TapeValue:
        made = self.importer.region(cond, values, self.scope)
        if len(made) != 1 or made[0].type.dtype != "bool" or made[0].shape:
            raise GraphError("the condition of a while must be one tensor<i1>", op="stablehlo.while")
        return made[0]

    def _loop(self, op: HloOp, go: TapeValue) -> None:
        """Have a loop stay one; its first input is its condition from now on."""
        self.importer.copies += 1
        name = f"{self.importer.copies}/go"
        self.scope[name] = go
        loop = replace(op, name="stablehlo.loop", inputs=[name, *op.inputs])
        self.loops.append(loop)
        self._wait(loop)

    def _case(self, op: HloOp, values: Sequence[TapeValue], short: str) -> None:
        regions = _regions(op, 2 if short == "if" else 1, self.importer)
        if short == "if":
            regions = regions[::-1]  # false is 0
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
            line, column = self.importer.source.text.position(op.at)
            text = f"line {line}: {short}: what it chooses by must be known before a run; gr.create and "
            raise UnknownValueError(
                text + "graph-runtime run find it while they run", op=op.name, line=line, column=column
            )

    def _cheap(self, regions: Sequence[OpRegion]) -> bool:
        """Whether all branches may be computed, to choose among the results."""
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
        importer, tape = self.importer, self.importer.tape
        made = [importer.region(region, [], self.scope) for region in regions]
        if len({tuple(value.type for value in each) for each in made}) != 1:
            raise GraphError("the branches of a case return different types", op="stablehlo.case")
        found = made[-1]
        for at in range(len(made) - 2, -1, -1):
            if index.type.dtype == "bool":
                (is_it,) = tape.op("logical_not", [index], {})
            else:
                (is_it,) = tape.op("equal", [index, tape.array(np.array(at), index.dtype)], {})
            found = [
                own if own is other else tape.op("where", [is_it, own, other], {})[0]
                for own, other in zip(made[at], found, strict=True)
            ]
        return found


def _bind_to(names: Sequence[str], op: HloOp, importer: Converting) -> HloOp:
    if len(names) != len(op.outputs):
        importer.source.text.fail(
            f"{op.name} has {len(op.outputs)} results, {len(names)} are returned", op.at
        )
    return HloOp("bind", list(names), op.outputs, [], op.at)


def _regions(op: HloOp, least: int, importer: Converting) -> list[OpRegion]:
    if len(op.regions) < least:
        importer.source.text.fail(f"{op.name} has {len(op.regions)} regions, it needs {least}", op.at)
    return op.regions
