"""Ways to run a model's nodes with one storage format on the simulated devices: the time and error of each
way, and the placement with the least sum of time and priced error (bounding.py explains the price)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..artifacts.prepare import Prepared, prepare
from ..base.errors import CapacityError, DeviceError, PlanError, UnsupportedOpError
from ..base.machine.devices import Device
from ..base.options import Options
from ..base.progress import Tell
from ..ir.graph import NodeView
from ..ir.model import Constant, Model
from ..ir.ops.inputs import nmse
from ..ir.ops.rules import narrow
from ..plan.globs import EXACTLY
from ..plan.placing.policies import decide
from ..plan.placing.problem import UNSUPPORTED, PlacementProblem, make_problem
from ..plan.types import Placement
from ..rewrite.formats.store_weights import HOST_FORMATS
from ..run import factory
from .compare import compare_prepared
from .differences import EntryDifference, output_differences
from .interpreter import call_node, interpret
from .searching import Goal
from .side_by_side import latency

_ROUNDED = "bfloat16"
_PLAIN, _STORED = HOST_FORMATS  # weight formats: plain, and stored in bf16
_MOST = 1 << 40  # largest number of ns that an error counts as; it makes any node change its way
_NO_ERROR = 1e-18  # nmse below which a way counts as exact
_CANNOT = (CapacityError, DeviceError, PlanError, UnsupportedOpError)


@dataclass(frozen=True)
class BoundProblem:
    """A model, its devices and options, its inputs, and the exact value of each of its entries for these
    inputs."""

    source: Model
    devices: Sequence[Device]
    options: Options
    given: Mapping[str, np.ndarray]
    right: Sequence[np.ndarray]
    libraries: Sequence[Any]
    goal: Goal
    words: Mapping[str, Any]

    def prepare(self, **said: Any) -> Prepared:
        return prepare(
            self.source, self.devices, self.options, libraries=self.libraries, **self.words, **said
        )

    def outputs(self, prepared: Prepared) -> list[EntryDifference]:
        """Runs the prepared model, and returns the error of each output."""
        module = factory.open_prepared(replace(prepared, compiles=False), self.libraries)
        module.run(**{n: a for n, a in self.given.items() if n in prepared.plan.graph.input_names})
        return output_differences(self.source.graph, self.right, module)


@dataclass(frozen=True)
class NodeWays:
    """A way for each node. ``did``: device index of each node, int [nodes]. ``stored``: names of nodes on
    hosts whose weights are in bf16."""

    did: np.ndarray
    stored: tuple[str, ...]

    @property
    def key(self) -> tuple[bytes, tuple[str, ...]]:
        return self.did.tobytes(), self.stored


@dataclass(frozen=True)
class Trial:
    """A choice that met the bound in a run. ``value``: value of the measure that the bound limits.
    ``latency_ns``: latency that `estimate` predicts."""

    case: FormatTrials
    choice: NodeWays
    prepared: Prepared
    latency_ns: int
    value: float


class _Decided:
    """A placement policy that returns a given placement; the plan's reasons begin with its ``__name__``."""

    def __init__(self, name: str, did: np.ndarray):
        self.__name__, self._did = name, did

    def __call__(self, problem: PlacementProblem) -> np.ndarray:
        return self._did


