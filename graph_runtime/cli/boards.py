"""estimate --board: one model on several boards, side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import typer

from ..artifacts.door import Plannable
from ..artifacts.prepare import prepare
from ..base.errors import InputError, did_you_mean
from ..base.machine.descriptors import read_board
from ..base.machine.devices import Descriptor
from ..base.machine.devices import boards as known
from ..base.options import Options
from ..base.progress import Tell
from ..simulation.estimate import Estimate, compare_boards
from ..views import report
from . import options as opt

_SHOWN = 5


def show_boards(
    opened: Plannable,
    boards: str,
    options: Options,
    *,
    dtype: str | None,
    batch: int,
    traced: bool,
    runs: int,
    turn_ns: float,
    json: bool,
    tell: Tell,
) -> None:
    """Print an estimate for each board of a list such as "n150,p150". Nodes without a kernel on a board run
    on its host. Raises InputError for an unknown board."""
    names = _names(boards)
    options = replace(options, fallback="host")
    kinds = [_described(board).kind for board in names]

    def plan_on(board: str) -> Any:
        tell("estimating", names.index(board), len(names))
        kind = kinds[names.index(board)]
        return prepare(opened, [f"{kind}:0={board}", "cpu:0"], stored_as(dtype, [kind], options)).plan

    found = compare_boards(plan_on, names, traced=traced, runs=runs, turn_ns=turn_ns)
    if json:
        opt.print_json(
            {"model": opened.name, "batch": batch, "boards": [one.as_dict(batch, _SHOWN) for one in found]}
        )
    else:
        typer.echo(_text(found, batch, set(kinds)))


def stored_as(dtype: str | None, devices: Sequence[str], options: Options) -> Options:
    """The options, changed so that each simulated kind of device in ``devices`` stores floats in
    ``dtype``."""
    if not dtype:
        return options
    simulated = {board.kind for board in known().values() if board.simulated}
    named = {name.partition(":")[0] for name in devices} & simulated
    return replace(options, formats={**options.formats, **dict.fromkeys(sorted(named or simulated), dtype)})


def _described(name: str) -> Descriptor:
    """The descriptor of a board. ``name``: name of a board, perhaps with a stack and parameters, or path of a
    file."""
    path = name.partition("[")[0]
    return read_board(path) if path.endswith(".json") else known()[path.partition("/")[0]]


def _names(boards: str) -> list[str]:
    there = [name for name, board in known().items() if board.simulated]
    names = [name.strip() for name in boards.split(",") if name.strip()]
    for name in names:
        file = name.partition("[")[0].endswith(".json")
        if not file and name.partition("/")[0].partition("[")[0] not in there:
            text = f"--board {boards}: there is no board {name!r}{did_you_mean(name, there)}"
            raise InputError(text, got=name, wanted=there)
    if not names:
        raise InputError("--board names no board: write --board n150,p150", got=boards, wanted=there)
    return names


def _text(found: Sequence[Estimate], batch: int, kinds: Collection[str]) -> str:
    rows = []
    for one in found:
        board = [row for row in one.memories if row["device"].partition(":")[0] in kinds]
        rows.append(
            {
                "board": one.board,
                "fits": "yes" if one.fits else "NO",
                "of each bank": ", ".join(
                    f"{row['memory']} {row['needed'] / 2**20:,.1f} of "
                    f"{row['available'] / 2**20:,.1f} MiB".strip()
                    for row in board
                ),
                "latency ms": f"{one.latency_ns / 1e6:,.3f}" if one.fits else "",
                "runs/s": f"{one.throughput:,.1f}" if one.fits else "",
                "items/s": f"{one.throughput * batch:,.1f}" if one.fits else "",
                "basis": one.basis,
            }
        )
    parts = [report.table(rows, tuple(rows[0]), opt.terminal_width())]
    for one in found:
        if not one.fits:
            parts.append(f"{one.board} does not fit: {one.problem}")
            continue
        slowest = [
            {
                "node": row["name"],
                "op": row["op"],
                "us": f"{row['ns'] / 1e3:,.1f}",
                "share": f"{row['share']:.1%}",
                "bound by": row["bound"],
            }
            for row in one.nodes[:_SHOWN]
        ]
        if slowest:
            parts.append(
                f"slowest on {one.board}\n" + report.table(slowest, tuple(slowest[0]), opt.terminal_width())
            )
    return "\n\n".join(part.rstrip("\n") for part in parts)
