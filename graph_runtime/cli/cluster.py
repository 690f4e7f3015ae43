"""graph-runtime cluster"""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from . import options as opt

__all__ = ["cluster"]

cluster = typer.Typer(
    name="cluster",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Look at a server that graph-runtime serve started.\n\nExample: graph-runtime cluster status",
)

Url = Annotated[str, typer.Option("--url", help="Where it serves.")]
_CLEAR = "\x1b[2J\x1b[H"  # a terminal's words for: empty, begin at the top
_URL = "http://127.0.0.1:8000"


@cluster.command()
def status(url: Url = _URL, json: opt.Json = False) -> None:
    """Show nodes, models with their versions and replicas, queues, and what was answered.

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
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Between two looks.")] = 1.0,
    number: Annotated[int, typer.Option("--number", min=0, help="Looks; 0: until Ctrl-C.")] = 0,
    json: opt.Json = False,
) -> None:
    """Show the same again and again, with the requests and runs a second.

    Example: graph-runtime cluster top --seconds 2
    """
    from ..cluster.status import read_status, status_lines

    before: dict[str, Any] | None = None
    looks = 0
    while not number or looks < number:
        found = read_status(url)
        if json:
            opt.print_json(found)
        else:
            typer.echo(_CLEAR if sys.stdout.isatty() else "", nl=False)
            typer.echo("\n".join(status_lines(found, before, seconds)))
        before, looks = found, looks + 1
        if looks != number:
            time.sleep(seconds)
