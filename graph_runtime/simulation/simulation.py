"""simulate(): when every instruction of a plan would run, from the queues and waits of plan/queues/lanes.py
and the times of costs/. Nothing is executed, and equal plans give equal timelines.

A queue runs its instructions one at a time in order, run after run, so an event begins when its queue is free
and all events that it waits for are over. So one pass in schedule order finds every time. A copy over shared
links (costs.CostModel.links) begins when these links are free, and no other copy uses the links meanwhile.

Ops that a balancer made resident have their own cores. In an epoch, each op processes one input after
another, in parallel with the other ops; the epoch begins when the epoch before it has processed all runs.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, Never

import numpy as np

from ..base.errors import InputError, did_you_mean, refuse_words
from ..costs import BASES, SPIN_NS, Cost, CostModel, Machine, ask, find_costs, weights_from_memory
from ..ir.graph import COPY
from ..plan.columns import follow, is_nop
from ..plan.queues.lanes import Lanes, lanes
from ..plan.types import Plan
from .held_links import HeldLinks, links_of
from .residency import Residency, residency
from .timeline import Timeline
from .uploads import with_uploads

IN_FLIGHT = 8  # runs submitted at once, as many as Session.submit allows, which fill the queues
_MOST_EVENTS = 20_000_000  # most events of a timeline, which takes some 50 bytes for each event


def simulate(
    plan: Plan,
    *,
    traced: bool = True,
    runs: int = 1,
    inputs: Collection[str] | None = None,
    in_flight: int = IN_FLIGHT,
    turn_ns: float = 0.0,
    costs: CostModel | str | None = None,
    **unknown: Never,
) -> Timeline:
    """The timeline of ``runs`` runs that are submitted at once.

    ``traced``: whether ops of stack ttnn are replayed from a trace; if not, the host enqueues each op.
    ``inputs``: graph inputs that every run sets anew, so that the run includes their copies to devices
    (uploads.py); None: the inputs for which the plan was placed. ``in_flight``: largest number of runs that
    have begun but not ended. ``turn_ns``: time of the host's own work between two runs (costs.host_turn_ns);
    if it is above 0, a run begins that long after the end of the run before. ``costs``: the cost model; None:
    the cost model of the placement or, if the placement has none, the cost model of this package. Raises
    InputError.
    """
    refuse_words(unknown, simulate)
    _check(plan, runs, in_flight, turn_ns)
    if inputs is None:
        inputs = plan.placement.pricing.inputs if plan.placement is not None else ()
    model = _model(plan, costs)
    found, brought = with_uploads(plan, lanes(plan), _positions(plan, inputs), model)
    if runs * len(found.nid) > _MOST_EVENTS:
        raise InputError(
            f"{runs} runs of {len(found.nid)} instructions are more than {_MOST_EVENTS:,} "
            "events: simulate fewer runs",
            got=runs,
            wanted=_MOST_EVENTS // len(found.nid),
        )
    resident = residency(plan)
    kernel, dispatch, basis = node_times(plan, found.nid, traced=traced, costs=model, resident=resident)
    needs = needs_of(plan, found)
    for row, cost in brought.items():
        kernel[row], dispatch[row], basis[row] = round(cost.cycles), 0, BASES.index(cost.basis)
        needs[row] = []
    time = kernel + dispatch
    handoffs = _Handoffs.of(plan, found, model.host)
    links, held = links_of(plan, found.nid, brought, model)
    schedule = _Schedule(found, time.tolist(), needs, handoffs, resident, held)
    turn = round(turn_ns)
    start, cause = schedule.fill(runs, 1 if turn else in_flight, turn)
    count = len(found.nid)
    return Timeline(
        plan,
        found.queues,
        np.tile(found.qid, runs),
        np.repeat(np.arange(runs, dtype=np.int32), count),
        np.tile(found.nid, runs),
        start,
        start + np.tile(time, runs),
        np.tile(dispatch, runs),
        np.tile(basis, runs),
        cause,
        critical_chain(needs, time),
        runs,
        None if resident is None else resident.epoch,
        links,
        held,
        turn_ns=turn,
    )


def _check(plan: Plan, runs: int, in_flight: int, turn_ns: float) -> None:
    if not isinstance(turn_ns, Real) or not 0 <= turn_ns < math.inf:
        raise InputError(f"turn_ns is {turn_ns!r}, must be a number of ns from 0", got=turn_ns, wanted=0)
    for what, number in (("runs", runs), ("in_flight", in_flight)):
        if not isinstance(number, int) or number < 1:
            raise InputError(f"{what} is {number!r}, must be a whole number from 1", got=number, wanted=1)
    if not isinstance(plan, Plan):
        raise InputError(
            f"simulate takes a Plan, got {type(plan).__name__}: make one with "
            "graph_runtime.plan.plan(graph, devices)",
            got=type(plan).__name__,
        )


def _model(plan: Plan, costs: CostModel | str | None) -> CostModel:
    if costs is None and plan.placement is not None:
        costs = plan.placement.pricing.options.costs
    return find_costs(costs)


def _positions(plan: Plan, inputs: Collection[str]) -> list[int]:
    names = list(plan.graph.input_names)
    for name in inputs:
        if name not in names:
            raise InputError(
                f"the graph has no input {name!r}{did_you_mean(name, names)}", got=name, wanted=names
            )
    return [names.index(name) for name in inputs]


# **************** durations ****************


def node_times(
    plan: Plan,
    nid: np.ndarray,
    *,
    traced: bool = True,
    costs: CostModel | str | None = None,
    resident: Residency | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three columns for the nodes in ``nid``: ns (int64), ns of dispatch (int64), and basis as an index into
    costs.BASES (int8). Equal calls are computed once. ``resident``: Residency with the times of nodes whose
    cores a balancer chose."""
    model, known = _model(plan, costs), dict[tuple[Any, ...], tuple[int, int, int]]()
    from_memory = weights_from_memory(plan.graph, model.host)
    rows = [
        known.get(key) or known.setdefault(key, _time(plan, n, traced, model, from_memory))
        for n, key in zip(nid.tolist(), _keys(plan, nid), strict=True)
    ]
    table = np.array(rows, np.int64).reshape(-1, 3)
    ns, dispatch, basis = table[:, 0].copy(), table[:, 1].copy(), table[:, 2].astype(np.int8)
    if resident is not None:
        there = resident.epoch[nid] >= 0
        ns[there], dispatch[there], basis[there] = resident.ns[nid[there]], 0, BASES.index("extrapolated")
    return ns, dispatch, basis


