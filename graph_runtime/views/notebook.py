"""HTML that a notebook shows for a value: a few lines and small tables, without scripts, all text escaped.

html_of(value) -> str        answers `_repr_html_` of Graph, Plan, Timeline, Run, Tensor and Comparison
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ..base.errors import GraphRuntimeError
from ..base.machine.layout import HOST
from ..ir.graph import Graph
from ..plan.queues.lanes import labels
from ..plan.types import Plan
from ..run.queues.run import Run
from ..run.tensors.tensor import Tensor
from ..simulation.timeline import Timeline
from .digest import TITLES, digest
from .svg import Svg, html_table, paint

_MOST_ROWS, _MOST_TEXT = 10, 200
_WIDTH, _ROW, _LEFT, _MOST_EVENTS = 640, 18, 120, 600
_MOST_BYTES = 64 << 20  # bytes of the largest tensor that is copied to be shown
_MOST_ROWS_OF_VALUES, _MOST_COLUMNS_OF_VALUES = 6, 8


def html_of(value: Any) -> str:
    """An HTML fragment for a value of a type in _SHOWN, or of a subclass."""
    return next(show for kind, show in _SHOWN.items() if isinstance(value, kind))(value)


def table_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str = "") -> str:
    """The first rows as a table, followed by the number of rows left out; "" without rows."""
    if not rows:
        return ""
    cut = [{column: _short(row[column]) for column in columns} for row in rows[:_MOST_ROWS]]
    more = f"<p>... and {len(rows) - _MOST_ROWS} more</p>" if len(rows) > _MOST_ROWS else ""
    return (f"<p>{escape(title)}</p>" if title else "") + html_table(cut, columns) + more


def _short(value: Any) -> Any:
    """The value, shortened if it is a long text: a file may contain names of any length."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else value
    return text if not isinstance(text, str) or len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + " ..."


def _head(text: str) -> str:
    return f"<p><b>{escape(_short(text))}</b></p>"


def _graph(graph: Graph) -> str:
    funcs = [graph.funcs[fid] for fid in graph.func_id.tolist() if fid >= 0]
    ops = Counter(func.op or func.name for func in funcs)
    ends = [
        {"what": what, "name": name, "type": str(graph.entry_type(int(eid)))}
        for what, names, eids in (
            ("input", graph.input_names, graph.input_eids),
            ("output", graph.output_names, graph.outputs),
        )
        for name, eid in list(zip(names, eids, strict=True))[: _MOST_ROWS // 2]
    ]
    return (
        _head(f"Graph: {len(funcs)} nodes, {len(graph.inputs)} inputs, {len(graph.outputs)} outputs")
        + table_of(ends, ("what", "name", "type"), f"the first {_MOST_ROWS // 2} of each")
        + table_of([{"op": op, "nodes": n} for op, n in ops.most_common()], ("op", "nodes"), "ops")
    )


def _plan(plan: Plan) -> str:
    tables = (table_of(rows, TITLES[part][1], TITLES[part][0]) for part, rows in digest(plan).items())
    return _head(repr(plan)[1:-1]) + "".join(tables)


def _timeline(timeline: Timeline) -> str:
    facts = timeline.summary()
    return (
        _head(
            f"Timeline: {facts['latency_ns'] / 1e3:,.1f} us, {facts['throughput']:,.1f} runs a second, "
            f"critical path {facts['critical_ns'] / 1e3:,.1f} us"
        )
        + str(_lanes(timeline))
        + table_of(facts["queues"], ("queue", "events", "busy_ns"), "queues")
        + table_of(
            timeline.nodes()[:_MOST_ROWS], ("name", "op", "queue", "ns", "basis"), f"the slowest {_MOST_ROWS}"
        )
    )


def _lanes(timeline: Timeline) -> Svg:
    """A drawing with one row per queue. If there are too many events, only the longest events are drawn."""
    over, names = max(timeline.makespan_ns, 1), labels(timeline.queues, timeline.plan)
    drawing = Svg(_LEFT + _WIDTH, _ROW * len(names) + 16)
    for at, name in enumerate(names):
        drawing.text(_LEFT - 6, at * _ROW + 13, name, "end")
    longest = np.sort(np.argsort(-timeline.duration, kind="stable")[:_MOST_EVENTS])
    for at in longest.tolist():
        begin, end, nid = int(timeline.start[at]), int(timeline.end[at]), int(timeline.nid[at])
        drawing.rect(
            _LEFT + begin * _WIDTH / over,
            int(timeline.queue[at]) * _ROW + 2,
            (end - begin) * _WIDTH / over,
            _ROW - 4,
            paint(nid),
            f"{_short(timeline.plan.graph.names[nid])}: {end - begin:,} ns",
        )
    drawing.text(_LEFT, _ROW * len(names) + 12, f"0 to {over:,} ns")
    return drawing


def _run(run: Run) -> str:
    """The state of a run, as far as it is known without waiting."""
    rows = [
        {"output": at, "type": str(t.type), "device": str(t.device), "ready": _is_ready(t)}
        for at, t in enumerate(run.outputs)
        if isinstance(t, Tensor)
    ]
    return _head(repr(run)[1:-1]) + table_of(rows, ("output", "type", "device", "ready"))


def _tensor(tensor: Tensor) -> str:
    """The values of a tensor if they are ready on a host; showing a tensor neither waits nor copies from a
    device."""
    head = _head(repr(tensor))
    if not tensor.is_allocated:
        return head
    if tensor.layout.memory != HOST or tensor.nbytes > _MOST_BYTES or not _is_ready(tensor):
        return f"{head}<p>{tensor.nbytes:,} bytes; .numpy() waits for the values and copies them</p>"
    try:
        return head + _values(np.asarray(tensor.numpy()))
    except GraphRuntimeError as error:  # the run that computes the values failed
        return f"{head}<p>{escape(_short(str(error)))}</p>"


def _is_ready(tensor: Tensor) -> bool:
    try:
        return tensor.ready
    except GraphRuntimeError:  # the run that computes the values failed; the error text says why
        return False


def _values(array: np.ndarray) -> str:
    """The first rows and columns of the array's last two dimensions, as HTML."""
    if not array.size:
        return "<p>no elements</p>"
    plane = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    shown = plane[:_MOST_ROWS_OF_VALUES, :_MOST_COLUMNS_OF_VALUES]
    columns = [str(column) for column in range(shown.shape[1])]
    rows = [
        {column: _short(str(item)) for column, item in zip(columns, row, strict=True)}
        for row in shown.tolist()
    ]
    return html_table(rows, columns) + ("<p>and more</p>" if shown.size < array.size else "")


_SHOWN: dict[type, Any] = {Graph: _graph, Plan: _plan, Timeline: _timeline, Run: _run, Tensor: _tensor}
