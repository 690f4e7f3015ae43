"""view() of Plan, Timeline and Comparison: the page in a browser, for notebooks and prompts."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base.errors import as_path
from ...base.files.writing import write_whole
from ...plan.types import Plan
from ...simulation.simulation import simulate
from ...simulation.timeline import Timeline
from .data import page_data
from .html import html_page
from .shown import Shown

__all__ = ["open_page", "view_value"]


def view_value(value: Plan | Timeline, path: str | os.PathLike[str] | None = None) -> Path:
    """open_page() of a plan and its simulated run, or of a timeline and its plan; a measured one has the
    simulated one beside it. Raises WriteError, InputError."""
    plan = value.plan if isinstance(value, Timeline) else value
    timelines = {value.kind: value} if isinstance(value, Timeline) else {}
    if "simulated" not in timelines:
        timelines["simulated"] = simulate(plan)
    name = f"{plan.graph.num_nodes} nodes on {', '.join(map(str, plan.devices))}"
    return open_page(page_data(name, Shown(name, plan, timelines)), path)


def open_page(data: Mapping[str, Any], path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of page_data(), and return where it is. ``path``: where to; None: a temporary file,
    which the browser opens where there is one. Raises WriteError, InputError."""
    page = html_page(data)
    if path is not None:
        target = as_path(path, "a page")
        write_whole(target, page, through=True)
        return target
    target = Path(tempfile.mkdtemp(prefix="graph_runtime_")) / "page.html"
    write_whole(target, page)
    webbrowser.open(target.as_uri())
    return target
