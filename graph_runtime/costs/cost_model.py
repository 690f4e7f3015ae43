"""CostModel: costs of nodes, copies and launches, in one value that placement, reports and simulation share.

A user's model overrides some methods:

    class Measured(CostModel):
        def node(self, graph, nid, device, layouts, **more):
            return MEASURED.get(graph.names[nid]) or super().node(graph, nid, device, layouts, **more)

A method returns a Cost, or a number of ns, whose basis is then "assumed".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from numbers import Real

from ..base.errors import GraphRuntimeError, InputError, PlanError
from ..base.machine.devices import Device
from ..base.machine.interconnect import Interconnect, find_interconnect
from ..base.machine.layout import Layout
from ..base.machine.topology import Topology, find_topology
from ..base.outside import find_outside
from ..ir.graph import COPY, NOP, Graph, TensorType
from .copies import copy_cost
from .cpu import Machine, cpu_node_cost, machine
from .links import dispatch_ns
from .tt import tt_node_cost
from .types import BASES, Cost


def weights_from_memory(graph: Graph, host: Machine | None = None) -> bool:
    """Whether a host's caches are too small for the inputs, mostly weights, that each run of a graph reads.
    The result is the argument ``from_memory`` of node_cost."""
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

    ``layouts``: layouts of the node's inputs, then of its outputs. ``host``: constants of the machine; None:
    the packaged constants. ``fidelity``: math fidelity of a node that names none; "": the device's default
    fidelity. ``constant_weight``, ``from_memory`` (weights_from_memory) and ``stored``: arguments of
    cpu_node_cost. Inputs of the graph and reshapes cost nothing; for copies see copy_cost.
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


class CostModel:
    """This package's cost model. Results of equal calls for one graph are cached. ``host``: constants of the
    machine; None: the packaged constants. ``topology``: cabling of chips, as a Topology, its name or the path
    of its file; None: copies between chips go through the host. ``interconnect``: links between machines, as
    an Interconnect or the path of its file; None: links of 1 Gbit/s."""

    topology: Topology | None = None
    interconnect: Interconnect = Interconnect()

    def __init__(
        self,
        host: Machine | None = None,
        topology: Topology | str | None = None,
        interconnect: Interconnect | str | None = None,
    ):
        self.host = host or machine()
        self.topology = None if topology is None else find_topology(topology)
        self.interconnect = find_interconnect(interconnect)

    def node(
        self,
        graph: Graph,
        nid: int,
        device: Device,
        layouts: Sequence[Layout],
        *,
        fidelity: str = "",
        constant_weight: bool | None = None,
        from_memory: bool = False,
        stored: str = "",
    ) -> Cost | float:
        """ns of a node on ``device`` once it runs; the arguments are those of costs.node_cost."""
        return node_cost(
            graph,
            nid,
            device,
            layouts,
            host=self.host,
            fidelity=fidelity,
            constant_weight=constant_weight,
            from_memory=from_memory,
            stored=stored,
        )

    def copy(
        self, source: Device, before: Layout, target: Device, after: Layout, type_: TensorType
    ) -> Cost | float:
        """ns to move a tensor from one device and layout to another; the arguments are those of
        costs.copy_cost. Raises PlanError if there is no way from one device to the other."""
        return copy_cost(source, before, target, after, type_, self.host, self.topology, self.interconnect)

    def links(self, source: Device, target: Device) -> tuple[str, ...]:
        """Names of the links that a copy between two devices occupies from beginning to end, so that copies
        over one link run one after another. A copy between two machines occupies one link; a copy within a
        machine occupies links of the topology. Raises InputError for a device that the topology lacks."""
        if source.node != target.node:
            return (Interconnect.name(source.node, target.node),)
        if self.topology is None or source == target:
            return ()
        return self.topology.way(self.topology.chip(source), self.topology.chip(target)).links

    def dispatch(self, device: Device, *, traced: bool = True) -> Cost | float:
        """ns from a command until its kernel starts, as in costs.dispatch_ns."""
        return dispatch_ns(device.descriptor, traced=traced)


def find_costs(
    given: CostModel | str | None,
    topology: Topology | str | None = None,
    interconnect: Interconnect | str | None = None,
) -> CostModel:
    """The given cost model. If ``given`` is "package.module:Name", the cost model that this class or function
    makes when it is called; if None, this package's cost model. A ``topology`` or ``interconnect`` is put
    into the model. Raises InputError for any other value of ``given``, PlanError for a name that cannot be
    found, DeviceError for an invalid topology or interconnect."""
    if topology is not None or interconnect is not None:
        model = copy.copy(find_costs(given))
        if topology is not None:
            model.topology = find_topology(topology)
        if interconnect is not None:
            model.interconnect = find_interconnect(interconnect)
        return model
    if isinstance(given, CostModel):
        return given
    if given is None:
        return CostModel()
    if not isinstance(given, str) or ":" not in given:
        text = f"costs is a costs.CostModel or package.module:Name, got {given!r}"
        raise InputError(text, got=given)
    made = find_outside("cost model", given)()
    if not isinstance(made, CostModel):
        text = f"cost model {given} made a {type(made).__name__}: make a costs.CostModel"
        raise InputError(text, got=type(made).__name__)
    return made


def ask(method: Callable[..., Cost | float], what: str, *args: object, **words: object) -> Cost:
    """The result of a cost model's method, as a Cost. ``what``: description of the result, for errors. Raises
    PlanError if the result is not a time, or if the method fails; errors of this package pass through."""
    name = f"cost model {type(getattr(method, '__self__', method)).__name__}"
    try:
        said = method(*args, **words)
    except GraphRuntimeError:
        raise
    except Exception as error:
        text = f"{name} failed for {what}: {type(error).__name__}: {error}"
        raise PlanError(text, got=what) from error
    cost = Cost(float(said), "assumed", name) if isinstance(said, Real) else said
    if not isinstance(cost, Cost) or cost.basis not in BASES or not 0 <= cost.cycles < math.inf:
        text = f"{name} says {said!r} for {what}: a time is a Cost or a number of ns, 0 or more"
        raise PlanError(text, got=said)
    return cost
