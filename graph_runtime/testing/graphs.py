"""Random graphs for tests and fuzzers. They are valid by construction, use any list of devices, and have only
ops that every device kind can run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.machine.devices import Device, parse_list
from ..ir.documents.draft import call_attrs
from ..ir.graph import COPY, NOP, Func, Graph, Hints, TensorType
from ..ir.ops import registry
from ..plan.columns import starts

_SHAPES = ((), (5,), (3, 4), (33, 40), (2, 3, 8), (1, 64), (2, 32, 32), (4, 3, 3, 3))
_UNARY = ("relu", "sigmoid", "tanh")
_BINARY = ("add", "subtract", "multiply", "maximum")


@dataclass
class GraphMaker:
    """Collects nodes and makes a Graph of them. ``device``: device of each node, an index into the device
    list; the graph's device columns store the device."""

    names: list[str] = field(default_factory=list)
    func_id: list[int] = field(default_factory=list)
    funcs: dict[tuple[Any, ...], Func] = field(default_factory=dict)
    reads: list[list[int]] = field(default_factory=list)
    made: list[list[TensorType]] = field(default_factory=list)
    device: list[int] = field(default_factory=list)

    @property
    def types(self) -> list[TensorType]:
        """The type of each entry."""
        return [t for made in self.made for t in made]

    def input(self, type_: TensorType, device: int = 0) -> int:
        """Adds a graph input; returns its entry."""
        return self._node(f"x{len(self.names)}", -1, [], [type_], device)

    def op(self, op: str, reads: Sequence[int], device: int = 0, **attrs: Any) -> int:
        """Adds a node of a registered op; returns its first entry. ``reads``: entries that the node reads."""
        entry = registry.require(op)
        inputs, attrs = [self.types[eid] for eid in reads], entry.decode(attrs)
        made = entry.infer(inputs, attrs)
        said = {k: json.dumps(v) for k, v in attrs.items() if v is not None}
        name = NOP if entry.is_nop else f"{op}_{len(self.funcs)}"
        raw = {"gr.op": op, **{f"gr.{k}": v for k, v in said.items()}}
        key = (op, tuple(said.items()), tuple(inputs), tuple(made))
        return self._call(key, Func(name, op, attrs, len(reads), len(made), raw=raw), reads, made, device)

    def call(self, name: str, reads: Sequence[int], made: Sequence[TensorType], device: int = 0) -> int:
        """Adds a node of a function that is no registered op: a function of a library, a __copy or a __nop.
        Returns the node's first entry. ``reads``: entries that the node reads. ``made``: types of its
        results."""
        return self._call(
            (name, len(reads), len(made)), Func(name, None, {}, len(reads), len(made)), reads, made, device
        )

    def _call(
        self, key: tuple[Any, ...], func: Func, reads: Sequence[int], made: Sequence[TensorType], device: int
    ) -> int:
        func.raw.update(call_attrs(func.name, func.num_inputs, func.num_outputs))
        self.funcs.setdefault(key, func)
        return self._node(f"n{len(self.names)}", list(self.funcs).index(key), list(reads), list(made), device)

    def _node(self, name: str, fid: int, reads: list[int], made: list[TensorType], device: int) -> int:
        first = len(self.types)
        self.names.append(name)
        self.func_id.append(fid)
        self.reads.append(reads)
        self.made.append(made)
        self.device.append(device)
        return first

    def graph(
        self, outputs: Sequence[int], *, devices: Sequence[Device] | None = None, **hints: Any
    ) -> Graph:
        """The Graph. ``outputs``: entries that are outputs. ``devices``: device list; if it is given, the
        graph has device columns. ``hints``: further fields of Hints."""
        table = {t: at for at, t in enumerate(dict.fromkeys(self.types))}
        func_id = np.array(self.func_id, np.int32)
        if devices is not None:
            dl_type = [d.dl_type for d in devices]
            of_entry = np.repeat(self.device, [len(made) for made in self.made]).astype(np.int64)
            hints["device_type"] = np.array(dl_type, np.int64)[of_entry]
            hints["device_id"] = np.array([dl_type[:i].count(t) for i, t in enumerate(dl_type)], np.int64)[
                of_entry
            ]
        return Graph(
            names=tuple(self.names),
            func_id=func_id,
            funcs=tuple(self.funcs.values()),
            row_ptr=starts(np.array([len(made) for made in self.made], np.int64)),
            in_ptr=starts(np.array([len(read) for read in self.reads], np.int64)),
            in_eid=np.array([e for r in self.reads for e in r], np.int64),
            type_id=np.array([table[t] for t in self.types], np.int32),
            types=tuple(table),
            inputs=np.flatnonzero(func_id < 0),
            outputs=np.array(outputs, np.int64),
            hints=Hints(**hints),
        )


def random_graph(
    rng: np.random.Generator,
    devices: Sequence[str | Device] = ("cpu:0",),
    *,
    nodes: int = 12,
    columns: bool = True,
    library: bool = False,
) -> Graph:
    """A graph of about ``nodes`` nodes on random devices of the list.

    It has inputs at any place, reshapes, chains that can run in place, broadcasting, explicit copies (with
    ``columns``), entries read several times or never, inputs that are outputs, and function names shared by
    nodes. ``columns``: whether the graph stores each node's device. ``library``: whether some functions are
    no registered ops and have two outputs; such a graph can be planned, but not run.
    """
    devices = parse_list(devices)
    maker, count = GraphMaker(), len(devices)
    for _ in range(int(rng.integers(1, 4))):
        maker.input(_random_type(rng), int(rng.integers(count)))
    while len(maker.names) < nodes:
        _random_node(rng, maker, int(rng.integers(count)), copies=columns and count > 1, library=library)
    total = len(maker.types)
    outputs = [total - 1, *rng.integers(0, total, int(rng.integers(0, 3))).tolist()]
    return maker.graph(list(dict.fromkeys(outputs)), devices=devices if columns else None)


def _random_type(rng: np.random.Generator) -> TensorType:
    return TensorType("int32" if rng.random() < 0.1 else "float32", _SHAPES[rng.integers(len(_SHAPES))])


def _random_node(
    rng: np.random.Generator, maker: GraphMaker, device: int, *, copies: bool, library: bool
) -> None:
    types = maker.types
    recent = int(rng.integers(max(len(types) - 4, 0), len(types)))
    eid = recent if rng.random() < 0.7 else int(rng.integers(len(types)))
    type_, draw = types[eid], rng.random()
    if draw < 0.1:
        maker.input(_random_type(rng), device)
    elif draw < 0.25:
        maker.op("reshape", [eid], device, shape=_another_shape(rng, type_))
    elif draw < 0.35 and copies:
        maker.call(COPY, [eid], [type_], device)
    elif draw < 0.42 and len(type_.shape) >= 2:
        maker.op("transpose", [eid], device)
    elif draw < 0.5 and library:
        maker.call("pair", [eid], [TensorType("float32", (33, 40))] * 2, device)
    elif draw < 0.75 and type_.dtype == "float32":
        maker.op(str(rng.choice(_UNARY)), [eid], device)
    else:
        like = [e for e, t in enumerate(types) if t == type_ or (t.dtype == type_.dtype and t.shape == ())]
        maker.op(str(rng.choice(_BINARY)), [eid, int(rng.choice(like))], device)


def _another_shape(rng: np.random.Generator, type_: TensorType) -> list[int]:
    shape = list(type_.shape)
    choices = [[type_.size], shape, [1, *shape], [*shape[:-2], int(np.prod(shape[-2:]))], shape[::-1]]
    return choices[rng.integers(len(choices))]
