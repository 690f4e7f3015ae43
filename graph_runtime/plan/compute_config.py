"""Plan -> Plan with the arithmetic of each device: the caller's choice, else the file's."""

from __future__ import annotations

from dataclasses import replace

from ..base.options import Options
from ..ir.ops.numerics import Numerics
from .device_numerics import device_numerics
from .types import Plan


def assign_numerics(plan: Plan, options: Options) -> Plan:
    """The plan with the arithmetic of its devices. Raises as device_numerics."""
    chosen = device_numerics(plan.graph, plan.devices, options.numerics)
    return replace(plan, numerics=chosen) if any(n.as_dict() for n in chosen) else plan


def node_numerics(plan: Plan, nid: int) -> Numerics:
    """The arithmetic of a node: its own attributes, else its device's."""
    func = plan.graph.node(nid).func
    own = Numerics.of(func.attrs if func else {})
    return own.over(plan.numerics[plan.did[nid]]) if plan.numerics else own
