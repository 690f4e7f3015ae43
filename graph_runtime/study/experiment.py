"""The runner: one row of a CSV file for each combination of model, device list, objective, policy and seed.

A row is written as soon as it is known, and rows in the file are not computed again: a stopped study
continues.
"""

from __future__ import annotations

import csv
import inspect
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import GraphRuntimeError, InputError, did_you_mean
from ..base.machine.devices import Device, parse_list
from ..base.outside import name_of
from ..base.progress import Tell, silent
from ..costs import CostModel
from ..plan import plan
from ..plan.passes import place
from ..plan.placing import OBJECTIVES, PLACEMENT_POLICIES, PlacementProblem, evaluate
from ..plan.placing.policies import find_policy
from ..plan.types import Placement
from ..simulation.simulation import IN_FLIGHT, simulate
from .baselines import BASELINES
from .workloads import Workload, corpus, workload

POLICIES = (*PLACEMENT_POLICIES, *BASELINES)
# columns that identify a row, and its results
_KEY = ("model", "digest", "devices", "objective", "policy", "seed")
COLUMNS = (*_KEY, "nodes", "predicted_ns", "simulated_ns", "bound_ns", "peak_bytes", "place_s", "error")
_REUSE = {"serial": "serial", "makespan": "safe", "throughput": "safe"}


