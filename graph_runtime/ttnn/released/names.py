"""The public names of the release, from names.txt, and what stands for each of them in a module."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Container
from importlib import resources
from typing import Any

from .absent import Absent, reason_of


@functools.cache
def released_names() -> dict[str, dict[str, str]]:
    """{module without "ttnn.", "" for ttnn itself: {name: "operation", "class", "function" or "value"}}."""
    made: dict[str, dict[str, str]] = {}
    here: dict[str, str] = {}
    kind = ""
    for line in resources.files(__package__).joinpath("names.txt").read_text().splitlines():
        if line.startswith("    "):
            here.update(dict.fromkeys(line.split(), kind))
        elif not line.startswith("#"):
            module, kind = line.split()
            here = made.setdefault("" if module == "ttnn" else module, {})
    return made


# modules of Python whose names modules of ttnn show, because they import them
_PYTHON = (
    "typing",
    "__future__",
    "collections",
    "contextlib",
    "datetime",
    "enum",
    "functools",
    "importlib.util",
    "importlib.machinery",
    "pathlib",
    "urllib.parse",
)


# constants of modules, where the release's value means something here
_VALUES: dict[str, Any] = {
    "D2D_STAGE_GATE_UNGATED_SLOT": 2**32 - 1,
    "DEFAULT_L1_SMALL_SIZE": 0,
    "DEFAULT_TRACE_REGION_SIZE": 0,
    "ENABLE_TRACER": False,
    "GRAPH_STACK": None,
    "REPORT_VERSION": 1,
    "SUPPORTED_REPORT_VERSION": 1,
    "TAG_TRACEDTENSOR": "TRACEDTENSOR",
    "TRACE_ALLOC_DIAGNOSTICS": False,
    "TRACE_ALLOC_TRACKING": False,
    "TYPE_CHECKING": False,
    "ispkg": False,
    "is_pkg": False,
}


def filled(module: str, known: Container[str], found: Callable[[str], Any]) -> dict[str, Any]:
    """What stands for the names of a module of the release that are not ``known``: what ttnn itself has under
    the name (``found`` gives that, or None), Python's own object, or an Absent with its reason."""
    made = {}
    for name, kind in released_names().get(module, {}).items():
        if name not in known:
            whole = f"{module}.{name}" if module else name
            value = found(name)
            value = _of_python(name) if value is None and kind != "operation" else value
            if name in _VALUES:
                made[name] = _VALUES[name]
                continue
            made[name] = Absent(f"ttnn.{whole}", reason_of(whole)) if value is None else value
    return made


def _of_python(name: str) -> Any:
    for module in _PYTHON:
        value = getattr(importlib.import_module(module), name, None)
        if value is not None:
            return value
    return None