def _keys(plan: Plan, nid: np.ndarray) -> list[tuple[Any, ...]]:
    """For each node, everything that its time depends on: function and device, and the type, layout and
    device of each argument."""
    graph, did = plan.graph, plan.entry_did()
    # a number for each entry, the same for entries with the same type, layout and device
    entry = (graph.type_id.astype(np.int64) * len(plan.layouts) + plan.layout_id) * len(plan.devices) + did
    read, made = entry[graph.in_eid].tolist(), entry.tolist()
    in_ptr, row_ptr = graph.in_ptr.tolist(), graph.row_ptr.tolist()
    func, did = graph.func_id.tolist(), plan.did.tolist()
    model = plan.model_id.tolist() if plan.model_id is not None else None
    return [
        (
            func[n],
            did[n],
            model[n] if model else -1,
            *read[in_ptr[n] : in_ptr[n + 1]],
            -1,
            *made[row_ptr[n] : row_ptr[n + 1]],
        )
        for n in nid.tolist()
    ]


def _time(plan: Plan, nid: int, traced: bool, costs: CostModel, from_memory: bool) -> tuple[int, int, int]:
    graph = plan.graph
    if graph.func_id[nid] < 0:
        return 0, 0, 0  # an input takes no time here: its time comes from uploads.py
    reads = graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]].tolist()
    makes = range(int(graph.row_ptr[nid]), int(graph.row_ptr[nid + 1]))
    device = plan.devices[plan.did[nid]]
    if graph.funcs[graph.func_id[nid]].name == COPY:
        source = plan.devices[plan.did[graph.maker(reads[0])]]
        type_ = graph.entry_type(makes[0])
        ways = source, plan.layout(reads[0]), device, plan.layout(makes[0])
        cost = ask(costs.copy, f"a copy of {type_} from {source} to {device}", *ways, type_)
        begins = source == device
    else:
        fidelity = plan.numerics[plan.did[nid]].fidelity if plan.numerics else ""
        cost = ask(
            costs.node,
            f"node {graph.names[nid]!r} on {device}",
            graph,
            nid,
            device,
            [plan.layout(e) for e in (*reads, *makes)],
            fidelity=fidelity,
            from_memory=from_memory,
        )
        begins = True
    launch = f"a launch on {device}"
    start = ask(costs.dispatch, launch, device, traced=traced) if begins else Cost(0.0, BASES[0], "no kernel")
    grounds = [one.basis for one in (cost, start) if one.cycles > 0] or [cost.basis]
    return round(cost.cycles), round(start.cycles), max(map(BASES.index, grounds))


