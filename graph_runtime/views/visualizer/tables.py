"""The tables of db.sqlite: their columns, and their rows from a plan and its simulated timeline."""

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

VERSION = "2.1"
# table of db.sqlite -> its columns with types, by schema 2.1 of tt-metal's ttnn/ttnn/graph_report.py
SCHEMA = {
    "devices": (
        "device_id int, num_y_cores int, num_x_cores int, num_y_compute_cores int, "
        "num_x_compute_cores int, worker_l1_size int, l1_num_banks int, l1_bank_size int, "
        "address_at_first_l1_bank int, address_at_first_l1_cb_buffer int, num_banks_per_storage_core int, "
        "num_compute_cores int, num_storage_cores int, total_l1_memory int, total_l1_for_tensors int, "
        "total_l1_for_interleaved_buffers int, total_l1_for_sharded_buffers int, cb_limit int"
    ),
    "operations": "operation_id int UNIQUE, name text, duration float",
    "operation_arguments": "operation_id int, name text, value text",
    "tensors": (
        "tensor_id int UNIQUE, shape text, dtype text, layout text, memory_config text, device_id int, "
        "address int, buffer_type int, size int"
    ),
    "device_tensors": "tensor_id int, device_id int, address int",
    "input_tensors": "operation_id int, input_index int, tensor_id int",
    "output_tensors": "operation_id int, output_index int, tensor_id int",
    "buffers": (
        "operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int, "
        "buffer_layout int"
    ),
    "buffer_pages": (
        "operation_id int, device_id int, address int, core_y int, core_x int, bank_id int, "
        "page_index int, page_address int, page_size int, buffer_type int"
    ),
    "captured_graph": "operation_id int, captured_graph text",
    "nodes": "operation_id int, unique_id int, node_operation_id int, name text",
    "edges": (
        "operation_id int, source_unique_id int, sink_unique_id int, source_output_index int, "
        "sink_input_index int, key int"
    ),
    "local_tensor_comparison_records": (
        "tensor_id int, golden_tensor_id int, matches int, desired_pcc float, actual_pcc float"
    ),
    "global_tensor_comparison_records": (
        "tensor_id int, golden_tensor_id int, matches int, desired_pcc float, actual_pcc float"
    ),
    "tensor_lifetime": (
        "tensor_id int UNIQUE, producer_operation_id int, last_use_operation_id int, "
        "deallocate_operation_id int, producer_source_file text, producer_source_line int, "
        "last_use_source_file text, last_use_source_line int"
    ),
    "tensor_consumers": "tensor_id int, operation_id int, input_index int",
    "stack_traces": "operation_id int, stack_trace text, source_file_id int",
    "source_files": "id INTEGER PRIMARY KEY, path text UNIQUE NOT NULL, contents text",
    "errors": (
        "operation_id int, operation_name text, error_type text, error_message text, stack_trace text, "
        "timestamp text"
    ),
    "report_metadata": "key text UNIQUE, value text",
}

Row = tuple[Any, ...]


class ComparedValue(Protocol):
    """The difference between a value and the expected value: the node's name (``name:index`` if the node
    makes several values), the normalised mean squared error and Pearson's correlation."""

    @property
    def name(self) -> str: ...
    @property
    def nmse(self) -> float: ...
    @property
    def correlation(self) -> float: ...


def op_name(node: NodeView) -> str:
    """The name of an operation: the node's op, or the library function that it calls."""
    return node.callee.op or node.callee.name


