"""A graph with its constants: what a front-end makes and rewrites turn into another one.

Model.of(graph, {"w": array})              # params that are known when the model is compiled
Model.from_builder(builder)

A constant has its type now and its bytes later: weights stay in their file, or are derived from others, until
a caller writes or binds them, one at a time. An estimate never reads them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..base import dtypes
from ..base.errors import GraphError, InputError, MissingDataError, did_you_mean
from .graph import Graph, TensorType

if TYPE_CHECKING:
    from .builder import GraphBuilder

__all__ = ["Constant", "FewBits", "Model", "Note", "op_recipe"]

_SMALL = 64 * 1024  # bytes
_NUMBERS = 64  # bytes
_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class FewBits:
    """A matrix [n, k] of levels of ``bits``, ``block`` along k to a scale; ``panels`` has them as
    ir/ops/products/levels.py lays them out. ``flipped``: the constant itself is [k, n]. ``narrow``: what it
    is multiplied with may be rounded to 8 bits, block by block."""

    bits: int
    block: int
    panels: Constant
    flipped: bool = False
    narrow: bool = False


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is known before a run.

    ``read()`` returns an array of ``type``; it may be expensive (a mapped file, a derivation) and is called
    each time the bytes are needed. It raises MissingDataError where the file with the values is absent.
    ``source`` says to people where the values come from: "conv1.weight of model.onnx". ``key``: equal
    for constants that hold the same values; of a derived one what computes it, and of what, else its own.
    ``few_bits``: of a matrix of few bits, as kernels of few bits read it.
    """

    type: TensorType
    read: Callable[[], np.ndarray]
    source: str
    key: Hashable = field(default_factory=object)
    few_bits: FewBits | None = None

    def __repr__(self) -> str:
        return f"<Constant {self.type}: {self.source}>"

    @property
    def identity(self) -> Hashable:
        """Equal for constants that are known to hold the same values without a look at them: the same
        constant, those derived of the same ones by equal recipes, numbers. It keeps no constant alive."""
        values = self.peek() if self.type.nbytes <= _NUMBERS else None
        return self.key if values is None else (self.type, values.tobytes())

    @property
    def is_small(self) -> bool:
        """Small enough for a rule to look at its values."""
        return self.type.nbytes <= _SMALL

    def peek(self) -> np.ndarray | None:
        """Its values if it is small and they are there, else None."""
        if not self.is_small:
            return None
        try:
            return self.read()
        except MissingDataError:
            return None

    @staticmethod
    def of(array: np.ndarray, source: str) -> Constant:
        """A constant of values that are in memory already. They must not be written any more."""
        array = np.asarray(array)
        return Constant(TensorType(dtypes.from_numpy(array.dtype), array.shape), lambda: array, source)

    @staticmethod
    def folded(
        array: np.ndarray,
        op: str,
        attrs: Mapping[str, Any],
        *constants: Constant,
        source: str,
        result: int = 0,
    ) -> Constant:
        """A constant of a result of an op over constants, computed already."""
        made = Constant.of(array, source)
        return replace(made, key=_key(op_recipe(op, attrs, result), made.type, constants))

    @staticmethod
    def derived(
        type: TensorType,
        compute: Callable[..., np.ndarray],
        *constants: Constant,
        source: str,
        recipe: Hashable = None,
    ) -> Constant:
        """A constant computed of others when it is read: ``compute(*arrays)`` returns an array of ``type``.

        The result is kept only for as long as a caller holds it, so that writing a model's constants one
        after the other needs the memory of one. ``recipe``: what compute does, in values that are equal
        where it does the same, so that ``identity`` tells. Reading raises GraphError where the result is of
        another type.
        """
        held: list[weakref.ref[Any]] = []

        def read() -> np.ndarray:
            array = held[0]() if held else None
            if array is None:
                array = np.asarray(compute(*(c.read() for c in constants)))
                got = TensorType(dtypes.from_numpy(array.dtype), array.shape)
                if got != type:
                    raise GraphError(f"{source}: derived {got}, where {type} was said", got=got, wanted=type)
                held[:] = [weakref.ref(array)]
            return array

        key = object() if recipe is None else _key(recipe, type, constants)
        return Constant(type, read, source, key)


