"""What a page shows of one plan: the frozen values that its data is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...artifacts.prepare import Prepared
from ...ir.graph import COPY
from ...ir.model import Note
from ...plan.columns import func_mask
from ...plan.lifetimes import Values, find_values
from ...plan.types import Plan
from ...simulation.timeline import Timeline
from .columns import Texts

__all__ = ["CALL", "CONSTANT", "EARLY", "INPUT", "KINDS", "Shown"]

KINDS = ("call", "copy", "input", "constant", "at input")
CALL, COPIED, INPUT, CONSTANT, EARLY = range(len(KINDS))


@dataclass(frozen=True, eq=False)
class Shown:
    """``name`` of the plan; ``timelines`` {"simulated" or "measured": Timeline} of it, the first one counts
    in tables and in memory; ``constants``: names of inputs that a run does not set; ``notes``: what the
    front-end and the rewrites did; ``origins``: {node: nodes of the source that it stands for}.
    ``comparison``: Comparison.as_dict() of the plan's nodes, None: not compared. ``kept``: {eid of the plan's
    graph: its value}, what a run has left in its inputs and outputs. ``problem``: why the plan cannot run, ""
    if it can."""

    name: str
    plan: Plan
    timelines: Mapping[str, Timeline]
    constants: frozenset[str] = frozenset()
    notes: Sequence[Note] = ()
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    comparison: Mapping[str, Any] | None = None
    kept: Mapping[int, np.ndarray] = field(default_factory=dict)
    problem: str = ""
    texts: Texts = field(default_factory=Texts)

    @classmethod
    def of(cls, name: str, prepared: Prepared, timelines: Mapping[str, Timeline], **words: Any) -> Shown:
        """What prepare() made, with its notes; the plan is that of the timelines. ``words``: further
        fields."""
        model = prepared.model
        plan = next(iter(timelines.values())).plan
        return cls(name, plan, timelines, frozenset(model.constants), model.notes, model.origins, **words)

    @property
    def timeline(self) -> Timeline:
        """The first one."""
        return next(iter(self.timelines.values()))

    @cached_property
    def values(self) -> Values:
        """Those of the plan, with their lifetimes."""
        return find_values(self.plan.graph, self.plan.at_input)

    @cached_property
    def kinds(self) -> np.ndarray:
        """int8 [nodes]: which of KINDS each node is."""
        graph = self.plan.graph
        found = np.where(func_mask(graph, COPY), COPIED, CALL).astype(np.int8)
        found[self.plan.at_input] = EARLY
        nulls = np.flatnonzero(graph.func_id < 0)
        found[nulls] = [CONSTANT if graph.names[nid] in self.constants else INPUT for nid in nulls.tolist()]
        return found

    @cached_property
    def ns(self) -> dict[int, int]:
        """{nid: ns of one run} by the first timeline."""
        first = self.timeline.run == 0
        return dict(
            zip(self.timeline.nid[first].tolist(), self.timeline.duration[first].tolist(), strict=True)
        )
