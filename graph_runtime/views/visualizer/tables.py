"""The rows of each table of db.sqlite, of a plan and its simulated timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ...base.machine.descriptors import Descriptor
from ...base.machine.layout import L1
from ...costs import BASES
from ...ir.graph import NodeView
from ...plan.types import Plan
from ...simulation.timeline import Timeline
from . import forms
from .captured import captured_graph
from .places import Places
from .schema import VERSION

__all__ = ["ComparedValue", "Rows", "device_row", "op_name"]


class ComparedValue(Protocol):
    """A value beside what it should be, as a comparison has it: the node's name (``name:index`` where it
    makes several), the normalised mean squared error and Pearson's correlation."""

    @property
    def name(self) -> str: ...
    @property
    def nmse(self) -> float: ...
    @property
    def correlation(self) -> float: ...


def op_name(node: NodeView) -> str:
    """What an operation is called: its op, or the library's function."""
    return node.callee.op or node.callee.name


class Rows:
    """The rows of each table. An operation is an event of the timeline's first run, in the plan's order, from
    1 on; a tensor is an entry that one of them reads or makes, and has its eid."""

    def __init__(self, timeline: Timeline, compared: Mapping[str, tuple[Sequence[ComparedValue], float]]):
        self.timeline, self.compared = timeline, compared
        self.plan: Plan = timeline.plan
        self.places = Places(self.plan)
        first = np.flatnonzero(timeline.run == 0)
        self.events = first[np.argsort(timeline.nid[first], kind="stable")].tolist()
        self.nodes = [self.plan.graph.node(int(timeline.nid[at])) for at in self.events]
        self.operation = {node.nid: number for number, node in enumerate(self.nodes, 1)}
        self.tensors = sorted({eid for node in self.nodes for eid in (*node.inputs, *node.outputs)})

    def of(self, table: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, in the order of its columns; none where there is nothing to say."""
        made = getattr(self, f"_{table}", None)
        return made() if made is not None else iter(())

    def _devices(self) -> Iterator[tuple[Any, ...]]:
        for did, number in self.places.board.items():
            yield number, *device_row(self.plan.devices[did].descriptor)

    def _operations(self) -> Iterator[tuple[Any, ...]]:
        for number, (at, node) in enumerate(zip(self.events, self.nodes, strict=True), 1):
            yield number, op_name(node), int(self.timeline.duration[at]) / 1e9

    def _operation_arguments(self) -> Iterator[tuple[Any, ...]]:
        for number, (at, node) in enumerate(zip(self.events, self.nodes, strict=True), 1):
            plan = self.plan
            said = {
                "node": node.name,
                "device": str(plan.devices[plan.did[node.nid]]),
                "placed": plan.causes[plan.cause_id[node.nid]],
                "time": f"simulated, {BASES[self.timeline.basis[at]]}: {int(self.timeline.duration[at])} ns",
            }
            if plan.layout_causes and node.outputs:
                said["laid out"] = plan.layout_causes[plan.layout_id[node.outputs[0]]]
            for name, value in {**said, **node.callee.attrs}.items():
                yield number, str(name), str(value)

    def _tensors(self) -> Iterator[tuple[Any, ...]]:
        for eid in self.tensors:
            layout, sid = self.plan.layout(eid), int(self.plan.sid[eid])
            board = self.places.board.get(int(self.plan.storage.did[sid]))
            yield (
                eid,
                forms.shape(self.plan.graph.entry_type(eid).shape),
                f"DataType.{forms.dtype(layout)}",
                f"Layout.{forms.tensor_layout(layout)}",
                forms.memory_config(layout),
                board,
                None if board is None else int(self.places.address[sid]),
                forms.BUFFER_TYPES.get(layout.memory),
                int(self.plan.storage.nbytes[sid]),
            )

    def _device_tensors(self) -> Iterator[tuple[Any, ...]]:
        return (
            (eid, board, address) for eid, *_, board, address, _, _ in self._tensors() if board is not None
        )

    def _input_tensors(self) -> Iterator[tuple[Any, ...]]:
        for number, node in enumerate(self.nodes, 1):
            yield from ((number, index, eid) for index, eid in enumerate(node.inputs))

    def _output_tensors(self) -> Iterator[tuple[Any, ...]]:
        for number, node in enumerate(self.nodes, 1):
            yield from ((number, index, eid) for index, eid in enumerate(node.outputs))

    def _tensor_consumers(self) -> Iterator[tuple[Any, ...]]:
        return ((eid, number, index) for number, index, eid in self._input_tensors())

    def _buffers(self) -> Iterator[tuple[Any, ...]]:
        for number, node in enumerate(self.nodes, 1):
            for eid in self.places.held(node.nid).tolist():
                yield number, *self._buffer(eid)

    def _buffer(self, eid: int) -> tuple[int, ...]:
        layout, sid = self.plan.layout(eid), int(self.plan.sid[eid])
        return (
            self.places.board[int(self.plan.storage.did[sid])],
            int(self.places.address[sid]),
            int(self.plan.storage.extent[sid]),
            forms.BUFFER_TYPES[layout.memory],
            forms.memory_layout(layout),
        )

    def _buffer_pages(self) -> Iterator[tuple[Any, ...]]:
        """Of L1 alone, as ttnn's reports have them."""
        for number, node in enumerate(self.nodes, 1):
            for eid in self.places.held(node.nid).tolist():
                board, address, _, buffer_type, _ = self._buffer(eid)
                columns = self.plan.devices[self.plan.did[self.plan.graph.maker(eid)]].descriptor.grid[1]
                for page, bank, at, nbytes in self.places.l1_pages(eid):
                    core = divmod(bank, columns)
                    yield number, board, address, *core, bank, page, at, nbytes, buffer_type

    def _captured_graph(self) -> Iterator[tuple[Any, ...]]:
        for number, node in enumerate(self.nodes, 1):
            yield number, captured_graph(self.places, node, op_name(node))

    def _nodes(self) -> Iterator[tuple[Any, ...]]:
        return ((number, node.nid, number, node.name) for number, node in enumerate(self.nodes, 1))

    def _edges(self) -> Iterator[tuple[Any, ...]]:
        graph = self.plan.graph
        for number, index, eid in self._input_tensors():
            maker = graph.maker(eid)
            yield number, maker, self.nodes[number - 1].nid, eid - int(graph.row_ptr[maker]), index, 0

    def _tensor_lifetime(self) -> Iterator[tuple[Any, ...]]:
        last = {eid: number for number, _, eid in self._input_tensors()}
        outputs = set(self.plan.graph.outputs.tolist())
        for eid in self.tensors:
            used = last.get(eid)
            freed = None if used is None or eid in outputs else used
            yield eid, self.operation.get(self.plan.graph.maker(eid)), used, freed, None, None, None, None

    def _local_tensor_comparison_records(self) -> Iterator[tuple[Any, ...]]:
        return self._compared("local")

    def _global_tensor_comparison_records(self) -> Iterator[tuple[Any, ...]]:
        return self._compared("global")

    def _compared(self, kind: str) -> Iterator[tuple[Any, ...]]:
        """A normalised error e of two values of one size and mean is a correlation of 1 - e / 2."""
        rows, bound = self.compared.get(kind, ((), 0.0))
        entry = {
            label: eid
            for node in self.nodes
            for index, eid in enumerate(node.outputs)
            for label in (node.name, f"{node.name}:{index}")[len(node.outputs) > 1 :]
        }
        for row in rows:
            eid = entry.get(row.name)
            if eid is not None:
                yield eid, eid, int(row.nmse <= bound), 1 - bound / 2, float(row.correlation)

    def _report_metadata(self) -> Iterator[tuple[Any, ...]]:
        yield "schema_version", VERSION
        yield "total_duration_ns", str(self.timeline.latency_ns)
        yield "capture_timestamp_ns", "0"
        yield "source", "graph_runtime: a plan, not a capture of a device"
        shares = self.timeline.basis_shares()
        yield (
            "times",
            "simulated: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share),
        )


def device_row(board: Descriptor) -> tuple[int, ...]:
    """What devices has behind device_id; zeros for a board without L1."""
    rows, columns = board.grid
    l1 = next((m for m in board.memories if m.name == L1), None)
    cores = (rows, columns, rows, columns)
    if l1 is None:
        return (*cores, 0, 0, 0, 0, 0, 1, rows * columns, 0, 0, 0, 0, 0, 0)
    return (
        *cores,
        l1.bank_bytes,
        l1.banks,
        l1.usable,
        l1.base,
        l1.base,
        1,
        rows * columns,
        0,
        l1.bank_bytes * l1.banks,
        l1.capacity,
        l1.capacity,
        l1.capacity,
        l1.usable,
    )
