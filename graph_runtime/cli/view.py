"""graph-runtime view"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..artifacts.door import Plannable
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
from ..views.page.opened import page_server
from ..views.page.shown import Shown
from ..views.page.tensors import tensor_data
from ..views.page.traces import is_trace, read_trace, trace_page, trace_timeline
from . import options as opt
from .estimate import Runs, SetInputs
from .output.pictures import command_line, page_of_problem
from .output.shown import open_shown
from .sources import is_bundle, progress

__all__ = ["view"]

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the page: one HTML file.")]
Shows = Annotated[
    Path,
    typer.Argument(
        metavar="X",
        help="An ONNX file, .mlir, graph.json, or bundle; a trace of run --trace; output of run "
        "--compare --json.",
    ),
]
Beside = Annotated[
    Path | None,
    typer.Argument(
        metavar="[Y]", help="Shown beside X: another plan, or a trace or comparison of its model."
    ),
]
Serve = Annotated[
    bool, typer.Option("--serve", help="Show the page on this machine (127.0.0.1), until Ctrl-C.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port of --serve; 0: a free one.")]

_OF_RUNS = {b'"traceEvents"': (is_trace, "trace"), b'"bound_isolated"': (comparison_of, "comparison")}


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
    json: opt.Json = False,
) -> None:
    """Show a plan in a browser: devices of nodes and the reasons, bounds of the time, use of the memory; for
    two plans the differences. The page needs no network. No code of a file runs.

    Example: graph-runtime view model.onnx --device cpu:0 --device tt:0=n150 -o model.html

    Example: graph-runtime view one.json two.json --device cpu:0 --device tt:0 --serve

    Example: graph-runtime view model.onnx run.trace.json -o measured.html
    """
    if output is None and not serve:
        raise InputError("say where the page goes: -o page.html, or --serve for a browser on this machine")
    given = {path: _of_run(path) for path in (x, y) if path is not None}
    models = [path for path in (x, y) if path is not None and given[path] is None]
    with progress(not json) as tell:
        several = [open_shown(path, device, library, options, tell, params) for path in models]
        shown = [_planned(opened, options, runs, input, output, tell) for opened in several]
        page = _page(shown, [(path, *found) for path, found in given.items() if found is not None])
    if output:
        write_whole(output, page, through=True)
        _say(f"wrote {output}: {len(page):,} bytes", json, page=str(output), bytes=len(page))
    if serve:  # until Ctrl-C, which is no error but the regular end
        with page_server(page, port) as server, suppress(KeyboardInterrupt):
            url = f"http://127.0.0.1:{server.server_port}/"
            _say(f"{url} until Ctrl-C", json, url=url)
            server.serve_forever()


def _say(text: str, json: bool, **facts: Any) -> None:
    if json:
        opt.print_json(facts)
    else:
        typer.echo(text)


def _of_run(path: Path) -> tuple[str, bytes] | None:
    """("trace" or "comparison", the file's text); None if the file is a model."""
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
    opened: Plannable, options: Options, runs: int, inputs: list[str] | None, output: Path | None, tell: Tell
) -> Shown:
    with page_of_problem(output, opened.name):
        prepared = prepare(opened, None, options, tell=tell)
    timeline = simulate(prepared.plan, runs=runs, inputs=inputs)
    return Shown.of(opened.name, prepared, {"simulated": timeline})


def _page(shown: list[Shown], runs: list[tuple[Path, str, bytes]]) -> bytes:
    """The page of the plans in ``shown``. ``runs``: contents of files of runs, which are shown beside the
    plan, or alone if there is no plan."""
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
    """Add the contents of a run's file to the page data of a plan. ``kind`` and ``text``: result of
    _of_run()."""
    names = plan["graph"]["nodes"]["name"]
    if kind == "trace":
        number = {name: nid for nid, name in enumerate(names)}
        plan["timelines"].append(plain(trace_timeline(read_trace(text, str(path)), number, "trace")))
    else:
        comparison = read_comparison(text, str(path))
        plan["accuracy"] = plain(accuracy_data(comparison, names))
        plan["tensors"] = plain(tensor_data(names, comparison))
