"""The table of commands, and a Typer app with the commands that the arguments may mean."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

__all__ = ["COMMANDS", "UsageError", "typer_app"]

UsageError: Any = typer.BadParameter.__base__  # base class in the click that typer depends on or contains

_HELP = (
    "Compile, run, plan and serve models on CPUs and simulated Tenstorrent devices.\n\n"
    "Exit codes: 0 success; 1 a comparison or verification failed, or doctor found something broken; 2 bad "
    "usage or bad input; 3 out of memory; 4 a kernel failed; 130 Ctrl-C."
)
# Commands in the order of --help. Each command has a module of its name, whose only public name is the
# command's function or Typer.
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
    """The options that may be given without a command."""


def typer_app(args: Sequence[str] = ()) -> typer.Typer:
    """The app for these arguments. If they begin with a command, the app has only that command, and only its
    module is imported; else the app has all commands, to show its help or "did you mean"."""
    named = bool(args) and args[0] in COMMANDS
    app = typer.Typer(
        callback=_top,  # with a callback, a single command keeps its name, too
        no_args_is_help=True,
        add_completion=not named,  # completion runs without arguments
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
            paragraphs = [" ".join(part.split()) for part in (made.__doc__ or "").split("\n\n")]
            first = paragraphs[0].partition(". ")[0].removesuffix(".") + "."
            app.command(name=name, help="\n\n".join(paragraphs), short_help=first)(made)
    return app
