"""Rules as nodes of a graph: the parts of a lowered graph, and the GraphEmitter, which adds nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch

from ...base import dtypes
from ...base.errors import GraphError, UnsupportedOpError
from ...ir.builder import GraphBuilder, NodeValue
from ...ir.ops import registry
from ...ir.ops.rules import select
from ...ir.value import Value
from ..counters import Unsupported
from ..store import devices

CPU = "cpu:0"


@dataclass(frozen=True)
class Output:
    """A result of a graph, whose value one of three fields gives. ``number``: number of the output of our
    graph; ``argument``: number of the argument that is returned unchanged; ``constant``: the value itself.
    ``dtype`` and ``device`` are those that torch expects; None if the result is a number."""

    number: int | None = None
    argument: int | None = None
    constant: Any = None
    dtype: Any = None
    device: Any = None


@dataclass
class Lowered:
    """A lowered graph.

    ``inputs``: (argument number, name) of each input of our graph that is an argument.
    ``hoisted``: (name, function without arguments that makes the values on the host) of each input with
    random numbers, or with values that depend on open sizes.
    ``outputs``: the results, in torch's order.
    ``on_cpu``: {(op, device, reason): number of nodes of the device's graph that fell back to the CPU}.
    ``used``: the devices that nodes run on.
    """

    builder: GraphBuilder
    inputs: list[tuple[int, str]] = field(default_factory=list)
    hoisted: list[tuple[str, Callable[[], torch.Tensor]]] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    on_cpu: dict[tuple[str, str, str], int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


class SizeInt(int):
    """A number that depends on open sizes. If a rule needs the number as a value, the value is an input
    of the graph, because a program may serve several sizes."""


@dataclass(eq=False)
class Turned(Value):
    """A value with its last two dimensions swapped. Matrix products transpose their operands themselves; the
    transpose node is ``made`` only when another op reads the value."""

    source: Any
    perm: tuple[int, ...]
    made: Any = None

    @property
    def dtype(self) -> str:
        return self.source.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.source.shape[i] for i in self.perm)

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Any:
        """A node in the graph of the value ``source``."""
        return self.source.emit(op, *operands, **attrs)

    def scalar(self, number: Any, dtype: str | None = None) -> Any:
        """A constant of the graph."""
        return self.source.scalar(number, dtype)


class GraphEmitter:
    """The Emitter that adds nodes to a builder. A node runs on ``device``, on the CPU if that device has no
    kernel (unless ``strict``), or where ``pins`` {glob of op or node names: device} put it."""

    builder: GraphBuilder
    lowered: Lowered
    pins: Mapping[str, str]
    strict: bool
    device: str
    name: str
    used: Set[Any] = frozenset()

    graph = True
    narrow = True  # 64-bit integers are passed as the dtype ``integers``
    integers = "int32"  # the dtype is "int64" on the host

    def __init__(self, lowered: Lowered, pins: Mapping[str, str], strict: bool):
        self.lowered, self.builder, self.pins, self.strict = lowered, lowered.builder, pins, strict
        self.builder.emitter = self
        self.device, self.name = CPU, ""
        self._constants: dict[tuple[str, str, bytes, tuple[int, ...]], NodeValue] = {}
        self._where: dict[int, str] = {}  # {node id: device}
        self._products: dict[int, NodeValue] = {}  # {node id: product}, also for reshapes of products
        self.inputs: set[int] = set()  # ids of nodes that are inputs or constants

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        """The value of a new node of a registry op, or a tuple of values for several outputs. An attribute of
        value None is left out. Raises Unsupported if there is no such op, or if the op does not take these
        types."""
        if registry.get(name) is None:
            raise Unsupported(f"the registry has no op {name}")
        if name == "transpose" and _swaps_last(attrs["perm"]) and not isinstance(values[0], Turned):
            return Turned(values[0], tuple(attrs["perm"]))
        if name == "matmul":
            values, attrs = _with_flags(values, attrs)
        given = [self.plain(value) for value in values]
        return self._add(name, given, {key: value for key, value in attrs.items() if value is not None})

    def plain(self, value: Any) -> Any:
        """The value of a node; a pending transposition becomes a node."""
        if not isinstance(value, Turned):
            return value
        if value.made is None:
            value.made = self._add("transpose", [self.plain(value.source)], {"perm": value.perm})
        return value.made

    def _add(self, name: str, given: Sequence[NodeValue], attrs: Mapping[str, Any]) -> Any:
        entry = registry.require(name)
        on = self.where(given[0]) if entry.is_nop else self._device_for(entry, given, attrs)
        try:
            made = self.builder.op(name, *given, device=on, name=self.name or name, **attrs)
        except GraphError as error:
            raise Unsupported(str(error)) from error
        for value in made if isinstance(made, tuple) else (made,):
            self._where[value.nid] = on
        self.lowered.used.add(on)
        if name == "matmul" or (name == "reshape" and given[0].nid in self._products):
            source = self._products.get(given[0].nid, made)
            if name == "matmul" or source.shape[-1:] == made.shape[-1:]:
                self._products[made.nid] = made if name == "matmul" else source
        return made

    def product_of(self, value: Any) -> NodeValue | None:
        """The matrix product that a value is, or that the value reshapes without changing the last axis. None
        for any other value."""
        return None if isinstance(value, Turned) else self._products.get(value.nid)

    def where(self, value: NodeValue) -> str:
        """The device that a value is on."""
        return self._where[value.nid]

    def input(self, name: str, shape: Sequence[int], dtype: str, device: str) -> NodeValue:
        """An input of the graph."""
        made = self.builder.input(name, tuple(map(int, shape)), dtype, device=device)
        self._where[made.nid] = device
        self.lowered.used.add(device)
        self.inputs.add(made.nid)
        return made

    def copy(self, value: NodeValue) -> NodeValue:
        """The value, copied to the current device."""
        made = self.builder.copy(value, self.device)
        self._where[made.nid] = self.device
        self.lowered.used.add(self.device)
        return made

    def _device_for(self, entry: Any, given: Sequence[NodeValue], attrs: Mapping[str, Any]) -> str:
        wanted = self.device
        for glob, device in self.pins.items():
            if fnmatchcase(entry.name, glob) or fnmatchcase(self.name, glob):
                wanted = device
        if wanted == CPU:
            return wanted
        try:
            decoded = entry.decode(attrs)
            types = [value.type for value in given]
            there = next(d for d in devices() if str(d) == wanted)
            made = entry.infer(types, decoded)
            stored = [*types, *made]
            known = [dtypes.format_of(t.dtype) for t in stored]
            missing = next((f.dtype for f in known if f and f.name not in there.descriptor.formats), None)
            if missing is not None:
                raise UnsupportedOpError(f"{wanted} has no {missing}")
            select(entry, decoded, there.kernels, types, made)
        except (GraphError, UnsupportedOpError) as error:
            if self.strict:
                raise Unsupported(str(error)) from error
            key = (entry.name, wanted, str(error))
            self.lowered.on_cpu[key] = self.lowered.on_cpu.get(key, 0) + 1
            return CPU
        return wanted

    def scalar(self, number: Any, dtype: str) -> NodeValue:
        if not isinstance(number, SizeInt):
            return self.array(number, dtype)
        name = f"hoisted_{len(self.lowered.hoisted)}"
        made = torch.tensor(int(number), dtype=getattr(torch, dtype))
        self.lowered.hoisted.append((name, lambda: made))
        return self.input(name, (), dtype, self.device if self._holds(dtype) else CPU)

    def array(self, values: Any, dtype: str) -> NodeValue:
        """A constant of the graph. Raises Unsupported for an integer that the dtype cannot hold."""
        array = np.asarray(values)
        narrow = array.astype(dtypes.to_numpy(dtype))
        if array.dtype.kind in "iu" and narrow.dtype.kind in "iu" and (narrow != array).any():
            raise Unsupported(f"the number {array[narrow != array].flat[0]} does not fit {dtype}")
        array = narrow
        device = self.device if self._holds(dtype) else CPU
        key = (device, dtype, array.tobytes(), array.shape)
        found = self._constants.get(key)
        if found is None:
            found = self.builder.param(f"constant_{len(self._constants)}", array, device=device)
            self._constants[key] = found
            self._where[found.nid] = device
            self.lowered.used.add(device)
            self.inputs.add(found.nid)
        return found

    def _holds(self, dtype: str) -> bool:
        """Whether the current device can compute with a dtype."""
        if self.device == CPU:
            return True
        there = next(d for d in devices() if str(d) == self.device)
        found = dtypes.format_of(dtype)
        return found is None or found.name in there.descriptor.formats

    def filled(self, shape: tuple[int, ...], number: Any, dtype: str) -> Any:
        made = self.scalar(number, dtype)
        return self.op("broadcast_to", made, shape=shape) if shape else made

    def has(self, name: str, value: Any) -> bool:
        entry = registry.get(name)
        return entry is not None and (self.device == CPU or "tt" in entry.bodies)


def _swaps_last(perm: Sequence[int]) -> bool:
    n = len(perm)
    return n >= 2 and tuple(perm) == (*range(n - 2), n - 1, n - 2)


def _with_flags(values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """A matrix product's operands without their transpositions, and the attributes that stand for the
    transpositions."""
    names, attrs, plain = ("transpose_a", "transpose_b"), dict(attrs), []
    for value, name in zip(values, names, strict=False):
        turned = isinstance(value, Turned)
        plain.append(value.source if turned else value)
        if turned:
            attrs[name] = not attrs.get(name, False)
    return plain, attrs
