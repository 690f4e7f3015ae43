"""Estimate of a model on boards that need not be present: whether the model fits, how long it takes, and what
bounds its slowest nodes. No kernel is built, no constant is read.

    estimate(plan) -> Estimate          compare_boards(plan_on, boards) -> [Estimate], side by side
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import CapacityError, afresh
from ..base.machine.layout import L1
from ..costs.tt import tt_limits
from ..ir.graph import COPY
from ..plan.columns import func_mask
from ..plan.placing.policies import wanted_room
from ..plan.types import Plan
from .simulation import IN_FLIGHT, simulate
from .timeline import Timeline


@dataclass(frozen=True)
class Estimate:
    """The estimate for one ``board``, named as the caller names it. ``memories``: rows (device, memory, bytes
    of a bank that the plan needs, bytes that the bank has). ``problem``: sentence that says why the model
    does not fit (the estimate then has no times); "" if it fits. ``latency_ns``: ns of one run;
    ``throughput``: runs per second. ``nodes``: rows as in Timeline.nodes, slowest first, each with its
    ``bound``."""

    board: str
    memories: tuple[dict[str, Any], ...]
    problem: str = ""
    latency_ns: int = 0
    throughput: float = 0.0
    dispatch_ns: int = 0
    nodes: tuple[dict[str, Any], ...] = ()
    basis: str = ""

    @property
    def fits(self) -> bool:
        """Whether the board can hold the model, that is, whether there is no ``problem``."""
        return not self.problem

    def as_dict(self, batch: int = 1, nodes: int = 5) -> dict[str, Any]:
        """The fields as JSON-able values, with the ``nodes`` slowest nodes. ``batch``: items per run."""
        return {
            "board": self.board,
            "fits": self.fits,
            "problem": self.problem or None,
            "memories": list(self.memories),
            "latency_ns": self.latency_ns if self.fits else None,
            "throughput": self.throughput if self.fits else None,
            "items_per_s": self.throughput * batch if self.fits else None,
            "dispatch_ns": self.dispatch_ns,
            "basis": self.basis,
            "slowest": list(self.nodes[:nodes]),
        }


def estimate(
    plan: Plan, board: str = "", *, traced: bool = True, runs: int = IN_FLIGHT, turn_ns: float = 0.0
) -> Estimate:
    """The estimate of a plan. ``traced``, ``runs``, ``turn_ns``: arguments of simulate."""
    one = simulate(plan, traced=traced, inputs=(), turn_ns=turn_ns)
    several = simulate(plan, traced=traced, runs=runs, turn_ns=turn_ns) if runs > 1 else one
    found = bounds(one)
    nodes = tuple({**row, "bound": found[row["nid"]]} for row in one.nodes())
    shares = one.basis_shares()
    return Estimate(
        board,
        memories(plan),
        latency_ns=one.latency_ns,
        throughput=several.throughput,
        dispatch_ns=int(one.dispatch.sum()),
        nodes=nodes,
        basis=max(shares, key=shares.__getitem__) if len(one) else "",
    )


def compare_boards(plan_on: Callable[[str], Plan], boards: Sequence[str], **options: Any) -> list[Estimate]:
    """An estimate for each board. ``plan_on(board)``: the plan of the model on that board. The model does not
    fit if ``plan_on`` raises CapacityError, or if nodes run on the host for lack of room."""
    found = []
    for board in boards:
        try:
            found.append(estimate(_whole(plan_on(board)), board, **options))
        except CapacityError as error:
            row = {
                "device": error.device or "",
                "memory": "",
                "needed": error.fields.get("needed", 0),
                "available": error.fields.get("available", 0),
            }
            found.append(Estimate(board, (row,), problem=str(error)))
    return found


def _whole(plan: Plan) -> Plan:
    """The plan, unchanged. Raises CapacityError if its placement moved nodes off the board for lack of
    room."""
    placed = plan.placement if plan.placement is None else plan.placement.before or plan.placement
    if placed is not None and placed.problem is not None:
        missing = wanted_room(placed.problem)
        if missing is not None:
            raise afresh(missing)
    return plan


def memories(plan: Plan) -> tuple[dict[str, Any], ...]:
    """Rows (device, memory, banks, needed, available): bytes are counted in one bank, because all banks have
    the same ranges. Circular buffers have a row of their own after the row of L1, with the bytes that the
    plan knows (Plan.circular)."""
    rows = []
    for (did, index), needed in sorted(plan.peak.items()):
        memory = plan.devices[did].descriptor.memories[index]
        rows.append((did, memory.name, memory.banks, int(needed), int(memory.available)))
    for did, needed in plan.circular_peak().items():
        memory = plan.devices[did].descriptor.memory(L1)
        rows.append((did, "l1 circular buffers", memory.banks, needed, int(memory.usable)))
    names = "memory", "banks", "needed", "available"
    return tuple(
        {"device": str(plan.devices[did]), **dict(zip(names, row, strict=True))} for did, *row in rows
    )


def bounds(timeline: Timeline) -> dict[int, str]:
    """{nid: what bounds the node} for the nodes of one run: "math", "NoC" or "DRAM" on a tt board; "PCIe" or
    "ethernet" for a copy between devices; "dispatch" if starting the node takes longer than running it;
    "host" on a host; "math" for a node whose cores a balancer chose."""
    plan = timeline.plan
    is_copy, entry_did = func_mask(plan.graph, COPY), plan.entry_did()
    known: dict[tuple[Any, ...], str] = {}
    found = {}
    for at in np.flatnonzero(timeline.run == 0).tolist():
        nid = int(timeline.nid[at])
        if 2 * timeline.dispatch[at] > timeline.end[at] - timeline.start[at]:
            found[nid] = "dispatch"
        elif plan.graph.func_id[nid] < 0:
            found[nid] = "host" if plan.devices[plan.did[nid]].descriptor.on_host else "PCIe"
        elif is_copy[nid]:
            found[nid] = _of_copy(timeline, at, entry_did)
        else:
            found[nid] = _of_kernel(plan, nid, timeline, known)
    return found


def _of_copy(timeline: Timeline, at: int, entry_did: np.ndarray) -> str:
    plan, nid = timeline.plan, int(timeline.nid[at])
    source, target = int(entry_did[plan.graph.in_eid[plan.graph.in_ptr[nid]]]), int(plan.did[nid])
    hosts = [plan.devices[did].descriptor.on_host for did in (source, target)]
    if all(hosts):
        return "host"
    if source == target:
        return "DRAM"
    links = [timeline.links[link] for link in timeline.held[at]] if timeline.held else []
    return "PCIe" if any(hosts) or not links or any("host" in link for link in links) else "ethernet"


def _of_kernel(plan: Plan, nid: int, timeline: Timeline, known: dict[tuple[Any, ...], str]) -> str:
    board = plan.devices[plan.did[nid]].descriptor
    if board.on_host or not board.arch:
        return "host"
    if timeline.epoch is not None and timeline.epoch[nid] >= 0:
        return "math"
    node = plan.graph.node(nid)
    layouts = tuple(plan.layout(eid) for eid in (*node.inputs, *node.outputs))
    fidelity = plan.numerics[plan.did[nid]].fidelity if plan.numerics else ""
    key = (node.callee.name, int(plan.did[nid]), node.input_types, layouts)
    if key not in known:
        limits = tt_limits(node.callee, node.input_types, node.output_types, layouts, board, fidelity)
        known[key] = max(limits, key=limits.__getitem__)
    return known[key]