@dataclass(frozen=True, kw_only=True)
class Study:
    """An experiment. ``models``: names in corpus(), paths of files, or Models. ``devices``: device lists,
    each a text such as "cpu:0,tt:0=n150" or a sequence of devices. ``policies``: names in POLICIES, texts
    "package.module:function", or functions. A policy with a parameter ``seed`` runs once for each of
    ``seeds``, any other policy once. ``objectives``: quantities that policies minimise. ``costs``: cost
    model, as in Options.

    The constructor raises InputError for an unknown policy or objective, and for an invalid seed.
    """

    models: Sequence[Any] = field(default_factory=corpus)
    devices: Sequence[str | Sequence[str | Device]] = ("cpu:0,tt:0=n150",)
    policies: Sequence[str | Callable[..., Any]] = POLICIES
    objectives: Sequence[str] = ("makespan",)
    seeds: Sequence[int] = (0,)
    costs: CostModel | str | None = None

    def __post_init__(self) -> None:
        for policy in self.policies:
            if isinstance(policy, str) and ":" not in policy and policy not in POLICIES:
                text = f"unknown placement policy {policy!r}{did_you_mean(policy, POLICIES)}"
                raise InputError(text, got=policy, wanted=list(POLICIES))
        for objective in self.objectives:
            if objective not in OBJECTIVES:
                text = f"unknown objective {objective!r}{did_you_mean(str(objective), OBJECTIVES)}"
                raise InputError(text, got=objective, wanted=list(OBJECTIVES))
        for seed in self.seeds:
            if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
                raise InputError(f"a seed must be a whole number from 0 on, not {seed!r}", got=seed)

    def run(self, out: str | Path, tell: Tell = silent) -> list[dict[str, Any]]:
        """All rows of the study. Rows that the file ``out`` has are read; all others are computed and added
        to it. ``tell``: function that is told of each row before the row is computed.

        A refused placement is a row with its ``error``. Raises InputError for a file of another kind,
        OSError, and what reading a model raises.
        """
        out = Path(out)
        known = {_key(row): row for row in read_rows(out)} if out.exists() else {}
        workloads = [workload(model) for model in self.models]
        lists = [parse_list(d.split(",") if isinstance(d, str) else d) for d in self.devices]
        asked = list(self._asked(workloads, lists))
        found: list[dict[str, Any]] = []
        with _opened(out) as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if not file.tell():
                writer.writeheader()
            for at, (one, devices, objective, policy, seed) in enumerate(asked):
                listed = " ".join(f"{device}={device.descriptor.name}" for device in devices)
                values = (one.name, one.digest, listed, objective, name_of(policy), seed)
                key = dict(zip(_KEY, values, strict=True))
                row = known.get(_key(key))
                if row is None:
                    tell(f"{one.name} {key['policy']}", at, len(asked))
                    row = _cell({**key, **self._measured(one, devices, objective, policy, seed)})
                    writer.writerow(row)
                    file.flush()
                found.append(row)
        return found

    def _asked(
        self, workloads: Iterable[Workload], lists: Iterable[tuple[Device, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        for one, devices, objective, policy in itertools.product(
            workloads, lists, self.objectives, self.policies
        ):
            takes_seed = "seed" in inspect.signature(_policy(policy)).parameters
            for seed in self.seeds if takes_seed else (None,):
                yield one, devices, objective, policy, seed

    def _measured(
        self, one: Workload, devices: tuple[Device, ...], objective: str, policy: Any, seed: int | None
    ) -> dict[str, Any]:
        found: dict[str, Any] = {"nodes": int((one.graph.func_id >= 0).sum())}
        begin = time.perf_counter()
        try:
            placed = place(
                one.graph,
                devices,
                placement=_function(policy, seed),
                objective=objective,
                inputs=one.inputs,
                costs=self.costs,
            )
            found["place_s"] = round(time.perf_counter() - begin, 6)
            found |= _said(placed, objective)
            planned = plan(one.graph, devices, placed=placed, reuse=_REUSE[objective])
            found["peak_bytes"] = sum(planned.peak.values())
            runs = IN_FLIGHT if objective == "throughput" else 1
            timeline = simulate(planned, runs=runs)
            found["simulated_ns"] = {
                "serial": int((timeline.end - timeline.start).sum()),
                "makespan": timeline.latency_ns,
                "throughput": round(1e9 / timeline.throughput) if timeline.throughput else 0,
            }[objective]
        except GraphRuntimeError as error:
            found["error"] = " ".join(f"{type(error).__name__}: {error}".split())  # a row must be one line
        return found


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a study's file; an incomplete last line is ignored. Raises InputError for a file of another
    kind, OSError."""
    try:
        lines = Path(path).read_text("utf-8").split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not the file of a study: {error}", got=str(path)) from None
    reader = csv.DictReader(lines)
    try:
        return _rows(path, reader, bool(lines))
    except csv.Error as error:  # for example a field of more than 128 KiB
        text = f"{path}, line {reader.line_num}: {error}; remove the line, or start a new file"
        raise InputError(text) from None


def _rows(path: str | Path, reader: csv.DictReader[str], some: bool) -> list[dict[str, Any]]:
    if some and tuple(reader.fieldnames or ()) != COLUMNS:
        text = f"{path} is not the file of a study: its first line is not {','.join(COLUMNS)}"
        raise InputError(text, got=str(path))
    rows = []
    for number, row in enumerate(reader, 2):
        try:
            if None in row or None in row.values():
                raise ValueError(f"it does not have {len(COLUMNS)} columns")
            rows.append(_cell(row))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{path}, line {number}: {error}; remove the line, or start a new file"
            ) from error
    return rows


def _opened(path: Path) -> Any:
    """The file, opened for appending after its last whole line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        data = path.read_bytes()
        if not data.endswith(b"\n"):
            path.write_bytes(data[: data.rfind(b"\n") + 1])
    return path.open("a", encoding="utf-8", newline="")


_NUMBERS = ("seed", "nodes", "predicted_ns", "simulated_ns", "bound_ns", "peak_bytes")
_READ: dict[str, Callable[[Any], Any]] = {**dict.fromkeys(_NUMBERS, int), "place_s": float}


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose numbers are numbers and whose unknown values are None. A row is the same when written and
    when read back."""
    found: dict[str, Any] = {}
    for name in COLUMNS:
        value = row.get(name)
        if value in (None, ""):
            found[name] = None
        else:
            found[name] = _READ.get(name, str)(value)
    return found


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _policy(policy: Any) -> Callable[..., np.ndarray]:
    return BASELINES[policy] if policy in BASELINES else find_policy(policy)


def _function(policy: Any, seed: int | None) -> Any:
    function = _policy(policy)
    if seed is None:
        return function if policy in BASELINES else policy

    def seeded(problem: PlacementProblem) -> np.ndarray:
        return function(problem, seed=seed)

    seeded.__name__ = name_of(policy)
    return seeded


def _said(placed: Placement, objective: str) -> dict[str, Any]:
    """The predicted time of a placement, and a lower bound on the time of any placement."""
    problem = placed.problem
    assert problem is not None  # set, because a policy made the placement
    rows = np.where(problem.graph.func_id < 0, problem.pin, placed.did)
    (said,) = (row for row in placed.summary()["predictions"] if row["objective"] == objective)
    return {"predicted_ns": int(evaluate(problem, rows[None])[0]), "bound_ns": said["bound_ns"]}
