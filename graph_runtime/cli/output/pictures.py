"""--trace, --html and --visualizer: files about a plan and its timelines, which several commands write."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...base.errors import CapacityError
from ...base.files.writing import write_whole

if TYPE_CHECKING:
    from ...accuracy.differences import Comparison
    from ...artifacts.prepare import Prepared
    from ...plan import Plan
    from ...simulation.timeline import Timeline
    from ...views.page.shown import Shown

Trace = Annotated[
    Path | None,
    typer.Option("--trace", help="Write the timeline as JSON for ui.perfetto.dev or chrome://tracing."),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", help="Write an HTML file: graph, times, memory, roofline, tables (docs/view.md)."),
]

Visualizer = Annotated[
    Path | None,
    typer.Option(
        "--visualizer",
        metavar="DIR",
        help="Write a report into this folder that ttnn-visualizer opens; its times are simulated.",
    ),
]


def write_trace(path: Path | None, timeline: Timeline | None) -> None:
    """Write the trace of a timeline, if a path is given."""
    if path and timeline is not None:
        from ...views.trace import trace_json

        write_whole(path, trace_json(timeline), through=True)


def write_page(path: Path, *shown: Shown) -> None:
    """Write the page of one plan or two."""
    from ...views.page.data import page_data
    from ...views.page.html import html_page

    title = " and ".join(f"{one.name} on {', '.join(map(str, one.plan.devices))}" for one in shown)
    write_whole(path, html_page(page_data(title, *shown, command=command_line())), through=True)


def write_prepared_page(path: Path | None, name: str, prepared: Prepared, **words: Any) -> None:
    """Write the page of a prepared model, if a path is given. ``timelines``: timelines for the page, by
    default the prediction of one run. ``words``: other fields of Shown."""
    if path:
        from ...simulation.simulation import simulate
        from ...views.page.shown import Shown

        timelines = words.pop("timelines", None) or {"simulated": simulate(prepared.plan)}
        write_page(path, Shown.of(name, prepared, timelines, **words))


def command_line() -> str:
    """The command line of this process, in shell syntax."""
    return shlex.join(["graph-runtime", *sys.argv[1:]])


@contextmanager
def page_of_problem(path: Path | None, name: str) -> Iterator[None]:
    """A block that plans: if the plan does not fit, its page is written, too, with the reason, before the
    CapacityError is raised."""
    try:
        yield
    except CapacityError as error:
        planned = getattr(error, "plan", None)
        if path and planned is not None:
            from ...simulation.simulation import simulate
            from ...views.page.shown import Shown

            write_page(path, Shown(name, planned, {"simulated": simulate(planned)}, problem=str(error)))
        raise


def write_visualizer(
    folder: Path | None, plan: Plan, name: str, reports: Sequence[Comparison] = (), traced: bool = True
) -> None:
    """Write the report for ttnn-visualizer, if a folder is given. ``reports``: results of comparisons for the
    report."""
    if folder is None:
        return
    from ...views.visualizer import write_report

    compared: dict[str, Any] = {}
    for report in reports:
        compared["local"] = report.isolated, report.alone
        compared["global"] = report.accumulated, report.bound
    write_report(folder, plan, name, compared, traced=traced)
