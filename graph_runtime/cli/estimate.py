"""graph-runtime estimate"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..artifacts.prepare import prepare
from ..base.errors import InputError
from ..base.option_fields import COMPILING, RUNNING
from ..base.options import Options
from ..simulation.estimate import bounds
from ..simulation.simulation import IN_FLIGHT, simulate
from ..views import report
from ..views.digest import MOST_NODES, digest_text
from . import options as opt
from .boards import show_boards, stored_as
from .output.pictures import (
    Html,
    Trace,
    Visualizer,
    page_of_problem,
    write_prepared_page,
    write_trace,
    write_visualizer,
)
from .output.shown import open_shown
from .sources import progress

__all__ = ["estimate"]

Boards = Annotated[
    str | None,
    typer.Option("--board", help="Boards to compare instead of --device, as n150,p150: tt:0 and its host."),
]
Dtype = Annotated[
    str | None,
    typer.Option("--dtype", help="Format of floats on boards: bf16, bfp8_b, ...; as --format tt=..."),
]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Runs that are submitted at once.")]
SetInputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="An input that every run sets, so that its copies count; repeatable."),
]
Untraced = Annotated[
    bool,
    typer.Option("--untraced", help="Have the host enqueue ops instead of replaying a trace (stack ttnn)."),
]
HostTurn = Annotated[
    float,
    typer.Option(
        "--host-turn",
        min=0.0,
        help="Milliseconds of the host's own work between a run and the next, as in a loop that reads a "
        "token and asks again (TT-Buda's took 7.8).",
    ),
]

_SLOWEST = 15


@opt.with_options(but=(COMPILING, RUNNING))
def estimate(
    graph: opt.Source,
    options: Options,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    board: Boards = None,
    dtype: Dtype = None,
    runs: Runs = 1,
    input: SetInputs = None,
    untraced: Untraced = False,
    host_turn: HostTurn = 0.0,
    trace: Trace = None,
    html: Html = None,
    visualizer: Visualizer = None,
    whole: opt.Whole = False,
    json: opt.Json = False,
) -> None:
    """Predict whether a model fits on boards that need not be present, its run time, the bounds of its
    slowest nodes, and how reliable these numbers are. No kernel is built, no weight is read.

    Example: graph-runtime estimate model.onnx --board n150,p150,e150 --dtype bfp8_b --batch 32

    Example: graph-runtime estimate net.json --device tt:0=n150 --runs 8

    Example: graph-runtime estimate net.json --device tt:0=p150 --trace net.trace.json --html net.html
    """
    if board is not None and device:
        text = "--board and --device exclude each other: a board is tt:0, beside its host"
        raise InputError(text, got=board)
    with progress(not json) as tell:
        opened = open_shown(graph, device, library, options, tell)
        if board is not None:
            show_boards(
                opened,
                board,
                options,
                dtype=dtype,
                batch=options.batch or 1,
                traced=not untraced,
                runs=max(runs, IN_FLIGHT),
                turn_ns=host_turn * 1e6,
                json=json,
                tell=tell,
            )
            return
        with page_of_problem(html, opened.name):
            prepared = prepare(opened, None, stored_as(dtype, opened.devices, options), tell=tell)
        planned = prepared.plan
        timeline = simulate(
            planned, traced=not untraced, runs=runs, inputs=input or (), turn_ns=host_turn * 1e6
        )
    write_trace(trace, timeline)
    write_prepared_page(html, opened.name, prepared, timelines={"simulated": timeline})
    write_visualizer(visualizer, planned, opened.name, traced=not untraced)
    facts, bound = timeline.summary(), bounds(timeline)
    nodes = [{**row, "bound": bound[row["nid"]]} for row in timeline.nodes()]
    if json:
        opt.print_json({**facts, "nodes": nodes, "circular": report.circular(planned)})
        return
    if not whole and planned.graph.num_nodes > MOST_NODES:
        typer.echo(digest_text(planned, opt.terminal_width()))
    typer.echo(report.circular_text(planned), nl=False)
    _show(facts, nodes, runs, None if whole else _SLOWEST)


def _show(facts: dict[str, Any], nodes: list[dict[str, Any]], runs: int, most: int | None) -> None:
    typer.echo(
        f"latency        {facts['latency_ns'] / 1e3:,.1f} us\n"
        f"throughput     {facts['throughput']:,.1f} runs a second ({runs} submitted at once)\n"
        f"critical path  {facts['critical_ns'] / 1e3:,.1f} us, {len(facts['critical_path'])} nodes\n"
        f"dispatch       {facts['dispatch_ns'] / 1e3:,.1f} us\n"
        + "basis of times "
        + ", ".join(f"{name} {share:.0%}" for name, share in facts["basis_shares"].items() if share)
        + "\n"
    )
    width = opt.terminal_width()
    for *head, used in (("queue", "events", facts["queues"]), ("link", "copies", facts["links"][:most])):
        shown = [{**row, "utilisation": f"{row['utilisation']:.1%}"} for row in used]
        if shown:
            typer.echo(report.table(shown, (*head, "busy_ns", "utilisation"), width) + "\n")
    rows = [{**row, "share": f"{row['share']:.1%}"} for row in nodes[:most]]
    columns = ("name", "op", "queue", "ns", "share", "dispatch_ns", "bound", "basis", "critical")
    typer.echo(report.table(rows, columns, width))
    if most is not None and len(nodes) > most:
        typer.echo(f"... and {len(nodes) - most} nodes that take less; --whole shows them")
