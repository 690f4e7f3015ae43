"""A profile: one row per call, as text, CSV and JSON. The column names and the typed JSON values are TVM's,
so that TVM's tools can read them.

{"calls": [{column: value}], "device_metrics": {device: {column: value}}, "configuration": {name: value}}
value = {"microseconds": x} | {"count": n} | {"percent": x} | {"ratio": x} | {"string": s}
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ..base.errors import DocumentError
from ..base.json_text import parse_json

Cell = Mapping[str, Any]
Row = Mapping[str, Cell]
_FIRST = ("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Hash")
_SUMMED = ("Duration (us)", "Percent", "Count")
_UNITS = {"microseconds": float, "count": int, "percent": float, "ratio": float, "string": str}


@dataclass(frozen=True, slots=True)
class Report:
    """A profile. ``calls``: one row per call, in order of execution; ``device_metrics``: one row of totals
    per device; ``configuration``: the settings of the run."""

    calls: tuple[Row, ...]
    device_metrics: Mapping[str, Row]
    configuration: Mapping[str, Cell]

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """The profile as aligned text. ``aggregate``: whether the calls of one function on one device are
        added up (calls with the same hash, or without hashes the same name and shapes); ``sort``: whether the
        longest calls come first; ``col_sums``: whether rows Sum and a Total for each device are added."""
        rows = _aggregated(self.calls) if aggregate else list(self.calls)
        if sort:
            rows.sort(key=lambda row: -_number(row.get("Duration (us)")))
        columns = _columns(rows)
        lines = [[_text(row.get(column)) for column in columns] for row in rows]
        if col_sums:
            lines.append(["----------"] + [""] * (len(columns) - 1))
            lines.append(_sum_line(rows, columns))
            lines += [
                ["Total", *(_text(totals.get(column)) for column in columns[1:])]
                for totals in self.device_metrics.values()
            ]
        settings = [f"{name}: {_text(value)}" for name, value in self.configuration.items()]
        return "\n".join([_aligned([columns, *lines]), "", "Configuration", "-------------", *settings, ""])

    def csv(self) -> str:
        """The calls as CSV: a header, then one line per call."""
        out = io.StringIO()
        columns = _columns(self.calls)
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows([_plain(row.get(column)) for column in columns] for row in self.calls)
        return out.getvalue()

    def json(self) -> str:
        """The report as JSON text; from_json reads it back."""
        return orjson.dumps(
            {"calls": self.calls, "device_metrics": self.device_metrics, "configuration": self.configuration}
        ).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """A report read from its JSON text. Raises DocumentError for any other text."""
        try:
            raw = parse_json(text.encode() if isinstance(text, str) else text, "a profile report")
            report = cls(tuple(raw["calls"]), raw["device_metrics"], raw["configuration"])
            for row in (*report.calls, *report.device_metrics.values(), report.configuration):
                for value in row.values():
                    _plain(value)
        except (KeyError, TypeError, AttributeError) as error:
            raise DocumentError(f"this is no profile report: {type(error).__name__}: {error}") from None
        return report

    def __str__(self) -> str:
        return self.table()


def cell(unit: str, value: Any) -> Cell:
    """A value with its unit, which is one of _UNITS."""
    return {unit: _UNITS[unit](value)}


def _unit(value: Cell) -> tuple[str, Any]:
    ((unit, plain),) = value.items()
    if unit not in _UNITS:
        raise KeyError(unit)
    return unit, plain


def _plain(value: Cell | None) -> Any:
    return "" if value is None else _unit(value)[1]


def _number(value: Cell | None) -> float:
    plain = _plain(value)
    return float(plain) if isinstance(plain, (int, float)) else 0.0


def _text(value: Cell | None) -> str:
    if value is None:
        return ""
    unit, plain = _unit(value)
    return f"{plain:,.2f}" if unit in ("microseconds", "percent", "ratio") else str(plain)


def _columns(rows: Sequence[Row]) -> list[str]:
    seen = dict.fromkeys(column for row in rows for column in row)
    return [c for c in _FIRST if c in seen or c == "Name"] + [c for c in seen if c not in _FIRST]


def _aggregated(calls: Sequence[Row]) -> list[Row]:
    groups: dict[Any, dict[str, Cell]] = {}
    for row in calls:
        name = _plain(row.get("Hash")) or (_plain(row.get("Name")), _plain(row.get("Argument Shapes")))
        group = groups.setdefault((name, _plain(row.get("Device"))), {})
        for column, value in row.items():
            if column in _SUMMED and column in group:
                unit = _unit(value)[0]
                value = {unit: _plain(group[column]) + _plain(value)}
            group[column] = value
    return list(groups.values())


def _sum_line(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    line = ["Sum"]
    for column in columns[1:]:
        if column not in _SUMMED:
            line.append("")
            continue
        values = [row[column] for row in rows if column in row]
        line.append(_text({_unit(values[0])[0]: sum(map(_plain, values))}) if values else "")
    return line


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = {i for i, name in enumerate(lines[0]) if name in ("Name", "Device", "Argument Shapes", "Hash")}
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i in left else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
