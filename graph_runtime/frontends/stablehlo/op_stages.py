"""Texts whose branches or loops a run decides: the part that can be converted now, and what the rest waits
for. As frontends.onnx.stages, of which these are stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...base.errors import GraphError, InputError
from ...base.garbage import gc_paused
from ...ir.graph import TensorType
from ...ir.model import Model
from ..onnx.dynamic import PortInfo
from ..onnx.emit import emit
from ..onnx.stages import Known, Stage, StagedNode, Type, names_wanted, reads_of
from ..onnx.tape import TapeValue
from .conversion import OpImporter
from .source import Source
from .syntax import HloOp
from .trips import free_names, free_of
from .walk import UNKNOWN, Walk, flat

__all__ = ["body_nodes", "first_ops", "next_ops", "ports", "stays_open"]

_CONTROL = ("while", "case", "if")


def stays_open(source: Source) -> bool:
    """Whether a text has loops or branches that are left to a run."""
    from . import families  # noqa: F401  (it fills the table of converters)

    ops = (op.name.rpartition(".")[2] for func in source.module.funcs.values() for op in flat(func.body))
    if not any(name in _CONTROL for name in ops):
        return False
    importer = OpImporter(source)
    importer.check()
    scope: dict[str, Any] = {name: TapeValue(kind, name) for name, kind in source.inputs().items()}
    walk = Walk(importer, scope, waits=True)
    with gc_paused():
        walk.go([importer.call()])
    return bool(walk.rest)


def first_ops(source: Source) -> tuple[StagedNode, ...]:
    """The call of the entry."""
    importer = OpImporter(source)
    importer.check()
    return (("the entry", importer.call()),)


def ports(source: Source) -> tuple[tuple[PortInfo, ...], tuple[PortInfo, ...]]:
    """Inputs and outputs."""
    of = (source.inputs(), source.outputs())
    inputs, outputs = (tuple(PortInfo(n, k.dtype, k.shape) for n, k in each.items()) for each in of)
    return inputs, outputs


def check(source: Source, types: Mapping[str, TensorType]) -> None:
    """Raise InputError where inputs are not as the text declares them."""
    for name, wanted in source.inputs().items():
        if (got := types.get(name)) is not None and got != wanted:
            raise InputError(f"input {name!r} is {wanted}, got {got}", got=got, wanted=wanted)


def next_ops(
    source: Source,
    nodes: Iterable[StagedNode],
    known: Mapping[str, Known],
    types: Mapping[str, Type],
    outputs: Sequence[str],
) -> Stage:
    """The next stage of ``nodes``. ``types``: of the values that a run has made. Raises as load_model."""
    from . import families  # noqa: F401

    importer = OpImporter(source)
    importer.copies = _copies([*known, *types])
    given = {name: TapeValue(kind, name) for name, kind in types.items() if isinstance(kind, TensorType)}
    scope: dict[str, Any] = {**known, **given}
    walk = Walk(importer, scope, waits=True)
    walk.go([node for _, node in nodes])
    importer.refuse()
    return _stage(importer, walk, given, outputs)


def _copies(names: Sequence[str]) -> int:
    """The greatest number that a name of a copy has."""
    found = [name.partition("/")[0] for name in names if "/" in name]
    return max((int(each) for each in found if each.isdigit()), default=0)


def _stage(importer: OpImporter, walk: Walk, given: Mapping[str, TapeValue], outputs: Sequence[str]) -> Stage:
    scope = walk.scope
    wanted = names_wanted(outputs, [{*op.inputs, *free_names(op)} for op in walk.rest], walk.asked)
    made: dict[str, TapeValue] = {}
    known: dict[str, Known] = {}
    for name in wanted:
        value = scope.get(name, UNKNOWN)
        if value is UNKNOWN or value is given.get(name):
            continue
        (known if value.constant is not None else made)[name] = value
    reads = reads_of(made.values(), given)
    inputs = [given[read.name] for read in reads]
    model: Model | None = emit(importer.tape, inputs, made, (), {}) if made else None
    rest = tuple((_path(importer, op), op) for op in walk.rest)
    loops = tuple((path, op) for path, op in rest if any(op is loop for loop in walk.loops))
    return Stage(model, reads, {name: name for name in made}, {}, {}, loops, tuple(walk.asked), known, rest)


def _path(importer: OpImporter, op: HloOp) -> str:
    return f"line {importer.source.text.position(op.at)[0]}"


def body_nodes(
    op: HloOp, path: str
) -> tuple[tuple[StagedNode, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """A while as a loop's body: (its ops and those of its condition after it, names of its inputs, names of
    what it makes: the next condition and the states, names that it reads around it)."""
    cond, body = op.regions
    end = body.ops[-1]
    if len(end.inputs) != len(body.args) or len(cond.args) != len(body.args):
        raise GraphError(f"{path}: a while hands on {len(end.inputs)} of {len(body.args)} values", path=path)
    names = {arg: name for (arg, _), name in zip(cond.args, end.inputs, strict=True)}
    prefix = f"{op.inputs[0].partition('/')[0]}/next/"
    tests = [inner.renamed(prefix, names) for inner in cond.ops]
    ops = [*body.ops[:-1], *tests[:-1]]
    args = tuple(name for name, _ in body.args)
    own = {name for name, _ in body.args}
    around = tuple(sorted((free_of(body) | free_of(cond)) - own))
    nodes = tuple((path, inner) for inner in ops)
    return nodes, ("%trip", "%go", *args), (*tests[-1].inputs, *end.inputs), around
