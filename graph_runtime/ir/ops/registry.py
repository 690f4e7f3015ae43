"""What an op is: one Op value holds its attributes, shape rule, cost, numpy reference, kernels and test
cases.

A family file (elementwise.py, dense.py, ...) makes its ops with ``register(Op(...))``; the C bodies are in
native/kernels. Codegen, tests, benchmark, support list, cost models, the simulator's walks, the balancer,
fusion and the plain rules of ONNX and torch read this table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import GraphError, UnsupportedOpError, did_you_mean
from ..graph import TensorType
from .work import Work

__all__ = [
    "KERNEL",
    "REQUIRED",
    "Attr",
    "Body",
    "Case",
    "Op",
    "add_kernels",
    "alias",
    "aliases",
    "all_ops",
    "from_outside",
    "get",
    "kernel_folders",
    "provide",
    "register",
    "require",
    "resolve",
]

REQUIRED: Any = object()
KERNEL = "kernel"  # gr.kernel: which body of several
Attrs = dict[str, Any]
Types = Sequence[TensorType]


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute. ``kind``: int, ints, float, floats, bool, str, strs, steps (a program, steps.py).
    ``default`` is ONNX's where it has the op, REQUIRED, or None for "decided from the shapes"."""

    name: str
    kind: str
    default: Any
    meaning: str
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """The C body of an op on one device kind, in native/kernels/<kind>/.

    ``name``: the body's base name; with ``suffix`` it gives the C function gr_<kind>_<name>__<suffix> and the
    generic entry "<kind>/<name>/<suffix>" (no suffix: gr_<kind>_<name>, "<kind>/<name>").
    ``dtypes``: of the op's first input, canonical; ``scratch(inputs, outputs, attrs)``: host bytes it needs.
    ``suffix(inputs, outputs)``: which instantiation serves these types; None: it looks at gr_arg.format.
    ``accepts(inputs, outputs, attrs)``: None, or a sentence saying why these types cannot be done here.
    ``numerics``: it reads the words of ir/ops/numerics.py after the op's own; ``functions``: one of them.
    ``epilogue``: it runs the op's epilogue (epilogue.py); without, it takes only calls that have none.
    ``prebuilt``: dtypes of the first input for which constant shapes gain nothing: the wheel's serves.
    ``library``: what it calls of the machine's ("openblas", blas.py); without that the default body serves.
    ``rounds``: the body that it stands in for where a format lets it round operands to bfloat16.
    """

    name: str
    dtypes: tuple[str, ...]
    suffix: Callable[[Types, Types], str] | None = None
    scratch: Callable[[Types, Types, Attrs], int] | None = None
    accepts: Callable[[Types, Types, Attrs], str | None] | None = None
    numerics: bool = False
    functions: bool = False
    epilogue: bool = False
    prebuilt: tuple[str, ...] = ()
    library: str = ""
    rounds: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the case table: it drives the op tests, the op benchmark and the support list.

    ``inputs``: (dtype, shape) each. ``make`` names how values are drawn: "normal", "positive", "uniform",
    "index:N" (integers below N for that input), "levels:BITS:BLOCK" (weights of few bits). ``nmse``: largest
    normalised mean squared error against the float64 reference, by device kind and tt format: {"cpu": 1e-12,
    "tt/f32": 1e-12, "tt/bf16": 1e-4, "tt/bfp8_b": 1e-3}; 0.0 means bit-equal.
    """

    name: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    attrs: Attrs = field(default_factory=dict)
    make: tuple[str, ...] = ()
    nmse: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An op. All callables are pure.

    ``arity``: (least, most) number of inputs. ``infer(inputs, attrs)`` returns the output types or raises
    GraphError with a message that says what is wrong. ``flops(inputs, outputs, attrs)``: multiply and add
    count as two.
    ``reference(arrays, attrs)`` returns the outputs; float16 and bfloat16 compute in float32 and round
    once.
    ``words(inputs, outputs, attrs)``: the int64 attribute words that the C bodies read as call->attrs.
    ``bodies``: by device kind, the kernel that serves it; ``variants``: others, which take what the first
    does not accept, or stand in for it where a node names one (``gr.kernel``).
    ``inplace``: inputs that output 0 may overwrite when types are equal. ``is_nop``: a reshape, no kernel at
    all on cpu.

    Traits, from which other tables follow:
    ``kind``: what work it is, for the costs of tt and the balancer: "elementwise" (each element alike),
    "movement", "reduction" or "windows"; "" where ``work`` and ``parts`` say it.
    ``pace``: by device kind. cpu: which speed of costs.cpu.Machine its arithmetic goes at ("simple",
    "function", "scalar", "product"). tt: which op of costs.op_cycles an elementwise op is as fast as.
    ``work``: what the cores of tt do for it (work.py); None: what follows from ``kind``.
    ``parts``: as what the balancer takes it apart, by a name of plan.balance's makers; "": by ``kind``.
    ``weights``: the inputs that are a model's parameters wherever they are inputs of a graph.
    ``program``: the attribute with the steps that it runs, as its body or behind its result; "": none.
    ``panels``: how many columns of input 1 the host keeps in panels if it is constant; ``tiles``: whether for
    Winograd's. ``prefers``: the variant on the host where none was measured, None: the default.
    ``neutral``: of what reduces the axes that its attribute ``axes`` names: what an element may be that no
    result shows, cut to what the dtype has; None for any other op.
    ``sums``: its result is a sum of products; where that cancels, errors are small against what was summed.
    ``gathers``: it reads no more of input 0 than it makes. ``by_index``: an index out of range is refused.
    ``moves``: its inputs that are no elements which it moves; None: it computes. ``equality``: it compares.
    ``late``: of constants it stays a node, which hosts may read as they are.
    ``walk``: which pages its tt body moves, by a name of simulation/walks; "": the op's own.
    ``step``: its code as a step (steps.py), 0: it cannot be one; ``counts``: it takes integers.
    ``promotes``: where integers are accepted for it (numpy, torch), they become floats.
    ``onnx``: {ONNX op: {ONNX's attribute: this op's}}, the defaults being the same.
    ``numpy``, ``torch``: functions, elementwise, and aten operations of inputs alone that it is, by name.
    ``ttnn``: {function of ttnn: {its argument: this op's attribute}}, results having the first input's dtype.
    """

    name: str
    doc: str
    arity: tuple[int, int]
    infer: Callable[[Types, Attrs], list[TensorType]]
    reference: Callable[[list[np.ndarray], Attrs], list[np.ndarray]]
    flops: Callable[[Types, Types, Attrs], int]
    attrs: tuple[Attr, ...] = ()
    words: Callable[[Types, Types, Attrs], list[int]] | None = None
    bodies: dict[str, Body] = field(default_factory=dict)
    variants: dict[str, tuple[Body, ...]] = field(default_factory=dict)
    inplace: tuple[int, ...] = ()
    is_nop: bool = False
    cases: tuple[Case, ...] = ()
    kind: str = ""
    pace: Mapping[str, str] = field(default_factory=dict)
    work: Callable[[Types, Types, Attrs], Work] | None = None
    parts: str = ""
    weights: tuple[int, ...] = ()
    program: str = ""
    panels: Callable[[Types, Types, Attrs], int] | None = None
    tiles: Callable[[Types, Types, Attrs], bool] | None = None
    prefers: Callable[[Types, Attrs], str | None] | None = None
    gathers: bool = False
    neutral: float | None = None
    sums: bool = False
    by_index: bool = False
    late: bool = False
    moves: tuple[int, ...] | None = None
    equality: bool = False
    walk: str = ""
    step: int = 0
    counts: bool = False
    promotes: bool = False
    numpy: tuple[str, ...] = ()
    onnx: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    torch: tuple[str, ...] = ()
    ttnn: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def decode(self, given: Attrs) -> Attrs:
        """Given attributes with defaults filled in. Raises GraphError for an unknown, missing or ill-typed
        one; its field ``attribute`` names one that was given."""
        known = {a.name: a for a in self.attrs}
        if self.variants:
            known[KERNEL] = _kernel_attr(self)
        for name in given:
            if name not in known:
                raise GraphError(
                    f"op {self.name} has no attribute {name!r}{did_you_mean(name, known)}",
                    op=self.name,
                    got=name,
                    attribute=name,
                )
        return {
            name: _decode(self.name, a, given) for name, a in known.items() if name != KERNEL or name in given
        }

    def check_arity(self, count: int) -> None:
        """Raise GraphError for a number of inputs that it does not take."""
        least, most = self.arity
        if not least <= count <= most:
            wanted = least if least == most else f"{least} to {most}"
            raise GraphError(
                f"op {self.name} takes {wanted} inputs, got {count}",
                op=self.name,
                got=count,
                wanted=self.arity,
            )

    def all_bodies(self, kind: str) -> list[Body]:
        """The bodies of a device kind, the default first."""
        return [*([self.bodies[kind]] if kind in self.bodies else []), *self.variants.get(kind, ())]

    def bytes_moved(self, inputs: Types, outputs: Types) -> int:
        """Bytes read and written at least once."""
        return sum(t.nbytes for t in (*inputs, *outputs))


