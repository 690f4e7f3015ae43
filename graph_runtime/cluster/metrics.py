"""Counters, gauges and histograms, and their text for Prometheus.

Names and units follow Prometheus: seconds, bytes, ``_total`` for counters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Counter:
    """A number that only grows. ``label``: name of a label, for each value of which there is a number; "" if
    there is only one number."""

    name: str
    help: str
    label: str = ""
    values: dict[str, float] = field(default_factory=dict)
    kind = "counter"

    def add(self, value: str = "", amount: float = 1) -> None:
        """Add ``amount`` to the number for ``value`` of the label."""
        self.values[value] = self.values.get(value, 0) + amount

    def lines(self, labels: str) -> Iterator[str]:
        """One line per value of the label."""
        for value, count in self.values.items() or ([("", 0.0)] if not self.label else []):
            own = f'{self.label}="{_escaped(value)}"' if self.label else ""
            yield f"{self.name}{_braces(labels, own)} {_number(count)}"


@dataclass(slots=True)
class Gauge:
    """A current value."""

    name: str
    help: str
    value: float = 0
    kind = "gauge"

    def set(self, value: float) -> None:
        """Set the current value."""
        self.value = value

    def lines(self, labels: str) -> Iterator[str]:
        """The gauge's line."""
        yield f"{self.name}{_braces(labels)} {_number(self.value)}"


@dataclass(slots=True)
class Histogram:
    """Counts of values up to each of ``bounds``, which ascend."""

    name: str
    help: str
    bounds: Sequence[float] = SECONDS
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0
    kind = "histogram"

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, labels: str) -> Iterator[str]:
        """A line per bound, with the number of values up to that bound; then lines for the sum and the number
        of all values."""
        total = 0
        for bound, count in zip((*map(_number, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            own = f'le="{bound}"'
            yield f"{self.name}_bucket{_braces(labels, own)} {total}"
        yield f"{self.name}_sum{_braces(labels)} {self.sum!r}"
        yield f"{self.name}_count{_braces(labels)} {total}"


class ServingMetrics:
    """The metrics of one version of a model; the name is empty for a queue whose metrics are not shown."""

    def __init__(self, model: str = "", version: str = ""):
        self.labels = f'model="{_escaped(model)}",version="{_escaped(version)}"'
        self.requests = Counter("gr_requests_total", "Inference requests, by HTTP status.", "status")
        self.seconds = Histogram("gr_request_seconds", "From the end of a request's body to its answer.")
        self.queue = Gauge("gr_queue_requests", "Requests that wait for a worker.")
        self.rows = Histogram("gr_batch_rows", "Rows of requests in a run.", ROWS)
        self.padding = Counter("gr_padding_rows_total", "Padding rows, computed and dropped.")
        self.runs = Counter("gr_runs_total", "Runs of a program.")
        self.run_seconds = Histogram("gr_run_seconds", "Time of runs in their worker.")
        self.replays = Counter("gr_replays_total", "Requests and runs given to another worker.", "cause")
        self.bytes = Counter("gr_bytes_total", "Bytes of bodies.", "direction")
        self.fallbacks = Counter("gr_fallbacks_total", "Operations that a host ran instead of a device.")

    def ran(self, requests: int, rows: int, size: int) -> None:
        """Count a successful run. ``requests`` and ``rows``: numbers of requests and of their rows; ``size``:
        number of rows of the program."""
        self.runs.add()
        self.rows.observe(rows or requests)
        self.padding.add("", max(0, size - rows))

    def all(self) -> list[Counter | Gauge | Histogram]:
        """All metrics of the model, in the order in which they are shown."""
        return [value for value in vars(self).values() if not isinstance(value, str)]


def metrics_text(models: Sequence[ServingMetrics]) -> str:
    """The page for Prometheus: for each metric, its help text and kind, then the lines of all models."""
    lines: list[str] = []
    for group in zip(*(model.all() for model in models), strict=True):
        lines += [f"# HELP {group[0].name} {group[0].help}", f"# TYPE {group[0].name} {group[0].kind}"]
        for model, metric in zip(models, group, strict=True):
            lines += metric.lines(model.labels)
    return "\n".join([*lines, ""])


def _braces(*parts: str) -> str:
    given = ",".join(part for part in parts if part)
    return f"{{{given}}}" if given else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
