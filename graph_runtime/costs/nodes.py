"""node_cost: what any node of a graph costs on a device. The one entry point of simulation and placement."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.machine.devices import Device
from ..base.machine.layout import Layout
from ..ir.graph import COPY, NOP, Graph
from .cpu import Machine, cpu_node_cost, machine
from .tt import tt_node_cost
from .types import Cost

__all__ = ["node_cost", "weights_from_memory"]


def weights_from_memory(graph: Graph, host: Machine | None = None) -> bool:
    """Whether a host's caches are too small for what a graph's runs read of its inputs, most of it weights:
    an argument of node_cost."""
    nbytes = sum(graph.entry_type(eid).nbytes for eid in graph.input_eids.tolist())
    return nbytes > (host or machine()).cache_bytes


def node_cost(
    graph: Graph,
    nid: int,
    device: Device,
    layouts: Sequence[Layout],
    *,
    host: Machine | None = None,
    fidelity: str = "",
    constant_weight: bool | None = None,
    from_memory: bool = False,
    stored: str = "",
) -> Cost:
    """ns that a node takes on ``device`` once it runs, without dispatch (dispatch_ns).

    ``layouts``: of the node's inputs, then of its outputs. ``host``: constants of the machine, None: the
    packaged ones. ``fidelity``: of a node that names none, "": the device's default.
    ``constant_weight``, ``from_memory`` (weights_from_memory), ``stored``: see cpu_node_cost. Inputs of the
    graph and reshapes cost nothing; copies are copy_cost's.
    """
    node = graph.node(nid)
    if node.func is None or node.func.name == NOP or node.func.name == COPY:
        return Cost(0.0, "measured", "no kernel of its own")
    if device.descriptor.on_host or not device.descriptor.arch:
        return cpu_node_cost(
            node.func, node.input_types, node.output_types, host, constant_weight, from_memory, stored
        )
    if not all(t.size for t in (*node.input_types, *node.output_types)):
        return Cost(0.0, "measured", "a tensor without elements")
    return tt_node_cost(
        node.func, node.input_types, node.output_types, tuple(layouts), device.descriptor, fidelity
    )
