"""Timing of a call, and of each node alone over many runs. A call is timed as TVM's time_evaluator does it:
the mean over a number of calls is measured several times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import InputError
from ..plan.types import Plan

if TYPE_CHECKING:
    from .sessions.session import Session

_MOST_ROWS = 40  # most rows of a printed table
_EMPTY = 200  # number of calls that time an empty run
_GOLDEN_RATIO = 1.618  # least factor by which ``number`` grows, as in TVM


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """``results``: seconds per call, one for each repeat. ``str()`` is a table in ms."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the seconds per call."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Median of the seconds per call."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """Seconds per call in the fastest repeat."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Seconds per call in the slowest repeat."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation of the population of repeats, in seconds."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = " ".join(f"{name + ' (ms)':^12}" for name in names)
        row = " ".join(f"{getattr(self, name) * 1e3:^12.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{row}"


def measure(
    call: Callable[[], object],
    repeat: int,
    number: int,
    min_repeat_ms: float = 0,
    limit_zero_time_iterations: int = 100,
    cooldown_s: float = 0,
    repeats_to_cooldown: int = 1,
    before: Callable[[], object] | None = None,
) -> BenchmarkResult:
    """Time ``call`` after one call that is not measured. ``before``: function that is called before each
    repeat and not measured; all other parameters are those of GraphModule.benchmark. Raises InputError for a
    repeat, number or repeats_to_cooldown below 1."""
    for name, value in (("repeat", repeat), ("number", number), ("repeats_to_cooldown", repeats_to_cooldown)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}", got=value)
    call()
    results = []
    for i in range(repeat):
        if before is not None:
            before()
        seconds, number = _one_repeat(call, number, min_repeat_ms / 1e3, limit_zero_time_iterations)
        results.append(seconds)
        if cooldown_s > 0 and i % repeats_to_cooldown == 0:
            time.sleep(cooldown_s)
    return BenchmarkResult(tuple(results))


def _one_repeat(
    call: Callable[[], object], number: int, min_seconds: float, zero_limit: int
) -> tuple[float, int]:
    """(seconds per call, number of calls with which the next repeat begins)."""
    zeros = 0
    while True:
        start = time.perf_counter()
        for _ in range(number):
            call()
        took = time.perf_counter() - start
        zeros += took == 0
        if took >= min_seconds or zeros >= zero_limit:
            return took / number, number
        wanted = min_seconds / (took / number) + 1 if took else 0
        number = int(max(wanted, number * _GOLDEN_RATIO, number + 1))


# **************** node by node ****************


@dataclass(frozen=True, slots=True, eq=False)
class NodeTimes:
    """Times of nodes that ran one after the other. ``ns`` int64 [runs, nodes]: times of the nodes; ``nid``
    int64 [nodes]: numbers of the nodes in ``plan``. ``empty_ns``: time of a call that runs no node; each time
    in ``ns`` includes it. ``str()`` is a table of the slowest nodes."""

    plan: Plan
    nid: np.ndarray
    ns: np.ndarray
    empty_ns: int

    def rows(self) -> list[dict[str, Any]]:
        """One row for each node, in the order of a run. The keys of a row are nid, node, op and device;
        median_ns, mean_ns, min_ns, max_ns and std_ns over the runs; and share, the node's part of the sum of
        all medians."""
        median = np.median(self.ns, 0)
        total, found = max(float(median.sum()), 1.0), []
        for at, nid in enumerate(self.nid.tolist()):
            node, took = self.plan.graph.node(nid), self.ns[:, at]
            found.append(
                {
                    "nid": nid,
                    "node": node.name,
                    "op": node.op,
                    "device": str(self.plan.devices[self.plan.did[nid]]),
                    "median_ns": float(median[at]),
                    "mean_ns": float(took.mean()),
                    "min_ns": int(took.min()),
                    "max_ns": int(took.max()),
                    "std_ns": float(took.std()),
                    "share": float(median[at]) / total,
                }
            )
        return found

    def medians(self) -> dict[int, float]:
        """{nid: median ns} over the runs."""
        return dict(zip(self.nid.tolist(), np.median(self.ns, 0).tolist(), strict=True))

    def __str__(self) -> str:
        rows = sorted(self.rows(), key=lambda row: -row["median_ns"])
        shown = rows[:_MOST_ROWS]
        lines = [f"{'median us':>11} {'min us':>11} {'std us':>9} {'share':>6}  device  node"]
        lines += [
            f"{row['median_ns'] / 1e3:11.2f} {row['min_ns'] / 1e3:11.2f} {row['std_ns'] / 1e3:9.2f} "
            f"{row['share']:6.1%}  {row['device']:6}  {row['node']} ({row['op']})"
            for row in shown
        ]
        if len(rows) > len(shown):
            rest = sum(row["share"] for row in rows[len(shown) :])
            lines.append(f"... and {len(rows) - len(shown)} more, {rest:.1%} of the time")
        runs, empty = len(self.ns), self.empty_ns / 1e3
        return "\n".join(
            [*lines, f"{runs} runs node by node; {empty:.2f} us of each time are the overhead of the call"]
        )


def measure_nodes(session: Session, runs: int) -> NodeTimes:
    """Run a session node by node, ``runs`` times after one unmeasured run. Inputs must be set. Raises
    InputError for ``runs`` below 1, and the errors of Session.run."""
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        raise InputError(f"runs must be a number from 1, got {runs!r}", got=runs, wanted=1)
    count, clock = session.program.main, time.perf_counter_ns
    ns = np.zeros((runs + 1, count), np.int64)
    for row in ns:
        for at in range(count):
            start = clock()
            session.run_span(at, at + 1)
            row[at] = clock() - start
    empty = []
    for _ in range(_EMPTY):
        start = clock()
        session.run_span(0, 0)
        empty.append(clock() - start)
    nid = np.array(session.program.nid[:count], np.int64)
    return NodeTimes(session.plan, nid, ns[1:], round(statistics.median(empty)))
