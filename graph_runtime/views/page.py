"""One page about a plan and its timeline: a single HTML file without scripts, fonts or addresses."""

from __future__ import annotations

from html import escape
from typing import Any

from ..costs import BASES
from ..plan.lanes import labels
from ..simulation.timeline import Timeline
from . import report
from .grid import core_grids
from .memory import bank_pictures, l1_over_time, memory_maps
from .svg import Svg, html_table, legend, section
from .trace import tracks

__all__ = ["html_page"]

_STYLE = """body{font:13px/1.45 system-ui,sans-serif;margin:1.5em;color:#222}h1{font-size:1.3em}
h3{font-size:1em;margin:.8em 0 .2em}summary{font-size:1.1em;font-weight:600;cursor:pointer;margin:.8em 0 .4em}
table{border-collapse:collapse}
th,td{padding:.15em .6em;border-bottom:1px solid #e4e4e4;text-align:left;vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums}svg text{font:11px system-ui,sans-serif}
.grid{display:inline-block;margin:0 1em 1em 0;vertical-align:top}"""
_COLOURS = {"measured": "#4c9f70", "fitted": "#4a86c5", "extrapolated": "#e0a63c", "assumed": "#b9b9b9"}
_WIDTH, _LEFT, _ROW = 1000, 130, 26
_MOST_ROWS = 2000


def html_page(timeline: Timeline, title: str, command: str = "") -> str:
    """The page. ``title`` names what is shown, ``command`` how to make it again."""
    plan = timeline.plan
    parts = [
        section("Summary", _summary(timeline, command)),
        section("Timeline", _legend(), str(_lanes(timeline))),
        section("Critical path", html_table(_path(timeline), ("name", "op", "queue", "ns", "basis"))),
        section("Core grid", legend(), core_grids(timeline)),
        section("L1 per core over time", legend(), l1_over_time(timeline)),
        section("Memory map", memory_maps(plan)),
        section("Bytes per bank", bank_pictures(timeline)),
        section(
            "Copies",
            html_table(
                _copies(timeline),
                ("name", "of", "from", "to", "bytes", "ns", "inserted", "at_input", "cause"),
            ),
        ),
        section(
            "Placement",
            html_table(
                report.nodes(plan)[:_MOST_ROWS],
                ("nid", "name", "op", "device", "type", "layout", "sid", "cause", "layout_cause"),
            ),
            open=False,
        ),
        section("Warnings", "".join(f"<p>{escape(w)}</p>" for w in plan.warnings) or "<p>none</p>"),
    ]
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def _summary(timeline: Timeline, command: str) -> str:
    facts = timeline.summary()
    rows = [
        {"what": "latency", "value": f"{facts['latency_ns'] / 1e3:,.1f} us"},
        {"what": "throughput", "value": f"{facts['throughput']:,.1f} runs a second"},
        {"what": "critical path", "value": f"{facts['critical_ns'] / 1e3:,.1f} us"},
        {"what": "dispatch", "value": f"{facts['dispatch_ns'] / 1e3:,.1f} us"},
    ]
    rows += [
        {"what": f"time that is {name}", "value": f"{share:.1%}"}
        for name, share in facts["basis_shares"].items()
    ]
    rows += [{"what": "command", "value": command}] if command else []
    queues = [{**row, "utilisation": f"{row['utilisation']:.1%}"} for row in facts["queues"]]
    tables = [html_table(rows, ("what", "value"))]
    tables.append(html_table(queues, ("queue", "events", "busy_ns", "utilisation")))
    if facts["links"]:
        links = [{**row, "utilisation": f"{row['utilisation']:.1%}"} for row in facts["links"]]
        tables.append(html_table(links, ("link", "copies", "busy_ns", "utilisation")))
    return "".join(tables)


def _legend() -> str:
    drawing = Svg(520, 18)
    for at, name in enumerate(BASES):
        drawing.rect(at * 120, 3, 12, 12, _COLOURS[name])
        drawing.text(at * 120 + 16, 13, name)
    return f"<div>{drawing}</div>"


def _lanes(timeline: Timeline) -> Svg:
    """A row a queue, several where its events run side by side; what is on the critical path has a dark
    edge."""
    plan, over = timeline.plan, max(timeline.makespan_ns, 1)
    names, placed = labels(timeline.queues, plan), tracks(timeline)
    rows = {track: at for at, track in enumerate(sorted(set(placed)))}
    drawing = Svg(_LEFT + _WIDTH, _ROW * len(rows) + 20)
    chain = set(timeline.nid[timeline.chain].tolist())
    for (queue, slot), at in rows.items():
        drawing.text(_LEFT - 6, at * _ROW + 16, "" if slot else names[queue], "end")
        drawing.line(_LEFT, (at + 1) * _ROW, _LEFT + _WIDTH, (at + 1) * _ROW, "#eee")
    columns = (timeline.nid, timeline.run, timeline.start, timeline.end, timeline.basis)
    for track, nid, run, start, end, basis in zip(placed, *(c.tolist() for c in columns), strict=True):
        title = (
            f"{plan.graph.names[nid]}, run {run}: {start:,} to {end:,} ns ({end - start:,}), {BASES[basis]}"
        )
        drawing.rect(
            _LEFT + start * _WIDTH / over,
            rows[track] * _ROW + 3,
            (end - start) * _WIDTH / over,
            _ROW - 6,
            _COLOURS[BASES[basis]],
            title,
            "#333" if nid in chain else "none",
        )
    drawing.text(_LEFT, _ROW * len(rows) + 14, "0")
    drawing.text(_LEFT + _WIDTH, _ROW * len(rows) + 14, f"{over:,} ns", "end")
    return drawing


def _path(timeline: Timeline) -> list[dict[str, Any]]:
    by_nid = {row["nid"]: row for row in timeline.nodes()}
    return [by_nid[nid] for nid in timeline.nid[timeline.chain].tolist()][:_MOST_ROWS]


def _copies(timeline: Timeline) -> list[dict[str, Any]]:
    ns = {row["nid"]: row["ns"] for row in timeline.nodes()}
    return [{**row, "ns": ns.get(row["nid"], "")} for row in report.copies(timeline.plan)]
