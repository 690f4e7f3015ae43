"""The graph as columns: what a document says, checked and interned, before anything is decided about devices
or memory.

Ids used in every file: nid node, eid entry (= row_ptr[nid] + index), sid storage, did device, kid kernel.
Values are immutable: a pass makes a new Graph. ``graph.node(nid)`` is a view for people and errors, made on
demand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.machine.layout import Layout
from ..base.showable import Showable
from ..base.unique import unique_values

__all__ = ["COPY", "NOP", "Func", "Graph", "Hints", "NodeView", "StorageHint", "TensorType"]

COPY = "__copy"
NOP = "__nop"
_EMPTY: MappingProxyType[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TensorType:
    """Logical type of an entry. ``dtype`` is canonical (dtypes.canonical), ``shape`` logical; () is a
    scalar."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in a host pool: prod(shape) * ceil(bits * lanes / 8)."""
        return self.size * dtypes.parse(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True, eq=False)
class Func:
    """What a tvm_op node calls; nodes with one func_name and equal attributes share one Func.

    ``op`` is ``gr.op`` (None for functions that only a library knows, for __copy and __nop), ``attrs`` its
    decoded attributes with the defaults filled in, ``raw`` the node's attrs as strings, as they stand in the
    file.
    """

    name: str
    op: str | None
    attrs: dict[str, Any]
    num_inputs: int
    num_outputs: int
    flatten: bool = False
    raw: dict[str, str] = field(default_factory=dict)

    @property
    def takes_flat(self) -> bool:
        """Whether it is shown its arguments as 1-d. ``flatten`` (flatten_data) asks for that, but only of
        functions that a library alone knows: what a gr.op computes is said by its types."""
        return self.flatten and self.op is None and self.name not in (COPY, NOP)


