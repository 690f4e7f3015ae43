"""graph-runtime plan"""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import report
from ..factory import inplace_rules
from ..plan import plan as make_plan
from ..plan.record import record
from . import options as opt
from .sources import open_program

__all__ = ["plan"]


def plan(
    graph: opt.Source, device: opt.Devices = None, library: opt.LibraryFiles = None, place: opt.Place = None,
    map: opt.Map = None, format: opt.Formats = None, fidelity: opt.Fidelity = None, dst: opt.Dst = None,
    numerics: opt.NumericsOf = None, strict: opt.Strict = False,
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="Write the graph with its plan: running that file does exactly this.")] = None,
    json: opt.Json = False,
) -> None:
    """Show what would run where, every copy, every buffer, and why.

    Example: graph-runtime plan net.json --device cpu:0 --device tt:0 --place 'conv*=tt:0' -o planned.json
    """
    program = open_program(graph, device, library)
    planned = make_plan(program.graph, program.devices, inplace=inplace_rules(program.libraries),
                        **opt.plan_options(place, map, format, strict, fidelity, dst, numerics))
    if output:
        from ..write import graph_to_json

        output.write_bytes(graph_to_json(record(planned)))
    if json:
        opt.print_json(report.describe(planned))
    else:
        typer.echo(report.text(planned, opt.terminal_width()), nl=False)
