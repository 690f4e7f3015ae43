"""The op table: one Op holds the attributes, shape rule, cost, numpy reference, kernels and test cases of
an op.

A family, a file such as elementwise.py or dense.py, makes its ops with ``define(...)``; the C bodies are in
native/kernels. Codegen, tests, benchmark, support list, cost models, the simulator's walks, the balancer,
fusion and the plain rules of ONNX and torch read this table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from ...base.errors import GraphError, UnsupportedOpError, did_you_mean
from ..graph import TensorType
from .work import Work

REQUIRED: Any = object()
KERNEL = "kernel"  # gr.kernel: the name of one of several bodies
Attrs = dict[str, Any]
Types = Sequence[TensorType]
_P = ParamSpec("_P")
Suffix = Callable[[Types, Types], str]
Accepts = Callable[[Types, Types, Attrs], str | None]


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute. ``kind``: kind of its values: int, ints, float, floats, bool, str, strs, steps
    (steps.py). ``default``: ONNX's default if ONNX has the op, REQUIRED, or None if the value follows from
    the shapes."""

    name: str
    kind: str
    default: Any
    meaning: str
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """The C body of an op on one device kind, in native/kernels/<kind>/.

    ``name``: the body's base name. The C function is gr_<kind>_<name>__<suffix>, and the generic entry is
    "<kind>/<name>/<suffix>"; for a body without a suffix they are gr_<kind>_<name> and "<kind>/<name>".
    ``dtypes``: canonical dtypes of the first input. ``scratch(inputs, outputs, attrs)`` gives the
    number of host bytes that the body needs.
    ``suffix(inputs, outputs)`` gives the suffix for these types; None: the body has no suffix, and reads
    gr_arg.format.
    ``accepts(inputs, outputs, attrs)`` gives None, or a sentence with the reason why the body refuses these
    types.
    ``numerics``: whether the body reads the words of ir/ops/numerics.py after the op's own;
    ``functions``: whether it reads the one word for functions there.
    ``epilogue``: whether the body runs the op's epilogue (epilogue.py), or takes only calls without one.
    ``prebuilt``: dtypes of the first input for which the wheel's body is as fast as one compiled for the
    shapes.
    ``library``: library of the machine that the body calls ("openblas", blas.py); if the machine does not
    have it, the default body is used.
    ``rounds``: name of the body that this body replaces if the chosen format allows operands to be rounded to
    bfloat16.
    """

    name: str
    dtypes: tuple[str, ...]
    suffix: Suffix | None = None
    scratch: Callable[[Types, Types, Attrs], int] | None = None
    accepts: Accepts | None = None
    numerics: bool = False
    functions: bool = False
    epilogue: bool = False
    prebuilt: tuple[str, ...] = ()
    library: str = ""
    rounds: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the case table, which the op tests, the op benchmark and the support list use.

    ``inputs``: (dtype, shape) of each input. ``make``: how the values of each input are drawn, as in
    inputs.draw_array: "normal", "positive", "index:N" and so on. ``nmse``: largest normalised mean squared
    error against the float64 reference, by device kind and tt format: {"cpu": 1e-12, "tt/f32": 1e-12,
    "tt/bf16": 1e-4, "tt/bfp8_b": 1e-3}; 0.0 means bit-equal.
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
    GraphError with the fault. ``flops(inputs, outputs, attrs)`` gives the number of flops; a multiply
    and an add count as two.
    ``reference(arrays, attrs)`` returns the outputs; results of float16 and bfloat16 are rounded once.
    ``words(inputs, outputs, attrs)``: the int64 attribute words that the C bodies read as call->attrs.
    ``bodies``: the default body of each device kind; ``variants``: further bodies, which take calls that the
    default refuses, or replace the default where a node names one of them (``gr.kernel``).
    ``inplace``: inputs that output 0 may overwrite when types are equal. ``is_nop``: whether the op is a
    reshape, which has no kernel on cpu.

    Traits, from which other tables follow:
    ``kind``: kind of work, for the costs of tt and the balancer: "elementwise" (each element alike),
    "movement", "reduction" or "windows"; "" if ``work`` and ``parts`` describe the work.
    ``pace``: {device kind: speed}. The speed on cpu is the name of a speed in costs.cpu.Machine ("simple",
    "function", "scalar", "product"). The speed of an elementwise op on tt is the name of an op of
    costs.op_cycles that is as fast.
    ``work``: work of the cores of tt (work.py); None: the work follows from ``kind``.
    ``parts``: name of the function of plan.balance that splits the op for the balancer; "": ``kind`` chooses
    the function.
    ``weights``: inputs that count as parameters of a model if they are inputs of a graph.
    ``program``: the attribute with the steps that the op runs, as its body or after its result; "": the op
    runs no steps.
    ``panels``: function that gives the number of columns of input 1 that the host keeps in panels if the
    input is constant; ``tiles``: function that tells whether these are the panels of Winograd's tiles.
    ``prefers``: function that gives the variant on the host if no variant was measured; None: the default
    body.
    ``neutral``: for an op that reduces ``axes``, an element that changes no result, clipped to the dtype;
    None for all other ops.
    ``sums``: whether the result is a sum of products, whose errors are small relative to its addends.
    ``gathers``: whether the op reads at most as many elements of input 0 as it makes. ``by_index``: whether
    the op refuses an index out of range. ``equality``: whether the op compares for equality.
    ``moves``: for an op that moves elements, the inputs whose elements it does not move; None: it computes.
    ``late``: whether the op stays a node even if its inputs are constants, because hosts may read these as
    they are.
    ``walk``: name in simulation/walks of the pages that the tt body moves; "": the op's name.
    ``step``: the op's code as a step (steps.py), 0 if the op cannot be a step; ``counts``: whether the op
    takes integers as a step.
    ``promotes``: whether integers that numpy's or torch's function gives to the op become floats.
    ``onnx``: {ONNX op: {ONNX's attribute: this op's attribute}}; the attributes have equal defaults.
    ``numpy``: names of numpy's functions that equal the op; ``torch``: names of the aten operations, with no
    arguments but the inputs, that equal the op.
    ``ttnn``: {function of ttnn: {its argument: this op's attribute}}; results have the first input's dtype.
    """

    name: str
    doc: str
    arity: tuple[int, int]
    infer: Callable[[Types, Attrs], list[TensorType]]
    reference: Callable[[list[np.ndarray], Attrs], list[np.ndarray]]
    flops: Callable[[Types, Types, Attrs], int] = lambda inputs, outputs, attrs: 0
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
        """The attributes given, with defaults filled in. Raises GraphError for an unknown, missing or
        ill-typed attribute; if the fault is in a given attribute, the error's field ``attribute`` is its
        name."""
        known = {a.name: a for a in self.attrs}
        if self.variants:
            known[KERNEL] = _kernel_attr(self)
        for name in given:
            if name not in known:
                text = f"op {self.name} has no attribute {name!r}{did_you_mean(name, known)}"
                raise GraphError(text, op=self.name, got=name, attribute=name)
        return {
            name: _decode(self.name, a, given) for name, a in known.items() if name != KERNEL or name in given
        }

    def check_arity(self, count: int) -> None:
        """Raise GraphError unless the op takes this number of inputs."""
        least, most = self.arity
        if not least <= count <= most:
            wanted = least if least == most else f"{least} to {most}"
            text = f"op {self.name} takes {wanted} inputs, got {count}"
            raise GraphError(text, op=self.name, got=count, wanted=self.arity)

    def all_bodies(self, kind: str) -> list[Body]:
        """The bodies on a device kind, the default first."""
        return [*([self.bodies[kind]] if kind in self.bodies else []), *self.variants.get(kind, ())]

    def bytes_moved(self, inputs: Types, outputs: Types) -> int:
        """Bytes that the op reads and writes at least: all inputs and outputs once."""
        return sum(t.nbytes for t in (*inputs, *outputs))


def _kernel_attr(op: Op) -> Attr:
    """The attribute that names one of several bodies; it has no default and is absent unless given."""
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
    """Whether the value is a step: [op, [input, ...], {attribute: value}]."""
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
        text = f"op {op}: attribute {attr.name!r} must be {attr.kind}, got {value!r}"
        raise GraphError(text, op=op, got=value, attribute=attr.name)
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
    """Advice with the nearest choice, "" if none is near: the error's text already lists all choices."""
    text = did_you_mean(str(value), choices)
    return text if text.startswith(" (did") else ""


_OPS: dict[str, Op] = {}
_LOADERS: dict[str, Callable[[], object]] = {}
_OTHERS: list[Callable[[], object]] = []
# ops of this package in the order of their families, which does not depend on the order of imports
_own: dict[str, None] = {}
_aliases: dict[str, tuple[str, Attrs]] = {}
_loading = 0  # number of families of this package that are being imported
_outside: list[Callable[[], object]] = []  # loader of installed packages' ops, called once
_kernels: dict[Path, None] = {}  # folders with C bodies of other packages


def provide(
    loaders: Mapping[str, Callable[[], object]],
    others: Sequence[Callable[[], object]],
    outside: Callable[[], object],
) -> None:
    """Set the importers of families. ``loaders``: {name of an op: importer, called when the op is looked up};
    ``others``: importers called for a name without a loader; ``outside``: importer called for a name that is
    then still unknown.
    """
    _outside.append(outside)
    _LOADERS.update(loaders)
    _OTHERS.extend(others)
    _own.update(dict.fromkeys(loaders))


def register(op: Op) -> Op:
    """Add an op to the table; other packages may call this, too. Raises UnsupportedOpError for a name that is
    taken."""
    # get() imports this package's ops first
    _own.setdefault(op.name) if _loading else get(op.name)
    if op.name in _OPS or op.name in _aliases:
        raise UnsupportedOpError(f"op {op.name} is registered twice", op=op.name)
    _OPS[op.name] = op
    return op


def _defining(make: Callable[_P, Op]) -> Callable[_P, Op]:
    def define(*args: _P.args, **fields: _P.kwargs) -> Op:
        return register(make(*args, **fields))

    return define


define = _defining(Op)  # register(Op(...))


def add_kernels(folder: str | os.PathLike[str]) -> None:
    """Add another package's C bodies of ops: ``folder``/<kind>/*.h, announced as in native/kernels
    (docs/extending.md). The bodies are compiled when a graph with such ops is created."""
    _kernels[Path(folder)] = None


def kernel_folders() -> tuple[Path, ...]:
    """The folders given to add_kernels, in order."""
    return tuple(_kernels)


def from_outside(name: str) -> bool:
    """Whether another package registered this op, with C bodies of its own."""
    return bool(_kernels) and name in _OPS and name not in _own


def alias(name: str, op: str, **attrs: Any) -> None:
    """Add another name of an op, for graphs and callers. ``attrs``: attributes that the name sets unless
    others are given. Nodes get the op's own name."""
    if name in _OPS or name in _aliases:
        raise UnsupportedOpError(f"op {name} is registered twice", op=name)
    _aliases[name] = op, attrs


def aliases() -> dict[str, tuple[str, Attrs]]:
    """{alias: (its op, attributes that it sets)}."""
    _load(_OTHERS)
    return dict(_aliases)


def resolve(name: str, given: Mapping[str, Any]) -> tuple[Op, Attrs]:
    """The op with this name or alias, and the attributes of a call: those given, and the alias's attributes
    in place of those that are None or not given. Raises as ``require``."""
    if get(name) is None and name in _aliases:
        op, own = _aliases[name]
        return require(op), {**given, **{key: value for key, value in own.items() if given.get(key) is None}}
    return require(name), dict(given)


def all_ops() -> dict[str, Op]:
    """{name: op} of every op, those of this package first."""
    _load([*_LOADERS.values(), *_OTHERS])
    return {name: _OPS[name] for name in (*_own, *(n for n in _OPS if n not in _own))}


def get(name: str) -> Op | None:
    """The op with this name, or None."""
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
    """The op with this name. Raises UnsupportedOpError, with "did you mean", if there is none."""
    op = get(name)
    if op is None:
        text = f"unknown op {name!r}{did_you_mean(name, [*all_ops(), *_aliases])}"
        raise UnsupportedOpError(text, op=name, got=name)
    return op
