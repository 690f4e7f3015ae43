"""graph-runtime verify"""
from __future__ import annotations

from functools import partial

import typer

from .. import library as libraries
from ..factory import inplace_rules
from ..lower import lower
from ..plan import plan as make_plan
from . import options as opt
from .sources import open_program

__all__ = ["verify"]


def verify(
    graph: opt.Source, device: opt.Devices = None, library: opt.LibraryFiles = None, map: opt.Map = None,
    strict: opt.Strict = False, json: opt.Json = False,
) -> None:
    """Check a file as loading does: document, graph, plan (by the checker), a kernel for each node.

    Exits with 1 where the checker refuses the plan, 2 where the file is no graph or a kernel is missing.

    Example: graph-runtime verify planned.json --device cpu:0 --device tt:0
    """
    program = open_program(graph, device, library)
    planned = make_plan(program.graph, program.devices, inplace=inplace_rules(program.libraries),
                        **opt.plan_options(None, map, None, strict))
    lowered = lower(planned, partial(libraries.resolve, libraries=tuple(program.libraries)))
    found = {"nodes": program.graph.num_nodes, "entries": program.graph.num_entries,
             "storages": planned.storage.count, "kernels": len(lowered.kernels),
             "copies_inserted": int((planned.origin < 0).sum()), "warnings": list(planned.warnings)}
    if json:
        opt.print_json({"ok": True, **found})
        return
    for warning in planned.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"ok: {found['nodes']} nodes, {found['storages']} storages, {found['kernels']} kernels, "
               f"{found['copies_inserted']} copies inserted")
