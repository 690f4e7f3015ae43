"""GR_DEBUG: what run and bench say on stderr about what they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from ..base import config
from ..plan import Plan
from ..run.module import GraphModule

if TYPE_CHECKING:
    from ..simulation.timeline import Timeline

__all__ = ["show_plan", "timed_run"]


def show_plan(module: GraphModule) -> None:
    """From level 1 devices and memories, from level 3 every node, copy and storage with its cause."""
    level, plan = int(config.get("DEBUG")), module.session.plan
    if not level:
        return
    from ..views import report  # few runs say so much

    if level >= 3:
        _say(report.plan_text(plan))
    else:
        inserted = int((plan.origin < 0).sum())
        _say(
            f"{plan.graph.num_nodes} nodes ({inserted} copies inserted) on "
            f"{', '.join(map(str, plan.devices))}, {plan.storage.count} storages\n{report.summary(plan)}"
        )


def timed_run(module: GraphModule, record: bool = False) -> Timeline | None:
    """One run; from level 2 node by node, with a line for each as soon as it is over,
    and a table by op. With ``record`` its
    timeline: of a run on queues, or of those steps."""
    if int(config.get("DEBUG")) >= 2:
        from ..run.peak import machine_peak
        from ..views.measured import stepped_run
        from ..views.op_totals import op_totals, op_totals_text

        took: dict[int, float] = {}
        timeline = stepped_run(module.session, _tell(module.session.plan, took))
        _say(op_totals_text(op_totals(module.session.plan, took), machine_peak().as_dict()))
        return timeline
    if record:
        from ..views.measured import queued_run

        return queued_run(module.session)
    module.run()
    return None


def _tell(plan: Plan, took: dict[int, float]) -> Callable[[int, int], None]:
    """A line a node, which goes into ``took``, too."""

    def line(nid: int, ns: int) -> None:
        took[nid] = took.get(nid, 0.0) + ns
        node = plan.graph.node(nid)
        _say(f"{ns / 1e3:12.1f} us  {plan.devices[plan.did[nid]]!s:6}  {node.name} ({node.op})")

    return line


def _say(text: str) -> None:
    typer.echo(text, err=True)
