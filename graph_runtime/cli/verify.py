"""graph-runtime verify"""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

from ..base.options import Options
from ..run import kernels
from ..run.programs.lower import lower
from . import options as opt
from .progress import progress
from .sources import OpenedProgram, open_programs

__all__ = ["verify"]


@opt.with_options("fuse", "compile", "threads")
def verify(
    graph: opt.Source,
    options: Options,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    json: opt.Json = False,
) -> None:
    """Check a file as loading does: document, graph, plan (by the checker), a kernel for each node. Of a
    bundle every program, and the hash of every byte, parameters too.

    Exits with 1 where the checker refuses the plan, 2 where the file is no graph, was changed, or a kernel is
    missing.

    Example: graph-runtime verify planned.json --device cpu:0 --device tt:0

    Example: graph-runtime verify net.bundle
    """
    with progress(not json) as tell:
        programs = open_programs(graph, device, library, None, options, tell)
        if programs[0].bundle is not None:
            programs[0].bundle.verify(partial(tell, "comparing hashes"))
        rows = [_check(program, options) for program in programs]
    if json:
        opt.print_json({"ok": True, **rows[0], **({"programs": rows} if len(rows) > 1 else {})})
        return
    for program, row in zip(programs, rows, strict=True):
        for warning in row["warnings"]:
            typer.echo(f"warning: {warning}", err=True)
        named = f" {program.entry.name}:" if program.entry and len(rows) > 1 else ""
        typer.echo(
            f"ok:{named} {row['nodes']} nodes, {row['storages']} storages, {row['kernels']} kernels, "
            f"{row['copies_inserted']} copies inserted"
        )


def _check(program: OpenedProgram, options: Options) -> dict[str, Any]:
    """What planning and lowering a program finds."""
    planned = program.prepare(options).plan
    lowered = lower(planned, partial(kernels.resolve, libraries=tuple(program.libraries)))
    if program.bundle is not None and program.entry is not None:
        program.bundle.params(program.entry)
    return {
        "nodes": program.graph.num_nodes,
        "entries": program.graph.num_entries,
        "storages": planned.storage.count,
        "kernels": len(lowered.kernels),
        "copies_inserted": int((planned.origin < 0).sum()),
        "warnings": list(planned.warnings),
    }
