"""A graph with its constants, made by a front-end and changed by rewrites.

Model.of(graph, {"w": array})              # params that are known when the model is compiled
Model.from_builder(builder)

The type of a constant is known at once, its bytes later: weights stay in their file, or are derived from
other constants, until a caller writes or binds them, one at a time. An estimate never reads weights.
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

_SMALL = 64 * 1024  # bytes up to which rules look at a constant's values
_NUMBERS = 64  # bytes up to which constants of equal values have equal identities
_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class FewBits:
    """A weight of few bits: a matrix [n, k] of levels of ``bits``, with a scale for each ``block`` of k.
    ``panels``: the levels in the layout of ir/ops/products/levels.py. ``flipped``: whether the constant
    itself is [k, n]. ``narrow``: whether the product may round its other operand to 8 bits, block by block.
    """

    bits: int
    block: int
    panels: Constant
    flipped: bool = False
    narrow: bool = False


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is known before a run.

    ``read()`` returns an array of ``type``; it may be expensive (a mapped file, a derivation) and is called
    each time the bytes are needed. It raises MissingDataError if the file with the values is absent.
    ``source``: origin of the values for people, such as "conv1.weight of model.onnx". ``key``: equal keys
    mean equal values. A derived constant's key is its recipe and operands; any other constant has a key of
    its own. ``few_bits``: the same values as a matrix of few bits, as kernels read it.
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
        """Equal for constants that are known, without reading them, to hold the same values: the same
        constant, constants derived by equal recipes from the same operands, and equal numbers. The identity
        keeps no constant alive."""
        values = self.peek() if self.type.nbytes <= _NUMBERS else None
        return self.key if values is None else (self.type, values.tobytes())

    @property
    def is_small(self) -> bool:
        """Whether the constant is small enough for a rule to look at its values."""
        return self.type.nbytes <= _SMALL

    def peek(self) -> np.ndarray | None:
        """The values if the constant is small and its values are present, else None."""
        if not self.is_small:
            return None
        try:
            return self.read()
        except MissingDataError:
            return None

    @staticmethod
    def of(array: np.ndarray, source: str) -> Constant:
        """A constant with the values of an array, which must not be written any more."""
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
        """A constant with the result that an op computed from constants."""
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
        """A constant computed from other constants when it is read: ``compute(*arrays)`` returns an array of
        ``type``.

        The result is kept only while a caller holds it, so that writing a model's constants one by one needs
        memory for only one of them. ``recipe``: a value that describes ``compute``, equal for equal
        functions; ``identity`` is made from it. Reading raises GraphError for a result of another type.
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
    """The recipe of an op's result. ``attrs``: the op's attributes, decoded."""
    return op, repr(sorted(attrs.items())), result


class _Derivation:
    """Recipe, type and operand identities of a derived constant. Equal derivations are one object (``of``),
    hashed and compared by its identity. Nested tuples would not do: in a chain in which each constant reads
    the constant before it twice, their size doubles with each step."""

    __slots__ = ("__weakref__", "_parts")

    _known: ClassVar[weakref.WeakValueDictionary[Hashable, _Derivation]] = weakref.WeakValueDictionary()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, parts: Hashable):
        self._parts = parts  # held, so that parts stay the same objects as long as this derivation is known

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
    """A note on a decision of a front-end or a rewrite, and its reason. ``text``: a sentence with names;
    ``nodes``: names of the model's nodes that the sentence is about."""

    rule: str
    text: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Model:
    """A valid graph, and the values of its constant inputs.

    ``constants``: {name of a graph input: its values}. ``notes``: notes in the order of events. ``dims``:
    {symbolic dimension of the source: its value}. ``origins``: {name of a node: names of the source's nodes
    that the node replaces}; the node's results are those of the last source node in the list. A node without
    an origin is the source's node of the same name. ``pins``: {exact name of a node: the device requested for
    it} (rewrite.pinned). ``offers``: whether the graph's aliases are only offers, like arguments donated in
    jax: a result that does not fit into its input's memory then gets memory of its own.
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
                text = f"constant {name!r} ({constant.source}) is {constant.type}, its input is {wanted}"
                raise InputError(text, got=constant.type, wanted=wanted)

    def __repr__(self) -> str:
        return (
            f"<Model of {self.graph.num_nodes} nodes, {len(self.constants)} constants: "
            f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}>"
        )

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs that a caller sets: all that are no constants, in the graph's order."""
        return tuple(name for name in self.graph.input_names if name not in self.constants)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs: Graph.output_names."""
        return self.graph.output_names

    @classmethod
    def of(cls, graph: Graph, params: Mapping[str, np.ndarray] = _NONE) -> Model:
        """A model of a graph and arrays for some of its inputs.

        Raises InputError for a name that is no input, or an array of another dtype or shape.
        """
        return cls(graph, {name: Constant.of(array, f"parameter {name}") for name, array in params.items()})

    @classmethod
    def from_builder(cls, builder: GraphBuilder) -> Model:
        """A model of the builder's graph, with the builder's ``params`` as constants."""
        return cls.of(builder.build(), builder.params)
