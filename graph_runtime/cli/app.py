"""The table of commands, and the program of those that a command line may mean."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

__all__ = ["COMMANDS", "UsageError", "program"]

UsageError: Any = typer.BadParameter.__base__  # click's, which typer brings along or has inside

_HELP = (
    "Run graph.json with a module library on CPUs and simulated Tenstorrent devices.\n\n"
    "Exit codes: 0 all is well, 1 a comparison or verification failed, or the doctor found something broken, "
    "2 bad usage or bad input, "
    "3 out of memory, 4 a kernel failed, 130 Ctrl-C."
)
# in the order of --help; each is the module of its name, whose one public name is its function or its Typer
COMMANDS = (
    "compile",
    "kernel",
    "run",
    "plan",
    "estimate",
    "accuracy",
    "view",
    "verify",
    "inspect",
    "export",
    "devices",
    "doctor",
    "cache",
    "bench",
    "serve",
    "cluster",
    "study",
    "trust",
)


def _show_version(asked: bool) -> None:
    if asked:
        from .. import __version__

        typer.echo(f"graph-runtime {__version__}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end."),
    ] = False,
) -> None:
    """Options of no command."""


def program(args: Sequence[str] = ()) -> typer.Typer:
    """What takes these arguments: with the command that they begin with, or with all of them, whose help or
    "did you mean" it shows then. Only modules of commands that it has are imported."""
    named = bool(args) and args[0] in COMMANDS
    app = typer.Typer(
        callback=_top,  # one command alone is named, too
        no_args_is_help=True,
        add_completion=not named,  # a shell asks with no arguments
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=_HELP,
    )
    for name in args[:1] if named else COMMANDS:
        module = import_module(f".{name}", __package__)
        made = getattr(module, module.__all__[0])
        if isinstance(made, typer.Typer):
            app.add_typer(made, name=name)
        else:
            app.command(name=name)(made)
    return app
