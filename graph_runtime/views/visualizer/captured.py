"""Allocations of one operation on its board, as the graph that ttnn captures: a JSON list of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from ...base.machine.layout import L1
from ...costs.factories import CircularBuffer
from ...ir.graph import NodeView
from ...plan.card_programs import program_of_node
from ..page.cores import cores_of
from .forms import core_range, shape, sharding
from .places import Places


def captured_graph(places: Places, node: NodeView, name: str) -> str:
    """The list as JSON, with the nodes capture_start, function_start, a buffer_allocate for each result on a
    board, one circular_buffer_allocate where the kernel opens circular buffers, tensor for each result,
    function_end, circular_buffer_deallocate_all, capture_end. Addresses and sizes are texts, as ttnn writes
    them.

    Each circular buffer of a card program is one node. All circular buffers of one of our kernels are a
    single node, because a plan knows only their bytes per core, not how the kernel divides these.
    """
    nodes: list[dict[str, Any]] = []

    def add(kind: str, **params: Any) -> None:
        nodes.append(
            {"counter": len(nodes), "node_type": kind, "params": params, "connections": [len(nodes) + 1]}
        )

    did = int(places.plan.did[node.nid])
    board = places.board.get(did)
    where = {} if board is None else {"device_id": str(board)}
    add("capture_start")
    add("function_start", name=name, inputs=str(len(node.inputs)), **where)
    if board is not None:
        for eid in node.outputs:
            add("buffer_allocate", **_buffer(places, eid), **where)
        for taken in _circular(places, node):
            add("circular_buffer_allocate", **taken, **where)
    for eid, type_ in zip(node.outputs, node.output_types, strict=True):
        add("tensor", tensor_id=str(eid), shape=shape(type_.shape))
    add("function_end", name=name)
    add("circular_buffer_deallocate_all", **where)
    add("capture_end")
    nodes[-1]["connections"] = []
    return orjson.dumps(nodes).decode()


def _buffer(places: Places, eid: int) -> dict[str, str]:
    """A buffer as ttnn describes it: ``size`` is the size on all cores together, ``num_cores`` the number of
    cores that share the buffer; ttnn-visualizer divides ``size`` by ``num_cores``."""
    plan, layout = places.plan, places.plan.layout(eid)
    sid = int(plan.sid[eid])
    cores = layout.shard.cores if layout.shard is not None else places.memory(sid).banks
    return {
        "address": str(int(places.address[sid])),
        "size": str(int(plan.storage.extent[sid]) * cores),
        "num_cores": str(cores),
        "type": layout.memory.upper(),
        "layout": sharding(layout),
    }


def _circular(places: Places, node: NodeView) -> Iterator[dict[str, str]]:
    """The nodes of the circular buffers. The addresses of circular buffers begin where L1 begins, below the
    addresses of the tensors."""
    plan = places.plan
    nbytes = 0 if plan.circular is None else int(plan.circular[node.nid])
    made = program_of_node(plan, node)
    if not nbytes and made is None:
        return
    board = plan.devices[plan.did[node.nid]].descriptor
    cores = np.argwhere(cores_of(plan, node.nid, board))
    (top, left), (bottom, right) = cores.min(0).tolist(), cores.max(0).tolist()
    address, where = board.memory(L1).base, core_range(((top, left), (bottom, right)))
    whole = (CircularBuffer(node.name, 1, nbytes),)
    for buffer in whole if made is None else made.buffers:
        yield {
            "address": str(address),
            "size": str(buffer.pages * buffer.page_bytes),
            "core_range_set": where,
            "globally_allocated": str(int(buffer.borrowed)),
            "name": buffer.name,
        }
        address += buffer.nbytes
