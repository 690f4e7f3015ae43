"""Search for nodes of a model that can be stored or computed more coarsely while the outputs still meet a
goal.

The error of a choice is measured on its node alone, with exact inputs; its saving is the difference of two
simulations. Choices with the most saving per error come first. How many of them can be combined is found by
runs of the whole model, never by adding errors.
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

CHOICES = ("bfp8_b", "bfp4_b", "LoFi", "bfp8_b/LoFi", "bfp4_b/LoFi")
_CANNOT = (CapacityError, DeviceError, PlanError, UnsupportedOpError)
_NO_ERROR = 1e-18  # nmse below which a choice counts as exact


@dataclass(frozen=True, slots=True)
class Goal:
    """The value of a measure that each output must reach, as in "pcc=0.99"."""

    measure: str
    limit: float

    @classmethod
    def of(cls, text: str) -> Goal:
        """A goal from its text. Raises InputError for an unknown measure or a malformed number."""
        name, _, number = text.partition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = float("nan")
        if name not in MEASURES or not np.isfinite(limit):
            raise InputError(
                f"{text!r} is not a goal: write a measure and its limit, such as pcc=0.99: "
                f"{no_such('measure', name, MEASURES) if name not in MEASURES else 'the limit is a number'}",
                got=text,
                wanted=list(MEASURES),
            )
        return cls(name, limit)

    def __str__(self) -> str:
        return f"{self.measure}={self.limit:g}"

    def worst(self, outputs: Sequence[EntryDifference]) -> float:
        """The value of the output that is farthest from the goal; NaN if an output is not finite."""
        values = [measure(one, self.measure) for one in outputs]
        if any(np.isinf(one.nmse) or np.isnan(one.nmse) for one in outputs):
            return float("nan")
        return (min if self.measure in AT_LEAST else max)(values)

    def met(self, value: float) -> bool:
        """Whether a value reaches the goal; NaN does not."""
        return value >= self.limit if self.measure in AT_LEAST else value <= self.limit


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice for a node. Both numbers are effects of this choice alone: ``saved_ns``, the ns by which it
    shortens a run, and ``nmse`` of the node's result."""

    name: str
    op: str
    choice: str
    saved_ns: int
    nmse: float

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class Found:
    """The result of a search. ``value``: the goal's measure in a run of the whole model with all of
    ``chosen``. ``latency_ns``: simulated latency of the same model. ``value_before``, ``latency_before_ns``:
    both numbers of the original model. ``refused``: choices that save time but were left out. ``runs``:
    number of runs of the whole model. ``prepared``: the plan with the choices, and the constants that its
    graph needs."""

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
        """Whether the model reaches the goal, unchanged or coarser."""
        return self.goal.met(self.value)

    @property
    def saved(self) -> float:
        """The share of the latency that is saved, in 0 .. 1."""
        return 1 - self.latency_ns / max(self.latency_before_ns, 1)

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
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
    """Coarsen nodes of ``question``'s model as far as ``goal`` allows; other nodes keep ``precision``.
    ``choices``: the precisions to try for each node. ``runs``: largest number of runs of the whole model.

    If the unchanged model misses the goal, nothing is chosen, and the result is not ``ok``. Raises InputError
    for a model without a node that has a choice, and what prepare, create and run raise.
    """
    if runs < 3:
        raise InputError(f"{runs} runs are too few for a search: it takes 3 at least", got=runs, wanted=3)
    precisions = {text: Precision.of(text) for text in choices}
    case = Coarsening(question, question.prepare(precision or Precision()))
    if not case.nodes:
        text = "no node runs on a simulated device with a choice of format or fidelity: give --device tt:0"
        raise InputError(text)
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
    """All choices that save time, each for one node, with the error of this choice alone."""
    plain, found = case.alone({}), []
    for text, precision in precisions.items():
        nodes = [name for name in case.nodes if case.changes(name, precision)]
        errors = case.alone(dict.fromkeys(nodes, precision)) if nodes else {}
        for at, name in enumerate(nodes):
            tell(f"estimating {text}", at, len(nodes))
            try:
                saved = before - case.latency(case.prepared({name: precision}))
            except _CANNOT:
                continue  # the node cannot be stored in that format
            if saved > 0 and np.isfinite(errors[name]):
                found.append(
                    Chosen(name, case.nodes[name], text, saved, max(errors[name] - plain[name], 0.0))
                )
    return found


def _in_order(offers: Sequence[Chosen]) -> list[Chosen]:
    """Steps of all nodes, sorted by ns saved per growth of the squared error, largest first. A step moves a
    node from one choice to a coarser choice that saves more time."""
    ways: dict[str, list[Chosen]] = {}
    for one in sorted(offers, key=lambda offer: (offer.nmse, -offer.saved_ns)):
        way = ways.setdefault(one.name, [])
        if one.saved_ns > (way[-1].saved_ns if way else 0):
            way.append(one)
    steps: list[tuple[float, int, Chosen]] = []
    for way in ways.values():
        ns, error, rate = 0, 0.0, np.inf
        for at, one in enumerate(way):
            # a node's later step must follow its earlier step; its rank is therefore no higher than the
            # earlier step's rank
            rate = min(rate, (one.saved_ns - ns) / max(one.nmse - error, _NO_ERROR))
            steps.append((-rate, at, one))
            ns, error = one.saved_ns, one.nmse
    return [one for _, _, one in sorted(steps, key=lambda step: step[:2])]


class _Trials:
    """Runs of the model with choices. ``most``: largest number of runs."""

    def __init__(
        self, case: Coarsening, goal: Goal, precisions: Mapping[str, Precision], most: int, tell: Tell
    ):
        self._case, self._goal, self._precisions, self._most, self._tell = case, goal, precisions, most, tell
        self.spent = 0

    def precisions(self, taken: Mapping[str, Chosen]) -> Choices:
        return {name: self._precisions[one.choice] for name, one in taken.items()}

    def taken(self, steps: Sequence[Chosen]) -> tuple[dict[str, Chosen], list[Chosen]]:
        """(choices that can be combined, by node; refused choices). The longest prefix of the steps that
        meets the goal is taken, and the step after this prefix is refused. This is repeated with the
        remaining steps while runs are left."""
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
        """The length of the longest prefix of the steps that meets the goal. All steps together are tried
        first; if they fail, the length is found by bisection."""
        low, high = 0, len(steps) + 1  # ``low`` steps meet the goal, but ``high`` steps do not
        while high - low > 1 and self.spent < self._most:
            count = len(steps) if high > len(steps) else (low + high) // 2
            self.spent += 1
            self._tell("proving", self.spent, self._most)
            trial = {**taken, **{one.name: one for one in steps[:count]}}
            outputs = self._case.outputs(self._case.prepared(self.precisions(trial)))
            low, high = (count, high) if self._goal.met(self._goal.worst(outputs)) else (low, count)
        return low
