"""Timing as TVM's time_evaluator does it: repeats of the mean over a number of calls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..base.errors import InputError

__all__ = ["BenchmarkResult", "measure"]

_GOLDEN_RATIO = 1.618  # by how much at least number grows, as in TVM


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """``results``: seconds a call, one a repeat. ``std`` is the population's. ``str()`` is a table in ms."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Seconds a call."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Seconds a call."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """Seconds a call, of the fastest repeat."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Seconds a call, of the slowest repeat."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Seconds, of the population of repeats."""
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
) -> BenchmarkResult:
    """Time ``call``. One call is made first and not measured; parameters are those of GraphModule.benchmark.

    Raises InputError for a repeat, number or repeats_to_cooldown below 1.
    """
    for name, value in (("repeat", repeat), ("number", number), ("repeats_to_cooldown", repeats_to_cooldown)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}", got=value)
    call()
    results = []
    for i in range(repeat):
        seconds, number = _one_repeat(call, number, min_repeat_ms / 1e3, limit_zero_time_iterations)
        results.append(seconds)
        if cooldown_s > 0 and i % repeats_to_cooldown == 0:
            time.sleep(cooldown_s)
    return BenchmarkResult(tuple(results))


def _one_repeat(
    call: Callable[[], object], number: int, min_seconds: float, zero_limit: int
) -> tuple[float, int]:
    """Seconds a call, and the number of calls it took, which the next repeat begins with."""
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
