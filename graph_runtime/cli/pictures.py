"""--trace, --html and --visualizer: the files that several commands write about a timeline."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base.writing import write_whole

if TYPE_CHECKING:
    from ..plan import Plan
    from ..simulation.timeline import Timeline
    from ..testing.differences import Comparison

__all__ = ["Html", "Trace", "Visualizer", "write_pictures", "write_visualizer"]

Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="Write the timeline as JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html", help="Write one HTML file: placement, copies, timeline, memory maps, core grid, L1, banks."
    ),
]

Visualizer = Annotated[
    Path | None,
    typer.Option(
        "--visualizer",
        metavar="DIR",
        help="Write a report into this folder that ttnn-visualizer opens; its times are simulated.",
    ),
]


def write_pictures(timeline: Timeline, name: str, trace: Path | None, html: Path | None) -> None:
    """Write the files that were asked for."""
    if trace:
        from ..views.trace import trace_json

        write_whole(trace, trace_json(timeline), through=True)
    if html:
        from ..views.page import html_page

        command = shlex.join(["graph-runtime", *sys.argv[1:]])
        title = f"{name} on {', '.join(map(str, timeline.plan.devices))}"
        write_whole(html, html_page(timeline, title, command).encode(), through=True)


def write_visualizer(
    folder: Path | None, plan: Plan, name: str, reports: Sequence[Comparison] = (), traced: bool = True
) -> None:
    """Write the report if it was asked for, with what comparisons have found."""
    if folder is None:
        return
    from ..views.visualizer import write_report

    compared: dict[str, Any] = {}
    for report in reports:
        compared["local"] = report.isolated, report.alone
        compared["global"] = report.accumulated, report.bound
    write_report(folder, plan, name, compared, traced=traced)
