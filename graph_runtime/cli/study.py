"""graph-runtime study: placement policies compared over models. Each call adds rows to a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..base.options import Options
from ..views import report
from . import options as opt
from .sources import progress

__all__ = ["study"]

_SHOWN = ("policy", "models", "failed", "over_best", "worst", "best_of", "place_s")


@opt.with_options("costs", "topology")
def study(
    out: Annotated[Path, typer.Argument(help="The CSV file; its rows are not computed again.")],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A network of the corpus or a file; repeatable. Default: the corpus."),
    ] = None,
    devices: Annotated[
        list[str] | None, typer.Option("--devices", help="A list of devices, as cpu:0,tt:0=n150; repeatable.")
    ] = None,
    placement: Annotated[
        list[str] | None,
        typer.Option("--placement", help="A policy or baseline, or package.module:function; repeatable."),
    ] = None,
    objective: Annotated[
        list[str] | None, typer.Option("--objective", help="serial, makespan or throughput; repeatable.")
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Number of seeds for a policy that takes one.")
    ] = 1,
    *,
    options: Options,
    chart: Annotated[Path | None, typer.Option("--chart", help="Write an SVG of the comparison.")] = None,
    json: opt.Json = False,
) -> None:
    """Compare placement policies over models, device lists and seeds: a CSV file of all rows, and a summary.

    Example: graph-runtime study results.csv --devices cpu:0,tt:0=n150 --devices tt:0=n150,tt:1=p150 --seeds 5

    Example: graph-runtime study mine.csv --model bert --model net.onnx --placement mine:policy
    """
    from .. import study as studies
    from ..costs import find_costs

    given = {"models": model, "devices": devices, "policies": placement, "objectives": objective}
    model_of = options.costs
    if options.topology is not None:
        model_of = find_costs(model_of, options.topology)
    asked = studies.Study(
        **{name: tuple(value) for name, value in given.items() if value}, seeds=range(seeds), costs=model_of
    )
    with progress(not json) as tell:
        rows = asked.run(out, tell)
    if chart is not None:
        chart.write_text(studies.chart(rows), "utf-8")
    found = studies.compared(rows)
    if json:
        opt.print_json({"rows": rows, "compared": found})
        return
    for where in dict.fromkeys((row["devices"], row["objective"]) for row in found):
        part = [row for row in found if (row["devices"], row["objective"]) == where]
        shown = [{name: _text(row[name]) for name in _SHOWN} for row in part]
        typer.echo(f"{where[1]} on {where[0]}")
        typer.echo(report.table(shown, _SHOWN, opt.terminal_width()))
    for row in rows:
        if row["error"]:
            typer.echo(f"{row['model']} on {row['devices']}, {row['policy']}: {row['error']}", err=True)


def _text(value: object) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
