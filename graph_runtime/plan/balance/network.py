"""The ops of a graph that run on one buda device, as the balancer sees them: the ops in order, the edges
along which data may go from core to core, and the legal models as columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...base.machine.devices import Device
from ...ir.graph import COPY, NOP
from ..storage.memory import room_beside
from ..types import Plan
from .chip import Chip, chip_of
from .legal import part_models, require_legal
from .memory import Settings
from .types import Candidates, OpModel
from .view import View, view_of_plan


class Edge(NamedTuple):
    """Op ``producer`` makes operand ``port`` of op ``consumer``; indices into Network.ops."""

    producer: int
    consumer: int
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The legal models of an op, one row per model, int64 [models] except ``by_rows`` bool: the grid, the
    pieces of rows and of columns (over cores and time), the stream factor, the block sizes in ublocks and in
    tiles, cycles, cores and bytes."""

    models: tuple[OpModel, ...]
    grid_r: np.ndarray
    grid_c: np.ndarray
    par_r: np.ndarray
    par_c: np.ndarray
    pieces: np.ndarray
    t: np.ndarray
    by_rows: np.ndarray
    mblock_m: np.ndarray
    rows: np.ndarray
    cols: np.ndarray
    m_k: np.ndarray
    u_kt: np.ndarray
    cycles: np.ndarray
    cores: np.ndarray
    l1_bytes: np.ndarray

    @classmethod
    def of(cls, models: tuple[OpModel, ...]) -> Columns:
        rows = [
            (
                m.grid.r,
                m.grid.c,
                m.grid.r * m.stream.r,
                m.grid.c * m.stream.c,
                m.stream.pieces,
                m.block.t,
                m.stream.by_rows,
                m.mblock[0],
                m.mblock[0] * m.ublock[0],
                m.mblock[1] * m.ublock[1],
                m.m_k,
                m.u_kt,
                m.cycles,
                m.cores,
                m.l1_bytes,
            )
            for m in models
        ]
        return cls(models, *(np.array(c) for c in zip(*rows, strict=True)))

    def __len__(self) -> int:
        return len(self.models)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """``ops`` in the order in which they are scheduled, ``columns`` of each op, ``edges`` between ops;
    ``into`` and ``out_of``: edge indices of each op. ``leaves`` bool [ops]: whether the op's result is also
    needed in DRAM (for a graph output, another device, or a reader that rearranges the result)."""

    device: Device
    chip: Chip
    ops: tuple[Candidates, ...]
    columns: tuple[Columns, ...]
    edges: tuple[Edge, ...]
    into: tuple[tuple[int, ...], ...]
    out_of: tuple[tuple[int, ...], ...]
    leaves: np.ndarray

    def name(self, i: int) -> str:
        """Name of an op: "conv1" if its node is one op, else "conv1 (dense)"."""
        op = self.ops[i]
        return op.node if op.part == "" else f"{op.node} ({op.part})"

    def edge_name(self, e: int) -> str:
        producer, consumer, port = self.edges[e]
        return f"{self.name(producer)} -> {self.name(consumer)}, operand {port}"


def network_of(plan: Plan, did: int, settings: Settings | None = None) -> Network:
    """The network of the ops that run on one device of a plan. Raises CapacityError or PlanError for an op
    without a legal model, DeviceError for a device that is not of stack buda."""
    device, view, room = plan.devices[did], view_of_plan(plan, did), room_beside(plan, did)
    ops: list[Candidates] = []
    last: dict[int, int] = {}  # nid -> index of the op that makes its output 0
    first: dict[int, int] = {}
    for nid in np.flatnonzero((plan.did == did) & (plan.graph.func_id >= 0)).tolist():
        if _runs_on_cores(view, nid):
            first[nid] = len(ops)
            parts = part_models(plan.graph, nid, device, settings, view, room)
            ops += [require_legal(c, device) for c in parts]
            last[nid] = len(ops) - 1
    edges, leaves = _edges(view, ops, first, last)
    known: dict[int, Columns] = {}
    columns = []
    for c in ops:  # equal ops have one enumeration, so they share a table of columns
        if id(c.tried) not in known:
            known[id(c.tried)] = Columns.of(c.models)
        columns.append(known[id(c.tried)])
    into, out_of = _sides(len(ops), edges)
    chip = chip_of(device, room)
    return Network(device, chip, tuple(ops), tuple(columns), tuple(edges), into, out_of, leaves)


def _runs_on_cores(view: View, nid: int) -> bool:
    """Whether parts_of makes ops of the node: copies, reshapes and functions of a library run on no core."""
    node = view.graph.node(nid)
    types = (*node.input_types, *node.output_types)
    return (
        node.func is not None
        and node.func.op is not None
        and node.func.name not in (COPY, NOP)
        and node.op != "reshape"
        and all(t.size for t in types)
    )


def _edges(
    view: View, ops: list[Candidates], first: dict[int, int], last: dict[int, int]
) -> tuple[list[Edge], np.ndarray]:
    """Pair of the edges along which a reader takes data directly as the data is made, and ``leaves``, the ops
    whose results leave the cores another way."""
    edges, leaves = [], np.zeros(len(ops), bool)
    for i, c in enumerate(ops):
        node = view.graph.node(c.nid)
        for port, read in enumerate(c.reads or tuple(~p for p in range(len(c.op.operands)))):
            if read is None or port >= len(c.op.operands):
                continue
            made = first[c.nid] + read if read >= 0 else last.get(view.producer(node.inputs[~read])[0])
            if made is None:
                continue
            if ops[made].op.out == c.op.operands[port].source_shape:
                edges.append(Edge(made, i, port))
            else:
                leaves[made] = True  # the reader's shape in tiles differs: the result is rearranged in DRAM
    _mark_leaving(view, last, leaves)
    return edges, leaves


def _mark_leaving(view: View, last: dict[int, int], leaves: np.ndarray) -> None:
    """Mark in ``leaves`` the ops that make graph outputs, tensors written into an input, and inputs of nodes
    outside of the network."""
    graph = view.graph
    for eid in view.results:
        made = last.get(view.producer(eid)[0])
        if made is not None:
            leaves[made] = True
    for nid in np.flatnonzero(graph.func_id >= 0).tolist():
        if nid in last or graph.funcs[graph.func_id[nid]].name in (COPY, NOP):
            continue
        for eid in graph.node(nid).inputs:
            made = last.get(view.producer(eid)[0])
            if made is not None:
                leaves[made] = True


def _sides(count: int, edges: list[Edge]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    into: list[list[int]] = [[] for _ in range(count)]
    out_of: list[list[int]] = [[] for _ in range(count)]
    for e, (producer, consumer, _) in enumerate(edges):
        into[consumer].append(e)
        out_of[producer].append(e)
    return tuple(map(tuple, into)), tuple(map(tuple, out_of))
