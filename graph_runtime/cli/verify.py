"""graph-runtime verify"""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

from ..artifacts.bundle_programs import programs_of
from ..artifacts.bundles.bundle import Bundle
from ..artifacts.plannable import Plannable, Waiting
from ..artifacts.prepare import prepare
from ..base.option_fields import COMPILING, RUNNING
from ..base.options import Options
from ..binding.programs.lower import lower
from ..run import kernels
from ..run.loading import open_flow_model
from . import options as opt
from .output.progress import progress
from .sources import open_given

__all__ = ["verify"]


@opt.with_options(but=("fuse", COMPILING, RUNNING))
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
        found = open_given(graph, device, library, None, options, tell)
        bundle, model = found.bundle, None
        if bundle is not None:
            bundle.verify(partial(tell, "comparing hashes"))
            model = None if bundle.source is None else _check_model(bundle)
        elif isinstance(found, Waiting):
            raise found.why
        programs = [] if isinstance(found, Waiting) else programs_of(found)
        rows = [_check(program, options) for program in programs]
    if json:
        first = rows[0] if rows else {}
        more = {"model": model} if model is not None else {}
        opt.print_json({"ok": True, **first, **({"programs": rows} if len(rows) > 1 else {}), **more})
        return
    if model is not None:
        typer.echo(f"ok: the model, of which programs for other sizes are made: {', '.join(model)}")
    for program, row in zip(programs, rows, strict=True):
        for warning in row["warnings"]:
            typer.echo(f"warning: {warning}", err=True)
        named = f" {program.entry.name}:" if program.entry and len(rows) > 1 else ""
        typer.echo(
            f"ok:{named} {row['nodes']} nodes, {row['storages']} storages, {row['kernels']} kernels, "
            f"{row['copies_inserted']} copies inserted"
        )


def _check_model(bundle: Bundle) -> list[str]:
    """Opens the model in a bundle; its inputs. Raises what cannot be converted at any size."""
    module = open_flow_model(bundle)
    return [f"{port.name} {port}" for port in module.inputs]


def _check(program: Plannable, options: Options) -> dict[str, Any]:
    """What planning and lowering a program finds."""
    planned = prepare(program, None, options).plan
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
