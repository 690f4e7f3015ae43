"""graph-runtime devices"""
from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated

import typer

from .. import config
from ..devices import boards
from .options import Json, print_json

__all__ = ["devices"]


def devices(
    settings: Annotated[bool, typer.Option("--settings", help="List the GR_* settings instead.")] = False,
    json: Json = False,
) -> None:
    """List the devices that can be named, with their memories.

    Example: graph-runtime devices

    Example: graph-runtime devices --settings
    """
    if settings:
        rows = {f"GR_{s.name}": {"value": config.get(s.name), "default": s.default, "meaning": s.meaning}
                for s in config.settings()}
        lines = [f"{name:16} {row['value']!r:8} {row['meaning']}" for name, row in rows.items()]
    else:
        rows = {board: asdict(descriptor) for board, descriptor in boards().items()}
        lines = [line for descriptor in boards().values() for line in _describe(descriptor)]
    if json:
        print_json(rows)
    else:
        typer.echo("\n".join(lines))


def _describe(descriptor) -> list[str]:
    cores = math.prod(descriptor.grid)
    grid = f"{'x'.join(map(str, descriptor.grid))} cores, " if cores > 1 else ""
    note = " (test only: its kernels do nothing)" if descriptor.test_only else ""
    formats = " ".join(descriptor.formats)
    head = f"{descriptor.kind}:N={descriptor.board}  {grid}stores {formats}{note}"
    return [head] + [f"    {m.name:6} {m.banks} x {m.usable / 2**20:,.1f} MiB, aligned to {m.alignment} bytes"
                    for m in descriptor.memories]
