"""What MODEL of commands is, with the flags beside it: artifacts/door.py's door, and what they say of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ..artifacts.door import BUNDLE, kind_of, open_source
from ..artifacts.libraries.judge import read_library
from ..artifacts.plannable import Plannable, Waiting
from ..artifacts.prepare import Prepared
from ..base.errors import DocumentError
from ..base.options import Options
from ..base.progress import Tell, silent
from ..run.factory import warn_of
from ..run.loading import chosen_kernels, open_module
from ..run.module import GraphModule
from .trace import show_plan

__all__ = ["is_bundle", "open_given", "open_program", "open_run", "say_first"]


def is_bundle(path: Path) -> bool:
    """A folder or a zip."""
    return kind_of(path) == BUNDLE


def open_given(
    path: Path,
    devices: Sequence[str] | None = None,
    libraries: Sequence[Path] | None = None,
    params: Path | None = None,
    options: Options | None = None,
    tell: Tell = silent,
    *,
    native: bool = True,
    rebuild: bool = False,
) -> Plannable | Waiting:
    """Read MODEL. Nothing of a library runs. --device, --library and --params come before what a bundle
    brings. ``native``, ``rebuild``: of --no-native, --rebuild. Raises as open_source."""
    found = [read_library(file) for file in libraries or ()]
    if not path.exists():
        raise DocumentError(f"there is no file {path}", got=str(path))
    kernels = chosen_kernels(native, rebuild)
    return open_source(
        path, options, devices or None, libraries=found, params=params, kernels=kernels, tell=tell
    )


def open_program(path: Path, *flags: Any, **words: Any) -> Plannable:
    """As open_given; of a bundle the first program, and say so on stderr where there are more. Raises ``why``
    for a model that has no program before it runs."""
    found = open_given(path, *flags, **words)
    if isinstance(found, Waiting):
        raise found.why
    return say_first(found)


def say_first(first: Plannable) -> Plannable:
    """The same; said on stderr where its bundle has more programs."""
    if first.bundle is not None and first.entry is not None and len(first.bundle.programs) > 1:
        programs = first.bundle.programs
        names = ", ".join(program.name for program in programs[:8])
        more = f" and {len(programs) - 8} more" if len(programs) > 8 else ""
        typer.echo(
            f"{first.name} has {len(programs)} programs: {names}{more}; what follows is of "
            f"{first.entry.name} alone, {_sizes(first)}",
            err=True,
        )
    return first


def _sizes(program: Plannable) -> str:
    """The inputs of a bundle's program, with their types."""
    assert program.entry is not None, "of a bundle"
    graph = program.graph
    types = dict(zip(graph.input_names, map(graph.entry_type, graph.input_eids), strict=True))
    return ", ".join(f"{name} {types[name]}" for name in program.entry.inputs) or "which has no inputs"


def open_run(program: Plannable, prepared: Prepared, tell: Tell = silent) -> GraphModule:
    """What prepare() made of it, ready to run. Raises as open_module."""
    warn_of(prepared)
    module = open_module(program, prepared, tell=tell)
    show_plan(module)
    return module
