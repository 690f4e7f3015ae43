"""Stages of StableHLO texts, as in frontends.onnx.stages: the part that can be converted now, and the values
for which the rest waits. A text becomes a Model, or a flow if a run decides its branches or loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError, GraphRuntimeError, InputError, afresh
from ...base.progress import gc_paused
from ...ir.graph import TensorType
from ...ir.model import Model
from ..onnx.context import UnknownValueError
from ..onnx.dynamic import PortInfo
from ..onnx.emit import emit
from ..onnx.stages import Known, Stage, StagedNode, Type, names_wanted, reads_of
from ..onnx.tape import TapeValue
from .conversion import OpImporter
from .source import Source, read_source
from .syntax import HloOp
from .walk import UNKNOWN, Walk, flat, free_names, free_of

_CONTROL = ("while", "case", "if")


@dataclass(frozen=True, eq=False)
class BegunText:
    """A text that has to be completed by runs. ``why``: the error that says what is missing before a run;
    None if conversion was not tried."""

    text: Source
    why: GraphRuntimeError | None = None

    def anew(self) -> BegunText:
        """The object itself: nothing of a text is converted before a run, so that no copy is needed."""
        return self


def begin_text(source: Any, unroll: bool = True) -> Model | BegunText:
    """The Model that load_model makes of a StableHLO text; a BegunText if loops or branches are left to a
    run. ``source``: a source as in load_model, or a BegunText. ``unroll``: unroll every loop whose end is
    known before a run, however long it is. Raises the errors of load_model."""
    from . import families  # noqa: F401  (it fills the table of converters)

    text = source.text if isinstance(source, BegunText) else read_source(source)
    if not unroll and stays_open(text):
        return BegunText(text)
    try:
        with gc_paused():
            return OpImporter(text).model()
    except UnknownValueError as error:
        if not unroll or not stays_open(text):
            raise
        return BegunText(text, afresh(error))


def stays_open(source: Source) -> bool:
    """Whether some loops or branches of a text are left to a run."""
    from . import families  # noqa: F401  (it fills the table of converters)

    ops = (op.name.rpartition(".")[2] for func in source.module.funcs.values() for op in flat(func.body))
    if not any(name in _CONTROL for name in ops):
        return False
    importer = OpImporter(source)
    importer.check()
    scope: dict[str, Any] = {n: TapeValue(kind, n, tape=importer.tape) for n, kind in source.inputs().items()}
    walk = Walk(importer, scope, waits=True)
    with gc_paused():
        walk.go([importer.call()])
    return bool(walk.rest)


def first_ops(source: Source) -> tuple[StagedNode, ...]:
    """The entry's call, as a staged node."""
    importer = OpImporter(source)
    importer.check()
    return (("the entry", importer.call()),)


def ports(source: Source) -> tuple[tuple[PortInfo, ...], tuple[PortInfo, ...]]:
    """(inputs of the entry function, outputs of the entry function)."""
    of = (source.inputs(), source.outputs())
    inputs, outputs = (tuple(PortInfo(n, k.dtype, k.shape) for n, k in each.items()) for each in of)
    return inputs, outputs


def check(source: Source, types: Mapping[str, TensorType]) -> None:
    """Raise InputError if inputs have other types than the text declares."""
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
    """The next stage of ``nodes``. ``types``: types of the values that runs have computed. Raises the errors
    of load_model."""
    from . import families  # noqa: F401

    importer = OpImporter(source)
    copies = [name.partition("/")[0] for name in (*known, *types) if "/" in name]
    importer.copies = max((int(each) for each in copies if each.isdigit()), default=0)
    given = {
        name: TapeValue(kind, name, tape=importer.tape)
        for name, kind in types.items()
        if isinstance(kind, TensorType)
    }
    scope: dict[str, Any] = {**known, **given}
    walk = Walk(importer, scope, waits=True)
    walk.go([node for _, node in nodes])
    importer.refuse()
    return _stage(importer, walk, given, outputs)


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
    position = importer.source.text.position
    rest = tuple((f"line {position(op.at)[0]}", op) for op in walk.rest)
    loops = tuple((path, op) for path, op in rest if any(op is loop for loop in walk.loops))
    return Stage(model, reads, {name: name for name in made}, {}, {}, loops, tuple(walk.asked), known, rest)


def body_nodes(
    op: HloOp, path: str
) -> tuple[tuple[StagedNode, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """A while as the body of a loop: (ops of the body followed by ops of the condition; names of the inputs;
    names of the results, which are the next condition and the states; names of the outer values that the ops
    read)."""
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
