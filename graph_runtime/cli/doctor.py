"""graph-runtime doctor"""

from __future__ import annotations

from dataclasses import asdict

import typer

from . import options as opt

__all__ = ["doctor"]

_MARKS = {"ok": "ok     ", "absent": "absent ", "broken": "BROKEN "}


def doctor(json: opt.Json = False) -> None:
    """Check this installation (compiler, instruction set, cores, cache, kernels, packages), with a remedy for
    each item that is missing. Exit code 1 if something is broken.

    Example: graph-runtime doctor

    Example: graph-runtime doctor --json
    """
    from ..views import health

    found = health.examine()
    broken = [one for one in found if one.state == health.BROKEN]
    if json:
        opt.print_json({"ok": not broken, "findings": [asdict(one) for one in found]})
    else:
        for one in found:
            typer.echo(f"{_MARKS[one.state]}{one.what}: {one.found}")
            if one.remedy:
                typer.echo(f"       {one.remedy}")
        absent = sum(one.state == health.ABSENT for one in found)
        typer.echo(f"{len(broken)} broken, {absent} absent, {len(found) - len(broken) - absent} ok")
    if broken:
        raise typer.Exit(1)
