"""What each way of reusing memory would take, of a plan that is made."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.options import Options
from ..types import REUSE, LaidOutGraph, PlacedGraph, Plan, Supplies
from .memory import assign_storage

__all__ = ["Modes", "peaks"]

Modes = Mapping[str, Mapping[tuple[int, int], int]]  # {reuse mode: {(did, memory): peak}}


def peaks(plan: Plan, supplies: Supplies) -> Modes:
    """{reuse mode: {(did, memory): peak in bytes of a bank}} of the plan's nodes in the plan's order, also
    where a memory has less."""
    placed = PlacedGraph(
        plan.graph, plan.devices, plan.did, plan.origin, plan.at_input, plan.cause_id, plan.causes
    )
    laid_out = LaidOutGraph(placed, plan.layouts, plan.layout_id, plan.layout_causes)
    return {
        mode: assign_storage(
            laid_out, Options(reuse=mode), supplies, use_hints=False, reorder=False, capacity=False
        ).peak
        for mode in REUSE
    }
