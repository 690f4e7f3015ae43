"""What a model would do on boards that need not be there: whether it fits, how long it takes, and what bounds
its slowest nodes. No kernel is built, no constant is read.

    estimate(plan) -> Estimate          compare_boards(plan_on, boards) -> [Estimate], side by side
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import CapacityError, afresh
from ..base.machine.layout import L1
from ..costs.limits import tt_limits
from ..ir.graph import COPY
from ..plan.columns import func_mask
from ..plan.placing.policies import wanted_room
from ..plan.types import Plan
from .simulation import IN_FLIGHT, simulate
from .timeline import Timeline

__all__ = ["Estimate", "bounds", "compare_boards", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """``board`` as it was asked for. ``memories``: rows (device, memory, bytes of a bank that the plan needs,
    bytes that it has). ``problem``: why it does not fit, "" if it does; then there are no times.
    ``latency_ns`` of one run, ``throughput`` in runs a second, ``nodes`` rows as Timeline.nodes with what
    ``bound`` each, slowest first."""

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
        """Whether the board can hold it: there is no ``problem``."""
        return not self.problem

    def as_dict(self, batch: int = 1, nodes: int = 5) -> dict[str, Any]:
        """As JSON-able values, with the ``nodes`` slowest. ``batch``: items of a run."""
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
    """The estimate of a plan. ``traced``, ``runs``, ``turn_ns``: as simulate's."""
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
    """An estimate for each board. ``plan_on(board)``: the plan of the model there, whose CapacityError means
    that it does not fit; nor does it where nodes run on the host for want of room."""
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
    """The plan. Raises CapacityError where its placement had to leave out what has no room."""
    placed = plan.placement if plan.placement is None else plan.placement.before or plan.placement
    if placed is not None and placed.problem is not None:
        missing = wanted_room(placed.problem)
        if missing is not None:
            raise afresh(missing)
    return plan


def memories(plan: Plan) -> tuple[dict[str, Any], ...]:
    """Rows (device, memory, banks, needed, available): bytes of one bank; all banks hold the same ranges.
    Of circular buffers, which have a row of their own beside L1, what the plan knows (Plan.circular)."""
    rows = []
    for (did, index), needed in sorted(plan.peak.items()):
        memory = plan.devices[did].descriptor.memories[index]
        rows.append(
            {
                "device": str(plan.devices[did]),
                "memory": memory.name,
                "banks": memory.banks,
                "needed": int(needed),
                "available": int(memory.available),
            }
        )
    for did, needed in plan.circular_peak().items():
        memory = plan.devices[did].descriptor.memory(L1)
        rows.append(
            {
                "device": str(plan.devices[did]),
                "memory": "l1 circular buffers",
                "banks": memory.banks,
                "needed": needed,
                "available": int(memory.usable),
            }
        )
    return tuple(rows)


def bounds(timeline: Timeline) -> dict[int, str]:
    """{nid: what bounds it} for the nodes of one run: "math", "NoC", "DRAM" on a tt board; "PCIe" or
    "ethernet" for a copy between devices; "dispatch" where starting it takes longer than running it; "host"
    on a host. Of a node whose cores a balancer chose it is "math"."""
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
