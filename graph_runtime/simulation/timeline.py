"""Timeline: start and end of each event, measured or simulated, by queue, and totals computed from these
times. simulation.py makes a timeline from costs, views/measured.py from a real run; views/trace.py and
views/page/ draw timelines.

All times are whole ns from the beginning of the first run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base.showable import Viewable
from ..costs import BASES
from ..ir.graph import COPY
from ..plan.columns import func_mask, starts
from ..plan.queues.lanes import labels
from ..plan.types import Plan
from .charges import Banks, Links, bank_bytes, link_bytes


@dataclass(frozen=True, eq=False)
class Timeline(Viewable):
    """Columns of equal length, one row per event (an instruction in one run), in order of run and schedule.

    ``queue`` int32: index into ``queues``, a list of (did, role). ``run`` int32, ``nid`` int64: run and node.
    ``start``, ``end`` int64: ns. ``dispatch`` int64: ns at the event's beginning that starting it takes.
    ``basis`` int8: basis of the event's time, as an index into costs.BASES. ``cause`` int64: of the events
    for which this event waited, the one that ended last; -1 if it did not wait. The other fields have no row
    per event. ``chain`` int64: rows of the first run's critical path, which is the longest chain of dependent
    events if queues are unlimited. ``epoch`` int32 [nodes]: the epoch in which each node is resident (stack
    buda); None if ops run one at a time. ``links``: names of links that copies occupy while they run.
    ``held``: for each instruction of a run the links that it occupies, as indices into ``links``. ``kind``:
    "simulated", or "measured" for a real run. ``turn_ns``: time of the host's own work between two runs.
    """

    plan: Plan
    queues: tuple[tuple[int, str], ...]
    queue: np.ndarray
    run: np.ndarray
    nid: np.ndarray
    start: np.ndarray
    end: np.ndarray
    dispatch: np.ndarray
    basis: np.ndarray
    cause: np.ndarray
    chain: np.ndarray
    runs: int = 1
    epoch: np.ndarray | None = None
    links: tuple[str, ...] = ()
    held: Sequence[Sequence[int]] = ()
    kind: str = "simulated"
    turn_ns: int = 0

    def __repr__(self) -> str:
        return (
            f"<Timeline of {len(self)} events on {len(self.queues)} queues, {self.runs} runs, "
            f"{self.kind}: latency "
            f"{self.latency_ns / 1e6:.3f} ms>"
        )

    def __len__(self) -> int:
        return len(self.nid)

    # **************** times ****************

    @property
    def duration(self) -> np.ndarray:
        """int64 [events] ns."""
        return self.end - self.start

    @property
    def makespan_ns(self) -> int:
        """ns from the beginning of the first event to the end of the last."""
        return int(self.end.max(initial=0) - self.start.min(initial=int(self.end.max(initial=0))))

    @cached_property
    def run_ends(self) -> np.ndarray:
        """int64 [runs]: end of each run."""
        ends = np.zeros(self.runs, np.int64)
        np.maximum.at(ends, self.run, self.end)
        return ends

    @property
    def latency_ns(self) -> int:
        """ns of the first run."""
        first = self.run == 0
        return int(self.end[first].max(initial=0) - (self.start[first].min() if first.any() else 0))

    @property
    def throughput(self) -> float:
        """Runs per second. For one run this is the inverse of its latency. For several runs it is the rate of
        the second half of the runs, when the pipeline is full. With epochs, which all runs leave together, it
        is the rate of all runs. The host's turn counts once for each run, or once for all runs that pass
        through epochs together."""
        half = self.runs // 2
        if half == 0 or self.epoch is not None:
            return self.runs * 1e9 / max(self.makespan_ns + self.turn_ns, 1)
        ends = np.maximum.accumulate(self.run_ends)
        return (self.runs - half) * 1e9 / max(int(ends[-1] - ends[half - 1]), 1)

    @property
    def critical_ns(self) -> int:
        """ns of the critical path."""
        return int(self.duration[self.chain].sum())

    @cached_property
    def limiting(self) -> np.ndarray:
        """int64: rows of the chain that determines when the last event ends. Each of its events began when
        the event before it ended, because it depends on that event or follows that event on the queue; or it
        began one turn of the host after that end."""
        if not len(self):
            return np.zeros(0, np.int64)
        rows, at = [], int(np.argmax(self.end))
        while at >= 0:
            rows.append(at)
            at = int(self.cause[at])
        return np.array(rows[::-1], np.int64)

    # **************** busy times and their bases ****************

    @cached_property
    def busy_ns(self) -> np.ndarray:
        """int64 [queues]: ns in which each queue was busy. Ops of an epoch run in parallel; times that
        overlap count once."""
        busy = np.zeros(len(self.queues), np.int64)
        for q in range(len(self.queues)):
            rows = np.flatnonzero(self.queue == q)
            order = rows[np.argsort(self.start[rows], kind="stable")]
            end = np.maximum.accumulate(self.end[order])
            before = np.concatenate([[np.iinfo(np.int64).min], end[:-1]])
            busy[q] = np.maximum(end - np.maximum(self.start[order], before), 0).sum()
        return busy

    @property
    def utilisation(self) -> np.ndarray:
        """float64 [queues]: share of the makespan in which each queue was busy."""
        return self.busy_ns / max(self.makespan_ns, 1)

    def link_rows(self) -> list[dict[str, Any]]:
        """One row per link that copies occupy, busiest first: link, number of copies in one run, busy ns in
        all runs, and busy ns as a share of the makespan."""
        rows = []
        each = self.duration.reshape(self.runs, -1).sum(0) if self.runs and len(self) else np.zeros(0)
        for at, name in enumerate(self.links):
            users = [i for i, links in enumerate(self.held) if at in links]
            busy = int(each[users].sum())
            share = busy / max(self.makespan_ns, 1)
            rows.append({"link": name, "copies": len(users), "busy_ns": busy, "utilisation": share})
        return sorted(rows, key=lambda row: -row["busy_ns"])

    def basis_shares(self) -> dict[str, float]:
        """{basis: share of all events' time that has this basis}. Shares sum to 1, or are all 0 if the events
        take no time."""
        totals = np.bincount(self.basis, weights=self.duration, minlength=len(BASES))
        whole = totals.sum() or 1.0
        return {name: float(total / whole) for name, total in zip(BASES, totals, strict=True)}

    def bank_bytes(self, indices: Mapping[int, np.ndarray] | None = None) -> Banks:
        """{(did, memory): int64 [banks, 2] bytes out of and into each bank} of one run. ``indices``: {nid:
        indices of the take}; missing indices are assumed to be spread over the axis."""
        return bank_bytes(self.plan, self.nid[self.run == 0].tolist(), indices)

    def link_bytes(self) -> Links:
        """{(source did, target did): bytes} of one run."""
        return link_bytes(self.plan, self.nid[self.run == 0].tolist())

    @property
    def is_copy(self) -> np.ndarray:
        """bool [events]: whether the event is a copy."""
        return func_mask(self.plan.graph, COPY)[self.nid]

    @property
    def nbytes(self) -> np.ndarray:
        """int64 [events]: logical bytes that each event reads and writes."""
        graph = self.plan.graph
        entry = np.array([t.nbytes for t in graph.types], np.int64)[graph.type_id]
        read, made = starts(entry[graph.in_eid]), starts(entry)
        nid = self.nid
        return (
            read[graph.in_ptr[nid + 1]]
            - read[graph.in_ptr[nid]]
            + made[graph.row_ptr[nid + 1]]
            - made[graph.row_ptr[nid]]
        )

    # **************** rows ****************

    def nodes(self) -> list[dict[str, Any]]:
        """One row per node that runs, slowest first: nid, name, op, queue, ns of one run, its share of the
        latency, dispatch ns, logical bytes read and written, basis, and whether it is on the critical path.
        """
        nbytes = self.nbytes.tolist()
        names, first = labels(self.queues, self.plan), np.flatnonzero(self.run == 0)
        on_path = set(self.nid[self.chain].tolist())
        rows = []
        for at in first[np.argsort(-self.duration[first], kind="stable")].tolist():
            nid, ns = int(self.nid[at]), int(self.end[at] - self.start[at])
            func = self.plan.graph.node(nid).func
            rows.append(
                {
                    "nid": nid,
                    "name": self.plan.graph.names[nid],
                    "op": "input" if func is None else func.op or func.name,
                    "queue": names[self.queue[at]],
                    "ns": ns,
                    "share": ns / max(self.latency_ns, 1),
                    "dispatch_ns": int(self.dispatch[at]),
                    "bytes": nbytes[at],
                    "basis": BASES[self.basis[at]],
                    "critical": nid in on_path,
                }
            )
        return rows

    def summary(self) -> dict[str, Any]:
        """All totals as JSON-able values: latency_ns, throughput (runs a second), makespan_ns, critical_ns,
        critical_path (node names), queues, links, basis_shares."""
        names = labels(self.queues, self.plan)
        queues = [
            {
                "queue": name,
                "events": int((self.queue == q).sum()),
                "busy_ns": int(self.busy_ns[q]),
                "utilisation": float(self.utilisation[q]),
            }
            for q, name in enumerate(names)
        ]
        return {
            "latency_ns": self.latency_ns,
            "throughput": self.throughput,
            "makespan_ns": self.makespan_ns,
            "runs": self.runs,
            "critical_ns": self.critical_ns,
            "critical_path": [self.plan.graph.names[n] for n in self.nid[self.chain].tolist()],
            "dispatch_ns": int(self.dispatch[self.run == 0].sum()),
            "queues": queues,
            "links": self.link_rows(),
            "basis_shares": self.basis_shares(),
        }
