"""Errors of ops and models, as text and as one HTML page. Functions take the dicts that as_dict() of Sweep,
InPrecision or Found returns, and print nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .report import table
from .svg import Svg, html_table, paint, section

Row = Mapping[str, Any]
_SWEEP = tuple(
    "op precision points exact max_ulp mean_ulp p99_ulp defects unflushed outside usable_to worst".split()
)
_CHOICE = ("node", "op", "choice", "us saved alone", "nmse alone")
_NODE = ("correlation", "cosine", "max_ulp", "p99_ulp", "nmse", "max_abs")
_OUTPUT = ("precision", "output", *_NODE, "us", "worst")
_STYLE = """body{font:13px/1.45 system-ui,sans-serif;margin:1.5em;color:#222}h1{font-size:1.3em}
summary{font-size:1.1em;font-weight:600;cursor:pointer;margin:.8em 0 .4em}table{border-collapse:collapse}
th,td{padding:.15em .6em;border-bottom:1px solid #e4e4e4;text-align:left;vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums}svg text{font:11px system-ui,sans-serif}"""
_WIDTH, _HEIGHT, _LEFT = 900, 260, 60
_LEAST = 1e-9  # least 1 - PCC that the axis shows; smaller values are drawn at this place


def sweeps_text(sweeps: Sequence[Row], width: int | None = None) -> str:
    """A table with one row per sweep."""
    return table(_sweep_rows(sweeps), _SWEEP, width)


def _sweep_rows(sweeps: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "exact": f"{row['exact']:.4f}",
            **{name: f"{row[name]:.4g}" for name in ("max_ulp", "mean_ulp", "p99_ulp")},
            "usable_to": "" if row["usable_to"] is None else f"{row['usable_to']:.4g}",
            "worst": _element(row["worst"][0]) if row["worst"] else "",
        }
        for row in sweeps
    ]


def _element(one: Row) -> str:
    """One element as text: first its inputs or its index, then its value."""
    at = " ".join(_number(x) for x in one["at"])
    return f"{at}: {_number(one['got'])}, not {_number(one['wanted'])}"


def _number(x: Any) -> str:
    return f"{x:.8g}" if isinstance(x, float) else str(x)


def models_text(models: Sequence[Row], width: int | None = None) -> str:
    """A table of the outputs in all precisions, then a table of the nodes: the PCC of each node run alone,
    and with the errors of earlier nodes accumulated."""
    nodes = "\n\n" + table(*_node_table(models), width) if models[0]["alone"] else ""
    return table(_output_rows(models), _OUTPUT, width) + nodes


def _output_rows(models: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "precision": model["precision"],
            "output": row["name"],
            "us": f"{model['latency_ns'] / 1e3:,.1f}",
            **_measures(row),
        }
        for model in models
        for row in model["outputs"]
    ]


def _measures(row: Row) -> dict[str, str]:
    return {
        "correlation": f"{row['correlation']:.6f}",
        "cosine": f"{row['cosine']:.6f}",
        **{name: f"{row[name]:.3g}" for name in ("max_ulp", "p99_ulp", "nmse", "max_abs")},
        "worst": _element(row["worst"][0]) if row["worst"] else "",
    }


def _node_table(models: Sequence[Row]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """(rows, columns). There is one row per node of the first precision, with the node's PCC in every
    precision; a cell is blank if the rewrites for that precision removed the node."""
    columns, rows = ["node", "op", "device"], []
    found = [
        {part: {r["name"]: r for r in model[part]} for part in ("alone", "accumulated")} for model in models
    ]
    titles = [(m["precision"], f) for m, f in zip(models, found, strict=True)]
    for precision, _ in titles:
        columns += [f"{precision}: alone", "p99_ulp", "added up"] if len(titles) == 1 else []
        columns += [f"{precision}: alone", f"{precision}: added up"] if len(titles) > 1 else []
    for name, first in found[0]["alone"].items():
        row: dict[str, Any] = {"node": name, "op": first["op"], "device": first["device"]}
        for precision, parts in titles:
            alone, added = parts["alone"].get(name), parts["accumulated"].get(name)
            row[f"{precision}: alone"] = _pcc(alone)
            row["added up" if len(titles) == 1 else f"{precision}: added up"] = _pcc(added)
            row["p99_ulp"] = f"{alone['p99_ulp']:.3g}" if alone else ""
        rows.append(row)
    return rows, tuple(columns)


def _pcc(row: Row | None) -> str:
    return "" if row is None else f"{row['correlation']:.6f}"


def found_text(found: Row, width: int | None = None) -> str:
    """The result of a search, one row per node."""
    head = (
        f"{found['measure']} {found['value_before']:.6f} as given, {found['value']:.6f} with "
        f"{len(found['chosen'])} nodes coarser; asked for {found['limit']:g}\n"
        f"latency {found['latency_before_ns'] / 1e3:,.1f} us as given, {found['latency_ns'] / 1e3:,.1f} us "
        f"then: {found['saved']:.1%} less, by simulation; {found['runs']} runs of the whole model\n"
    )
    return head + ("\n" + table(_choice_rows(found["chosen"]), _CHOICE, width) if found["chosen"] else "")


def _choice_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "node": row["name"],
            "op": row["op"],
            "choice": row["choice"],
            "us saved alone": f"{row['saved_ns'] / 1e3:,.2f}",
            "nmse alone": f"{row['nmse']:.2e}",
        }
        for row in rows
    ]


