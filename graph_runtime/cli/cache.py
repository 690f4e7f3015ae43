"""graph-runtime cache"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from ..base.config import get as setting
from ..base.errors import InputError, no_such
from .options import Json, print_json

__all__ = ["cache"]

_KINDS = {
    "libraries": "module libraries",
    "objects": "compiled units",
    "times": "measured times of kernels",
    "unfinished": "of builds that go on, or were killed",
}


class Action(StrEnum):
    """What to do with the cache."""

    show = "show"
    prune = "prune"
    clear = "clear"


def _action(word: str) -> Action:
    if word not in list(Action):
        raise InputError(no_such("action", word, Action), got=word, wanted=list(Action))
    return Action(word)


def cache(
    action: Annotated[
        Action,
        typer.Argument(
            metavar="[show|prune|clear]",
            parser=_action,
            help="show: list the contents by kind and age; prune: delete old entries and those "
            "above the size limit; clear: delete all.",
        ),
    ] = Action.show,
    days: Annotated[
        float | None,
        typer.Option("--days", help="prune: delete entries unused for so many days; default GR_CACHE_DAYS."),
    ] = None,
    mb: Annotated[
        float | None,
        typer.Option("--mb", help="prune: keep the last used ones up to so many MiB; default GR_CACHE_MB."),
    ] = None,
    json: Json = False,
) -> None:
    """Show, prune or clear the cache of compiled kernels.

    Example: graph-runtime cache

    Example: graph-runtime cache prune --days 30

    Example: graph-runtime cache clear --json
    """
    from ..codegen.cache import open_cache

    if action is not Action.prune and (days is not None or mb is not None):
        raise InputError(f"--days and --mb are for prune: graph-runtime cache {action.value} takes neither")
    for name, value in (("--days", days), ("--mb", mb)):
        if value is not None and not value >= 0:
            raise InputError(f"{name} must be 0 or more, got {value}", got=value)
    kept = open_cache(make=False)
    gone: list[Any] = []
    if action is Action.prune:
        gone = kept.prune(mb, days)
    elif action is Action.clear:
        gone = kept.clear()
    left = list(kept.entries())
    if json:
        print_json(
            {
                "folder": str(kept.folder),
                "limit_mb": setting("CACHE_MB"),
                "limit_days": setting("CACHE_DAYS"),
                "deleted": _summary(gone),
                **_summary(left),
            }
        )
    else:
        typer.echo("\n".join(_lines(str(kept.folder), action, gone, left)))


def _summary(entries: Sequence[Any]) -> dict[str, Any]:
    """A summary of all entries, and one of each kind: number, bytes, and ages in seconds. ``entries``:
    entries of the cache (codegen/cache.py)."""
    by_kind = {kind: [entry for entry in entries if entry.kind == kind] for kind in _KINDS}
    return {**_totals(entries), "kinds": {kind: _totals(found) for kind, found in by_kind.items()}}


def _totals(entries: Iterable[Any]) -> dict[str, Any]:
    found, now = list(entries), time.time()
    ages = [max(0.0, now - entry.used) for entry in found]
    return {
        "entries": len(found),
        "bytes": sum(entry.bytes for entry in found),
        "oldest_seconds": max(ages, default=None),
        "newest_seconds": min(ages, default=None),
    }


def _lines(folder: str, action: Action, gone: Sequence[Any], left: Sequence[Any]) -> Iterable[str]:
    if action is not Action.show:
        yield f"deleted {_counted(_totals(gone))}"
    days = f", {setting('CACHE_DAYS')} days" if setting("CACHE_DAYS") else ""
    yield f"{folder}: {_counted(_totals(left))} (at most {setting('CACHE_MB')} MiB{days})"
    for kind, totals in _summary(left)["kinds"].items():
        if totals["entries"]:
            ages = f"last used {_age(totals['newest_seconds'])} to {_age(totals['oldest_seconds'])} ago"
            yield f"  {kind:11}{_counted(totals):28}{ages}: {_KINDS[kind]}"


def _counted(totals: dict[str, Any]) -> str:
    noun = "entry" if totals["entries"] == 1 else "entries"
    return f"{totals['entries']} {noun}, {totals['bytes'] / 2**20:,.1f} MiB"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
