"""How often a loop runs, found by its counter alone: of condition and body only what the condition needs."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from ...base.errors import GraphRuntimeError
from ..onnx.tape import TapeValue
from .converting import Converting
from .syntax import HloOp, OpRegion

__all__ = ["free_names", "trip_count"]


def free_names(op: HloOp) -> set[str]:
    """What the regions of an op read of the values around it."""
    found: set[str] = set()
    for region in op.regions:
        found |= free_of(region)
    return found


def free_of(region: OpRegion) -> set[str]:
    """What a region reads of the values around it."""
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
    """Iterations of a while, None where that is not known now or is above ``most``."""
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
    """Indices of the states that the condition depends on."""
    found: set[int] = set()
    new = _read(cond, cond.ops[-1].inputs)
    while new - found:
        found |= new
        new = _read(body, [body.ops[-1].inputs[i] for i in found])
    return sorted(found)


def _read(region: OpRegion, wanted: Sequence[str]) -> set[int]:
    names = set(wanted)
    for op in _needed(region, wanted):
        names |= set(op.inputs) | free_names(op)
    return {i for i, (name, _) in enumerate(region.args) if name in names}


def _needed(region: OpRegion, wanted: Sequence[str]) -> list[HloOp]:
    """The ops of a region that some values are computed from."""
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