# **************** start times ****************


@dataclass(frozen=True, slots=True)
class _Handoffs:
    """Delays between host queues, because the thread of a queue must notice that a step of another queue is
    over. ``queue``: queue of each instruction. ``host``: for each queue its device, or -1 if the device is no
    host. ``soon``: ns until a busy thread notices the end of a step (handoff_ns of costs.Machine). ``wake``:
    ns until a sleeping thread notices the end (wake_ns)."""

    queue: list[int]
    host: list[int]
    soon: int
    wake: int

    @classmethod
    def of(cls, plan: Plan, found: Lanes, host: Machine) -> _Handoffs:
        hosts = [did if plan.devices[did].descriptor.on_host else -1 for did, _ in found.queues]
        return cls(found.qid.tolist(), hosts, round(host.handoff_ns), round(host.wake_ns))

    def device(self, i: int) -> int:
        """The host that runs instruction i; -1 if no host does."""
        return self.host[self.queue[i]]

    def heard(self, i: int, j: int, end: int, awake: int) -> int:
        """Time at which instruction i can know that instruction j is over. ``end``: time at which j ended;
        ``awake``: time until which the device of i was busy."""
        if self.queue[i] == self.queue[j] or min(self.device(i), self.device(j)) < 0:
            return end
        return end + (self.wake if end - awake > SPIN_NS else self.soon)


