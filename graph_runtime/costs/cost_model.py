"""CostModel: what nodes, copies and launches take, in one value that placing, reports and simulate share.

A model of one's own overrides methods and leaves the others:

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
from ..ir.graph import Graph, TensorType
from .copies import copy_cost
from .cpu import Machine, machine
from .links import dispatch_ns
from .nodes import node_cost
from .types import BASES, Cost

__all__ = ["CostModel", "ask", "find_costs"]


class CostModel:
    """The times of this package. Equal calls of one graph are asked for once. ``host``: the constants of the
    machine, None: the packaged ones. ``topology``: how chips are cabled, a Topology, its name or the path of
    its file; None: copies between them go through the host. ``interconnect``: how machines are connected, a
    Interconnect or the path of its file; None: by links of 1 Gbit/s."""

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
        """ns of a node once it runs on ``device``; the arguments are costs.node_cost's."""
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
        """ns of a tensor's way from one device and layout to another; costs.copy_cost's arguments. Raises
        PlanError where there is no way."""
        return copy_cost(source, before, target, after, type_, self.host, self.topology, self.interconnect)

    def links(self, source: Device, target: Device) -> tuple[str, ...]:
        """Names of the links that a copy from one device to another holds from its beginning to its end, so
        that copies over one link follow each other: that between two machines, and within one those of the
        topology. Raises InputError for a device that the topology does not have."""
        if source.node != target.node:
            return (Interconnect.name(source.node, target.node),)
        if self.topology is None or source == target:
            return ()
        return self.topology.way(self.topology.chip(source), self.topology.chip(target)).links

    def dispatch(self, device: Device, *, traced: bool = True) -> Cost | float:
        """ns from a command to the start of its kernel, as costs.dispatch_ns."""
        return dispatch_ns(device.descriptor, traced=traced)


def find_costs(
    given: CostModel | str | None,
    topology: Topology | str | None = None,
    interconnect: Interconnect | str | None = None,
) -> CostModel:
    """The model itself, or that of "package.module:Name", a class or a function that makes one; None: this
    package's. With a ``topology`` or ``interconnect`` one that has it. Raises InputError for what is none,
    PlanError for a name that cannot be found, DeviceError for a topology or interconnect that cannot be."""
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
    """What a model's method says of ``what``. Raises PlanError for what is no time, and where the method
    fails; what it raises of this package's errors it raises on purpose."""
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