class FormatTrials:
    """Trials with one storage format on the simulated devices. ``fastest_ns``: predicted latency of the
    fastest choice, whatever its error."""

    def __init__(self, asked: BoundProblem, formats: Mapping[str, str]):
        self.asked, self.formats = asked, dict(formats)
        self._hosts = {str(d): _PLAIN for d in asked.devices if d.descriptor.on_host and is_free(asked, d)}
        self.base = asked.prepare(formats={**asked.options.formats, **self.formats, **self._hosts})
        placement = self.base.plan.placement
        assert placement is not None
        self.placement: Placement = placement.before or placement
        pricing, graph = self.placement.pricing, self.placement.graph
        self.plain, self.stored = (
            make_problem(
                graph,
                self.placement.devices,
                replace(pricing, weights={**pricing.weights, **dict.fromkeys(self._hosts, fmt)}),
                pin=self.placement.asked,
            )
            for fmt in (_PLAIN, _STORED)
        )
        self.fastest = self.choice(0.0, measured=False)
        self.fastest_ns = latency(self.prepared(self.fastest), list(asked.given))

    @property
    def _constants(self) -> Mapping[str, Constant]:
        """Constants of the model in the form in which it was placed."""
        known = self.placement.pricing.constants
        return known if isinstance(known, Mapping) else {}

    @property
    def _given(self) -> dict[str, np.ndarray]:
        names = set(self.placement.graph.input_names)
        return {name: array for name, array in self.asked.given.items() if name in names}

    # ---------------------------------------------------------------- one trial

    def choice(self, price: float, measured: bool = True) -> NodeWays:
        """The way of each node with the least sum of time and priced error. ``price``: ns per unit of error.
        ``measured``: whether errors count; else only the time does."""
        open_hosts = np.array([str(device) in self._hosts for device in self.plain.devices])
        cost, kept = self.plain.cost.astype(np.float64), self.plain.on_host & open_hosts
        wrong = self.errors if measured else np.zeros((2, *cost.shape))
        exact, coarse = cost + _priced(price, wrong[0]), self.stored.cost + _priced(price, wrong[1])
        better = kept & (coarse < exact) & (self.stored.cost < UNSUPPORTED)
        total = np.where(cost < UNSUPPORTED, np.where(better, coarse, exact), UNSUPPORTED)
        problem = replace(self.plain, cost=np.minimum(total, UNSUPPORTED).astype(np.int64))
        policy = self.asked.options.placement
        did = self.placement.did if policy is None else decide(problem, policy)
        names = self.placement.graph.names
        rows = np.flatnonzero(better[np.arange(len(did)), did] & (self.placement.graph.func_id >= 0))
        return NodeWays(np.asarray(did, np.int64), tuple(names[nid] for nid in rows.tolist()))

    def prepared(self, choice: NodeWays) -> Prepared:
        """The model planned with a choice. Raises what prepare raises."""
        options, said = self.asked.options, dict[str, Any]()
        if options.placement is not None:
            name = options.placement if isinstance(options.placement, str) else "placement"
            said["placement"] = _Decided(f"{name} within {self.asked.goal!s}", choice.did)
        layouts = {EXACTLY + name: _STORED for name in choice.stored}
        formats = {**options.formats, **self.formats, **self._hosts}
        return self.asked.prepare(formats=formats, layouts={**options.layouts, **layouts}, **said)

    @property
    def exact(self) -> NodeWays:
        """The most exact choice, whatever time it takes."""
        return self.choice(float(_MOST) / _NO_ERROR)

    # ---------------------------------------------------------------- the search

    def search(self, least: int, tell: Tell) -> tuple[list[Trial], int]:
        """(the tried choices that meet the bound, the number of tried choices). A choice is not run if its
        predicted latency is ``least`` ns or more."""
        known: dict[Any, Trial | None] = {}

        def tried(choice: NodeWays) -> Trial | None:
            if choice.key not in known:
                tell("proving", len(known), 0)
                known[choice.key] = self._proved(choice, least)
            return known[choice.key]

        # there are errors to price, and the most exact choice meets the bound
        if tried(self.fastest) is None and (self.errors > 0).any() and tried(self.exact) is not None:
            prices = self._prices()
            low, high = -1, len(prices)  # low: any error is accepted; high: no error is
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if tried(self.choice(prices[middle])) else (middle, high)
        return [trial for trial in known.values() if trial is not None], len(known)

    def _prices(self) -> list[float]:
        """Prices in ascending order. There is one price between any two neighbouring prices at which a node
        changes its way."""
        able = self.plain.cost < UNSUPPORTED
        exact = np.where(able & (self.errors[0] <= _NO_ERROR), self.plain.cost, 0).max(1, keepdims=True)
        ways = np.stack([np.where(able, self.plain.cost, exact), self.stored.cost])
        worth = (exact - ways)[self.errors > _NO_ERROR] / self.errors[self.errors > _NO_ERROR]
        turns = np.unique(worth[worth > 0])
        return np.sqrt(turns[1:] * turns[:-1]).tolist()

    def _proved(self, choice: NodeWays, least: int) -> Trial | None:
        try:
            prepared = self.prepared(choice)
        except _CANNOT:
            return None
        ns = latency(prepared, list(self.asked.given))
        if ns >= least:
            return None
        value = self.asked.goal.worst(self.asked.outputs(prepared))
        return Trial(self, choice, prepared, ns, value) if self.asked.goal.met(value) else None

    # ---------------------------------------------------------------- errors alone

    @cached_property
    def errors(self) -> np.ndarray:
        """nmse of each node alone on each device, as float64 [2, nodes, k]. Row 0 has the errors with the
        device's format, row 1 those with the weight in bf16."""
        graph, made = self.placement.graph, np.zeros((2, *self.plain.cost.shape))
        far = np.flatnonzero(~self.plain.on_host)
        if (self.plain.cost[:, far] < UNSUPPORTED)[graph.func_id >= 0].any():
            alone = self._errors_there()
            for nid, name in enumerate(graph.names):
                made[0, nid, far] = alone.get(name, 0.0)
        differs = (self.stored.cost != self.plain.cost).any(1)
        if differs.any():
            arrays = {name: one.read() for name, one in self._constants.items()}
            values = interpret(graph, {**self._given, **arrays})
            for nid in np.flatnonzero(differs).tolist():
                made[1, nid] = _rounded_error(graph.node(nid), values)
        return made

    def _errors_there(self) -> dict[str, float]:
        """{name: nmse} of each node that can run on the first simulated device. Each node runs alone, with
        exact inputs."""
        there = next(d for d in self.asked.devices if not d.descriptor.on_host)
        hosts = any(d.descriptor.on_host for d in self.asked.devices)
        case = self.asked.prepare(
            formats={**self.asked.options.formats, **self.formats, **self._hosts},
            place={"*": str(there)},
            fallback="host" if hosts else "error",
        )
        rows = compare_prepared(case, inputs=self.asked.given, original=self.asked.right).isolated
        found: dict[str, float] = {}
        for row in rows:
            name = row.name.rpartition(":")[0] or row.name
            found[name] = max(found.get(name, 0.0), row.nmse)
        return found


def is_free(asked: BoundProblem, device: Device) -> bool:
    """Whether the caller left the format of a device open."""
    return not {device.kind, str(device)} & set(asked.options.formats)


def _rounded_error(node: NodeView, values: Sequence[np.ndarray]) -> float:
    """nmse of a product after its operands are rounded to bfloat16."""
    arrays = [values[eid] for eid in node.inputs]
    rounded = [narrow(a, _ROUNDED).astype(a.dtype) if at < 2 else a for at, a in enumerate(arrays)]
    return max(
        nmse(got, values[eid]) for got, eid in zip(call_node(node, rounded, {}), node.outputs, strict=True)
    )


def _priced(price: float, errors: np.ndarray) -> np.ndarray:
    return np.where(errors > _NO_ERROR, np.minimum(price * errors, _MOST), 0.0)