# ---------------------------------------------------------------- the page


def accuracy_page(document: Row, title: str, command: str = "") -> str:
    """The page: one HTML file without scripts, fonts or links to other files. ``document``: what `accuracy
    --json` prints."""
    parts = [section("Command", f"<p>{escape(command)}</p>")] if command else []
    if missed := document.get("missed"):
        parts.append(section("Missed thresholds", "".join(f"<p>{escape(text)}</p>" for text in missed)))
    if sweeps := document.get("ops"):
        parts += [
            section("Ops", html_table(_sweep_rows(sweeps), _SWEEP)),
            section("Histograms of ULP", html_table(*_histograms(sweeps))),
            section("Special inputs", html_table(*_specials(sweeps))),
            section("Worst inputs", html_table(*_worst_inputs(sweeps)), open=False),
        ]
    if models := document.get("precisions"):
        parts.append(section("Outputs", html_table(_output_rows(models), _OUTPUT)))
        for part, title_of in (("accumulated", "errors added up"), ("alone", "each node alone")):
            parts.append(section(f"1 - PCC along the nodes, {title_of}", _curves(models, part)))
        parts += [
            section(f"Nodes, {m['precision']}", html_table(*_all_measures(m)), open=False) for m in models
        ]
    if found := document.get("search"):
        text = escape(found_text({**found, "chosen": ()})).replace("\n", "<br>")
        parts.append(section("Search", f"<p>{text}</p>", html_table(_choice_rows(found["chosen"]), _CHOICE)))
        parts.append(section("Left out", html_table(_choice_rows(found["refused"]), _CHOICE), open=False))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def _histograms(sweeps: Sequence[Row]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    rows = [{"op": s["op"], "precision": s["precision"], **s["histogram"]} for s in sweeps]
    return rows, tuple(rows[0])


def _specials(sweeps: Sequence[Row]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    rows = [
        {"op": s["op"], "precision": s["precision"], **{n: _number(x) for n, x in s["specials"].items()}}
        for s in sweeps
    ]
    return rows, tuple(rows[0])


def _worst_inputs(sweeps: Sequence[Row]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    rows = [
        {
            "op": s["op"],
            "precision": s["precision"],
            "inputs": " ".join(map(_number, one["at"])),
            **{name: _number(one[name]) for name in ("got", "wanted", "ulp")},
        }
        for s in sweeps
        for one in s["worst"]
    ]
    return rows, ("op", "precision", "inputs", "got", "wanted", "ulp")


def _all_measures(model: Row) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    added = {row["name"]: row for row in model["accumulated"]}
    rows = [
        {
            "node": row["name"],
            "op": row["op"],
            "device": row["device"],
            "type": row["type"],
            **_measures(row),
            "added up": _pcc(added.get(row["name"])),
        }
        for row in model["alone"]
    ]
    return rows, ("node", "op", "device", "type", *_NODE, "added up", "worst")


def _curves(models: Sequence[Row], part: str) -> str:
    """A drawing with one line per precision: 1 - PCC of each node, in the graph's order, on a logarithmic
    scale."""
    drawing, decades = Svg(_LEFT + _WIDTH + 160, _HEIGHT + 10), round(-math.log10(_LEAST))
    for decade in range(decades + 1):
        y = _HEIGHT * decade / decades + 5
        drawing.line(_LEFT, y, _LEFT + _WIDTH, y, "#eee")
        drawing.text(_LEFT - 6, y + 4, "1" if not decade else f"1e-{decade}", "end")
    for at, model in enumerate(models):
        rows = model[part]
        across = _WIDTH / max(len(rows) - 1, 1)
        depths = [-math.log10(min(max(1 - row["correlation"], _LEAST), 1.0)) for row in rows]
        points = [(_LEFT + across * i, 5 + _HEIGHT * depth / decades) for i, depth in enumerate(depths)]
        drawing.path(points, paint(at))
        drawing.rect(_LEFT + _WIDTH + 12, 8 + 18 * at, 10, 10, paint(at))
        drawing.text(_LEFT + _WIDTH + 28, 17 + 18 * at, model["precision"])
    return str(drawing)
