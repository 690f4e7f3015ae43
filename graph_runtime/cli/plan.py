"""graph-runtime plan"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..artifacts.libraries.judge import inplace_rules
from ..artifacts.prepare import prepare
from ..base.errors import PlanError, afresh
from ..base.files.writing import write_whole
from ..base.option_fields import COMPILING, RUNNING
from ..base.options import Options
from ..binding.packing import pack
from ..ir.documents.write import graph_to_json
from ..plan import Plan
from ..plan.balance import (
    as_json,
    as_table,
    balance_device,
    balanced_json,
    balanced_text,
    explained,
    node_rows,
    require_legal,
    rows_text,
)
from ..plan.record import record
from ..plan.storage.memory import Modes, peaks
from ..plan.types import Placement, Supplies
from ..views import placement as report_placement
from ..views import report
from ..views.digest import MOST_NODES, digest_text
from ..views.dot import dot_text
from . import options as opt
from .output.pictures import Html, Visualizer, page_of_problem, write_prepared_page, write_visualizer
from .output.shown import open_shown
from .sources import progress

__all__ = ["plan"]

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write the graph with its plan: running that file follows the plan. A name that "
        "ends in .dot: a Graphviz picture instead.",
    ),
]
Explain = Annotated[
    str | None,
    typer.Option(metavar="NODE", help="Show only the ways to cut this node onto the cores of a buda board."),
]


@opt.with_options(but=(COMPILING, RUNNING))
def plan(
    graph: opt.Source,
    options: Options,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    output: Output = None,
    explain: Explain = None,
    html: Html = None,
    visualizer: Visualizer = None,
    whole: opt.Whole = False,
    verbose: opt.Verbose = False,
    json: opt.Json = False,
) -> None:
    """Show the device of every node, every copy and every buffer, with the reasons.

    Example: graph-runtime plan net.json --device cpu:0 --device tt:0 --place 'conv*=tt:0' -o planned.json

    Example: graph-runtime plan model.onnx --device cpu:0 --device tt:0 --dim batch=4 -v

    Example: graph-runtime plan net.json --device cpu:0 --device tt:0 --placement mincut

    Example: graph-runtime plan net.json --device tt:0=e150 --policy nlp --explain conv1

    Example: graph-runtime plan large.onnx --device cpu:0 --device tt:0 --whole
    """
    policy = options.policy
    with progress(not json) as tell:
        opened = open_shown(graph, device, library, options, tell)
        with page_of_problem(html, opened.name):
            asked = replace(options, policy=None) if explain else options
            prepared = prepare(opened, None, asked, tell=tell)
    planned = prepared.plan
    placed = planned.placement if prepared.options.placement is not None else None
    if explain is not None:
        return _explain(planned, explain, policy, json)
    write_prepared_page(html, opened.name, prepared)
    write_visualizer(visualizer, planned, opened.name)
    if output:
        write_whole(
            output,
            dot_text(planned).encode() if output.suffix == ".dot" else graph_to_json(record(planned)),
            through=True,
        )
    modes = peaks(planned, Supplies(inplace=inplace_rules(opened.libraries), packer=pack))
    if json:
        opt.print_json(
            {
                **report.describe(planned, modes),
                "options": prepared.options.as_json(),
                "balance": [balanced_json(b) for b in planned.balanced],
                "placement": report_placement.describe(placed) if placed is not None else None,
                "notes": opt.notes_json(prepared.notes),
            }
        )
    else:
        if verbose:
            opt.print_notes(prepared.notes)
        typer.echo(f"options: {_options_text(prepared.options)}\n")
        _show(planned, placed, policy, modes, whole or planned.graph.num_nodes <= MOST_NODES)


def _options_text(options: Options) -> str:
    """The options that differ from the default, written as keywords of create()."""
    return ", ".join(f"{name}={value!r}" for name, value in options.as_json().items())


def _show(planned: Plan, placed: Placement | None, policy: str | None, modes: Modes, whole: bool) -> None:
    width = opt.terminal_width()
    if whole:
        typer.echo(report.plan_text(planned, width, modes), nl=False)
    else:
        typer.echo(digest_text(planned, width))
        typer.echo("".join(f"warning: {warning}\n" for warning in planned.warnings), nl=False)
    if placed is not None:
        typer.echo("\n" + report_placement.text(placed, width, nodes=whole), nl=False)
    if not whole:
        typer.echo("\n--whole shows every node, copy and buffer; --json and --html have them, too")
    if policy is not None and not planned.balanced:
        typer.echo(
            f"\npolicy {policy}: no device is a board of stack buda, so nothing was balanced; try "
            "--device tt:0=e150"
        )
    for balanced in planned.balanced:
        typer.echo("\n" + balanced_text(balanced), nl=False)


def _explain(planned: Plan, name: str, policy: str | None, json: bool) -> None:
    """Show the candidates for one node, and the candidate that the policy takes. Afterwards raise an error if
    no candidate is legal, or if the policy fails at another node."""
    parts, device = explained(planned, name)
    chosen, failed = [], None
    if policy is not None:
        try:
            chosen = node_rows(balance_device(planned, planned.devices.index(device), policy), parts[0].nid)
        except PlanError as error:
            failed = error
    if json:
        opt.print_json({**as_json(parts), "chosen": chosen})
    else:
        typer.echo(as_table(parts), nl=False)
        typer.echo(rows_text(f"policy {policy} takes", chosen) if chosen else "", nl=False)
    for part in parts:
        require_legal(part, device)
    if failed is not None:
        raise afresh(failed)
