"""Which nodes of a model may be stored or computed more coarsely, so that its outputs stay near enough.

What a choice costs in exactness is measured on its node alone, given the right values; what it saves is a
difference of two simulations. Choices that save most for what they cost come first. How many of them go
together is found by runs of the whole model, and the end is one more run: no sum of errors is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..artifacts.prepare import Prepared
from ..base.errors import CapacityError, DeviceError, InputError, PlanError, UnsupportedOpError, no_such
from ..base.progress import Tell, silent
from .coarsening import Choices, Coarsening
from .differences import EntryDifference
from .precision import Precision
from .side_by_side import Question
from .thresholds import AT_LEAST, MEASURES, measure

__all__ = ["CHOICES", "Chosen", "Found", "Goal", "search"]

CHOICES = ("bfp8_b", "bfp4_b", "LoFi", "bfp8_b/LoFi", "bfp4_b/LoFi")
_CANNOT = (CapacityError, DeviceError, PlanError, UnsupportedOpError)
_NO_ERROR = 1e-18  # nmse below which a choice costs nothing


@dataclass(frozen=True, slots=True)
class Goal:
    """What each output must reach, as "pcc=0.99" says."""

    measure: str
    limit: float

    @classmethod
    def of(cls, text: str) -> Goal:
        """Raises InputError for a measure that there is not, or no number."""
        name, _, number = text.partition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = float("nan")
        if name not in MEASURES or not np.isfinite(limit):
            raise InputError(
                f"{text!r} is no goal: write a measure and its limit, as pcc=0.99: "
                f"{no_such('measure', name, MEASURES) if name not in MEASURES else 'the limit is a number'}",
                got=text,
                wanted=list(MEASURES),
            )
        return cls(name, limit)

    def __str__(self) -> str:
        return f"{self.measure}={self.limit:g}"

    def worst(self, outputs: Sequence[EntryDifference]) -> float:
        """The value of the output that is farthest from the goal; NaN where an output is not finite."""
        values = [measure(one, self.measure) for one in outputs]
        if any(np.isinf(one.nmse) or np.isnan(one.nmse) for one in outputs):
            return float("nan")
        return (min if self.measure in AT_LEAST else max)(values)

    def met(self, value: float) -> bool:
        """Whether a value reaches it; NaN does not."""
        return value >= self.limit if self.measure in AT_LEAST else value <= self.limit


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice for a node, and both alone: ns that it saves of a run's latency, and the ``nmse`` that it adds
    to the node's result."""

    name: str
    op: str
    choice: str
    saved_ns: int
    nmse: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class Found:
    """The end of a search. ``value`` of the goal's measure and ``latency_ns`` are of the whole model with all
    of ``chosen``, by a run and by a simulation; ``value_before`` and ``latency_before_ns`` of the model as it
    was. ``refused``: choices that save time and were left out. ``runs``: of the whole model. ``prepared``:
    the plan with what was chosen, and the constants that its graph wants."""

    goal: Goal
    value_before: float
    latency_before_ns: int
    value: float
    latency_ns: int
    chosen: tuple[Chosen, ...]
    refused: tuple[Chosen, ...]
    runs: int
    prepared: Prepared = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether the model reaches the goal, as it is or coarser."""
        return self.goal.met(self.value)

    @property
    def saved(self) -> float:
        """The share of the latency that is gone."""
        return 1 - self.latency_ns / max(self.latency_before_ns, 1)

    def as_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        names = ("ok", "value_before", "value", "latency_before_ns", "latency_ns", "saved", "runs")
        return {
            "measure": self.goal.measure,
            "limit": self.goal.limit,
            **{name: getattr(self, name) for name in names},
            "chosen": [one.as_dict() for one in self.chosen],
            "refused": [one.as_dict() for one in self.refused],
        }


def search(
    question: Question,
    goal: Goal,
    *,
    precision: Precision | None = None,
    choices: Sequence[str] = CHOICES,
    runs: int = 32,
    tell: Tell = silent,
) -> Found:
    """Coarsen nodes of ``question``'s model, which is computed in ``precision`` otherwise, as far as ``goal``
    allows. ``choices``: precisions of a node to choose from. ``runs``: of the whole model, at most.

    Where the model misses the goal as it is, nothing is chosen, and the result is not ``ok``. Raises
    InputError for a model without a node that has a choice, and what prepare, create and run raise.
    """
    if runs < 3:
        raise InputError(f"{runs} runs are too few for a search: it takes 3 at least", got=runs, wanted=3)
    precisions = {text: Precision.of(text) for text in choices}
    case = Coarsening(question, question.prepare(precision or Precision()))
    if not case.nodes:
        raise InputError(
            "no node of a simulated device has a format or a fidelity to choose: give --device tt:0"
        )
    tell("proving", 0, runs)
    plain = case.prepared({})
    first = goal.worst(case.outputs(plain))
    taken: dict[str, Chosen] = {}
    refused: list[Chosen] = []
    spent, last, value = 1, plain, first
    if goal.met(first):
        offers = _offers(case, precisions, case.latency(plain), tell)
        trials = _Trials(case, goal, precisions, runs - 2, tell)
        taken, refused = trials.taken(_in_order(offers))
        spent += trials.spent
        if taken:
            last = case.prepared(trials.precisions(taken))
            value = goal.worst(case.outputs(last))
            spent += 1
    return Found(
        goal=goal,
        value_before=first,
        latency_before_ns=case.latency(plain),
        value=value,
        latency_ns=case.latency(last),
        chosen=tuple(taken.values()),
        refused=tuple(refused),
        runs=spent,
        prepared=replace(last, model=replace(last.model, constants=case.base.model.constants)),
    )


def _offers(case: Coarsening, precisions: Mapping[str, Precision], before: int, tell: Tell) -> list[Chosen]:
    """Every choice of every node that saves time, with what it costs alone."""
    plain, found = case.alone({}), []
    for text, precision in precisions.items():
        nodes = [name for name in case.nodes if case.changes(name, precision)]
        errors = case.alone(dict.fromkeys(nodes, precision)) if nodes else {}
        for at, name in enumerate(nodes):
            tell(f"estimating {text}", at, len(nodes))
            try:
                saved = before - case.latency(case.prepared({name: precision}))
            except _CANNOT:
                continue  # this node cannot be stored so
            if saved > 0 and np.isfinite(errors[name]):
                found.append(
                    Chosen(name, case.nodes[name], text, saved, max(errors[name] - plain[name], 0.0))
                )
    return found


def _in_order(offers: Sequence[Chosen]) -> list[Chosen]:
    """The way of each node from one choice to a coarser one that saves more, all nodes' steps in one row:
    most ns for what the squared error grows come first."""
    ways: dict[str, list[Chosen]] = {}
    for one in sorted(offers, key=lambda offer: (offer.nmse, -offer.saved_ns)):
        way = ways.setdefault(one.name, [])
        if one.saved_ns > (way[-1].saved_ns if way else 0):
            way.append(one)
    steps: list[tuple[float, int, Chosen]] = []
    for way in ways.values():
        ns, error, rate = 0, 0.0, np.inf
        for at, one in enumerate(way):
            # a node's later step is never worth more than an earlier one, behind which it must come
            rate = min(rate, (one.saved_ns - ns) / max(one.nmse - error, _NO_ERROR))
            steps.append((-rate, at, one))
            ns, error = one.saved_ns, one.nmse
    return [one for _, _, one in sorted(steps, key=lambda step: step[:2])]


class _Trials:
    """Runs of a model with choices, ``most`` of them."""

    def __init__(
        self, case: Coarsening, goal: Goal, precisions: Mapping[str, Precision], most: int, tell: Tell
    ):
        self._case, self._goal, self._precisions, self._most, self._tell = case, goal, precisions, most, tell
        self.spent = 0

    def precisions(self, taken: Mapping[str, Chosen]) -> Choices:
        return {name: self._precisions[one.choice] for name, one in taken.items()}

    def taken(self, steps: Sequence[Chosen]) -> tuple[dict[str, Chosen], list[Chosen]]:
        """(by node, what may be chosen together; what may not): the longest row of steps that holds, then
        without the step that ended it, and so on while there are runs."""
        taken: dict[str, Chosen] = {}
        refused: list[Chosen] = []
        left = list(steps)
        while left and self.spent < self._most:
            count = self._longest(taken, left)
            taken |= {one.name: one for one in left[:count]}
            if count == len(left):
                return taken, refused
            stopped = left[count]
            refused.append(stopped)
            left = left[count + 1 :]
            refused += [one for one in left if one.name == stopped.name]
            left = [one for one in left if one.name != stopped.name]
        return taken, refused + left

    def _longest(self, taken: Mapping[str, Chosen], steps: Sequence[Chosen]) -> int:
        """How many steps hold together, all first, else by bisection."""
        low, high = 0, len(steps) + 1  # low holds, high does not
        while high - low > 1 and self.spent < self._most:
            count = len(steps) if high > len(steps) else (low + high) // 2
            self.spent += 1
            self._tell("proving", self.spent, self._most)
            trial = {**taken, **{one.name: one for one in steps[:count]}}
            outputs = self._case.outputs(self._case.prepared(self.precisions(trial)))
            low, high = (count, high) if self._goal.met(self._goal.worst(outputs)) else (low, count)
        return low
