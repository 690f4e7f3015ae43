"""What the fit_*.py scripts share: tables, least squares, cross-validation, writing weights."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path
from typing import Any

import orjson

WEIGHTS = Path(__file__).resolve().parents[2] / "graph_runtime" / "costs" / "weights"


def rows(path: Path) -> list[dict[str, str]]:
    """Rows of a table by column name, blanks stripped. Its first line names the source and is skipped."""
    with path.open(encoding="utf-8", newline="") as file:
        next(file)
        return [{k.strip(): (v or "").strip() for k, v in row.items()} for row in csv.DictReader(file)]


def date_of() -> str:
    return datetime.date.today().isoformat()


def write_weights(name: str, content: dict[str, Any]) -> None:
    """Write graph_runtime/costs/weights/<name>.json, keys in the given order, floats with 6 digits."""
    text = orjson.dumps(_rounded(content), option=orjson.OPT_INDENT_2)
    (WEIGHTS / f"{name}.json").write_bytes(text + b"\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(v) for v in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value
