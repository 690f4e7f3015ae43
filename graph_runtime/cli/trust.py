"""graph-runtime trust"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..artifacts import trust as trusting
from ..artifacts import trust_store
from ..base.errors import InputError
from . import options as opt

__all__ = ["trust"]

trust = typer.Typer(
    name="trust",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Manage which native code of bundles may run, for this user on this machine. Code compiled here or "
    "named by --library may always run. docs/security.md has the rules.\n\n"
    "Example: graph-runtime trust add net.bundle\n\nExample: graph-runtime trust list",
)

What = Annotated[
    list[str],
    typer.Argument(metavar="WHAT...", help="Bundles, library files, or sha256 in lower-case hexadecimal."),
]


@trust.command()
def add(what: What, json: opt.Json = False) -> None:
    """Trust libraries from now on: all libraries of a bundle, a library file, or a library given by its hash.
    None of their code runs now.

    Example: graph-runtime trust add net.bundle
    """
    _say(trusting.trust(*what), "trusted", "no library in there, nothing to trust", json)


@trust.command()
def remove(what: What, json: opt.Json = False) -> None:
    """Stop trusting libraries, also if they were compiled here.

    Example: graph-runtime trust remove net.bundle
    """
    found = trusting.untrust(*what)
    if not found:
        text = f"nothing of {', '.join(what)} is trusted; graph-runtime trust list shows what is"
        raise InputError(text, got=list(what))
    _say(found, "removed", "", json)


@trust.command(name="list")
def list_(json: opt.Json = False) -> None:
    """Show the trusted libraries, the file that lists them, and whether there is a key.

    Example: graph-runtime trust list
    """
    rows, (key, reason) = trusting.trusted(), trust_store.key()
    problems = [text for text in (trust_store.problem(), reason) if text]
    if json:
        opt.print_json(
            {
                "folder": str(trust_store.folder()),
                "key": str(trust_store.key_path()) if key else None,
                "problems": problems,
                "trusted": [row._asdict() for row in rows],
            }
        )
        return
    for text in problems:
        typer.echo(f"warning: {text}", err=True)
    lines = [f"{row.sha256}  {row.how:8}  {row.day}  {row.name}".rstrip() for row in rows]
    typer.echo(
        "\n".join(
            [
                f"{len(rows)} libraries, kept in {trust_store.folder()}",
                f"key: {trust_store.key_path() if key else 'none'}",
                *lines,
            ]
        )
    )


@trust.command()
def key(
    new: Annotated[bool, typer.Option("--new", help="Make a key if there is none.")] = False,
    json: opt.Json = False,
) -> None:
    """Show the path of the key: compile signs libraries with it, and libraries signed with it may run. Copy
    the file to your other machines over a channel that keeps it secret.

    Example: graph-runtime trust key --new
    """
    path: Path | None = trust_store.new_key() if new else None
    if path is None:
        found, reason = trust_store.key()
        if found is None:
            raise InputError(
                reason or f"there is no key at {trust_store.key_path()}: --new makes one",
                got=str(trust_store.key_path()),
            )
        path = trust_store.key_path()
    if json:
        opt.print_json({"key": str(path)})
    else:
        typer.echo(str(path))


def _say(hashes: list[str], done: str, nothing: str, json: bool) -> None:
    if json:
        opt.print_json({done: hashes})
    else:
        typer.echo("\n".join(f"{done} {sha256}" for sha256 in hashes) or nothing)
