"""The table of commands."""

from __future__ import annotations

from typing import Any

import typer

from .bench import bench
from .cache import cache
from .compile import compile_
from .devices import devices
from .estimate import estimate
from .export import export
from .inspect import inspect
from .plan import plan
from .run import run
from .trust import trust
from .verify import verify

__all__ = ["UsageError", "app"]

UsageError: Any = typer.BadParameter.__base__  # click's, which typer brings along or has inside

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run graph.json with a module library on CPUs and simulated Tenstorrent devices.\n\n"
    "Exit codes: 0 all is well, 1 a comparison or verification failed, 2 bad usage or bad input, "
    "3 out of memory, 4 a kernel failed, 130 Ctrl-C.",
)
app.command(name="compile")(compile_)
app.command()(run)
app.command()(plan)
app.command()(estimate)
app.command()(verify)
app.command()(inspect)
app.command()(export)
app.command()(devices)
app.command()(cache)
app.command()(bench)
app.add_typer(trust)
