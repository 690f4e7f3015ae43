"""Timelines of a plan as columns of events, with the flows between queues."""

from __future__ import annotations

from typing import Any

from ...costs import BASES
from ...plan.queues.lanes import labels
from ...simulation.timeline import Timeline
from ..trace import tracks
from .shown import Shown

_MOST_FLOWS = 40_000


def timeline_data(shown: Shown) -> list[dict[str, Any]]:
    """One entry per timeline: {"label", "queues", "events": columns, "flows", "critical", "limiting",
    "summary"}. Times in ns. ``flows``: rows of (event, later event, kind); kind 0 is a copied value, 1 any
    other value, 2 a wait for memory or for a run. ``critical``: events of the longest chain of dependences;
    ``limiting``: events that determine when the last event ends."""
    return [_one(shown, label, timeline) for label, timeline in shown.timelines.items()]


def _one(shown: Shown, label: str, timeline: Timeline) -> dict[str, Any]:
    begin = int(timeline.start.min(initial=0))
    return {
        "label": label,
        "queues": labels(timeline.queues, shown.plan),
        "bases": BASES,
        "events": {
            "queue": timeline.queue,
            "slot": [slot for _, slot in tracks(timeline)],
            "run": timeline.run,
            "nid": timeline.nid,
            "start": timeline.start - begin,
            "ns": timeline.duration,
            "dispatch": timeline.dispatch,
            "basis": timeline.basis,
        },
        "flows": _flows(shown, timeline),
        "critical": timeline.chain,
        "limiting": timeline.limiting,
        "summary": {key: value for key, value in timeline.summary().items() if key != "critical_path"},
    }


def _flows(shown: Shown, timeline: Timeline) -> list[list[int]]:
    graph, values = shown.plan.graph, shown.values
    maker = graph.entry_nid[values.of]
    copies = timeline.is_copy.tolist()
    queue, run, nids = timeline.queue.tolist(), timeline.run.tolist(), timeline.nid.tolist()
    row = {pair: at for at, pair in enumerate(zip(run, nids, strict=True))}
    cause, found = timeline.cause.tolist(), []
    for at, nid in enumerate(nids):
        made = maker[graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]]].tolist()
        sources = {source for n in made if (source := row.get((run[at], n))) is not None}
        for source in sources:
            if queue[source] != queue[at] or copies[source] or copies[at]:
                found.append([source, at, 0 if copies[source] or copies[at] else 1])
        before = cause[at]
        if before >= 0 and before not in sources and queue[before] != queue[at]:
            found.append([before, at, 2])
        if len(found) >= _MOST_FLOWS:
            break
    return found
