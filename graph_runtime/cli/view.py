"""graph-runtime view"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..artifacts.plannable import Plannable
from ..artifacts.prepare import prepare
from ..base.errors import InputError
from ..base.files.writing import write_whole
from ..base.json_text import parse_json
from ..base.option_fields import COMPILING, RUNNING
from ..base.options import Options
from ..base.progress import Tell
from ..simulation.simulation import simulate
from ..views.page.columns import plain
from ..views.page.comparisons import comparison_of, comparison_page, read_comparison
from ..views.page.data import page_data
from ..views.page.html import html_page
from ..views.page.node_errors import accuracy_data
from ..views.page.serve import page_server
from ..views.page.shown import Shown
from ..views.page.tensors import tensor_data
from ..views.page.traces import is_trace, read_trace, trace_page, trace_timeline
from . import options as opt
from .estimate import Runs, SetInputs
from .output.pictures import command_line, page_of_problem
from .output.progress import progress
from .output.shown import open_shown
from .sources import is_bundle

__all__ = ["view"]

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the page: one HTML file.")]
Shows = Annotated[
    Path,
    typer.Argument(
        metavar="X",
        help="An ONNX file, .mlir, graph.json, or bundle; a trace of run --trace; what run "
        "--compare --json printed.",
    ),
]
Beside = Annotated[
    Path | None,
    typer.Argument(
        metavar="[Y]", help="Beside it: another plan; or a trace or comparison of the same model."
    ),
]
Serve = Annotated[
    bool, typer.Option("--serve", help="Show the page on this machine (127.0.0.1), until Ctrl-C.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port of --serve; 0: a free one.")]

_OF_RUNS = {
    b'"traceEvents"': (is_trace, "trace"),
    b'"bound_isolated"': (comparison_of, "comparison"),
}


@opt.with_options(but=(COMPILING, RUNNING))
def view(
    x: Shows,
    y: Beside = None,
    *,
    options: Options,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    params: opt.Params = None,
    runs: Runs = 1,
    input: SetInputs = None,
    output: Output = None,
    serve: Serve = False,
    port: Port = 0,
) -> None:
    """Show a plan in a browser: where nodes run and why, what bounds the time, what fills the memory;
    of two plans what moved. The page needs no network. Nothing of a file runs.

    Example: graph-runtime view model.onnx --device cpu:0 --device tt:0=n150 -o model.html

    Example: graph-runtime view one.json two.json --device cpu:0 --device tt:0 --serve

    Example: graph-runtime view model.onnx run.trace.json -o measured.html
    """
    if output is None and not serve:
        raise InputError("say where the page goes: -o page.html, or --serve for a browser on this machine")
    given = {path: _of_run(path) for path in (x, y) if path is not None}
    models = [path for path in (x, y) if path is not None and given[path] is None]
    with progress() as tell:
        programs = [open_shown(path, device, library, options, tell, params) for path in models]
        shown = [_planned(program, options, runs, input, output, tell) for program in programs]
        page = _page(shown, [(path, *found) for path, found in given.items() if found is not None])
    if output:
        write_whole(output, page, through=True)
        typer.echo(f"wrote {output}: {len(page):,} bytes")
    if serve:
        _serve(page, port)


def _of_run(path: Path) -> tuple[str, bytes] | None:
    """("trace" or "comparison", its text) of a file that is one; None for a model."""
    if is_bundle(path) or not path.is_file():
        return None
    with path.open("rb") as file:
        if not file.read(64).lstrip().startswith(b"{"):
            return None
        file.seek(0)
        text = file.read()
    for mark, (is_one, kind) in _OF_RUNS.items():
        if mark in text and is_one(parse_json(text, str(path))):
            return kind, text
    return None


def _planned(
    program: Plannable,
    options: Options,
    runs: int,
    inputs: list[str] | None,
    output: Path | None,
    tell: Tell,
) -> Shown:
    with page_of_problem(output, program.name):
        prepared = prepare(program, None, options, tell=tell)
    timeline = simulate(prepared.plan, runs=runs, inputs=inputs)
    return Shown.of(program.name, prepared, {"simulated": timeline})


def _page(shown: list[Shown], runs: list[tuple[Path, str, bytes]]) -> bytes:
    """The page of plans; of a run's files beside one plan, or of these alone."""
    names = [*(one.name for one in shown), *(path.name for path, _, _ in runs)]
    title = " and ".join(names)
    if not shown:
        pages = [_page_of_run(path, kind, text) for path, kind, text in runs]
        return html_page(
            {**pages[0], "title": title, "plans": [plan for one in pages for plan in one["plans"]]}
        )
    data = page_data(title, *shown, command=command_line())
    for path, kind, text in runs:
        _add(data["plans"][0], path, kind, text)
    return html_page(data)


def _page_of_run(path: Path, kind: str, text: bytes) -> dict[str, Any]:
    if kind == "trace":
        return trace_page(read_trace(text, str(path)), path.name, command_line())
    return comparison_page(read_comparison(text, str(path)), path.name, command_line())


def _add(plan: dict[str, Any], path: Path, kind: str, text: bytes) -> None:
    """A run's file beside its plan."""
    names = plan["graph"]["nodes"]["name"]
    if kind == "trace":
        number = {name: nid for nid, name in enumerate(names)}
        plan["timelines"].append(plain(trace_timeline(read_trace(text, str(path)), number, "trace")))
    else:
        comparison = read_comparison(text, str(path))
        plan["accuracy"] = plain(accuracy_data(comparison, names))
        plan["tensors"] = plain(tensor_data(names, comparison))


def _serve(page: bytes, port: int) -> None:
    """Until Ctrl-C, which is how it ends: no error."""
    with page_server(page, port) as server, suppress(KeyboardInterrupt):
        typer.echo(f"http://127.0.0.1:{server.server_port}/ until Ctrl-C")
        server.serve_forever()
