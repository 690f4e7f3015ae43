"""The rows of a comparison by node: error of each node against the judge, run alone and with errors
accumulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_OF_ROW = ("nmse", "max_abs", "max_rel", "correlation", "max_ulp")


def accuracy_data(comparison: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """{"ok", "judge", "worst", "bound", "alone_bound", "outputs": rows, "nodes": rows}. ``comparison``:
    Comparison.as_dict(); ``names``: names of the plan's nodes. A row has name, nid (null: not in the plan),
    op, device, type, "alone" and "added". "alone" and "added" are null if not measured. Otherwise they have
    nmse, max_abs, max_rel, correlation, max_ulp, and ``worst``, a list of ElementDifference.as_dict()."""
    number = {name: nid for nid, name in enumerate(names)}
    rows: dict[str, dict[str, Any]] = {}
    for title, key in (("isolated", "alone"), ("accumulated", "added")):
        for one in comparison[title]:
            row = rows.setdefault(one["name"], _head(one, number))
            row[key] = _measured(one)
    outputs = [{**_head(one, number), "added": _measured(one)} for one in comparison["outputs"]]
    return {
        "ok": comparison["ok"],
        "judge": comparison["judge"],
        "worst": comparison["worst_nmse"],
        "bound": comparison["bound"],
        "alone_bound": comparison["bound_isolated"],
        "first": comparison.get("first"),
        "outputs": outputs,
        "nodes": sorted(rows.values(), key=lambda row: (row["nid"] is None, row["nid"] or 0)),
    }


def nid_of(name: str, number: Mapping[str, int]) -> int | None:
    """The node that makes a compared value; None if the node is not in the plan. ``name``: name of the value,
    such as "split" or, for one of several outputs, "split:1"."""
    return number.get(name, number.get(name.rpartition(":")[0]))


def _head(one: Mapping[str, Any], number: Mapping[str, int]) -> dict[str, Any]:
    return {
        "nid": nid_of(one["name"], number),
        "alone": None,
        "added": None,
        **{key: one[key] for key in ("name", "op", "device", "type")},
    }


def _measured(one: Mapping[str, Any]) -> dict[str, Any]:
    return {**{key: one.get(key) for key in _OF_ROW}, "worst": one.get("worst", [])}
