"""--trace and --html: the files that several commands write about a timeline."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..base.writing import write_whole

if TYPE_CHECKING:
    from ..simulation.timeline import Timeline

__all__ = ["Html", "Trace", "write_pictures"]

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