def _kernel_attr(op: Op) -> Attr:
    """The attribute that names one of several kernels: present where it is given, never by default."""
    names = {b.name for b in op.bodies.values()} | {b.name for v in op.variants.values() for b in v}
    return Attr(KERNEL, "str", None, "the kernel that serves this node", tuple(sorted(names)))


_KINDS: dict[str, Callable[[Any], bool]] = {
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool) and -(2**63) <= v < 2**63,
    "ints": lambda v: isinstance(v, (list, tuple)) and all(_KINDS["int"](x) for x in v),
    "float": lambda v: isinstance(v, float) or _KINDS["int"](v),
    "bool": lambda v: isinstance(v, bool) or v in (0, 1),
    "str": lambda v: isinstance(v, str),
    "floats": lambda v: isinstance(v, (list, tuple)) and all(_KINDS["float"](x) for x in v),
    "strs": lambda v: isinstance(v, (list, tuple)) and all(isinstance(x, str) for x in v),
    "steps": lambda v: isinstance(v, (list, tuple)) and all(map(_is_step, v)),
}
_READ: dict[str, Callable[[Any], Any]] = {
    "ints": lambda v: tuple(map(int, v)),
    "floats": lambda v: tuple(map(float, v)),
    "strs": tuple,
    "float": float,
    "bool": bool,
    "steps": lambda v: tuple((name, tuple(reads), dict(attrs)) for name, reads, attrs in v),
}


