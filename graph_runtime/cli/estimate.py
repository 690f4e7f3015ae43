"""graph-runtime estimate"""
from __future__ import annotations

from typing import Annotated

import typer

from .. import report
from ..factory import inplace_rules
from ..plan import plan as make_plan
from ..simulation import simulate
from . import options as opt
from .pictures import Html, Trace, write_pictures
from .sources import open_program

__all__ = ["estimate"]

_SLOWEST = 15


def estimate(
    graph: opt.Source, device: opt.Devices = None, library: opt.LibraryFiles = None, place: opt.Place = None,
    map: opt.Map = None, format: opt.Formats = None, layout: opt.Layouts = None,
    fidelity: opt.Fidelity = None, dst: opt.Dst = None, numerics: opt.NumericsOf = None,
    policy: opt.Policy = None, strict: opt.Strict = False,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs that are submitted at once.")] = 1,
    input: Annotated[list[str] | None, typer.Option(
        "--input", help="An input that every run sets: its copies are part of it; repeatable.")] = None,
    untraced: Annotated[bool, typer.Option(
        "--untraced", help="The host enqueues every op, instead of replaying a trace (stack ttnn).")] = False,
    trace: Trace = None, html: Html = None, json: opt.Json = False,
) -> None:
    """Predict how long a graph takes on boards that need not be there, and how sure that is.

    Example: graph-runtime estimate net.json --device tt:0=n150 --runs 8

    Example: graph-runtime estimate net.json --device tt:0=p150 --trace net.trace.json --html net.html
    """
    program = open_program(graph, device, library)
    options = opt.plan_options(place, map, format, strict, fidelity, dst, numerics, layout, policy)
    planned = make_plan(program.graph, program.devices, inplace=inplace_rules(program.libraries), **options)
    timeline = simulate(planned, traced=not untraced, runs=runs, inputs=input or ())
    write_pictures(timeline, program.name, trace, html)
    facts = timeline.summary()
    if json:
        opt.print_json({**facts, "nodes": timeline.nodes()})
        return
    typer.echo(f"latency        {facts['latency_ns'] / 1e3:,.1f} us\n"
               f"throughput     {facts['throughput']:,.1f} runs a second ({runs} submitted at once)\n"
               f"critical path  {facts['critical_ns'] / 1e3:,.1f} us, {len(facts['critical_path'])} nodes\n"
               f"dispatch       {facts['dispatch_ns'] / 1e3:,.1f} us\n"
               + "time stands on " + ", ".join(
                   f"{name} {share:.0%}" for name, share in facts["basis_shares"].items() if share) + "\n")
    queues = [{**row, "utilisation": f"{row['utilisation']:.1%}"} for row in facts["queues"]]
    rows = [{**row, "share": f"{row['share']:.1%}"} for row in timeline.nodes()[:_SLOWEST]]
    width = opt.terminal_width()
    typer.echo(report.table(queues, ("queue", "events", "busy_ns", "utilisation"), width) + "\n")
    typer.echo(report.table(rows, ("name", "op", "queue", "ns", "share", "dispatch_ns", "basis", "critical"),
                            width))
