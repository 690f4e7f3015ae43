"""GR_DEBUG: what run and bench say on stderr about what they run."""
from __future__ import annotations

import time

import typer

from .. import config, report
from ..module import GraphModule

__all__ = ["show_plan", "timed_run"]


def show_plan(module: GraphModule) -> None:
    """From level 1 devices and memories, from level 3 every node, copy and storage with its cause."""
    level, plan = config.get("DEBUG"), module.session.plan
    if level >= 3:
        _say(report.text(plan))
    elif level >= 1:
        inserted = int((plan.origin < 0).sum())
        _say(f"{plan.graph.num_nodes} nodes ({inserted} copies inserted) on "
             f"{', '.join(map(str, plan.devices))}, {plan.storage.count} storages\n{report.summary(plan)}")


def timed_run(module: GraphModule) -> None:
    """One run; from level 2 node by node, with a line for each as soon as it is over."""
    if config.get("DEBUG") < 2:
        module.run()
        return
    session = module.session
    plan, program = session.plan, session.program
    for at, nid in enumerate(program.nid[:program.main].tolist()):
        begin = time.perf_counter()
        session.run_span(at, at + 1)
        taken = (time.perf_counter() - begin) * 1e6
        node = plan.graph.node(nid)
        _say(f"{taken:12.1f} us  {plan.devices[plan.did[nid]]!s:6}  {node.name} ({node.op})")


def _say(text: str) -> None:
    typer.echo(text, err=True)