def _is_step(value: Any) -> bool:
    """[op, [input, ...], {attribute: value}]"""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 3
        and isinstance(value[0], str)
        and _KINDS["ints"](value[1])
        and isinstance(value[2], dict)
    )


def _decode(op: str, attr: Attr, given: Attrs) -> Any:
    value = given.get(attr.name, attr.default)
    if value is REQUIRED:
        raise GraphError(f"op {op} needs attribute {attr.name!r}: {attr.meaning}", op=op, wanted=attr.name)
    if value is None and attr.default is None:
        return None
    if not _KINDS[attr.kind](value):
        raise GraphError(
            f"op {op}: attribute {attr.name!r} must be {attr.kind}, got {value!r}",
            op=op,
            got=value,
            attribute=attr.name,
        )
    value = _READ.get(attr.kind, lambda v: v)(value)
    for item in value if attr.kind == "strs" else (value,):
        if not attr.choices or item in attr.choices:
            continue
        raise GraphError(
            f"op {op}: attribute {attr.name!r} is {item!r}, must be one of {list(attr.choices)}"
            f"{_close(item, attr.choices)}",
            op=op,
            got=item,
            wanted=attr.choices,
            attribute=attr.name,
        )
    return value


def _close(value: Any, choices: Sequence[Any]) -> str:
    """Which choice was meant, where one is near; the choices themselves are in the text already."""
    text = did_you_mean(str(value), choices)
    return text if text.startswith(" (did") else ""