class Rows:
    """The rows of each table. An operation is an event of the timeline's first run at which a node calls a
    function, numbered from 1 in the plan's order; a tensor is an entry that an operation reads or makes,
    numbered by its eid."""

    def __init__(self, timeline: Timeline, compared: Mapping[str, tuple[Sequence[ComparedValue], float]]):
        self.timeline, self.compared = timeline, compared
        self.plan: Plan = timeline.plan
        self.places = Places(self.plan)
        first = np.flatnonzero(timeline.run == 0)
        ordered = first[np.argsort(timeline.nid[first], kind="stable")].tolist()
        nodes = {at: self.plan.graph.node(int(timeline.nid[at])) for at in ordered}
        self.events = [at for at in ordered if nodes[at].func is not None]  # an input comes to a board
        self.nodes = [nodes[at] for at in self.events]
        self.operation = {node.nid: number for number, node in enumerate(self.nodes, 1)}
        self.tensors = sorted({eid for node in self.nodes for eid in (*node.inputs, *node.outputs)})

    def of(self, table: str) -> Iterator[Row]:
        """The rows of a table, with values in the order of its columns."""
        if table.endswith("_tensor_comparison_records"):
            return self._compared(table.partition("_")[0])
        made = getattr(self, f"_{table}", None)
        return made() if made is not None else iter(())

    def _devices(self) -> Iterator[Row]:
        for did, number in self.places.board.items():
            yield number, *device_row(self.plan.devices[did].descriptor)

    def _operations(self) -> Iterator[Row]:
        for number, (at, node) in enumerate(zip(self.events, self.nodes, strict=True), 1):
            yield number, op_name(node), int(self.timeline.duration[at]) / 1e9

    def _operation_arguments(self) -> Iterator[Row]:
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

    def _tensors(self) -> Iterator[Row]:
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

    def _device_tensors(self) -> Iterator[Row]:
        return (
            (eid, board, address) for eid, *_, board, address, _, _ in self._tensors() if board is not None
        )

    def _input_tensors(self) -> Iterator[Row]:
        for number, node in enumerate(self.nodes, 1):
            yield from ((number, index, eid) for index, eid in enumerate(node.inputs))

    def _output_tensors(self) -> Iterator[Row]:
        for number, node in enumerate(self.nodes, 1):
            yield from ((number, index, eid) for index, eid in enumerate(node.outputs))

    def _tensor_consumers(self) -> Iterator[Row]:
        return ((eid, number, index) for number, index, eid in self._input_tensors())

    def _buffers(self) -> Iterator[Row]:
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

    def _buffer_pages(self) -> Iterator[Row]:
        """Pages of buffers in L1; ttnn's reports, too, have no pages of other memories."""
        for number, node in enumerate(self.nodes, 1):
            for eid in self.places.held(node.nid).tolist():
                board, address, _, buffer_type, _ = self._buffer(eid)
                columns = self.plan.devices[self.plan.did[self.plan.graph.maker(eid)]].descriptor.grid[1]
                for page, bank, at, nbytes in self.places.l1_pages(eid):
                    core = divmod(bank, columns)
                    yield number, board, address, *core, bank, page, at, nbytes, buffer_type

    def _captured_graph(self) -> Iterator[Row]:
        for number, node in enumerate(self.nodes, 1):
            yield number, captured_graph(self.places, node, op_name(node))

    def _nodes(self) -> Iterator[Row]:
        return ((number, node.nid, number, node.name) for number, node in enumerate(self.nodes, 1))

    def _edges(self) -> Iterator[Row]:
        graph = self.plan.graph
        for number, index, eid in self._input_tensors():
            maker = graph.maker(eid)
            yield number, maker, self.nodes[number - 1].nid, eid - int(graph.row_ptr[maker]), index, 0

    def _tensor_lifetime(self) -> Iterator[Row]:
        last = {eid: number for number, _, eid in self._input_tensors()}
        outputs = set(self.plan.graph.outputs.tolist())
        for eid in self.tensors:
            used = last.get(eid)
            freed = None if used is None or eid in outputs else used
            yield eid, self.operation.get(self.plan.graph.maker(eid)), used, freed, None, None, None, None

    def _compared(self, kind: str) -> Iterator[Row]:
        """Rows of compared values, with the least allowed correlation, 1 - bound / 2, which two values of
        equal size and mean have if their normalised error is the bound."""
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

    def _report_metadata(self) -> Iterator[Row]:
        yield "schema_version", VERSION
        yield "total_duration_ns", str(self.timeline.latency_ns)
        yield "capture_timestamp_ns", "0"
        yield "source", "graph_runtime: a plan, not a capture of a device"
        shares = [f"{name} {share:.0%}" for name, share in self.timeline.basis_shares().items() if share]
        yield "times", "simulated: " + ", ".join(shares)


def device_row(board: Descriptor) -> tuple[int, ...]:
    """The values after device_id in a board's row of the table devices; zeros for a board without L1."""
    rows, columns = board.grid
    l1 = next((m for m in board.memories if m.name == L1), None)
    cores, banks, usable = (rows, columns, rows, columns), (1, rows * columns, 0), (0, 0, 0, 0, 0)
    if l1 is None:
        return (*cores, 0, 0, 0, 0, 0, *banks, *usable)
    sizes = (l1.bank_bytes, l1.banks, l1.usable, l1.base, l1.base)
    usable = (l1.bank_bytes * l1.banks, l1.capacity, l1.capacity, l1.capacity, l1.usable)
    return (*cores, *sizes, *banks, *usable)