class _Schedule:
    """Start and end times of the events of several runs of the same lanes."""

    def __init__(
        self,
        found: Lanes,
        time: list[int],
        needs: list[list[int]],
        handoffs: _Handoffs,
        resident: Residency | None,
        held: list[list[int]],
    ):
        self.time, self.needs, self.handoffs = time, needs, handoffs
        self.held = held
        self.links = HeldLinks(max((link for links in held for link in links), default=-1) + 1)
        self.awake = dict.fromkeys(handoffs.host, 0)  # time until which each host was busy
        self.lane, self.groups = found.qid.tolist(), [range(len(time))]
        self.resident = [False] * len(time)
        self.start: list[int] = []
        self.cause: list[int] = []
        self.end: list[int] = []
        if resident is not None:
            self._take_epochs(found, resident)

    def _take_epochs(self, found: Lanes, resident: Residency) -> None:
        """Give each resident node a lane of its own, and group the instructions so that all runs pass through
        a group before the next group begins."""
        epoch = resident.epoch[found.nid]
        self.resident = (epoch >= 0).tolist()
        self.lane = [
            len(found.queues) + i if there else q
            for i, (q, there) in enumerate(zip(self.lane, self.resident, strict=True))
        ]
        reached = np.maximum.accumulate(epoch) if len(epoch) else epoch
        edges = [0, *(np.flatnonzero(np.diff(reached)) + 1).tolist(), len(epoch)]
        self.groups = [range(a, b) for a, b in pairwise(edges)]

    def fill(self, runs: int, in_flight: int, turn: int) -> tuple[np.ndarray, np.ndarray]:
        """Pair (start, cause) of two columns with a row for each event. Each event comes after the events
        that it waits for, so one pass suffices. If a run waits for the end of another run, ``turn`` ns pass
        in between."""
        count = len(self.time)
        self.start, self.cause, self.end = ([x] * (count * runs) for x in (0, -1, 0))
        last: dict[int, int] = {}  # last event of each lane so far
        boundary = -1  # event that ended the previous epoch
        for group in self.groups:
            over: list[int] = []  # for each run, the event of the run that ended last
            for run in range(runs):
                gate = over[run - in_flight] if run >= in_flight and len(self.groups) == 1 else -1
                latest = self._one(group, run * count, last, gate, turn, boundary)
                before = over[-1] if over else -1
                over.append(max((before, latest), key=lambda at: self.end[at] if at >= 0 else -1))
            ended = [run * count + i for run in range(runs) for i in group if self.resident[i]]
            boundary = max([boundary, *ended], key=lambda at: self.end[at] if at >= 0 else -1)
        return np.array(self.start, np.int64), np.array(self.cause, np.int64)

    def _one(self, group: range, base: int, last: dict[int, int], gate: int, turn: int, boundary: int) -> int:
        """Set the times of one run's events in a group, which begin at the earliest ``turn`` ns after event
        ``gate`` and, if resident, after event ``boundary``. Returns the event that ends last."""
        end, awake, latest = self.end, self.awake, -1
        for i in group:
            device = self.handoffs.device(i)
            why = last.get(self.lane[i], -1)
            begin = end[why] if why >= 0 else 0
            for j in self.needs[i]:
                heard = self.handoffs.heard(i, j, end[base + j], awake[device])
                if heard > begin:
                    why, begin = base + j, heard
            if gate >= 0 and end[gate] + turn > begin:
                why, begin = gate, end[gate] + turn
            if boundary >= 0 and self.resident[i] and end[boundary] > begin:
                why, begin = boundary, end[boundary]
            at = last[self.lane[i]] = base + i
            if self.held[i]:
                begin, why = self.links.take(self.held[i], base, at, begin, self.time[i], why)
            self.start[at], self.cause[at], end[at] = begin, why, begin + self.time[i]
            awake[device] = max(awake[device], end[at])
            if latest < 0 or end[at] > end[latest]:
                latest = at
        return latest


def critical_chain(needs: list[list[int]], time: np.ndarray) -> np.ndarray:
    """int64: rows of the longest chain of instructions, each of which needs the one before it (``needs``, as
    from needs_of). ``time``: ns of each instruction."""
    ns, until, before = time.tolist(), [0] * len(time), [-1] * len(time)
    for i, row in enumerate(needs):
        for j in row:
            if before[i] < 0 or until[j] > until[before[i]]:
                before[i] = j
        until[i] = ns[i] + (until[before[i]] if before[i] >= 0 else 0)
    rows, at = [], int(np.argmax(until)) if until else -1
    while at >= 0:
        rows.append(at)
        at = before[at]
    return np.array(rows[::-1], np.int64)


def needs_of(plan: Plan, found: Lanes) -> list[list[int]]:
    """For each instruction, the instructions whose values it reads, directly or through __nop, and the
    instructions that must end before it can reuse storage of another queue."""
    graph = plan.graph
    source = np.arange(graph.num_nodes)
    nops = np.flatnonzero(is_nop(graph) & (np.diff(graph.in_ptr) > 0))
    source[nops] = graph.entry_nid[graph.in_eid[graph.in_ptr[nops]]]
    row_of = np.full(graph.num_nodes, -1, np.int64)
    row_of[found.nid] = np.arange(len(found.nid))
    made_by = row_of[follow(source)[graph.entry_nid[graph.in_eid]]].tolist()
    in_ptr, pointers, wait = graph.in_ptr.tolist(), found.wait_ptr.tolist(), found.wait.tolist()
    return [
        [j for j in made_by[in_ptr[n] : in_ptr[n + 1]] if j >= 0] + wait[pointers[i] : pointers[i + 1]]
        for i, n in enumerate(found.nid.tolist())
    ]
