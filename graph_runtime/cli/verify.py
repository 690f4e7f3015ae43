"""graph-runtime verify"""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

from ..artifacts.bundles.bundle import Bundle
from ..artifacts.door import Plannable, Waiting, programs_of
from ..artifacts.prepare import prepare
from ..base.option_fields import COMPILING, RUNNING
from ..base.options import Options
from ..run import kernels
from ..run.loading import open_flow_model
from . import options as opt
from .sources import open_given, progress

__all__ = ["verify"]


@opt.with_options(but=("fuse", COMPILING, RUNNING))
def verify(
    graph: opt.Source,
    options: Options,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    json: opt.Json = False,
) -> None:
    """Check a file as loading does: document, graph, plan (by the checker), a kernel for each node; for a
    bundle every program, and the hash of every file, including parameters.

    Exits with 1 if the checker refuses the plan, 2 if the file is not a graph, was changed, or a kernel is
    missing.

    Example: graph-runtime verify planned.json --device cpu:0 --device tt:0

    Example: graph-runtime verify net.bundle
    """
    with progress(not json) as tell:
        found = open_given(graph, device, library, None, options, tell)
        bundle, model = found.bundle, None
        if bundle is not None:
            bundle.verify(partial(tell, "comparing hashes"))
            model = None if bundle.source is None else _check_model(bundle)
        elif isinstance(found, Waiting):
            raise found.why
        programs = [] if isinstance(found, Waiting) else programs_of(found)
        rows = [_check(opened, options) for opened in programs]
    if json:
        first = rows[0] if rows else {}
        more = {"model": model} if model is not None else {}
        opt.print_json({"ok": True, **first, **({"programs": rows} if len(rows) > 1 else {}), **more})
        return
    if model is not None:
        typer.echo(f"ok: the model, of which programs for other sizes are made: {', '.join(model)}")
    for opened, row in zip(programs, rows, strict=True):
        for warning in row["warnings"]:
            typer.echo(f"warning: {warning}", err=True)
        named = f" {opened.entry.name}:" if opened.entry and len(rows) > 1 else ""
        typer.echo(
            f"ok:{named} {row['nodes']} nodes, {row['storages']} storages, {row['kernels']} kernels, "
            f"{row['copies_inserted']} copies inserted"
        )


def _check_model(bundle: Bundle) -> list[str]:
    """Open the model in a bundle and return its inputs. Raises an error if the model cannot be converted at
    any size."""
    module = open_flow_model(bundle)
    return [f"{port.name} {port}" for port in module.inputs]


def _check(opened: Plannable, options: Options) -> dict[str, Any]:
    """Counts and warnings of a program, which is planned and lowered as a check."""
    planned = prepare(opened, None, options).plan
    lowered = kernels.lowered(planned, opened.libraries)
    if opened.bundle is not None and opened.entry is not None:
        opened.bundle.params(opened.entry)
    return {
        "nodes": opened.graph.num_nodes,
        "entries": opened.graph.num_entries,
        "storages": planned.storage.count,
        "kernels": len(lowered.kernels),
        "copies_inserted": int((planned.origin < 0).sum()),
        "warnings": list(planned.warnings),
    }
