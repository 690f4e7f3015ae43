"""The folder that ttnn-visualizer opens: db.sqlite, config.json, and the two files for its performance
tab."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from ...base.errors import InputError
from ...base.files.writing import told, write_whole, writing
from ...plan.types import Plan
from ...simulation.simulation import simulate
from .performance import device_log, ops_results
from .tables import SCHEMA, ComparedValue, Rows


def write_report(
    folder: Path,
    plan: Plan,
    name: str,
    compared: Mapping[str, tuple[Sequence[ComparedValue], float]] | None = None,
    *,
    traced: bool = True,
) -> None:
    """Write a report about one simulated run of a plan into ``folder``, which is created if absent; files of
    an older report are replaced. ``name``: name of the report. ``compared`` {"local" or "global":
    (differences, bound)}: comparisons of nodes run alone ("local") and with errors accumulated ("global");
    bounds are normalised mean squared errors. ``traced``: argument of simulate().

    All times are simulated: the time that a host takes to simulate a board says nothing about the board.
    Raises InputError if no device is a board; WriteError.
    """
    rows = Rows(simulate(plan, traced=traced), compared or {})
    if not rows.places.board:
        text = (
            "a report for ttnn-visualizer is about boards, and no device here is a board; add --device tt:0"
        )
        raise InputError(text, got=[str(device) for device in plan.devices])
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with writing(folder / "db.sqlite") as part, closing(sqlite3.connect(part)) as database, database:
        make_tables(database)
        for table in SCHEMA:
            insert(database, table, rows.of(table))
    config = {"report_name": f"{name} (simulated)", "path": str(folder), "simulated": True}
    write_whole(folder / "config.json", orjson.dumps(config, option=orjson.OPT_INDENT_2))
    write_whole(folder / "ops_perf_results_simulated.csv", ops_results(rows).encode())
    write_whole(folder / "profile_log_device.csv", device_log(rows).encode())


def make_tables(database: sqlite3.Connection) -> None:
    """Create the tables of a report, empty."""
    for table, columns in SCHEMA.items():
        database.execute(f"CREATE TABLE {table} ({columns})")
    database.execute("CREATE INDEX idx_stack_traces_source_file_id ON stack_traces(source_file_id)")
    database.execute("CREATE INDEX idx_buffers_operation_id ON buffers(operation_id)")
    database.execute("CREATE INDEX idx_buffer_pages_operation_id ON buffer_pages(operation_id)")


def insert(database: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Add rows to a table, in the order of its columns."""
    places = ", ".join("?" * len(SCHEMA[table].split(", ")))
    database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