def op_recipe(op: str, attrs: Mapping[str, Any], result: int = 0) -> Hashable:
    """The recipe of an op's result; ``attrs`` are decoded."""
    return op, repr(sorted(attrs.items())), result


class _Derivation:
    """Recipe, type and identities of what a constant is derived of. Equal ones are one object (``of``), which
    is hashed and compared as such: spelled out, a chain that reads the one before twice doubles each time."""

    __slots__ = ("__weakref__", "_parts")

    _known: ClassVar[weakref.WeakValueDictionary[Hashable, _Derivation]] = weakref.WeakValueDictionary()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, parts: Hashable):
        self._parts = parts  # alive, and so the same objects, for as long as this one is known

    @classmethod
    def of(cls, *parts: Hashable) -> _Derivation:
        with cls._lock:
            known = cls._known.get(parts)
            if known is None:
                known = cls._known[parts] = cls(parts)
        return known


def _key(recipe: Hashable, type: TensorType, constants: Sequence[Constant]) -> Hashable:
    return _Derivation.of(recipe, type, *(constant.identity for constant in constants))


@dataclass(frozen=True, slots=True)
class Note:
    """What a front-end or a rewrite did and why. ``text`` is a sentence with names, ``nodes`` the names of
    the model's nodes that it is about."""

    rule: str
    text: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Model:
    """A valid graph, and the values of those of its inputs that are constants.

    ``constants``: by name of the graph input. ``notes``: in the order in which things were done. ``dims``:
    the symbolic dimensions of the source and what they were bound to. ``origins``: the source's nodes that a
    node stands for, by its name; its results are those of the last of them. A node that is not in it stands
    for itself. ``pins``: the devices that nodes were asked onto, by exact name (rewrite.pinned). ``offers``:
    its graph's aliases are offers, as jax donates arguments: a result that has no place in its input's memory
    gets memory of its own.
    """

    graph: Graph
    constants: Mapping[str, Constant] = field(default_factory=lambda: _NONE)
    notes: tuple[Note, ...] = ()
    dims: Mapping[str, int] = field(default_factory=lambda: _NONE)
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NONE)
    pins: Mapping[str, str] = field(default_factory=lambda: _NONE)
    offers: bool = False

    def __post_init__(self) -> None:
        entries = dict(zip(self.graph.input_names, self.graph.input_eids.tolist(), strict=True))
        for name, constant in self.constants.items():
            if name not in entries:
                text = f"the graph has no input {name!r} for a constant{did_you_mean(name, entries)}"
                raise InputError(text, got=name)
            wanted = self.graph.entry_type(entries[name])
            if constant.type != wanted:
                raise InputError(
                    f"constant {name!r} ({constant.source}) is {constant.type}, its input is {wanted}",
                    got=constant.type,
                    wanted=wanted,
                )

    def __repr__(self) -> str:
        return (
            f"<Model of {self.graph.num_nodes} nodes, {len(self.constants)} constants: "
            f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}>"
        )

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs that a caller sets, in the graph's order: those that are no constants."""
        return tuple(name for name in self.graph.input_names if name not in self.constants)

    @property
    def output_names(self) -> tuple[str, ...]:
        """As Graph.output_names."""
        return self.graph.output_names

    @classmethod
    def of(cls, graph: Graph, params: Mapping[str, np.ndarray] = _NONE) -> Model:
        """A model of a graph and the arrays of some of its inputs.

        Raises InputError for a name that is no input, or an array of another dtype or shape.
        """
        return cls(graph, {name: Constant.of(array, f"parameter {name}") for name, array in params.items()})

    @classmethod
    def from_builder(cls, builder: GraphBuilder) -> Model:
        """The graph that was built, its ``params`` as constants."""
        return cls.of(builder.build(), builder.params)
