"""All data of a page as JSON-able values: of one plan, of two, or of a file about a run."""

from __future__ import annotations

from typing import Any

from .addresses import pool_data
from .answers import answers
from .columns import plain
from .cores import core_data
from .events import timeline_data
from .node_errors import accuracy_data
from .nodes import graph_data
from .roofline import roofline_data
from .shown import Shown
from .tensors import kept_of, tensor_data
from .two_plans import moved_data

VERSION = 1


def page_data(title: str, *shown: Shown, command: str = "") -> dict[str, Any]:
    """{"version", "title", "command", "plans": [plan_data], "moved": moved_data of two plans, else null}.
    ``command``: the command line that makes the page again."""
    return {
        "version": VERSION,
        "title": title,
        "command": command,
        "plans": [plan_data(one) for one in shown],
        "moved": plain(moved_data(*shown)) if len(shown) == 2 else None,
    }


def plan_data(shown: Shown) -> dict[str, Any]:
    """{"name", "problem", "warnings", "devices", "graph", "timelines", "pools", "cores", "roofline",
    "accuracy", "tensors", "answers", "texts"}: the data of each view. An entry without data is null."""
    plan, pools = shown.plan, pool_data(shown)
    names, compared = plan.graph.names, shown.comparison
    found = {
        "name": shown.name,
        "problem": shown.problem,
        "warnings": plan.warnings,
        "devices": [
            {"name": str(device), "board": device.descriptor.name, "host": device.descriptor.on_host}
            for device in plan.devices
        ],
        "graph": graph_data(shown),
        "timelines": timeline_data(shown),
        "pools": pools,
        "cores": core_data(shown),
        "roofline": roofline_data(shown),
        "accuracy": None if compared is None else accuracy_data(compared, names),
        "tensors": tensor_data(names, compared, kept_of(shown)),
        "answers": answers(shown, pools),
    }
    return {**plain(found), "texts": shown.texts.all}
