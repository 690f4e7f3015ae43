"""Rules as nodes of a graph: what a lowered graph is made of, and the GraphEmitter that adds to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch

from ...base import dtypes
from ...base.errors import GraphError, UnsupportedOpError
from ...ir.builder import GraphBuilder, Value
from ...ir.ops import registry
from ...ir.ops.select import select
from ..counters import Unsupported
from ..store import devices

__all__ = ["CPU", "GraphEmitter", "Lowered", "Output", "SizeInt", "Turned"]

CPU = "cpu:0"


@dataclass(frozen=True)
class Output:
    """A result of a graph. ``number``: which output of ours; else ``argument``: it is this argument as it is;
    else ``constant``. ``dtype`` and ``device`` are those that torch expects of it, None but for a number."""

    number: int | None = None
    argument: int | None = None
    constant: Any = None
    dtype: Any = None
    device: Any = None


@dataclass
class Lowered:
    """``inputs``: (argument number, name) of our graph's inputs; ``hoisted``: (name, function of no arguments
    that makes the values on the host): random numbers, and what follows from open sizes; ``outputs`` in
    torch's order; ``on_cpu``: {(op, device, reason): how many} nodes of a device's graph that stand on the
    CPU, unasked; ``used`` devices."""

    builder: GraphBuilder
    inputs: list[tuple[int, str]] = field(default_factory=list)
    hoisted: list[tuple[str, Callable[[], torch.Tensor]]] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    on_cpu: dict[tuple[str, str, str], int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


class SizeInt(int):
    """A number that follows from open sizes: where it is a value of the graph, it is an input of it, as a
    program may serve several sizes."""


@dataclass
class Turned:
    """A value with its last two dimensions swapped, while no op needs it so (then it is ``made``): products
    do that themselves."""

    source: Any
    perm: tuple[int, ...]
    made: Any = None

    @property
    def dtype(self) -> str:
        return self.source.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.source.shape[i] for i in self.perm)


class GraphEmitter:
    """The Emitter that adds nodes to a builder, on ``device``, or on the CPU where that device has
    no kernel (unless ``strict``) or ``pins`` {glob of op or node names: device} say so."""

    builder: GraphBuilder
    lowered: Lowered
    pins: Mapping[str, str]
    strict: bool
    device: str
    name: str
    used: Set[Any] = frozenset()

    graph = True
    narrow = True  # 64-bit integers are int32, or
    integers = "int32"  # int64 on the host

    def __init__(self, lowered: Lowered, pins: Mapping[str, str], strict: bool):
        self.lowered, self.builder, self.pins, self.strict = lowered, lowered.builder, pins, strict
        self.device, self.name = CPU, ""
        self._constants: dict[tuple[str, str, bytes, tuple[int, ...]], Value] = {}
        self._where: dict[int, str] = {}  # of each node
        self._products: dict[int, Value] = {}  # of products, and reshapes that keep their rows
        self.inputs: set[int] = set()  # nodes that are inputs or constants

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        """A node of a registry op: its Value, a tuple of several; None for an attribute leaves it out. Raises
        Unsupported where there is no such op, or it does not take these types."""
        if registry.get(name) is None:
            raise Unsupported(f"the registry has no op {name}")
        if name == "transpose" and _swaps_last(attrs["perm"]) and not isinstance(values[0], Turned):
            return Turned(values[0], tuple(attrs["perm"]))
        if name == "matmul":
            values, attrs = _with_flags(values, attrs)
        given = [self.plain(value) for value in values]
        return self._add(name, given, {key: value for key, value in attrs.items() if value is not None})

    def plain(self, value: Any) -> Any:
        """A value as a node gives it."""
        if not isinstance(value, Turned):
            return value
        if value.made is None:
            value.made = self._add("transpose", [self.plain(value.source)], {"perm": value.perm})
        return value.made

    def _add(self, name: str, given: Sequence[Value], attrs: Mapping[str, Any]) -> Any:
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

    def product_of(self, value: Any) -> Value | None:
        """The product that a value is, but for its leading dimensions; None where it is none."""
        return None if isinstance(value, Turned) else self._products.get(value.nid)

    def where(self, value: Value) -> str:
        """The device that a value is on."""
        return self._where[value.nid]

    def input(self, name: str, shape: Sequence[int], dtype: str, device: str) -> Value:
        """An input of the graph."""
        made = self.builder.input(name, tuple(map(int, shape)), dtype, device=device)
        self._where[made.nid] = device
        self.lowered.used.add(device)
        self.inputs.add(made.nid)
        return made

    def copy(self, value: Value) -> Value:
        """The value on the device that is the current one."""
        made = self.builder.copy(value, self.device)
        self._where[made.nid] = self.device
        self.lowered.used.add(self.device)
        return made

    def _device_for(self, entry: Any, given: Sequence[Value], attrs: Mapping[str, Any]) -> str:
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

    def scalar(self, number: Any, dtype: str) -> Value:
        if not isinstance(number, SizeInt):
            return self.array(number, dtype)
        name, made = (
            f"hoisted_{len(self.lowered.hoisted)}",
            torch.tensor(int(number), dtype=getattr(torch, dtype)),
        )
        self.lowered.hoisted.append((name, lambda: made))
        return self.input(name, (), dtype, self.device if self._holds(dtype) else CPU)

    def array(self, values: Any, dtype: str) -> Value:
        """A constant of the graph. Raises Unsupported for an integer that does not fit the dtype."""
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
        """Whether the current device computes with a dtype."""
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
    """Operands of a product that are turned, as they were, and the attributes that say so."""
    names, attrs, plain = ("transpose_a", "transpose_b"), dict(attrs), []
    for value, name in zip(values, names, strict=False):
        turned = isinstance(value, Turned)
        plain.append(value.source if turned else value)
        if turned:
            attrs[name] = not attrs.get(name, False)
    return plain, attrs
