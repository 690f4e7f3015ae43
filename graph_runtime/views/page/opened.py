"""Plan.view(): the page of a plan in a browser, for notebooks and prompts."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from pathlib import Path

from ...base.errors import as_path
from ...base.writing import write_whole
from ...plan.types import Plan
from ...simulation.simulation import simulate
from .data import page_data
from .html import html_page
from .shown import Shown

__all__ = ["view_plan"]


def view_plan(plan: Plan, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of a plan and its simulated run, and return where it is. ``path``: where to; None: a
    temporary file, which the browser opens where there is one. Raises WriteError, InputError."""
    name = f"{plan.graph.num_nodes} nodes on {', '.join(map(str, plan.devices))}"
    page = html_page(page_data(name, Shown(name, plan, {"simulated": simulate(plan)})))
    if path is not None:
        target = as_path(path, "a page")
        write_whole(target, page, through=True)
        return target
    target = Path(tempfile.mkdtemp(prefix="graph_runtime_")) / "plan.html"
    write_whole(target, page)
    webbrowser.open(target.as_uri())
    return target
