"""The problem that a placement policy solves, in integers: ns of each node on each device, ns of each copy.

A value is copied once to each device that reads it and does not hold it. An input of the graph is a constant,
unless every run sets it anew or writes it: the copies of a constant are made when it is set and cost nothing
in a run. An input set anew lies on the first host, wherever a plan keeps it, and every other device that
reads it gets it from there, as in simulation/uploads.py. If there are such inputs and the device list lacks
the caller's machine, the problem has that machine as one more device, on which nothing runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...base.errors import InputError, did_you_mean
from ...base.machine.devices import Device, parse
from ...base.providers import provided
from ...base.unique import unique_values
from ...costs import CostModel, find_costs
from ...ir.graph import Graph
from ..columns import slot_nid
from ..device_numerics import device_numerics
from ..pricing import Pricing
from .holding import Room, find_room
from .prices import UNSUPPORTED, Circular, Prices
from .value_kinds import find_kinds


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """A graph's nodes, in an order in which they could run one by one, and k devices; times are int64 ns.

    ``cost`` int64 [nodes, k]: time of each node with its dispatch, UNSUPPORTED if the device cannot run it.
    ``pin`` int32 [nodes]: the requested device of a node (-1: any device); for an input, the device on which
    the input is set. ``on_host`` bool [k]: whether the device is a host. A value is an entry that may have to
    be copied. ``eid`` int64 [values]: the entry; ``owner`` int64 [values]: the node on whose device the value
    lies; ``ready`` int64 [values]: the node that makes the value, -1 if the value exists when the run begins;
    ``copy`` int64 [values, k, k]: ns from the second axis' device to the third's. The uses are the distinct
    reads: node ``use_nid`` int64 [uses] (ascending) reads value ``use_value`` int64 [uses], in the order of
    the node's inputs. ``links`` bool [k, k, links]: whether a copy from the first axis' device to the
    second's occupies the link while the copy runs; a link carries one copy at a time. ``handoff``, ``wake``:
    ns from the end of a step on one queue of a host to the start of a step that waits for it on another
    queue: ``handoff`` if the other queue's device was busy less than costs.SPIN_NS ago, else ``wake``.
    ``room``: bytes that devices have and that assignments hold (see Room). ``circular`` int64 [nodes, k]:
    bytes of a core's L1 for a node's circular buffers; a device with less L1 cannot run the node. ``reasons``
    {(function id, device index): why that device cannot run the function}. ``objective``: the time to
    minimise, one of schedule.OBJECTIVES.
    """

    graph: Graph
    devices: tuple[Device, ...]
    cost: np.ndarray
    pin: np.ndarray
    on_host: np.ndarray
    eid: np.ndarray
    owner: np.ndarray
    ready: np.ndarray
    copy: np.ndarray
    use_nid: np.ndarray
    use_value: np.ndarray
    reasons: Mapping[tuple[int, int], str]
    room: Room
    handoff: int = 0
    wake: int = 0
    objective: str = "serial"
    links: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0), bool))
    circular: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        """Protect the tables from policies that would write to them."""
        for table in (self.cost, self.pin, self.copy, self.links, self.circular):
            table.setflags(write=False)

    @property
    def num_nodes(self) -> int:
        return len(self.pin)

    @property
    def num_devices(self) -> int:
        return len(self.devices)

    @property
    def running(self) -> np.ndarray:
        """int64: the devices that can run some node."""
        return np.flatnonzero((self.cost < UNSUPPORTED)[self.graph.func_id >= 0].any(0))

    @property
    def allowed(self) -> np.ndarray:
        """bool [nodes, k]: whether the device can run the node and the node is not pinned to another
        device."""
        asked = self.pin[:, None]
        return (self.cost < UNSUPPORTED) & ((asked < 0) | (asked == np.arange(self.num_devices)))

    @property
    def elsewhere(self) -> np.ndarray:
        """int64 [nodes]: the device for a node that cannot run where an assignment would have it: the first
        host that can run the node, else the fastest device."""
        allowed = self.allowed
        hosts = allowed & self.on_host
        fastest = np.argmin(np.where(allowed, self.cost, UNSUPPORTED), 1)
        return np.where(hosts.any(1), np.argmax(hosts, 1), fastest)

    @property
    def edges(self) -> np.ndarray:
        """int64 [uses, 3]: (node whose device holds the value, node that reads it, value)."""
        return np.stack([self.owner[self.use_value], self.use_nid, self.use_value], 1)


def make_problem(
    graph: Graph,
    devices: Sequence[Device],
    pricing: Pricing | None = None,
    *,
    pin: np.ndarray | None = None,
) -> PlacementProblem:
    """The problem of a graph and a device list, with times that depend on ``pricing``.

    ``pin`` int32 [nodes]: the requested device of each node; -1: any device. The kernels give the bytes of
    circular buffers that a node opens (binding/circular.of_node); without the compiled core, the bytes are 0.

    Raises InputError for an input that the graph does not have; PlanError for impossible layouts or numerics.
    """
    devices, pricing = tuple(devices), pricing or Pricing()
    options = pricing.options
    set_anew = _set_anew(graph, [*pricing.inputs, *pricing.streamed])
    afar = bool(len(set_anew)) and not any(d.is_callers_host for d in devices)
    devices = (*devices, parse("cpu:0")) if afar else devices
    model = find_costs(options.costs, options.topology, options.interconnect)
    kinds = find_kinds(graph, devices, options, pricing.weights)
    arithmetic = device_numerics(graph, devices, options.numerics)
    known = _known(graph, pricing.constants)
    prices = Prices(graph, devices, kinds, pricing.kernels, model, known, arithmetic, _asked_of_kernels())
    pin = np.full(graph.num_nodes, -1, np.int32) if pin is None else np.array(pin, np.int32)
    on_host = np.array([d.descriptor.on_host for d in devices])
    null = graph.func_id < 0
    home = int(np.argmax([d.is_callers_host for d in devices]))
    pin[null & (pin < 0)] = pin[set_anew] = home
    owner, ready = _owners(graph, set_anew)
    value_of = np.full(graph.num_entries, -1, np.int64)
    read = unique_values(graph.in_eid)
    eid = read[owner[read] >= 0]
    value_of[eid] = np.arange(len(eid))
    uses = _distinct(np.stack([slot_nid(graph), value_of[graph.in_eid]], 1))
    uses = uses[uses[:, 0] != owner[eid][uses[:, 1]]]
    constant = graph.func_id < 0
    constant[graph.entry_nid[owner >= 0]] = False
    cost = prices.nodes(constant)
    if afar:
        cost[~null, -1] = UNSUPPORTED
    return PlacementProblem(
        graph,
        devices,
        cost,
        pin,
        on_host,
        eid,
        owner[eid],
        ready[eid],
        prices.copies(eid),
        uses[:, 0],
        uses[:, 1],
        prices.reasons,
        find_room(graph, devices, kinds, graph.row_ptr[_set_anew(graph, pricing.streamed)], prices.circular),
        round(model.host.handoff_ns),
        round(model.host.wake_ns),
        options.objective,
        _links(devices, model),
        prices.circular,
    )


def _asked_of_kernels() -> Circular:
    """The function that gives a node's bytes of circular buffers, by the kernels of the compiled core.
    Without the core nothing can run, but a plan can be examined: the function then gives 0 for all nodes."""
    try:
        found: Circular = provided("circular buffers")
    except ImportError:
        return lambda graph, nid, device, layouts, *rest: 0
    return found


def _links(devices: tuple[Device, ...], model: CostModel) -> np.ndarray:
    """bool [k, k, links]: whether a copy from the first axis' device to the second's occupies the link."""
    ways = [[set(model.links(a, b)) for b in devices] for a in devices]
    names = sorted(set().union(*(way for row in ways for way in row)))
    return np.array([[[name in way for name in names] for way in row] for row in ways], bool)


def _known(graph: Graph, constants: Collection[str] | None) -> np.ndarray | None:
    """bool [nodes]: whether a node's input 1 (its weight, if it has one) is among the constants; None if
    constants are not known."""
    if constants is None:
        return None
    chosen = set(constants)
    entries = np.zeros(graph.num_entries, bool)
    entries[graph.input_eids] = [name in chosen for name in graph.input_names]
    two = np.diff(graph.in_ptr) > 1
    found = np.zeros(graph.num_nodes, bool)
    found[two] = entries[graph.in_eid[graph.in_ptr[:-1][two] + 1]]
    return found


def _distinct(reads: np.ndarray) -> np.ndarray:
    """int64 [uses, 2]: each (node, value) of ``reads`` once, in the order of the nodes' inputs, which is the
    order of copies. Reads of no value (-1) are dropped."""
    reads = reads[reads[:, 1] >= 0]
    keys = reads[:, 0] * (reads[:, 1].max(initial=0) + 1) + reads[:, 1]
    return reads[np.sort(np.unique(keys, return_index=True)[1])]


def _set_anew(graph: Graph, inputs: Collection[str]) -> np.ndarray:
    """int64: nodes of the inputs that every run sets anew."""
    names, chosen = graph.input_names, set(inputs)
    for name in inputs:
        if name not in names:
            raise InputError(f"the graph has no input {name!r}{did_you_mean(name, names)}", got=name)
    return graph.inputs[[i for i, name in enumerate(names) if name in chosen]]


def _owners(graph: Graph, set_anew: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair (owner, maker) of each entry: the node on whose device the entry lies (-1 for a constant, which
    lies wherever it is read), and the node that makes the entry (-1 if the caller sets the entry)."""
    owner = graph.entry_nid.copy()
    constant = graph.func_id[owner] < 0
    ready = np.where(constant, -1, owner)
    owner[constant & ~np.isin(owner, set_anew)] = -1
    for out, into in graph.hints.aliases:  # a written input lies where its writer runs
        if 0 <= out < len(graph.outputs) and 0 <= into < len(graph.inputs):
            owner[graph.input_eids[into]] = graph.entry_nid[graph.outputs[out]]
    return owner, ready
