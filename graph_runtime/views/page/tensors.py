"""Summaries of the tensors that a run kept: range, mean, number of non-finite values, first values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..tensor_numbers import MOST_FIRST, TensorNumbers
from .node_errors import nid_of
from .shown import Shown

NUMBERS = ("size", "min", "max", "mean", "std", "nan", "inf", "zeros")
_MOST = 8000  # most rows of the table; each takes about 150 bytes of the page
_DIGITS = 6
_RUNS = {"accumulated": "added up", "isolated": "alone"}
Row = tuple[int, str, str, Mapping[str, Any]]  # (nid, name, which run, TensorNumbers.as_dict())


def kept_of(shown: Shown) -> list[Row]:
    """Rows of the inputs and outputs after a run."""
    graph = shown.plan.graph
    rows: list[Row] = []
    for eid, value in shown.kept.items():
        nid = graph.maker(eid)
        many = int(graph.row_ptr[nid + 1] - graph.row_ptr[nid]) > 1
        name = f"{graph.names[nid]}:{eid - int(graph.row_ptr[nid])}" if many else graph.names[nid]
        rows.append((nid, name, "this run", TensorNumbers.of(value).as_dict()))
    return rows


def tensor_data(
    names: Sequence[str], comparison: Mapping[str, Any] | None, kept: Iterable[Row] = ()
) -> dict[str, Any] | None:
    """Columns "nid", "name" ("split:1" for one output of several), "run", the columns in NUMBERS, and
    "first"; None without rows. Rows are in the order of nodes, floats have six digits. "left_out" is the
    number of rows beyond 8,000, which are left out.

    ``names``: names of the plan's nodes; ``comparison``: Comparison.as_dict(), whose outputs are used if it
    has no nodes; ``kept``: result of kept_of().
    """
    number = {name: nid for nid, name in enumerate(names)}
    rows = [*kept]
    for run, one in _compared(comparison or {}):
        nid, numbers = nid_of(one["name"], number), one.get("numbers")
        if nid is not None and numbers is not None:
            rows.append((nid, one["name"], run, numbers))
    if not rows:
        return None
    shown = sorted(rows[:_MOST], key=lambda row: row[0])
    return {
        "nid": [nid for nid, *_ in shown],
        "name": [name for _, name, *_ in shown],
        "run": [run for _, _, run, _ in shown],
        **{key: [_short(numbers.get(key)) for *_, numbers in shown] for key in NUMBERS},
        "first": [[_short(value) for value in numbers["first"][:MOST_FIRST]] for *_, numbers in shown],
        "left_out": len(rows) - len(shown),
    }


def _compared(comparison: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name of the run, row of the comparison) for each node, or for each output if the comparison has no
    rows of nodes."""
    runs = _RUNS if comparison.get("accumulated") else {"outputs": "compared"}
    for title, run in runs.items():
        yield from ((run, one) for one in comparison.get(title, ()))


def _short(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) and np.isfinite(value) else value