_OPS: dict[str, Op] = {}
_LOADERS: dict[str, Callable[[], object]] = {}
_OTHERS: list[Callable[[], object]] = []
# ops of this package, in the order of their families, whatever was asked for first
_own: dict[str, None] = {}
_aliases: dict[str, tuple[str, Attrs]] = {}
_loading = 0  # families of this package that are being imported
_outside: list[Callable[[], object]] = []  # imports what installed packages register; called once
_kernels: dict[Path, None] = {}  # folders with C bodies of ops from outside


def provide(
    loaders: Mapping[str, Callable[[], object]],
    others: Sequence[Callable[[], object]],
    outside: Callable[[], object],
) -> None:
    """``{op: function that imports the family which registers it}``: called when the op is asked for; those
    of ``others`` for a name that no loader has, and ``outside`` for one that then is still unknown."""
    _outside.append(outside)
    _LOADERS.update(loaders)
    _OTHERS.extend(others)
    _own.update(dict.fromkeys(loaders))


def register(op: Op) -> Op:
    """Add an op to the table (also from outside this package). A name can be taken once."""
    # from outside: this package's come first
    _own.setdefault(op.name) if _loading else get(op.name)
    if op.name in _OPS or op.name in _aliases:
        raise UnsupportedOpError(f"op {op.name} is registered twice", op=op.name)
    _OPS[op.name] = op
    return op


def add_kernels(folder: str | os.PathLike[str]) -> None:
    """C bodies of ops from outside this package: ``folder``/<kind>/*.h, announced as those of native/kernels
    (docs/extending.md). Graphs that use such ops have them compiled when they are created."""
    _kernels[Path(folder)] = None


def kernel_folders() -> tuple[Path, ...]:
    """The folders of add_kernels, in their order."""
    return tuple(_kernels)


def from_outside(name: str) -> bool:
    """Whether an op was registered by another package, with C bodies of its own."""
    return bool(_kernels) and name in _OPS and name not in _own


def alias(name: str, op: str, **attrs: Any) -> None:
    """Another name of an op, for graphs and callers; with it go attributes where they give no others. What is
    made of it has the op's own name."""
    if name in _OPS or name in _aliases:
        raise UnsupportedOpError(f"op {name} is registered twice", op=name)
    _aliases[name] = op, attrs


def aliases() -> dict[str, tuple[str, Attrs]]:
    """Every alias: its op, and the attributes that go with it."""
    _load(_OTHERS)
    return dict(_aliases)


def resolve(name: str, given: Mapping[str, Any]) -> tuple[Op, Attrs]:
    """The op of that name or alias, and the attributes of a call: those given, and for one that is not given,
    or None, what goes with the alias. Raises as ``require``."""
    if get(name) is None and name in _aliases:
        op, own = _aliases[name]
        return require(op), {**given, **{key: value for key, value in own.items() if given.get(key) is None}}
    return require(name), dict(given)


def all_ops() -> dict[str, Op]:
    """Every op by name, those of this package first."""
    _load([*_LOADERS.values(), *_OTHERS])
    return {name: _OPS[name] for name in (*_own, *(n for n in _OPS if n not in _own))}


def get(name: str) -> Op | None:
    """The op of that name, None where there is none."""
    if name and name not in _OPS:
        _load([_LOADERS[name]] if name in _LOADERS else _OTHERS)
        if not {name} & (_OPS.keys() | _aliases.keys() | _LOADERS.keys()) and _outside:
            _outside.pop()()
    return _OPS.get(name)


def _load(loaders: Sequence[Callable[[], object]]) -> None:
    global _loading
    _loading += 1
    try:
        for load in loaders:
            load()
    finally:
        _loading -= 1


def require(name: str) -> Op:
    """The op of that name. Raises UnsupportedOpError with "did you mean"."""
    op = get(name)
    if op is None:
        raise UnsupportedOpError(
            f"unknown op {name!r}{did_you_mean(name, [*all_ops(), *_aliases])}", op=name, got=name
        )
    return op
