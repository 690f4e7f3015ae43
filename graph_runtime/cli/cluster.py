"""graph-runtime cluster"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from . import options as opt
from .output.screen import is_terminal, watch

__all__ = ["cluster"]

cluster = typer.Typer(
    name="cluster",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Look at a server that graph-runtime serve started.\n\nExample: graph-runtime cluster status",
)

Url = Annotated[str, typer.Option("--url", help="Address of the server.")]
_URL = "http://127.0.0.1:8000"


@cluster.command()
def status(url: Url = _URL, json: opt.Json = False) -> None:
    """Show nodes, models with their versions and replicas, queues, and the number of answers.

    Example: graph-runtime cluster status --url http://127.0.0.1:8080
    """
    from ..cluster.status import read_status, status_lines

    found = read_status(url)
    if json:
        opt.print_json(found)
    else:
        typer.echo("\n".join(status_lines(found)))


@cluster.command()
def top(
    url: Url = _URL,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds between two updates.")] = 1.0,
    number: Annotated[
        int, typer.Option("--number", min=0, help="Number of updates; 0: until q or Ctrl-C.")
    ] = 0,
    json: opt.Json = False,
) -> None:
    """Show the status repeatedly in place, with requests and runs per second, until q or Ctrl-C. Without a
    terminal the status is shown once, or --number times.

    Example: graph-runtime cluster top --seconds 2
    """
    from ..cluster.status import StatusReader

    reader = StatusReader(url)
    reader.lines()  # this call raises if there is no server; later calls show a line instead
    if is_terminal() and not json:
        watch(reader.lines, seconds, number)
        return
    for at in range(number or 1):
        time.sleep(seconds)  # a rate needs two samples
        lines = reader.lines()
        if json:
            opt.print_json(reader.found)
        else:
            typer.echo("\n".join([*([""] if at else []), *lines]))