def _listed(names: Sequence[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f", and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True, slots=True)
class StorageHint:
    """One row of metadata.graph_runtime.storage: where a sid was planned to lie. ``offset`` and ``bytes`` in
    bytes (tt: ``offset`` is the address offset inside each bank, ``bytes`` the padded page bytes of all
    banks)."""

    device: str
    memory: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Hints:
    """Columns and metadata of the file that plan passes accept or refuse. None: the file does not say.

    Columns have one element an entry. ``device_type`` holds DLDeviceType numbers as in the file.
    """

    device_type: np.ndarray | None = None
    device_id: np.ndarray | None = None
    storage_id: np.ndarray | None = None
    storage_scope: tuple[str, ...] | None = None
    storage: tuple[StorageHint, ...] | None = None  # [sids]
    layouts: tuple[Layout, ...] | None = None
    layout: np.ndarray | None = None  # index into layouts, -1: not said
    aliases: tuple[tuple[int, int], ...] = ()  # (output index, input index)
    at_input: tuple[int, ...] = ()  # nids of copies that run when their graph input is set
    # device or kind -> {"fidelity": ..., "dst": ..., "numerics": ...}
    numerics: MappingProxyType[Any, Any] | dict[Any, Any] = field(default_factory=lambda: _EMPTY)
    policy: str | None = None  # of the balancer


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node for people: made on demand, never stored."""

    nid: int
    name: str
    func: Func | None
    inputs: tuple[int, ...]  # eids
    outputs: tuple[int, ...]  # eids
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]

    @property
    def callee(self) -> Func:
        """The function, of a node that calls one."""
        assert self.func is not None
        return self.func

    @property
    def op(self) -> str:
        """gr.op if there is one, else the function's name; "input" for a null node."""
        return "input" if self.func is None else self.func.op or self.func.name


@dataclass(frozen=True, slots=True, eq=False)
class Graph(Showable):
    """A valid graph: every id is in range, producers and shapes are consistent, the node order is a schedule.

    Shapes: ``names`` [nodes], ``func_id`` int32 [nodes] (-1: null node), ``row_ptr`` int64 [nodes + 1],
    ``in_ptr`` int64 [nodes + 1] and ``in_eid`` int64 [in_ptr[-1]] (the inputs of all nodes), ``type_id``
    int32 [entries], ``inputs`` int64 [graph inputs] (nids of arg_nodes), ``outputs`` int64 [graph outputs]
    (eids of heads).
    """

    names: tuple[str, ...]
    func_id: np.ndarray
    funcs: tuple[Func, ...]
    row_ptr: np.ndarray
    in_ptr: np.ndarray
    in_eid: np.ndarray
    type_id: np.ndarray
    types: tuple[TensorType, ...]
    inputs: np.ndarray
    outputs: np.ndarray
    hints: Hints = field(default_factory=Hints)
    # what the document carried that nothing here reads but a writer keeps: unknown columns, control_deps
    # ({nid: [nid]})
    extra_columns: MappingProxyType[Any, Any] | dict[Any, Any] = field(default_factory=lambda: _EMPTY)
    control_deps: MappingProxyType[Any, Any] | dict[Any, Any] = field(default_factory=lambda: _EMPTY)

    def __repr__(self) -> str:
        return (
            f"<Graph of {self.num_nodes} nodes: {_listed(self.input_names)} -> {_listed(self.output_names)}>"
        )

    @property
    def num_nodes(self) -> int:
        """Null nodes too."""
        return len(self.names)

    @property
    def num_entries(self) -> int:
        """Results of all nodes; a null node has one."""
        return int(self.row_ptr[-1])

    @property
    def entry_nid(self) -> np.ndarray:
        """int64 [entries]: the node that makes each entry."""
        return np.repeat(np.arange(self.num_nodes), np.diff(self.row_ptr))

    def maker(self, eid: int) -> int:
        """The nid of the node that makes an entry: of one; ``entry_nid`` is a column of all."""
        return int(np.searchsorted(self.row_ptr, eid, side="right")) - 1

    @property
    def input_names(self) -> tuple[str, ...]:
        """[graph inputs], in the order of ``inputs``."""
        return tuple(self.names[nid] for nid in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each head: its node's, "node:k" where the node has several results, "output<i>" where
        two entries would have one name."""
        nids = self.entry_nid[self.outputs]
        single = self.row_ptr[nids + 1] - self.row_ptr[nids] == 1
        names = [
            self.names[nid] if one else f"{self.names[nid]}:{eid - self.row_ptr[nid]}"
            for nid, eid, one in zip(nids, self.outputs, single, strict=True)
        ]
        entry_of: dict[str, int] = {}
        for i, eid in enumerate(self.outputs.tolist()):
            if entry_of.setdefault(names[i], eid) != eid:
                names[i] = f"output{i}"
        return tuple(names)

    @property
    def input_eids(self) -> np.ndarray:
        """int64 [graph inputs]: the entry of each graph input."""
        return self.row_ptr[self.inputs]

    def entry_type(self, eid: int) -> TensorType:
        """The logical type of an entry."""
        return self.types[self.type_id[eid]]

    def node(self, nid: int) -> NodeView:
        """A view of one node, for people and errors."""
        ins = tuple(int(e) for e in self.in_eid[self.in_ptr[nid] : self.in_ptr[nid + 1]])
        outs = tuple(range(int(self.row_ptr[nid]), int(self.row_ptr[nid + 1])))
        fid = int(self.func_id[nid])
        return NodeView(
            int(nid),
            self.names[nid],
            None if fid < 0 else self.funcs[fid],
            ins,
            outs,
            tuple(map(self.entry_type, ins)),
            tuple(map(self.entry_type, outs)),
        )

    def consumers(self, eid: int) -> np.ndarray:
        """nids that read an entry, in node order (a node that reads it twice is listed once)."""
        slots = np.flatnonzero(self.in_eid == eid)
        return unique_values(np.searchsorted(self.in_ptr, slots, side="right") - 1)
