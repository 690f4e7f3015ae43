"""The frozen values of one plan from which its page's data is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...artifacts.prepare import Prepared
from ...ir.graph import COPY
from ...ir.model import Note
from ...plan.columns import Values, find_values, func_mask
from ...plan.types import Plan
from ...simulation.timeline import Timeline
from .columns import Texts

KINDS = ("call", "copy", "input", "constant", "at input")
CALL, COPIED, INPUT, CONSTANT, EARLY = range(len(KINDS))


@dataclass(frozen=True, eq=False)
class Shown:
    """Data of one plan's page. ``timelines`` {"simulated" or "measured": Timeline}; tables and memory use the
    first timeline. ``constants``: names of inputs that a run does not set; ``notes``: changes by the
    front-end and the rewrites; ``origins``: {node: nodes of the source that it replaces}. ``comparison``:
    Comparison.as_dict() of the plan's nodes, None if they were not compared. ``kept``: {eid in the plan's
    graph: value} of inputs and outputs after a run. ``problem``: the reason why the plan cannot run, "" if it
    can run.
    """

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
        """The data of a page for a prepared model. ``prepared``: result of prepare(); the plan is the plan of
        ``timelines``. ``words``: further fields of Shown."""
        model = prepared.model
        plan = next(iter(timelines.values())).plan
        return cls(name, plan, timelines, frozenset(model.constants), model.notes, model.origins, **words)

    @property
    def timeline(self) -> Timeline:
        """The first of the timelines."""
        return next(iter(self.timelines.values()))

    @cached_property
    def values(self) -> Values:
        """The plan's values, with their lifetimes."""
        return find_values(self.plan.graph, self.plan.at_input)

    @cached_property
    def kinds(self) -> np.ndarray:
        """int8 [nodes]: kind of each node, an index into KINDS."""
        graph = self.plan.graph
        found = np.where(func_mask(graph, COPY), COPIED, CALL).astype(np.int8)
        found[self.plan.at_input] = EARLY
        nulls = np.flatnonzero(graph.func_id < 0)
        found[nulls] = [CONSTANT if graph.names[nid] in self.constants else INPUT for nid in nulls.tolist()]
        return found

    @cached_property
    def ns(self) -> dict[int, int]:
        """{nid: ns of one run} in the first timeline."""
        first = self.timeline.run == 0
        return dict(
            zip(self.timeline.nid[first].tolist(), self.timeline.duration[first].tolist(), strict=True)
        )
