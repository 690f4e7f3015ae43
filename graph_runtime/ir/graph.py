"""The graph as columns: the contents of a document, checked and interned, before any decision about devices
or memory.

Ids used in every file: nid node, eid entry (= row_ptr[nid] + index), sid storage, did device, kid kernel.
Values are immutable: a pass makes a new Graph. ``graph.node(nid)`` makes a view of one node, for people and
errors.
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

COPY = "__copy"
NOP = "__nop"
_EMPTY: MappingProxyType[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TensorType:
    """Logical type of an entry. ``dtype``: canonical name (dtypes.canonical); ``shape``: () for a scalar."""

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
    """The function that a tvm_op node calls; nodes with one func_name and equal attributes share one Func.

    ``op``: name of the op (gr.op); None for __copy, __nop and functions that only a library has. ``attrs``:
    the op's attributes, decoded, with defaults filled in. ``raw``: the node's attrs as strings, as in the
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
        """Whether the function gets its arguments with one dimension. ``flatten`` (flatten_data) asks for
        that, but only functions without gr.op obey: an op computes by its types."""
        return self.flatten and self.op is None and self.name not in (COPY, NOP)


def _listed(names: Sequence[str], most: int = 8) -> str:
    """The first names, and the number of the others."""
    return ", ".join(names[:most]) + (f", and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True, slots=True)
class StorageHint:
    """One row of metadata.graph_runtime.storage: the planned place of a storage id. ``offset`` and ``bytes``
    are in bytes; on tt ``offset`` is the address inside each bank, and ``bytes`` counts the padded pages of
    all banks."""

    device: str
    memory: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Hints:
    """Columns and metadata of a file, which the passes of the plan accept or refuse. A field is None if the
    file does not have it.

    Columns have one element for each entry. ``device_type``: DLDeviceType numbers, as in the file.
    """

    device_type: np.ndarray | None = None
    device_id: np.ndarray | None = None
    storage_id: np.ndarray | None = None
    storage_scope: tuple[str, ...] | None = None
    storage: tuple[StorageHint, ...] | None = None  # one row for each storage id
    layouts: tuple[Layout, ...] | None = None
    layout: np.ndarray | None = None  # indices into ``layouts``, -1 for an entry without a layout
    aliases: tuple[tuple[int, int], ...] = ()  # (output index, input index)
    at_input: tuple[int, ...] = ()  # nids of copies that run when their graph input is set
    # {device or kind: {"fidelity": ..., "dst": ..., "numerics": ...}}
    numerics: MappingProxyType[Any, Any] | dict[Any, Any] = field(default_factory=lambda: _EMPTY)
    policy: str | None = None  # the balancer's policy


@dataclass(frozen=True, slots=True)
class NodeView:
    """A view of one node, for people: made on demand, never stored."""

    nid: int
    name: str
    func: Func | None
    inputs: tuple[int, ...]  # eids of the entries that the node reads
    outputs: tuple[int, ...]  # eids of the node's results
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]

    @property
    def callee(self) -> Func:
        """The function that the node calls. Only for nodes that call a function."""
        assert self.func is not None
        return self.func

    @property
    def op(self) -> str:
        """gr.op if there is one, else the function's name; "input" for a null node."""
        return "input" if self.func is None else self.func.op or self.func.name


@dataclass(frozen=True, slots=True, eq=False)
class Graph(Showable):
    """A valid graph: every id is in range, producers and shapes are consistent, and the order of the nodes is
    a schedule.

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
    # parts of the document that no code here reads and the writer keeps: unknown columns, control_deps ({nid:
    # [nid]})
    extra_columns: MappingProxyType[Any, Any] | dict[Any, Any] = field(default_factory=lambda: _EMPTY)
    control_deps: MappingProxyType[Any, Any] | dict[Any, Any] = field(default_factory=lambda: _EMPTY)

    def __repr__(self) -> str:
        return (
            f"<Graph of {self.num_nodes} nodes: {_listed(self.input_names)} -> {_listed(self.output_names)}>"
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes, null nodes included."""
        return len(self.names)

    @property
    def num_entries(self) -> int:
        """Number of results of all nodes; a null node has one."""
        return int(self.row_ptr[-1])

    @property
    def entry_nid(self) -> np.ndarray:
        """int64 [entries]: the node that makes each entry."""
        return np.repeat(np.arange(self.num_nodes), np.diff(self.row_ptr))

    def maker(self, eid: int) -> int:
        """The nid of the node that makes an entry; ``entry_nid`` has this for all entries."""
        return int(np.searchsorted(self.row_ptr, eid, side="right")) - 1

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the graph inputs, in the order of ``inputs``."""
        return tuple(self.names[nid] for nid in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each head: the name of its node, "node:k" if the node has several results, "output<i>"
        where two heads would otherwise have the same name."""
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
        """nids that read an entry, in node order; a node that reads the entry twice is listed once."""
        slots = np.flatnonzero(self.in_eid == eid)
        return unique_values(np.searchsorted(self.in_ptr, slots, side="right") - 1)
