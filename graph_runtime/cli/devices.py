"""graph-runtime devices"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..base import config
from ..base.machine.devices import Descriptor, boards, find_installed
from .options import Json, print_json

__all__ = ["devices"]


def devices(
    settings: Annotated[bool, typer.Option("--settings", help="List the GR_* settings instead.")] = False,
    json: Json = False,
) -> None:
    """List the available names of devices, with their memories.

    Example: graph-runtime devices

    Example: graph-runtime devices --settings
    """
    if settings:
        rows = {
            f"GR_{s.name}": {"value": config.get(s.name), "default": s.default, "meaning": s.meaning}
            for s in config.settings()
        }
        lines = [f"{name:16} {row['value']!r:8} {row['meaning']}" for name, row in rows.items()]
    else:
        find_installed()
        rows = {board: asdict(descriptor) for board, descriptor in boards().items()}
        lines = [line for descriptor in boards().values() for line in _describe(descriptor)]
    if json:
        print_json(rows)
    else:
        typer.echo("\n".join(lines))


def _describe(descriptor: Descriptor) -> list[str]:
    """Lines that describe one board: its name, cores and memories."""
    note = " (test only: its kernels do nothing)" if descriptor.test_only else ""
    default = f" (= {descriptor.kind}:N)" if descriptor.default else ""
    lines = [f"{descriptor.kind}:N={descriptor.name}{default}{note}"]
    if descriptor.arch:
        header = f", {descriptor.tile_header_bytes}-byte tile headers" if descriptor.tile_header_bytes else ""
        cores = f"{'x'.join(map(str, descriptor.grid))} cores (rows=1..{descriptor.grid[0]})"
        lines.append(
            f"    {descriptor.arch}, stack {descriptor.stack}, {cores} at {descriptor.clock_mhz} "
            f"MHz (clock=){header}"
        )
    lines.append(f"    stores {' '.join(descriptor.formats)}")
    for m in descriptor.memories:
        budget = f", {m.budget:,} B of each for tensors" if m.budget else ""
        lines.append(
            f"    {m.name:6} {m.banks} x {m.usable / 2**20:,.1f} MiB, aligned to {m.alignment} bytes{budget}"
        )
    return lines
